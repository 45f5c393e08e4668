/**
 * Libraries that speak Anthropic's Messages API and OpenAI's Responses API, in front of vendors of several kinds: what these
 * have said, recorded and generated, in both lanes where there are two.
 */
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Call } from '../../src/pipeline/pipeline.ts'
import { describeRecorded, whole } from '../fixtures.ts'
import { readBack } from '../providers/_openai.ts'
import { json } from '../upstream.ts'
import { formLibraries, type Form, type FormLibrary } from './_dialects.ts'
import {
  CALLS,
  CHATS,
  countsTokens,
  isAnswer,
  OBJECT,
  QUESTION,
  resultsIn,
  setUp,
  SIGNATURE,
  TEXT,
  thinking,
  VENDORS,
  type Stage,
  type Vendor,
} from './_vendors.ts'
import { openAIResponses } from './_voices.ts'

const named = (name: string) => VENDORS.find((vendor) => vendor.name === name)!
/** OpenAI with either API. */
const CHAT: Vendor = { ...named('openai'), deployment: { api: 'chat' } }
const RESPONSES: Vendor = {
  ...named('openai'),
  name: 'openai-responses',
  voice: openAIResponses,
  deployment: { api: 'responses' },
  signs: true,
}
const KINDS = [...['anthropic', 'bedrock', 'google', 'mistral'].map(named), RESPONSES]
/** The vendor that speaks a form itself. */
const NATIVE: Readonly<Record<Form, Vendor>> = {
  messages: named('anthropic'),
  responses: RESPONSES,
}

interface Lane {
  readonly vendor: Vendor
  /** The vendor gets what the client has sent. */
  readonly verbatim: boolean
}

const lanesOf = (form: Form, vendor: Vendor): Lane[] =>
  vendor === NATIVE[form]
    ? [
        { vendor, verbatim: true },
        { vendor, verbatim: false },
      ]
    : [{ vendor, verbatim: false }]

let stage: Stage
/** The libraries, by whether vendors may get requests as they came. */
const libraries = new Map<boolean, readonly FormLibrary[]>()
/** The last call. */
let last: Call
beforeAll(async () => {
  stage = await setUp([...VENDORS.filter(({ name }) => name !== 'openai'), CHAT, RESPONSES])
  const policy = { version: 1 as const, bannedPatterns: ['swordfish'] }
  const guarded = await stage.t.newKey({ policy })
  libraries.set(true, formLibraries(stage.t.url, stage.t.key.secret))
  libraries.set(false, formLibraries(stage.t.url, guarded.secret))
  const { track } = stage.t.gateway
  stage.t.gateway.track = (call) => {
    last = call
    track(call)
  }
})
afterAll(() => stage[Symbol.asyncDispose]())

const LIBRARIES = formLibraries('http://127.0.0.1:9', 'none')

describe.each(LIBRARIES.map((library, index) => ({ ...library, index })))(
  '$name',
  ({ form, parsesStreams, index }) => {
    const lanes = KINDS.flatMap((vendor) => lanesOf(form, vendor))
    describe.each(lanes)('and $vendor.name, verbatim: $verbatim', ({ vendor, verbatim }) => {
      it.each([false, true])(
        'runs tools until there is an answer, streamed: %s',
        async (stream) => {
          const library = libraries.get(verbatim)![index]!
          stage.plays(vendor, thinking(vendor, { calls: CALLS }), { text: TEXT })
          const before = stage.upstream.requests.length
          const balance = await stage.t.balance()
          const asked: string[] = []
          const how = { model: `vendor/${vendor.name}`, stream }
          const answer = await library.work(how, (city) => {
            asked.push(city)
            return `${city}: nice and warm`
          })
          expect(asked).toEqual(['Oslo', 'Rome'])
          expect(answer).toBe(TEXT)
          const requests = stage.upstream.requests.slice(before)
          expect(resultsIn(requests)).toEqual([0, 2])
          expect(await stage.t.balance()).toBeLessThan(balance)
          if (vendor.signs && library.returnsThoughts) {
            expect(requests.at(-1)!.body.toString()).toContain(SIGNATURE)
          }
        },
      )

      it.each(parsesStreams ? [false, true] : [false])(
        'parses an object, streamed: %s',
        async (stream) => {
          const library = libraries.get(verbatim)![index]!
          stage.plays(vendor, { text: JSON.stringify(OBJECT) })
          expect(await library.parse({ model: `vendor/${vendor.name}`, stream })).toEqual(OBJECT)
          expect(last.target.native).toBe(verbatim)
          expect(stage.upstream.requests.at(-1)!.body.toString()).toContain('degrees')
        },
      )
    })
  },
)

describe('a count of tokens', () => {
  /** How each vendor is asked, and what it says. */
  const COUNTERS = [
    { vendor: 'anthropic', path: /\/count_tokens$/, says: { input_tokens: 42 } },
    { vendor: 'openai-responses', path: /\/input_tokens$/, says: { input_tokens: 42 } },
    { vendor: 'google', path: /:countTokens$/, says: { totalTokens: 42 } },
    { vendor: 'bedrock', path: /\/count-tokens$/, says: { inputTokens: 42 } },
  ]
  const client = () =>
    new Anthropic({ baseURL: stage.t.url, apiKey: stage.t.key.secret, maxRetries: 0 })
  const count = (vendor: string) =>
    client().messages.countTokens({
      model: `vendor/${vendor}`,
      system: 'Be brief.',
      messages: [{ role: 'user', content: QUESTION }],
      tools: [{ name: 'get_weather', input_schema: { type: 'object', properties: {} } }],
    })

  it.each(COUNTERS)('is that of $vendor', async ({ vendor, path, says }) => {
    stage.upstream.answer(json(says))
    expect(await count(vendor)).toEqual({ input_tokens: 42 })
    const sent = stage.upstream.requests.at(-1)!
    expect(sent.path).toMatch(path)
    const body = sent.body.toString()
    for (const part of ['Be brief.', QUESTION, 'get_weather']) expect(body).toContain(part)
    expect(body).not.toMatch(/max|stream|temperature/i)
  })

  it.each([
    ['mistral', json({})],
    ['bedrock', json({ message: "The provided model doesn't support counting tokens." }, 400)],
  ])('of %s is none where it has no counter for the model', async (vendor, answer) => {
    stage.upstream.answer(answer)
    await expect(count(vendor)).rejects.toMatchObject({ status: 404 })
  })
})

/** What is replayed: texts, thoughts, calls and stops of each vendor. */
const REPLAYED = new Set([
  ...['text', 'text-stream', 'thinking-stream', 'tool-stream', 'tools-parallel'].map(
    (name) => `anthropic/${name}`,
  ),
  ...['thinking-tool-roundtrip-1', 'stop-sequence-stream'].map((name) => `anthropic/${name}`),
  ...['text-stream', 'thought-stream-gemini3', 'tool-call-plain', 'json-schema'].map(
    (name) => `google/${name}`,
  ),
  ...['chat-reasoning', 'chat-stream-thinking', 'chat-stream-tool-call'].map(
    (name) => `mistral/${name}`,
  ),
  ...['converse-tool', 'stream-text', 'stream-thinking', 'stream-tool'].map(
    (name) => `bedrock/${name}`,
  ),
  ...['chat-plain', 'chat-stream-tools-parallel-usage', 'chat-reasoning-gpt5'].map(
    (name) => `openai/${name}`,
  ),
  'anthropic/json-schema-output',
  'openai/chat-json-schema',
  ...['chat-reasoning', 'chat-stream-tool-call'].map((name) => `deepseek/${name}`),
])

describeRecorded(
  'libraries of other forms, and recorded answers',
  ['anthropic', 'google', 'mistral', 'bedrock', 'openai', 'deepseek'],
  CHATS,
  (recordings) => {
    const replayed = recordings.filter((one) => REPLAYED.has(one.name) && isAnswer(one))

    it.each(replayed)('$name', async (recording) => {
      const { vendor, stream } = recording
      stage.upstream.answer(whole(recording))
      const model = `vendor/${vendor}`
      const messages = [{ role: 'user', content: QUESTION }]
      const usage = stream ? { stream_options: { include_usage: true } } : {}
      const plain = await stage.t.chat({ model, messages, stream, ...usage })
      expect(plain.status).toBe(200)
      const said = readBack({ ...recording, body: Buffer.from(plain.text) })
      const tools = [...new Set(said.calls.map((call) => call.name))]

      for (const [index, { name, form }] of LIBRARIES.entries()) {
        for (const { verbatim } of lanesOf(form, named(vendor))) {
          const where = `${name}, verbatim: ${verbatim}`
          const answer = await libraries.get(verbatim)![index]!.ask({ model, stream, tools })
          expect(last.target.native).toBe(verbatim)
          expect(answer.text, where).toBe(said.content)
          expect(answer.calls, where).toEqual(
            said.calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) })),
          )
          const total = answer.promptTokens! + answer.completionTokens!
          // It adds up what a stream says of its tokens at its begin and at its end.
          if (stream && name === '@langchain/anthropic') continue
          if (tools.length === 0 || countsTokens(recording)) {
            expect(total, where).toBe(said.totalTokens)
          }
        }
      }
    })
  },
)
