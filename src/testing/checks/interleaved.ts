/** Checks that answers do not touch each other where their events arrive in turn. */
import { Buffer } from 'node:buffer'
import { setImmediate as nextTick } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { choicesIn, differences, reasonsIn, show, usageDifferences } from '../compare.ts'
import { withPayload } from '../damaged.ts'
import {
  eventsOf,
  replay,
  toFakeResponse,
  type Answered,
  type Case,
  type Fixture,
} from '../fixture.ts'
import type { Outcome } from '../provider-under-test.ts'
import { describeError, toCheck, type Check } from '../report.ts'
import type { RecordedResponse } from '../transcripts.ts'

/** The header by which a response is known to be that of a call. */
const CALL = 'x-test-call'
/** Turns of the event loop within which the plugin asks its vendor; one that lets calls wait for each other does not. */
const TURNS_TO_ASK = 5000
/** Turns within which the plugin reads an event; it may also read in a way that is not seen, or read no more. */
const TURNS_TO_READ = 100

/** A call whose response is released event by event. */
interface Call {
  readonly one: Case
  readonly answer: RecordedResponse
  readonly alone: Outcome
  /** The call asks when the first one has this many events. */
  readonly from: number
}

export async function checkInterleaved(
  fixture: Fixture,
  one: Case,
  answered: Answered,
): Promise<Check> {
  const problems = await interleavedProblems(fixture, one, answered)
  return toCheck('repeat', one.transcript.name, problems)
}

/**
 * Runs a case beside the same one with other numbers, both from the beginning, and beside two that begin later: another
 * case, and the same one. Each has to have the answer that it has alone.
 */
export async function interleavedProblems(
  fixture: Fixture,
  one: Case,
  answered: Answered,
): Promise<string[]> {
  const { vendor } = fixture
  const { cases } = answered
  const answer = one.transcript.answer!
  const alone = await firstOf(fixture, one, answered)
  const next = cases[(cases.indexOf(one) + 1) % cases.length]!
  const nextAlone = await firstOf(fixture, next, answered)
  const before = vendor.requests.length
  const changed = withOtherNumbers(answer)
  const changedAlone = await replay(fixture, one.request, changed)
  // Which of several requests belongs to which call cannot be told.
  if (vendor.requests.length !== before + 1 || alone.error !== undefined) return []
  const events = piecesOf(answer).length
  const same = { one, answer, alone }
  const other = { one, answer: changed, alone: changedAlone }
  const another = { one: next, answer: next.transcript.answer!, alone: nextAlone }
  const calls: Call[] = [
    { ...same, from: 0 },
    { ...(changedAlone.error === undefined ? other : same), from: 0 },
    { ...(nextAlone.error === undefined ? another : same), from: events >> 1 },
    { ...same, from: events - 1 },
  ]
  const outcomes = await new Turns(fixture, calls).run()
  const [problem] = outcomes.flatMap((outcome, i) => apart(calls[i]!.alone, outcome))
  return problem === undefined ? [] : [`beside others whose events come in turn, ${problem}`]
}

/** The first answer to a case, which no other case has touched; all are asked where none was before. */
export async function firstOf(
  fixture: Fixture,
  one: Case,
  { cases, first }: Answered,
): Promise<Outcome> {
  for (const other of cases.filter((known) => !first.has(known))) {
    first.set(other, await replay(fixture, other.request, other.transcript.answer!))
  }
  return first.get(one)!
}

function apart(alone: Outcome, { error, ...outcome }: Outcome): string[] {
  if (error !== undefined) return [describeError(error)]
  const [before, now] = [reasonsIn(alone), reasonsIn(outcome)]
  return [
    ...differences({ choices: choicesIn(alone.completion) }, outcome.completion),
    ...usageDifferences(alone.usage, outcome.usage),
    ...(isDeepStrictEqual(before, now)
      ? []
      : [`the reasons of the end: expected ${show(before)}, found ${show(now)}`]),
  ]
}

/** Calls of which each gets one event in turn, once the one before has read its own. */
class Turns {
  readonly #fixture: Fixture
  readonly #calls: readonly Call[]
  readonly #running: Running[] = []

  constructor(fixture: Fixture, calls: readonly Call[]) {
    this.#fixture = fixture
    this.#calls = calls
  }

  /** @returns what came of each call; nothing where calls wait for each other */
  async run(): Promise<Outcome[]> {
    const { vendor, provider } = this.#fixture
    vendor.answer(() => {
      const last = this.#running.length - 1
      return this.#running[last]!.response(String(last))
    })
    provider.host.onResponse = (response) => {
      const name = response.headers[CALL]
      if (name === undefined) return
      const value = response.body.through(this.#running[Number(name)]!.counter)
      Object.defineProperty(response, 'body', { value })
    }
    try {
      const apart = await this.#release()
      for (const call of this.#running) call.releaseAll()
      const outcomes = await Promise.all(this.#running.map(({ outcome }) => outcome))
      return apart ? outcomes : []
    } finally {
      provider.host.onResponse = undefined
    }
  }

  /** Releases event after event. @returns whether all calls have asked, each by itself */
  async #release(): Promise<boolean> {
    const waiting = [...this.#calls]
    for (let round = 0; ; round++) {
      for (; waiting[0] && waiting[0].from <= round; waiting.shift()) {
        const call = new Running(this.#fixture, waiting[0])
        this.#running.push(call)
        await inTurns(() => call.hasAsked || call.hasEnded, TURNS_TO_ASK)
        if (!call.hasAsked) return false
      }
      const unfinished = this.#running.filter((call) => call.isHeld)
      if (unfinished.length === 0 && waiting.length === 0) return true
      for (const call of unfinished) await call.releaseOne()
    }
  }
}

class Running {
  readonly outcome: Promise<Outcome>
  hasAsked = false
  hasEnded = false
  readonly #call: Call
  readonly #pieces: readonly Uint8Array[]
  readonly #gates: readonly PromiseWithResolvers<void>[]
  #released = 0
  #releasedBytes = 0
  #readBytes = 0

  constructor(fixture: Fixture, call: Call) {
    this.#call = call
    this.#pieces = piecesOf(call.answer)
    // The end of the body is released as well.
    this.#gates = Array.from({ length: this.#pieces.length + 1 }, () => Promise.withResolvers())
    this.outcome = fixture.provider.outcome(call.one.request).finally(() => {
      this.hasEnded = true
    })
  }

  get isHeld(): boolean {
    return this.#released < this.#gates.length
  }

  /** Counts what the steps of the plugin have read: they run within `emit`. */
  get counter() {
    return {
      push: (bytes: Uint8Array, emit: (bytes: Uint8Array) => void) => {
        emit(bytes)
        this.#readBytes += bytes.length
      },
    }
  }

  response(name: string) {
    this.hasAsked = true
    const { headers, ...answer } = toFakeResponse(this.#call.answer, this.#pieces)
    const release = (step: number) => this.#gates[step]!.promise
    return { ...answer, headers: { ...headers, [CALL]: name }, release }
  }

  async releaseOne(): Promise<void> {
    const step = this.#released++
    this.#releasedBytes += this.#pieces[step]?.length ?? 0
    this.#gates[step]!.resolve()
    const hasRead = () =>
      this.hasEnded || (step < this.#pieces.length && this.#readBytes >= this.#releasedBytes)
    await inTurns(hasRead, TURNS_TO_READ)
    // A plugin that pulls the bytes has them after this.
    await nextTick()
  }

  releaseAll(): void {
    for (const gate of this.#gates) gate.resolve()
  }
}

/** The events of a response, or all of one without events. */
function piecesOf(answer: RecordedResponse): readonly Uint8Array[] {
  const events = eventsOf(answer)
  return events.length > 0 ? events : [answer.body]
}

/** Waits until something holds, for so many turns of the event loop. */
async function inTurns(holds: () => boolean, most: number): Promise<void> {
  for (let turn = 0; turn < most && !holds(); turn++) await nextTick()
}

/** A response with other numbers of the same length, so that counts of usage differ too; 0 stays, for it may be an index. */
function withOtherNumbers(answer: RecordedResponse): RecordedResponse {
  const isBinary = answer.headers['content-type']?.includes('vnd.amazon.eventstream')
  if (!isBinary) return { ...answer, body: otherNumbers(Buffer.from(answer.body)) }
  return {
    ...answer,
    body: Buffer.concat(piecesOf(answer).map((one) => withPayload(one, otherNumbers))),
  }
}

/** A whole number that is a value in JSON, without its last digit. */
const NUMBER = /(?<=[:[,]\s*)([1-9]\d*|)(\d)(?=\s*[,}\]])/g

function otherNumbers(json: Buffer): Buffer {
  const text = json.toString('latin1').replace(NUMBER, (all, first: string, last: string) => {
    if (all === '0') return all
    return first + (last === '9' ? '8' : String(Number(last) + 1))
  })
  return Buffer.from(text, 'latin1')
}
