/** Maps Anthropic's errors to failures. */
import type { FailureClass, Host } from '../../src/plugin.ts'
import { clean } from '../shared/error-messages.ts'
import { tryParse, type HttpFailure } from '../shared/http.ts'

type Headers = Readonly<Record<string, string>>

/** The class of each error type. The type counts before the status, which is 200 inside a stream. */
const TYPES: ReadonlyMap<unknown, FailureClass> = new Map([
  ['authentication_error', 'upstream_auth'],
  ['permission_error', 'upstream_auth'],
  ['billing_error', 'upstream_balance'],
  ['not_found_error', 'not_found'],
  ['request_too_large', 'payload_too_large'],
  ['rate_limit_error', 'upstream_rate'],
  ['api_error', 'upstream_error'],
  ['timeout_error', 'timeout'],
  ['overloaded_error', 'overloaded'],
])

/** The class of each status, for answers of proxies, which may be HTML. */
const STATUSES: ReadonlyMap<number, FailureClass> = new Map([
  [400, 'bad_request'],
  [401, 'upstream_auth'],
  [402, 'upstream_balance'],
  [403, 'upstream_auth'],
  [404, 'not_found'],
  [408, 'timeout'],
  [413, 'payload_too_large'],
  [422, 'bad_request'],
  [429, 'upstream_rate'],
  [503, 'overloaded'],
  [504, 'timeout'],
  [529, 'overloaded'],
])

/** Error messages of type `invalid_request_error` that mean something else. The first match counts. */
const BY_MESSAGE: readonly (readonly [says: RegExp, FailureClass])[] = [
  [/credit balance|billing|usage limit|spend limit/, 'upstream_balance'],
  [/api.?key|credential|oauth|organi[sz]ation|workspace|your account/, 'upstream_auth'],
  [
    /prompt is too long|exceeds? (the )?context (limit|window)|too many total text/,
    'context_length',
  ],
  [/content filter|usage polic/, 'content_blocked'],
]

/** The failure for an answer with an error status. */
export const httpFailure: HttpFailure = (fail, { status, headers }, body) =>
  toFailure(fail, tryParse(body)?.error, status, headers)

/** The failure for an error event in a stream. */
export function inbandFailure(fail: Host['fail'], error: unknown): Error {
  return toFailure(fail, error, 200, {})
}

function toFailure(fail: Host['fail'], error: any, status: number, headers: Headers): Error {
  const type: unknown = error?.type
  const message = typeof error?.message === 'string' ? error.message : ''
  const failure = classify(type, status, message.toLowerCase())
  const name = TYPES.has(type) || type === 'invalid_request_error' ? `, ${String(type)}` : ''
  const cause = new Error(`HTTP ${status}${name}`)
  if (failure === 'bad_request') {
    return fail(failure, clean(message, PRIVATE), { cause })
  }
  // Its numbers are for the client.
  if (failure === 'context_length') return fail(failure, clean(message, PRIVATE), { cause })
  const limited = failure === 'upstream_rate' || failure === 'overloaded'
  const retryAfterMs = limited ? waitIn(headers) : 0
  return fail(failure, undefined, { ...(retryAfterMs > 0 ? { retryAfterMs } : {}), cause })
}

function classify(type: unknown, status: number, text: string): FailureClass {
  const named = TYPES.get(type)
  if (named) return named
  const invalid = type === 'invalid_request_error' || STATUSES.get(status) === 'bad_request'
  if (!invalid) return STATUSES.get(status) ?? 'upstream_error'
  return BY_MESSAGE.find(([says]) => says.test(text))?.[1] ?? 'bad_request'
}

/** Milliseconds to wait, from `retry-after` or else from the reset time of an exhausted rate limit. */
function waitIn(headers: Headers): number {
  const { 'retry-after': after = '' } = headers
  const seconds = Number(after || NaN)
  if (seconds >= 0) return Math.ceil(seconds * 1000)
  const moments = Object.keys(headers)
    .filter((name) => name.endsWith('-remaining') && Number(headers[name]) === 0)
    .map((name) => Date.parse(headers[name.replace(/-remaining$/, '-reset')] ?? ''))
  const at = Math.max(...[Date.parse(after), ...moments].filter((moment) => moment > 0))
  return Number.isFinite(at) ? at - Date.now() : 0
}

/** Ids of requests, accounts, projects and files; keys. */
const PRIVATE = [
  /\bprojects?[/:_ ]\S*\d\S*/gi,
  /\b(?:sk|req|org|wrkspc|msgbatch|file)[-_][\w*-]+/g,
  /\b[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}\b/gi,
]
