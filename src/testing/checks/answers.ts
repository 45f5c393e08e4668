/** Checks that answers have the expected content, form and usage, however the network splits them, and that a truncated one is an error. */
import { isDeepStrictEqual } from 'node:util'
import { UpstreamFailure } from '../../errors/errors.ts'
import {
  NO_UPSTREAM,
  replay,
  splitPoints,
  toFakeResponse,
  type Fixture,
  type Case,
} from '../fixture.ts'
import { describeError, notFailure, skipped, toCheck, type Check } from '../report.ts'
import { choicesIn, differences, missingMembers, show, usageDifferences } from '../compare.ts'
import { cutAt, randomFrom, splitBytewise, splitRandomly } from '../splits.ts'
import { streamViolations, usageViolations } from '../rules.ts'
import { schemaViolations } from '../shapes.ts'
import type { Outcome } from '../provider-under-test.ts'
import type { Expected } from '../transcripts.ts'
import { json } from '../fake-upstream.ts'

const RANDOM_SPLITS = 20
const MAX_SPLITS = 12
const MAX_SINGLE_BYTES = 1024
const MAX_TRUNCATIONS = 32
const RANDOM_TRUNCATIONS = 8

export async function checkAnswer(fixture: Fixture, one: Case): Promise<Check[]> {
  const { provider, vendor } = fixture
  const { transcript, request } = one
  const { name, answer, expect } = transcript
  const before = vendor.requests.length
  vendor.answer(
    answer ? toFakeResponse(answer) : json({ error: { message: 'no transcript' } }, 500),
  )
  const outcome = await provider.outcome(request)
  const requests = vendor.requests.slice(before)
  if ((outcome.error as Error | undefined)?.name === 'AbortError') {
    const problem =
      'it was given up, although its own signal was not: the signal is that of another call'
    return [toCheck('signal', name, [problem])]
  }
  const problems = answer
    ? requests.length === 0
      ? ['it sent no request to the vendor; is the address in another option? (--base-url-option)']
      : missingMembers(expect.sent ?? {}, bodyOf(requests[0]!.body), 'sent')
    : requests.length > 0
      ? [`it sent a request, but there is no ${name}.http with a response`]
      : []
  problems.push(...failureProblems(expect, outcome.error))
  problems.push(...differences(expect, outcome.completion))
  const checks = [
    toCheck('answer', name, problems),
    checkRules(name, outcome, request.envelope.logprobs),
  ]
  // A failure does not need usage.
  if (!expect.failure || expect.usage) checks.push(checkUsage(name, outcome, expect))
  return checks
}

export function checkRules(on: string | null, outcome: Outcome, logprobs: boolean): Check {
  const problems = schemaViolations(outcome.raw)
  if (outcome.error === undefined) {
    // The gateway's writer adds `object`; everything else of an event is in the chunk.
    const payloads = outcome.chunks.map(({ head, ...one }) => ({
      object: 'chat.completion.chunk',
      ...(head as object | undefined),
      ...one,
    }))
    problems.push(...streamViolations(payloads, { usage: 'none', logprobs }))
  }
  return toCheck('stream rules', on, problems.slice(0, 5))
}

function checkUsage(name: string, { usage }: Outcome, expect: Expected): Check {
  const problems = [
    ...usageDifferences(expect.usage, usage),
    ...(usage ? usageViolations(usage) : []),
  ]
  return toCheck('usage', name, problems, usage ? [] : ['none: calls are charged by estimate'])
}

function failureProblems({ failure, retry_after_ms }: Expected, error: unknown): string[] {
  if (!failure)
    return error === undefined ? [] : [`expected an answer, it failed: ${describeError(error)}`]
  const problem = notFailure(error, [failure])
  if (problem) return [problem]
  const wait = UpstreamFailure.is(error) ? error.retryAfterMs : undefined
  if (wait === retry_after_ms) return []
  return [`retry_after_ms: expected ${retry_after_ms ?? 'none'}, found ${wait ?? 'none'}`]
}

function bodyOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return {}
  }
}

/** Sends the same response in one piece, split after events, into bytes, and at random. */
export async function checkCuts(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cuts', name, NO_UPSTREAM)
  const random = randomFrom(fixture.seed)
  const ways: [how: string, pieces: Uint8Array[]][] = [
    ['after each event', cutAt(answer.body, splitPoints(answer))],
    ['byte by byte', splitBytewise(answer.body, MAX_SINGLE_BYTES)],
  ]
  for (let i = 1; i <= RANDOM_SPLITS; i++) {
    ways.push([`at random, number ${i}`, splitRandomly(answer.body, random, MAX_SPLITS)])
  }
  const whole = await replay(fixture, request, answer)
  for (const [how, pieces] of ways) {
    const [problem] = changes(whole, await replay(fixture, request, answer, pieces))
    if (problem) return toCheck('cuts', name, [`split ${how}, the answer differs: ${problem}`])
  }
  return toCheck('cuts', name, [], [`${ways.length} ways to split ${answer.body.length} bytes`])
}

/** Sends the beginning of a valid response: it has to be an error, unless nothing of the content is missing. */
export async function checkCutOff(fixture: Fixture, { transcript, request }: Case): Promise<Check> {
  const { name, answer } = transcript
  if (!answer) return skipped('cut off', name, NO_UPSTREAM)
  const random = randomFrom(fixture.seed)
  const whole = choicesIn((await replay(fixture, request, answer)).completion)
  const breaks = splitPoints(answer)
  const step = Math.ceil(breaks.length / MAX_TRUNCATIONS)
  const ends = [0, ...breaks.filter((_, i) => i % step === 0 || i >= breaks.length - 2)]
  for (let i = 0; i < RANDOM_TRUNCATIONS; i++) ends.push(random(answer.body.length))
  for (const [i, end] of ends.entries()) {
    const beginning = [answer.body.subarray(0, end)]
    const ending = i % 2 === 0 ? 'end' : 'cut'
    const { completion, error } = await replay(fixture, request, answer, beginning, ending)
    const where = `cut off after ${end} of ${answer.body.length} bytes`
    const choices = choicesIn(completion)
    if (error === undefined && !isDeepStrictEqual(choices, whole)) {
      return toCheck('cut off', name, [`${where}, it ends as if complete, with ${show(choices)}`])
    }
    const problem = error === undefined ? undefined : notFailure(error, ['upstream_error'])
    if (problem) return toCheck('cut off', name, [`${where}, ${problem}`])
  }
  return toCheck('cut off', name, [], [`${ends.length} places`])
}

function changes(whole: Outcome, cut: Outcome): string[] {
  const problems = [
    ...differences({ choices: choicesIn(whole.completion) }, cut.completion),
    ...usageDifferences(whole.usage, cut.usage),
  ]
  if (endOf(whole.error) !== endOf(cut.error)) {
    problems.push(`it ended with ${endOf(cut.error)} in place of ${endOf(whole.error)}`)
  }
  if (problems.length === 0 && !isDeepStrictEqual(whole.completion, cut.completion)) {
    problems.push('annotations, reasoning details, ids or other members differ')
  }
  return problems
}

function endOf(error: unknown): string {
  if (error === undefined) return 'no error'
  return UpstreamFailure.is(error)
    ? `${describeError(error)}, ${error.retryAfterMs} ms`
    : describeError(error)
}
