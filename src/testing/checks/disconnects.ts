/** Whether a provider lets go when the client leaves, and waits when the client waits. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ChatChunk, Flow } from '../../plugin.ts'
import {
  answerOf,
  ASKS_NOBODY,
  breaksOf,
  judged,
  skipped,
  type Fixture,
  type Case,
  type Check,
} from '../fixture.ts'
import { saidBy } from '../compare.ts'
import type { TestRequest } from '../requests.ts'
import { within } from '../provider-under-test.ts'
import type { RecordedResponse } from '../transcripts.ts'

const LOOK_MS = 10
/** Looks without a byte taken after which a connection counts as standing still. */
const STILL_LOOKS = 10
/** Far more than the buffers of two sockets hold. */
const MOST_BYTES = 24 * 1024 * 1024
const BLOCK_BYTES = 64 * 1024

/** The client leaves in the middle of a stream. */
export async function checkCancel(bench: Fixture, one: Case): Promise<Check> {
  const { name, answer } = one.transcript
  const { subject, vendor, patienceMs } = bench
  const beginning = answer && (await firstOutput(bench, one, answer))
  if (!beginning) return skipped('cancel', name, 'no part comes before the end of this answer')
  vendor.answer(answerOf(answer, [beginning], 'hang'))
  const gone = new AbortController()
  try {
    const answering = await within(subject.ask(one.question, gone.signal), 'no answer', patienceMs)
    if (!answering.streamed) return skipped('cancel', name, 'it answers whole')
    const what = 'no part came while the vendor was sending'
    await within(answering.parts.next(), what, patienceMs)
    gone.abort(new Error('the client left'))
    return judged('cancel', name, await lettingGo(bench, readOut(answering.parts)))
  } catch (error) {
    return judged('cancel', name, [(error as Error).message])
  } finally {
    gone.abort()
  }
}

/** The client leaves while the vendor has not said a word. */
export async function checkHang(bench: Fixture, question: TestRequest, on: string): Promise<Check> {
  const { subject, vendor, patienceMs } = bench
  vendor.answer({ pieces: [], ending: 'silent' })
  const gone = new AbortController()
  const before = vendor.requests.length
  const reading = subject
    .ask(question, gone.signal)
    .then(({ parts }) => readOut(parts))
    .then(
      () => 'ended' as const,
      () => 'failed' as const,
    )
  try {
    const asked = async () => {
      while (vendor.requests.length === before)
        await sleep(LOOK_MS, undefined, { signal: gone.signal })
      return 'asked' as const
    }
    const first = await within(
      Promise.race([reading, asked()]),
      'the vendor was not asked',
      patienceMs,
    )
    if (first !== 'asked') return skipped('hang', on, ASKS_NOBODY)
    gone.abort(new Error('the client left'))
    return judged('hang', on, await lettingGo(bench, reading))
  } catch (error) {
    return judged('hang', on, [(error as Error).message])
  } finally {
    gone.abort()
  }
}

/** After the checks above: whether the signal of each job was in each of its requests. */
export function checkSignal({ subject }: Fixture): Check {
  const { requests } = subject.surroundings
  if (requests.length === 0) {
    return skipped(
      'signal',
      null,
      'no request went through host.request; the connections were watched',
    )
  }
  // Every job of the kit is aborted in the end.
  const deaf = requests.filter(({ signal }) => !signal?.aborted)
  const problem = `${deaf.length} of ${requests.length} requests were made without the signal of their job`
  return judged('signal', null, deaf.length > 0 ? [problem] : [])
}

/** The client stops reading: so must the provider, and with it the vendor's connection. */
export async function checkPressure(bench: Fixture, one: Case): Promise<Check> {
  const { name, answer } = one.transcript
  const { subject, vendor, patienceMs } = bench
  const loop = answer && (await repeatable(bench, one, answer))
  if (!loop) return skipped('back-pressure', name, 'no event of this answer can be repeated')
  vendor.answer(answerOf(answer, endless(loop), 'hang'))
  const gone = new AbortController()
  try {
    const answering = await within(subject.ask(one.question, gone.signal), 'no answer', patienceMs)
    if (!answering.streamed) return skipped('back-pressure', name, 'it answers whole')
    await within(answering.parts.next(), 'no part came from an endless answer', patienceMs)
    const request = vendor.requests.at(-1)!
    const taken = () => request.takenBytes
    if (!(await standsStill(taken))) {
      const mib = MOST_BYTES / 1024 / 1024
      return judged('back-pressure', name, [
        `nobody read, and ${mib} MiB were fetched from the vendor`,
      ])
    }
    const still = taken()
    const goesOn = async () => {
      while (taken() === still) await answering.parts.next()
    }
    await within(goesOn(), 'it did not go on when it was read again', patienceMs)
    return judged('back-pressure', name, [])
  } catch (error) {
    return judged('back-pressure', name, [(error as Error).message])
  } finally {
    gone.abort()
  }
}

/** What is left open after an abort. */
async function lettingGo(
  { vendor, patienceMs }: Fixture,
  reading: Promise<unknown>,
): Promise<string[]> {
  const { aborted } = vendor.requests.at(-1)!
  const problems: string[] = []
  const note = (error: Error) => void problems.push(error.message)
  await within(
    reading.catch(() => {}),
    'the answer did not end after the abort',
    patienceMs,
  ).catch(note)
  await within(
    aborted,
    'the connection to the vendor was not closed after the abort',
    patienceMs,
  ).catch(note)
  return problems
}

async function readOut(parts: Flow<ChatChunk>): Promise<void> {
  for (let last = false; !last;) last = (await parts.next()).last
}

/** The shortest beginning of an answer that gives a part. */
async function firstOutput(bench: Fixture, { question }: Case, answer: RecordedResponse) {
  for (const end of breaksOf(answer)) {
    const beginning = answer.body.subarray(0, end)
    bench.vendor.answer(answerOf(answer, [beginning]))
    const { chunks } = await bench.subject.outcome(question)
    if (chunks.length > 0) return beginning
  }
  return undefined
}

interface Loop {
  readonly before: Uint8Array
  readonly again: Uint8Array
}

/** An event that adds to the answer each time it comes. */
async function repeatable(
  bench: Fixture,
  { question }: Case,
  answer: RecordedResponse,
): Promise<Loop | undefined> {
  const { body } = answer
  const said = async (...pieces: readonly Uint8Array[]) => {
    bench.vendor.answer(answerOf(answer, pieces))
    const { completion, error } = await bench.subject.outcome(question)
    return error === undefined ? JSON.stringify(saidBy(completion)).length : -1
  }
  const length = await said(body)
  const ends = breaksOf(answer)
  for (const [i, end] of ends.entries()) {
    const next = ends[i + 1]
    if (next === undefined || length < 0) break
    const again = body.subarray(end, next)
    const twice = await said(body.subarray(0, next), again, body.subarray(next))
    if (twice > length) return { before: body.subarray(0, next), again }
  }
  return undefined
}

function* endless({ before, again }: Loop): Generator<Uint8Array> {
  yield before
  const times = Math.ceil(BLOCK_BYTES / again.length)
  const block = Buffer.concat(Array.from({ length: times }, () => again))
  for (;;) yield block
}

/** False when more is taken than buffers hold. */
async function standsStill(taken: () => number): Promise<boolean> {
  let before = -1
  for (let looks = 0; looks < STILL_LOOKS;) {
    const now = taken()
    if (now > MOST_BYTES) return false
    looks = now === before ? looks + 1 : 0
    before = now
    await sleep(LOOK_MS)
  }
  return true
}
