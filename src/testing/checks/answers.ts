/** Checks that answers have the expected content, form and usage. */
import { UpstreamFailure } from '../../errors/errors.ts'
import {
  toFakeResponse,
  toCheck,
  describeError,
  notFailure,
  type Fixture,
  type Case,
  type Check,
} from '../fixture.ts'
import { differences, missingMembers, usageDifferences } from '../compare.ts'
import { streamViolations, usageViolations } from '../rules.ts'
import { schemaViolations } from '../shapes.ts'
import type { Outcome } from '../provider-under-test.ts'
import type { Expected } from '../transcripts.ts'
import { json } from '../fake-upstream.ts'

/** Checks one transcript: content, stream rules, usage. */
export async function checkAnswer(fixture: Fixture, one: Case): Promise<Check[]> {
  const { provider, vendor } = fixture
  const { transcript, request } = one
  const { name, answer, expect } = transcript
  const before = vendor.requests.length
  vendor.answer(
    answer ? toFakeResponse(answer) : json({ error: { message: 'no transcript' } }, 500),
  )
  const outcome = await provider.outcome(request)
  const asked = vendor.requests.slice(before)

  const problems = answer
    ? asked.length === 0
      ? ['it sent no request to the vendor; is the address in another option? (--base-url-option)']
      : missingMembers(expect.sent ?? {}, bodyOf(asked[0]!.body), 'sent')
    : asked.length > 0
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

/** Checks the chunks of the provider, and the stream that clients would receive. */
export function checkRules(on: string | null, outcome: Outcome, logprobs: boolean): Check {
  const problems = schemaViolations(outcome.raw)
  if (outcome.error === undefined) {
    // The gateway's writer adds `object`; everything else of an event is in the chunk.
    const payloads = outcome.chunks.map((one) => ({ object: 'chat.completion.chunk', ...one }))
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

/** The body as JSON; an empty object for another body. */
function bodyOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return {}
  }
}
