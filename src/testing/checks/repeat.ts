/** Checks that answers do not influence each other, and that neither time nor memory grows faster than the input. */
import { isDeepStrictEqual } from 'node:util'
import { choicesIn } from '../compare.ts'
import {
  replay,
  splitPoints,
  toFakeResponse,
  NO_UPSTREAM,
  type Case,
  type Fixture,
} from '../fixture.ts'
import { growth, heapGrowth } from '../measure.ts'
import { skipped, toCheck, type Check } from '../report.ts'
import { cutAt } from '../splits.ts'
import { repeatableEvent } from './disconnects.ts'

const AT_ONCE = 6
const CALLS = 200
const MAX_HEAP_BYTES = 2 * 1024 * 1024

/** Checks the same answer after one that was cut, and several at once. */
export async function checkRepeat(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  const { provider, vendor } = fixture
  if (!answer) return skipped('repeat', name, NO_UPSTREAM)
  const alone = await replay(fixture, request, answer)
  const half = answer.body.subarray(0, answer.body.length >> 1)
  await replay(fixture, request, answer, [half], 'cut')
  const problems: string[] = []
  const same = (other: typeof alone) =>
    isDeepStrictEqual(choicesIn(other.completion), choicesIn(alone.completion)) &&
    isDeepStrictEqual(other.usage, alone.usage)
  const before = vendor.requests.length
  if (!same(await replay(fixture, request, answer))) {
    problems.push('after an answer that was cut off the same question has another answer')
  }
  if (vendor.requests.length === before)
    problems.push('the same question is not asked again: the answer is one of before')
  vendor.answer(() => toFakeResponse(answer, cutAt(answer.body, splitPoints(answer))))
  const together = await Promise.all(
    Array.from({ length: AT_ONCE }, () => provider.outcome(request)),
  )
  if (!together.every(same)) problems.push('answers at the same time differ from one alone')
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
  if (!answer) return skipped('memory', name, NO_UPSTREAM)
  const bytes = await heapGrowth(CALLS, () => replay(fixture, request, answer))
  if (bytes === undefined) return skipped('memory', name, 'memory is measured by testPlugin only')
  const mib = (bytes / 1024 / 1024).toFixed(1)
  return toCheck(
    'memory',
    name,
    bytes > MAX_HEAP_BYTES ? [`${CALLS} calls leave ${mib} MiB behind`] : [],
  )
}
