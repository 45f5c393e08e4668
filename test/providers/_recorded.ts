/**
 * Replays recorded traffic through a plugin. Every answer has to keep its content, satisfy the schemas, and be the same
 * wherever the network splits it.
 */
import { Ajv2020 } from 'ajv/dist/2020.js'
import * as fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ChatEvents } from '../../src/endpoints/chat/dialects/chat/write.ts'
import type { ChatInput } from '../../src/plugin.ts'
import { byEvents, describeRecorded, whole, type Recording } from '../fixtures.ts'
import { cutAt, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'
import type { RequestOptions, Outcome, Setup } from './_chat.ts'
import { CHAT_SIDES, costJson, NO_COST } from '../../src/money/money.ts'
import { runs } from '../_runs.ts'
import { expectSame } from '../_same.ts'

/** What to replay, and how. */
export interface Replays {
  /** Title of the block of tests. */
  readonly title: string
  /** Folders of recordings. Missing ones are reported on the console. */
  readonly vendors: readonly string[]
  /** Selects recordings by the path of the request. */
  readonly path: RegExp
  /** Selects among the rest; by default all. */
  readonly wanted?: (recording: Recording) => boolean
  /** Failure class of each recorded error, by name of the recording. Errors may come in the middle of a stream. */
  readonly failures: Readonly<Record<string, string>>
  /** Sets up the plugin so that it asks `url` instead of this vendor. Called once per vendor. */
  readonly setUp: (vendor: string, url: string) => Promise<Setup>
  /** The request; by default a single question, streamed if the recording is. */
  readonly ask?: (recording: Recording) => readonly [Partial<ChatInput>, RequestOptions?]
  /** The content of a recording, read without the code under test. */
  readonly readBack: (recording: Recording) => RecordedContent
  /** The recorded answer in pieces that end where its events or frames end; by default {@link byEvents}. */
  readonly atEventEnds?: (recording: Recording) => FakeResponse
}

/** The content of a recorded answer. */
export interface RecordedContent {
  readonly content: string
  readonly reasoning: string
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
  /** Prompt and completion tokens, including cached and reasoning tokens; absent when none were reported. */
  readonly totalTokens: number | undefined
  /** The reason of the end; by default `tool_calls` when there are calls, else `stop`. */
  readonly finishReason?: string
}

/** The recordings of a provider, and the outcome of a single one for further tests. */
export interface Replayed {
  readonly recordings: readonly Recording[]
  /** The outcome of one recording, sent in one piece. */
  outcomeOf(name: string): Promise<Outcome>
}

/** Each recording is split this many times, at up to {@link MAX_SPLITS} places. */
const RUNS = runs(16)
const MAX_SPLITS = 24

const ajv = new Ajv2020({ strict: false })
const isChunk = ajv.compile(schema('chat-completion-chunk'))
const isCompletion = ajv.compile(schema('chat-completion'))

/** Describes the tests that every recording has to pass, and those of `more`. */
export function replayAll(replays: Replays, more: (replayed: Replayed) => void = () => {}): void {
  const { title, vendors, path, wanted = () => true, failures, readBack } = replays
  const { ask = plainRequest, atEventEnds = byEvents } = replays

  describeRecorded(title, vendors, path, (found) => {
    const recordings = found.filter(wanted)
    const answers = recordings.filter(({ name }) => !(name in failures))
    const byName = new Map(recordings.map((recording) => [recording.name, recording]))
    const errors = Object.entries(failures).filter(([name]) => byName.has(name))

    let upstream: FakeUpstream
    const setups = new Map<string, Setup>()

    beforeAll(async () => {
      upstream = await startUpstream()
      for (const vendor of vendors) setups.set(vendor, await replays.setUp(vendor, upstream.url))
    })

    afterAll(async () => {
      for (const setup of setups.values()) await setup[Symbol.asyncDispose]()
      await upstream.close()
    })

    function replay(recording: Recording, answer: FakeResponse): Promise<Outcome> {
      upstream.answer(answer)
      return setups.get(recording.vendor)!.outcome(...ask(recording))
    }

    async function outcomeOf(name: string): Promise<Outcome> {
      const recording = byName.get(name)
      if (!recording) throw new Error(`there is no recording ${name}`)
      return replay(recording, whole(recording))
    }

    it('knows the class of every recorded error', () => {
      const named = recordings.filter(({ name }) => /error|cut|exception/.test(name))
      expect(Object.keys(failures)).toEqual(expect.arrayContaining(named.map(({ name }) => name)))
    })

    it.each(answers)('$name says what the vendor said', async (recording) => {
      const { completion, usage, failure } = await replay(recording, whole(recording))
      const said = readBack(recording)
      const { message, finish_reason } = completion.choices[0]!
      expect(failure).toBeUndefined()
      expect(message.content ?? '').toBe(said.content)
      expect(message.reasoning ?? '').toBe(said.reasoning)
      expect((message.tool_calls ?? []).map((call: any) => call.function)).toEqual(said.calls)
      const natural = said.calls.length > 0 ? 'tool_calls' : 'stop'
      expect(finish_reason).toBe(said.finishReason ?? natural)
      // However a vendor counts, the vendor's own total has to come out.
      const total = usage && usage.prompt_tokens! + usage.completion_tokens!
      expect(total).toBe(said.totalTokens)
    })

    it.each(answers)('$name becomes a valid answer', async (recording) => {
      const { chunks, completion, usage } = await replay(recording, whole(recording))
      const events = new ChatEvents(false, () => ({}))
      for (const chunk of chunks) {
        const event = JSON.parse(events.encode(chunk).slice('data: '.length))
        expect(isChunk(event), ajv.errorsText(isChunk.errors)).toBe(true)
      }
      const bill = {
        total_tokens: 0,
        ...JSON.parse(JSON.stringify(costJson({ bill: NO_COST }, CHAT_SIDES))),
      }
      const counts = usage ?? { prompt_tokens: 0, completion_tokens: 0 }
      // A count that the vendor did not report is 0 for clients.
      const known = (details: object = {}) =>
        Object.fromEntries(Object.entries(details).map(([name, count]) => [name, count ?? 0]))
      const details = {
        prompt_tokens_details: { cached_tokens: 0, ...known(counts.prompt_tokens_details!) },
        completion_tokens_details: {
          reasoning_tokens: 0,
          ...known(counts.completion_tokens_details!),
        },
      }
      const { searches: _searches, vendor_cost: _cost, ...shown } = counts
      const object = 'chat.completion'
      // What the writer adds.
      const answer = {
        object,
        system_fingerprint: null,
        provider: 'acme',
        ...completion,
        usage: { ...shown, ...details, ...bill },
      }
      expect(isCompletion(answer), ajv.errorsText(isCompletion.errors)).toBe(true)
    })

    it.each(recordings)('$name is the same wherever it is cut', async (recording) => {
      const expected = plain(await replay(recording, whole(recording)))
      expectSame(plain(await replay(recording, atEventEnds(recording))), expected)
      const position = fc.noBias(fc.integer({ min: 1, max: recording.body.length - 1 }))
      const cuts = fc.uniqueArray(position, { minLength: 1, maxLength: MAX_SPLITS, size: 'max' })
      await fc.assert(
        fc.asyncProperty(cuts, async (positions) => {
          const answer = { ...whole(recording), pieces: cutAt(recording.body, positions) }
          expectSame(plain(await replay(recording, answer)), expected)
        }),
        { numRuns: RUNS },
      )
    })

    it.each(errors)('%s is %s', async (name, failure) => {
      const outcome = await outcomeOf(name)
      expect(outcome.failure?.failure).toBe(failure)
      expect(outcome.failure!.message).not.toMatch(/REDACTED|invalid-key|\*\*|https?:/)
    })

    more({ recordings, outcomeOf })
  })
}

/** The JSON payloads of a recorded event stream, read in the simplest way. */
export function readEvents(text: string): any[] {
  return text
    .split(/\r\n\r\n|\n\n/)
    .map((event) =>
      event
        .split(/\r\n|\n/)
        .filter((line) => line.startsWith('data:'))
        .map((line) => line.slice(5))
        .join('\n')
        .trim(),
    )
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

function plainRequest({ stream }: Recording): readonly [Partial<ChatInput>] {
  return [{ stream }]
}

/** An outcome in a form that can be compared. */
function plain({ chunks, usage, failure }: Outcome) {
  return { chunks, usage, failure: failure && { kind: failure.failure, text: failure.message } }
}

function schema(name: string): object {
  return JSON.parse(
    readFileSync(new URL(`../wire/schemas/${name}.json`, import.meta.url), 'utf8'),
  ) as object
}
