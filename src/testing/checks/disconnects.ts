/** Checks that a provider stops when the client leaves, and waits when the client does not read. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { ChatChunk, Flow } from '../../plugin.ts'
import {
  replay,
  toFakeResponse,
  NO_UPSTREAM,
  splitPoints,
  type Fixture,
  type Case,
  type Answered,
} from '../fixture.ts'
import { GatewayError } from '../../errors/errors.ts'
import { describeError, toCheck, skipped, type Check } from '../report.ts'
import { choicesIn, reasonsIn } from '../compare.ts'
import { firstOf, interleavedProblems } from './interleaved.ts'
import type { TestRequest } from '../requests.ts'
import type { RecordedResponse } from '../transcripts.ts'
import { checkHeap, growth } from '../measure.ts'
import { cutAt } from '../splits.ts'
import type { ReceivedRequest } from '../fake-upstream.ts'

/** The reason with which a client leaves. */
const LEFT = 'the client left'
const POLL_MS = 10
/** Polls without a further byte after which a connection counts as stopped, if the plugin is not at work meanwhile. */
const STILL_POLLS = 10
/** The share of the time. Earlier chunks may keep a plugin busy before it reads on. */
const MAX_WORK = 0.5
/** More than the buffers of two sockets hold. */
const MAX_BYTES = 24 * 1024 * 1024
const BLOCK_BYTES = 64 * 1024

export async function checkCancel(fixture: Fixture, one: Case): Promise<Check> {
  const { name, answer } = one.transcript
  const { provider, vendor, patience } = fixture
  const beginning = answer && (await beginningWithOutput(fixture, one, answer))
  if (!beginning) return skipped('cancel', name, 'no part comes before the end of this answer')
  vendor.answer(toFakeResponse(answer, [beginning], 'hang'))
  return withClient('cancel', name, async (client) => {
    const answering = await patience.waitOnce(provider.ask(one.request, client.signal), 'no answer')
    if (!answering.streamed) return skipped('cancel', name, 'it returns no stream')
    const what = 'no part came while the vendor was sending'
    await patience.waitOnce(answering.parts.next(), what)
    client.abort(new Error(LEFT))
    const thrown: string[] = []
    const reading = drain(answering.parts).catch((error: unknown) => {
      // The reason of the abort in any form is right.
      const isOwn = error instanceof Error && error.name !== 'AbortError' && error.message !== LEFT
      if (isOwn && !GatewayError.is(error)) thrown.push(`it threw ${describeError(error)}`)
    })
    const problems = await problemsAfterAbort(fixture, reading)
    return toCheck('cancel', name, [...problems, ...thrown])
  })
}

export async function checkHang(
  fixture: Fixture,
  request: TestRequest,
  on: string,
): Promise<Check> {
  const { provider, vendor, patience } = fixture
  vendor.answer({ pieces: [], ending: 'silent' })
  const before = vendor.requests.length
  return withClient('hang', on, async (client) => {
    const answered = provider.ask(request, client.signal).then(({ parts }) => drain(parts))
    const reading = answered.catch(() => {})
    const requestMade = async () => {
      while (vendor.requests.length === before)
        await sleep(POLL_MS, undefined, { signal: client.signal })
      return 'asked' as const
    }
    const what = 'no request reached the vendor'
    const first = await patience.waitOnce(Promise.race([reading, requestMade()]), what)
    if (first !== 'asked') return skipped('hang', on, NO_UPSTREAM)
    client.abort(new Error(LEFT))
    return toCheck('hang', on, await problemsAfterAbort(fixture, reading))
  })
}

/**
 * Checks the signal of a request when its call is aborted while the vendor is silent. It may be the call's own or one that is
 * derived from it.
 */
export async function checkSignal(
  { provider, vendor, patience }: Fixture,
  request: TestRequest,
  on: string,
): Promise<Check> {
  const { host } = provider
  vendor.answer({ pieces: [], ending: 'silent' })
  // The call may be the second one: a plugin may keep the signal of the first.
  return withClient('signal', on, async (client) => {
    const requestSignal = Promise.withResolvers<AbortSignal | undefined>()
    host.onRequest = requestSignal.resolve
    const reading = provider.ask(request, client.signal).then(({ parts }) => drain(parts))
    const ended = reading.then(
      () => 'ended' as const,
      () => 'ended' as const,
    )
    const signal = await patience.waitOnce(
      Promise.race([requestSignal.promise, ended]),
      'no request',
    )
    host.onRequest = undefined
    if (signal === 'ended') return skipped('signal', on, 'no request was made with host.request')
    const aborted = new Promise<void>((resolve) => {
      if (signal?.aborted) resolve()
      signal?.addEventListener('abort', () => resolve())
    })
    const problem = 'a request was made without the signal of its call'
    if (!signal) return toCheck('signal', on, [problem])
    if (signal.aborted) return toCheck('signal', on, ['a request has the signal of another call'])
    client.abort(new Error(LEFT))
    const followed = await patience
      .wait(
        aborted.then(() => true),
        problem,
      )
      .catch(() => false)
    return toCheck('signal', on, followed ? [] : [problem])
  })
}

export async function checkPressure(fixture: Fixture, one: Case): Promise<Check> {
  const { name, answer } = one.transcript
  const { provider, vendor, patience } = fixture
  const loop = answer && (await repeatableEvent(fixture, one, answer))
  if (!loop) return skipped('back-pressure', name, 'no event of this answer can be repeated')
  vendor.answer(toFakeResponse(answer, endless(loop), 'hang'))
  return withClient('back-pressure', name, async (client) => {
    const answering = await patience.waitOnce(provider.ask(one.request, client.signal), 'no answer')
    if (!answering.streamed) return skipped('back-pressure', name, 'it returns no stream')
    await patience.waitOnce(answering.parts.next(), 'no part came from an endless answer')
    const request = vendor.requests.at(-1)!
    const bytesTaken = () => request.takenBytes
    if (!(await stopsReading(bytesTaken, patience.ms))) {
      const mib = (bytesTaken() / 1024 / 1024).toFixed(1)
      const problem = `${mib} MiB were read from the vendor, and no end, although the client did not read`
      return toCheck('back-pressure', name, [problem])
    }
    const still = bytesTaken()
    // What has arrived may be much to read: it is the single part that has a deadline, and all of them a longer one.
    const problem = 'it did not continue when the client read again'
    const readOn = async () => {
      while (bytesTaken() === still) await patience.waitOnce(answering.parts.next(), problem)
    }
    await patience.waitOnce(readOn(), problem, 10 * patience.ms)
    return toCheck('back-pressure', name, [])
  })
}

/** Runs a check with a client that leaves at its end. An error of the check is its problem. */
async function withClient(
  name: string,
  on: string | null,
  run: (client: AbortController) => Promise<Check>,
): Promise<Check> {
  const client = new AbortController()
  try {
    return await run(client)
  } catch (error) {
    return toCheck(name, on, [(error as Error).message])
  } finally {
    client.abort()
  }
}

async function problemsAfterAbort(
  { vendor, patience }: Fixture,
  reading: Promise<unknown>,
): Promise<string[]> {
  const { aborted } = vendor.requests.at(-1)!
  const problems: string[] = []
  const note = (error: Error) => void problems.push(error.message)
  const ended = reading.catch(() => {})
  await patience.waitOnce(ended, 'the answer did not end after the abort').catch(note)
  const open = 'the connection to the vendor was not closed after the abort'
  await patience.waitOnce(aborted, open).catch(note)
  return problems
}

async function drain(parts: Flow<ChatChunk>): Promise<void> {
  for (let last = false; !last;) last = (await parts.next()).last
}

async function beginningWithOutput(fixture: Fixture, { request }: Case, answer: RecordedResponse) {
  for (const end of splitPoints(answer)) {
    const beginning = answer.body.subarray(0, end)
    const { chunks } = await replay(fixture, request, answer, [beginning])
    if (chunks.length > 0) return beginning
  }
  return undefined
}

interface Loop {
  readonly before: Uint8Array
  readonly again: Uint8Array
  readonly after: Uint8Array
}

async function repeatableEvent(
  fixture: Fixture,
  { request }: Case,
  answer: RecordedResponse,
): Promise<Loop | undefined> {
  const { body } = answer
  const contentLength = async (...pieces: readonly Uint8Array[]) => {
    const { completion, error } = await replay(fixture, request, answer, pieces)
    return error === undefined ? JSON.stringify(choicesIn(completion)).length : -1
  }
  const length = await contentLength(body)
  const ends = [0, ...splitPoints(answer)]
  for (const [i, end] of ends.entries()) {
    const next = ends[i + 1]
    if (next === undefined || length < 0) break
    const again = body.subarray(end, next)
    const twice = await contentLength(body.subarray(0, next), again, body.subarray(next))
    if (twice > length) return { before: body.subarray(0, next), again, after: body.subarray(next) }
  }
  return undefined
}

function* endless({ before, again }: Loop): Generator<Uint8Array> {
  yield before
  const times = Math.ceil(BLOCK_BYTES / again.length)
  const block = Buffer.concat(Array.from({ length: times }, () => again))
  for (;;) yield block
}

/** Waits until the connection takes no more bytes; false if it takes more than buffers hold, or the plugin works on. */
async function stopsReading(bytesTaken: () => number, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs
  let before = -1
  for (let polls = 0; polls < STILL_POLLS;) {
    const now = bytesTaken()
    if (now > MAX_BYTES || performance.now() > end) return false
    const since = performance.eventLoopUtilization()
    await sleep(POLL_MS)
    const { utilization } = performance.eventLoopUtilization(since)
    polls = now === before && utilization < MAX_WORK ? polls + 1 : 0
    before = now
  }
  return true
}

// Checks that answers do not influence each other, and that neither time nor memory grows faster than the input.

const AT_ONCE = 6

/** Checks the same answer after one that was cut, after others, and several at once. */
export async function checkRepeat(fixture: Fixture, one: Case, answered: Answered): Promise<Check> {
  const { transcript, request } = one
  const { name, answer } = transcript
  const { provider, vendor } = fixture
  if (!answer) return skipped('repeat', name, NO_UPSTREAM)
  const alone = await firstOf(fixture, one, answered)
  const half = answer.body.subarray(0, answer.body.length >> 1)
  await replay(fixture, request, answer, [half], 'cut')
  const problems: string[] = []
  const same = (other: typeof alone) =>
    isDeepStrictEqual(choicesIn(other.completion), choicesIn(alone.completion)) &&
    isDeepStrictEqual(other.usage, alone.usage) &&
    isDeepStrictEqual(reasonsIn(other), reasonsIn(alone))
  const before = vendor.requests.length
  if (!same(await replay(fixture, request, answer))) {
    problems.push('after an answer that was cut off the same question has another answer')
  }
  const between = answered.cases.filter((other) => other !== one)
  for (const other of between) await replay(fixture, other.request, other.transcript.answer!)
  if (between.length > 0 && !same(await replay(fixture, request, answer)))
    problems.push('after other answers the same question has another answer')
  if (vendor.requests.length === before)
    problems.push('the same question is not asked again: the answer is one of before')
  vendor.answer(() => toFakeResponse(answer, cutAt(answer.body, splitPoints(answer))))
  const together = await Promise.all(
    Array.from({ length: AT_ONCE }, () => provider.outcome(request)),
  )
  if (!together.every(same)) problems.push('answers at the same time differ from one alone')
  problems.push(...(await interleavedProblems(fixture, one, answered)))
  return toCheck('repeat', name, problems)
}

/** Checks that ten times the events cost at most 25 times the time. */
export async function checkTime(fixture: Fixture, one: Case): Promise<Check> {
  const { name, answer } = one.transcript
  const loop = answer && (await repeatableEvent(fixture, one, answer))
  if (!loop) return skipped('time', name, 'no event of this answer can be repeated')
  const run = async (times: number) => {
    const block = Buffer.concat(Array.from({ length: times }, () => loop.again))
    await replay(fixture, one.request, answer, [loop.before, block, loop.after])
  }
  return toCheck('time', name, await growth('events', run, 200))
}

export async function checkMemory(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  const { provider, vendor } = fixture
  if (!answer) return skipped('memory', name, NO_UPSTREAM)
  const kept: unknown[][] = [
    vendor.requests as ReceivedRequest[],
    provider.thrown,
    provider.host.logLines,
  ]
  const calls = vendor.requests.length
  return checkHeap(
    'calls',
    name,
    async () => {
      await replay(fixture, request, answer)
      for (const list of kept) list.length = 0
    },
    calls,
  )
}
