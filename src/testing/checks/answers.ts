/** Whether answers say what they should, in the form they should have. */
import { UpstreamFailure } from '../../errors/errors.ts'
import {
  answerOf,
  judged,
  named,
  notFailure,
  type Fixture,
  type Case,
  type Check,
} from '../fixture.ts'
import { differences, lacking, usageDifferences } from '../compare.ts'
import { streamViolations, usageViolations } from '../rules.ts'
import { schemaViolations } from '../shapes.ts'
import type { Outcome } from '../provider-under-test.ts'
import type { Expected } from '../transcripts.ts'
import { json } from '../vendor.ts'

/** What the answer says; the rules of streams; the counts. */
export async function checkAnswer(bench: Fixture, one: Case): Promise<Check[]> {
  const { subject, vendor } = bench
  const { transcript, question } = one
  const { name, answer, expect } = transcript
  const before = vendor.requests.length
  vendor.answer(answer ? answerOf(answer) : json({ error: { message: 'no transcript' } }, 500))
  const outcome = await subject.outcome(question)
  const asked = vendor.requests.slice(before)

  const problems = answer
    ? asked.length === 0
      ? ['the vendor was not asked; is its address in another option? (--base-url-option)']
      : lacking(expect.sent ?? {}, bodyOf(asked[0]!.body), 'sent')
    : asked.length > 0
      ? [`the vendor was asked, but there is no ${name}.http with its answer`]
      : []
  problems.push(...failureProblems(expect, outcome.error))
  problems.push(...differences(expect, outcome.completion))
  const checks = [
    judged('answer', name, problems),
    checkRules(name, outcome, question.envelope.logprobs),
  ]
  // A failure need not be counted.
  if (!expect.failure || expect.usage) checks.push(checkUsage(name, outcome, expect))
  return checks
}

/** S1 to S9 and S11, and what the provider owes the code that sees to them. */
export function checkRules(on: string | null, outcome: Outcome, logprobs: boolean): Check {
  const problems = schemaViolations(outcome.raw)
  if (outcome.error === undefined) {
    problems.push(...streamViolations(outcome.chunks, { usage: 'none', logprobs }))
  }
  return judged('stream rules', on, problems.slice(0, 5))
}

function checkUsage(name: string, { usage }: Outcome, expect: Expected): Check {
  const problems = [
    ...usageDifferences(expect.usage, usage),
    ...(usage ? usageViolations(usage) : []),
  ]
  return judged('usage', name, problems, usage ? [] : ['none: calls are charged by estimate'])
}

function failureProblems({ failure, retry_after_ms }: Expected, error: unknown): string[] {
  if (!failure) return error === undefined ? [] : [`expected an answer, it failed: ${named(error)}`]
  const problem = notFailure(error, [failure])
  if (problem) return [problem]
  const wait = UpstreamFailure.is(error) ? error.retryAfterMs : undefined
  if (wait === retry_after_ms) return []
  return [`retry_after_ms: expected ${retry_after_ms ?? 'none'}, found ${wait ?? 'none'}`]
}

/** The body as JSON, or nothing that anything could be expected of. */
function bodyOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return {}
  }
}
