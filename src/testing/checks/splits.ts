/** Checks that answers do not depend on how the network splits them, and that a truncated answer is an error. */
import { isDeepStrictEqual } from 'node:util'
import { UpstreamFailure } from '../../errors/errors.ts'
import {
  toFakeResponse,
  NO_UPSTREAM,
  splitPoints,
  toCheck,
  describeError,
  notFailure,
  skipped,
  type Fixture,
  type Case,
  type Check,
} from '../fixture.ts'
import { differences, choicesIn, show, usageDifferences } from '../compare.ts'
import { splitBytewise, cutAt, randomFrom, splitRandomly } from '../splits.ts'
import type { Outcome } from '../provider-under-test.ts'

const RANDOM_SPLITS = 20
const MAX_SPLITS = 12
const MAX_SINGLE_BYTES = 1024
const MAX_TRUNCATIONS = 32
const RANDOM_TRUNCATIONS = 8

/** Sends the same response in one piece, split after events, into bytes, and at random. */
export async function checkCuts(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cuts', name, NO_UPSTREAM)
  const { provider, vendor } = fixture
  const random = randomFrom(fixture.seed)
  const ways: [how: string, pieces: Uint8Array[]][] = [
    ['after each event', cutAt(answer.body, splitPoints(answer))],
    ['byte by byte', splitBytewise(answer.body, MAX_SINGLE_BYTES)],
  ]
  for (let i = 1; i <= RANDOM_SPLITS; i++) {
    ways.push([`at random, number ${i}`, splitRandomly(answer.body, random, MAX_SPLITS)])
  }
  vendor.answer(toFakeResponse(answer))
  const whole = await provider.outcome(request)
  for (const [how, pieces] of ways) {
    vendor.answer(toFakeResponse(answer, pieces))
    const [problem] = changes(whole, await provider.outcome(request))
    if (problem) return toCheck('cuts', name, [`split ${how}, the answer differs: ${problem}`])
  }
  return toCheck('cuts', name, [], [`${ways.length} ways to split ${answer.body.length} bytes`])
}

/** Sends the beginning of a valid response: it has to be an error, unless nothing of the content is missing. */
export async function checkCutOff(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cut off', name, NO_UPSTREAM)
  const { provider, vendor } = fixture
  const random = randomFrom(fixture.seed)
  vendor.answer(toFakeResponse(answer))
  const whole = choicesIn((await provider.outcome(request)).completion)

  const breaks = splitPoints(answer)
  const step = Math.ceil(breaks.length / MAX_TRUNCATIONS)
  const ends = [0, ...breaks.filter((_, i) => i % step === 0 || i >= breaks.length - 2)]
  for (let i = 0; i < RANDOM_TRUNCATIONS; i++) ends.push(random(answer.body.length))
  for (const [i, end] of ends.entries()) {
    vendor.answer(
      toFakeResponse(answer, [answer.body.subarray(0, end)], i % 2 === 0 ? 'end' : 'cut'),
    )
    const { completion, error } = await provider.outcome(request)
    const where = `cut off after ${end} of ${answer.body.length} bytes`
    const said = choicesIn(completion)
    if (error === undefined && !isDeepStrictEqual(said, whole)) {
      return toCheck('cut off', name, [`${where}, it ends as if complete, with ${show(said)}`])
    }
    const problem = error === undefined ? undefined : notFailure(error, ['upstream_error'])
    if (problem) return toCheck('cut off', name, [`${where}, ${problem}`])
  }
  return toCheck('cut off', name, [], [`${ends.length} places`])
}

/** Differences between two outcomes, as sentences. */
function changes(whole: Outcome, cut: Outcome): string[] {
  const problems = [
    ...differences({ choices: choicesIn(whole.completion) }, cut.completion),
    ...usageDifferences(whole.usage, cut.usage),
  ]
  if (ending(whole.error) !== ending(cut.error)) {
    problems.push(`it ended with ${ending(cut.error)} in place of ${ending(whole.error)}`)
  }
  if (problems.length === 0 && !isDeepStrictEqual(whole.completion, cut.completion)) {
    problems.push('annotations, reasoning details, ids or other members differ')
  }
  return problems
}

function ending(error: unknown): string {
  if (error === undefined) return 'no error'
  return UpstreamFailure.is(error)
    ? `${describeError(error)}, ${error.retryAfterMs} ms`
    : describeError(error)
}
