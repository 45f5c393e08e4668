/** Maps Google's errors to failures. */
import type { FailureClass, Host } from '../../src/plugin.ts'
import { clean } from '../shared/error-messages.ts'
import { tryParse, type HttpFailure } from '../shared/http.ts'

type Fail = Host['fail']

/** The readable members of an error object. */
interface Problem {
  /** HTTP status; 0 when absent. */
  readonly code: number
  /** A name such as `INVALID_ARGUMENT`. */
  readonly status: string
  readonly message: string
  readonly details: readonly any[]
}

/** The failure for an answer with an error status. */
export const httpFailure: HttpFailure = (fail, { status, headers }, body) =>
  toFailure(fail, problemOf(tryParse(body)), status, headers['retry-after'])

/** The failure for an error in an answer with status 200; undefined when there is none. */
export function inbandFailure(fail: Fail, payload: any): Error | undefined {
  const body = Array.isArray(payload) ? payload[0] : payload
  if (!body?.error) return undefined
  const problem = problemOf(body)
  return toFailure(fail, problem, problem.code || (HTTP_STATUS[problem.status] ?? 500))
}

/** The failure for a blocked prompt. */
export function blocked(fail: Fail): Error {
  return fail('content_blocked')
}

/** https://cloud.google.com/apis/design/errors#handling_errors */
const HTTP_STATUS: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
}

const TOO_LONG = /exceeds the maximum number of tokens|token count.{0,40}exceeds/i
const TOO_LARGE = /payload size exceeds|request (entity|body|payload).{0,20}too large/i
const NO_MONEY = /credits? (are|is|have been|has been) (depleted|exhausted)/i
/** Wait after an exhausted daily quota. Longer than any cooldown, so the deployment is not tried again soon. */
const DAY_QUOTA_WAIT_MS = 3_600_000

function toFailure(fail: Fail, problem: Problem, status: number, retryAfter?: string): Error {
  const failure = classify(problem, status)
  const name = /^[A-Z_]{1,40}$/.test(problem.status) ? `, ${problem.status}` : ''
  const cause = new Error(`HTTP ${status}${name}`)
  const message = failure === 'bad_request' ? clean(problem.message, PRIVATE) : undefined
  if (failure !== 'upstream_rate' && failure !== 'overloaded') {
    return fail(failure, message, { cause })
  }
  const retryAfterMs = waitIn(retryAfter) ?? waitOf(problem)
  return fail(failure, message, retryAfterMs === undefined ? { cause } : { cause, retryAfterMs })
}

function classify({ status: name, message, details }: Problem, status: number): FailureClass {
  if (status === 401 || status === 403) return 'upstream_auth'
  if (status === 402 || (status === 429 && NO_MONEY.test(message))) return 'upstream_balance'
  if (status === 404) return 'not_found'
  if (status === 408 || status === 504) return 'timeout'
  if (status === 413) return 'payload_too_large'
  if (status === 429) return 'upstream_rate'
  if (status === 503) return 'overloaded'
  if (status !== 400 && status !== 422) return 'upstream_error'
  // Google also answers 400 for problems with the key, the region or billing, which the client cannot fix.
  if (name === 'FAILED_PRECONDITION') return 'upstream_auth'
  if (details.some(({ reason }) => String(reason).startsWith('API_KEY_'))) return 'upstream_auth'
  if (/\bAPI key\b/i.test(message)) return 'upstream_auth'
  if (TOO_LONG.test(message)) return 'context_length'
  if (TOO_LARGE.test(message)) return 'payload_too_large'
  return 'bad_request'
}

/** Milliseconds of a `Retry-After` in seconds or as a date. Proxies send it; Google does not. */
function waitIn(header: string | undefined): number | undefined {
  if (header === undefined) return undefined
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - Date.now() : seconds * 1000
  return ms > 0 ? Math.ceil(ms) : undefined
}

function waitOf({ message, details }: Problem): number | undefined {
  const quotas = details.flatMap(({ violations }) => (Array.isArray(violations) ? violations : []))
  if (quotas.some((quota) => /PerDay/.test(String(quota?.quotaId)))) return DAY_QUOTA_WAIT_MS
  const delay = details.find(({ retryDelay }) => typeof retryDelay === 'string')?.retryDelay
  const seconds = Number.parseFloat(delay ?? /retry in ([\d.]+)s/i.exec(message)?.[1])
  return seconds > 0 ? Math.ceil(seconds * 1000) : undefined
}

/** Project ids and keys. */
const PRIVATE = [/\bprojects?[/:_ ]\S*\d\S*/gi, /\bAIza[\w-]+/g]

/** The streaming endpoint wraps its errors in a list. */
function problemOf(body: any): Problem {
  const error = (Array.isArray(body) ? body[0] : body)?.error ?? {}
  const { code, status, message, details } = error
  return {
    code: Number.isInteger(code) ? code : 0,
    status: typeof status === 'string' ? status : '',
    message: typeof message === 'string' ? message : '',
    details: Array.isArray(details) ? details.map(Object) : [],
  }
}
