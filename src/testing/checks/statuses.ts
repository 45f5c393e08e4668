/** Statuses with which services refuse, and the classes of failures that describe them. */
import type { FailureClass } from '../../plugin.ts'
import { UpstreamFailure } from '../../errors/errors.ts'
import { json, type FakeResponse, type ReceivedRequest } from '../fake-upstream.ts'
import { notFailure, toCheck, type Check } from '../report.ts'

export type Fault = readonly [name: string, answer: FakeResponse, classes: readonly FailureClass[]]

/** The wait of a 429. */
const WAIT_MS = 7000

/** Classes of a temporary failure. */
export const BUSY: readonly FailureClass[] = ['upstream_error', 'overloaded']

export const page = (status: number): FakeResponse => ({
  status,
  headers: { 'content-type': 'text/html' },
  pieces: ['<!DOCTYPE html><p>Bad gateway</p>'],
})

/** Refusals of every kind. @param key echoed in each of them, as part of the request */
export function refusals(key: string): readonly Fault[] {
  const refused = (status: number, headers = {}) => json({ error: { key } }, status, headers)
  return [
    ['400', refused(400), ['bad_request']],
    ['401', refused(401), ['upstream_auth']],
    ['402', refused(402), ['upstream_balance']],
    ['403', refused(403), ['upstream_auth']],
    ['404', refused(404), ['not_found', 'upstream_error']],
    ['408', refused(408), ['timeout']],
    ['413', refused(413), ['payload_too_large', 'bad_request']],
    ['422', refused(422), ['bad_request']],
    ['429', refused(429, { 'retry-after': '7' }), ['upstream_rate', 'overloaded']],
    ['500', refused(500), BUSY],
    ['503', refused(503), ['overloaded']],
    ['529', refused(529), ['overloaded']],
    ['redirect', refused(302, { location: '/elsewhere' }), ['upstream_error']],
    ['HTML, 502', page(502), BUSY],
    ['reset', { pieces: [], ending: 'refuse' }, ['upstream_error']],
  ]
}

/** Checks that an error states the failure, its wait included, after one request. */
export function checkRefusal(
  [name, , classes]: Fault,
  { error, asked }: { readonly error?: unknown; readonly asked: readonly ReceivedRequest[] },
): Check {
  const problem = notFailure(error, classes)
  const problems = problem === undefined ? [] : [problem]
  const wait = UpstreamFailure.is(error) ? error.retryAfterMs : undefined
  if (!problem && name === '429' && wait !== WAIT_MS)
    problems.push(`retryAfterMs is ${wait ?? 'none'}, expected ${WAIT_MS}`)
  if (asked.length > 1) problems.push(`it asked ${asked.length} times; the gateway tries again`)
  return toCheck('errors', name, problems)
}
