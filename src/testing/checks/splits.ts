/** Whether answers stay the same wherever a network cuts them, and are errors where it cuts them off. */
import { isDeepStrictEqual } from 'node:util'
import { UpstreamFailure } from '../../errors/errors.ts'
import {
  answerOf,
  ASKS_NOBODY,
  breaksOf,
  judged,
  named,
  notFailure,
  skipped,
  type Fixture,
  type Case,
  type Check,
} from '../fixture.ts'
import { differences, saidBy, show, usageDifferences } from '../compare.ts'
import { bytewise, cutAt, randomFrom, randomly } from '../splits.ts'
import type { Outcome } from '../provider-under-test.ts'

const RANDOM_CUTS = 20
const MOST_PLACES = 12
const MOST_BYTES_APART = 1024
const MOST_BREAKS = 32
const RANDOM_BREAKS = 8

/** The same answer whole, at its borders, byte by byte, and at random. */
export async function checkCuts(bench: Fixture, { transcript, question }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cuts', name, ASKS_NOBODY)
  const { subject, vendor } = bench
  const random = randomFrom(bench.seed)
  const ways: [how: string, pieces: Uint8Array[]][] = [
    ['at its borders', cutAt(answer.body, breaksOf(answer))],
    ['byte by byte', bytewise(answer.body, MOST_BYTES_APART)],
  ]
  for (let i = 1; i <= RANDOM_CUTS; i++) {
    ways.push([`at random, number ${i}`, randomly(answer.body, random, MOST_PLACES)])
  }
  vendor.answer(answerOf(answer))
  const whole = await subject.outcome(question)
  for (const [how, pieces] of ways) {
    vendor.answer(answerOf(answer, pieces))
    const [problem] = changes(whole, await subject.outcome(question))
    if (problem) return judged('cuts', name, [`cut ${how} it is another answer: ${problem}`])
  }
  return judged('cuts', name, [], [`${ways.length} ways to cut ${answer.body.length} bytes`])
}

/** Of a good answer: its beginning is an error, unless nothing is missing from it (S12). */
export async function checkCutOff(bench: Fixture, { transcript, question }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cut off', name, ASKS_NOBODY)
  const { subject, vendor } = bench
  const random = randomFrom(bench.seed)
  vendor.answer(answerOf(answer))
  const whole = saidBy((await subject.outcome(question)).completion)

  const breaks = breaksOf(answer)
  const step = Math.ceil(breaks.length / MOST_BREAKS)
  const ends = [0, ...breaks.filter((_, i) => i % step === 0 || i >= breaks.length - 2)]
  for (let i = 0; i < RANDOM_BREAKS; i++) ends.push(random(answer.body.length))
  for (const [i, end] of ends.entries()) {
    vendor.answer(answerOf(answer, [answer.body.subarray(0, end)], i % 2 === 0 ? 'end' : 'cut'))
    const { completion, error } = await subject.outcome(question)
    const where = `cut off after ${end} of ${answer.body.length} bytes`
    const said = saidBy(completion)
    if (error === undefined && !isDeepStrictEqual(said, whole)) {
      return judged('cut off', name, [`${where} it ends as if complete, with ${show(said)}`])
    }
    const problem = error === undefined ? undefined : notFailure(error, ['upstream_error'])
    if (problem) return judged('cut off', name, [`${where}, ${problem}`])
  }
  return judged('cut off', name, [], [`${ends.length} places`])
}

/** What is not the same, in sentences. */
function changes(whole: Outcome, cut: Outcome): string[] {
  const problems = [
    ...differences({ choices: saidBy(whole.completion) }, cut.completion),
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
  return UpstreamFailure.is(error) ? `${named(error)}, ${error.retryAfterMs} ms` : named(error)
}
