/**
 * From the many shapes of a vendor's "no" to one of the gateway's failure classes, with a sentence of our own
 * (provider contract, section 4).
 */
import type { FailureClass, Host } from '../../src/plugin.ts'

/** What could be read of a vendor's error. */
interface Problem {
  readonly message: string
  readonly type: string
  readonly code: string
  readonly param: string | null
  /** An HTTP status the body speaks of, for errors that come under 200. */
  readonly status: number
  /** A vendor's moderation gave its reasons. */
  readonly moderated: boolean
  /** ms, where the body asks for a wait. */
  readonly retryAfterMs: number | undefined
}

type Headers = Readonly<Record<string, string>>

/** The failure for an answer with an error status. `body` may be JSON of any shape, HTML or nothing. */
export function httpFailure(fail: Host['fail'], status: number, headers: Headers, body: string) {
  return toFailure(fail, problemOf(parse(body)), status, headers)
}

/**
 * The failure for an error inside an answer that began well: `{"error": …}`, alone or beside choices, or an error
 * object without a wrapper. Undefined when the payload is none.
 */
export function inbandFailure(fail: Host['fail'], payload: any): Error | undefined {
  const bare = !Array.isArray(payload.choices) && (payload.message ?? payload.detail) !== undefined
  if (!payload.error && payload.object !== 'error' && !bare) return undefined
  const problem = problemOf(payload)
  return toFailure(fail, problem, problem.status, {})
}

function toFailure(fail: Host['fail'], problem: Problem, status: number, headers: Headers): Error {
  const failure = classify(problem, status)
  const cause = new Error(
    [`HTTP ${status}`, named('type', problem.type), named('code', problem.code)].join(''),
  )
  if (failure === 'bad_request') {
    const message = clean(problem.message) || SENTENCES.bad_request
    const code = CLIENT_CODES.has(problem.code) ? { code: problem.code } : {}
    return fail(failure, message, { ...code, param: paramOf(problem), cause })
  }
  if (failure !== 'upstream_rate' && failure !== 'overloaded') {
    return fail(failure, SENTENCES[failure], { cause })
  }
  const retryAfterMs = retryAfter(headers) ?? problem.retryAfterMs ?? waitInText(problem.message)
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs: Math.ceil(retryAfterMs) }
  return fail(failure, SENTENCES[failure], { ...wait, cause })
}

const SENTENCES: Readonly<Record<FailureClass, string>> = {
  bad_request: 'The model provider refused the request.',
  context_length: 'The messages are too long for the context window of this model.',
  content_blocked: 'The content filter of the model provider blocked this request.',
  payload_too_large: 'The request is too large for the model provider.',
  not_found: 'The model provider does not have this model at the moment.',
  upstream_auth: 'The model provider did not accept the credentials of the gateway.',
  upstream_balance: 'The model provider does not serve the gateway at the moment.',
  upstream_rate: 'The model provider is limiting requests at the moment.',
  overloaded: 'The model provider is overloaded at the moment.',
  upstream_error: 'The model provider failed to answer.',
  timeout: 'The model provider did not answer in time.',
}

/** Codes and types that say what happened better than the status does. */
const TELLING: ReadonlyMap<string, FailureClass> = new Map(
  Object.entries({
    context_length: ['context_length_exceeded', 'exceed_context_size_error', '3051'],
    content_blocked: [
      'content_filter',
      'content_policy_violation',
      'moderation_blocked',
      'data_inspection_failed',
      'responsibleaipolicyviolation',
    ],
    upstream_balance: [
      'insufficient_quota',
      'insufficient_balance',
      'billing_hard_limit_reached',
      'exceeded_current_quota_error',
      'quota_exceeded',
      'arrearage',
    ],
    upstream_auth: ['invalid_api_key', 'invalid_authentication_error', 'authentication_error'],
    not_found: ['model_not_found', 'invalid_model', 'deploymentnotfound'],
    overloaded: [
      'overloaded_error',
      'engine_overloaded_error',
      'service_tier_capacity_exceeded',
      '3505',
      'slow_down',
      'unavailable_error',
    ],
    upstream_rate: ['rate_limit_exceeded', 'rate_limit_error', 'rate_limit_reached_error'],
    // The model wrote a call that does not fit the tool: its fault, and worth another try.
    upstream_error: ['tool_use_failed'],
  } satisfies Partial<Record<FailureClass, string[]>>).flatMap(([failure, names]) =>
    names.map((name) => [name, failure as FailureClass] as const),
  ),
)

const CONTEXT =
  /context (length|window|size)|maximum (context|prompt) length|prompt is too long|input is too long|too many tokens/
const BAD_KEY = /(incorrect|invalid|missing|no|wrong) api.?key|api key not valid/
const NO_MONEY =
  /insufficient (balance|credit|fund)|(used all|any|out of|no)\b.{0,24}\bcredits|spending limit/
const NO_MODEL = /\bmodel\b.{0,80}(does not exist|not exist|not found)|unknown model/
const MODERATED = /moderat|flagged|safety_check|content (policy|filter)|usage guidelines/

function classify(problem: Problem, status: number): FailureClass {
  const text = problem.message.toLowerCase()
  const told = TELLING.get(problem.code.toLowerCase()) ?? TELLING.get(problem.type.toLowerCase())
  // One request above the whole allowance of a minute: waiting does not help.
  if (status === 429 && text.includes('request too large')) return 'bad_request'
  if (told) return told
  if (status === 402 || (status < 500 && NO_MONEY.test(text))) return 'upstream_balance'
  if (
    status === 403 &&
    (problem.moderated || MODERATED.test(`${problem.type} ${text}`.toLowerCase()))
  )
    return 'content_blocked'
  if (status === 401 || status === 403) return 'upstream_auth'
  if (status === 404 || status === 410) return 'not_found'
  if (status === 408) return 'timeout'
  if (status === 429) return 'upstream_rate'
  if (status === 498 || status === 503 || status === 529) return 'overloaded'
  if (status >= 500 || (status >= 300 && status < 400)) return 'upstream_error'
  if (CONTEXT.test(text)) return 'context_length'
  if (status === 413) return 'payload_too_large'
  if (status === 400 && BAD_KEY.test(text)) return 'upstream_auth'
  if (status === 400 && NO_MODEL.test(text)) return 'not_found'
  if (status === 400 || status === 422) return 'bad_request'
  return /invalid_request|badrequest/.test(problem.type.toLowerCase())
    ? 'bad_request'
    : 'upstream_error'
}

/** Codes of the wire contract (2.2) that a vendor may speak in. */
const CLIENT_CODES: ReadonlySet<string> = new Set([
  'missing_required_parameter',
  'invalid_type',
  'invalid_value',
  'empty_array',
  'empty_string',
  'string_above_max_length',
  'array_above_max_length',
  'integer_below_min_value',
  'integer_above_max_value',
  'decimal_below_min_value',
  'decimal_above_max_value',
  'unsupported_value',
  'unsupported_parameter',
  'invalid_base64',
  'invalid_image',
  'invalid_audio',
  'invalid_document',
])

const MAX_MESSAGE_CHARACTERS = 500
/** Who the operator is, where things are, and whatever looks like a secret. */
const PRIVATE = [
  /https?:\/\/\S+/gi,
  /\barn:\S+/gi,
  /\S+@\S+\.\w+/g,
  /\b(?:org|proj|user|acct|team|req|gen|chatcmpl)[-_](?=[\w-]*[\dA-Z])[\w-]+/g,
  /\b(?:sk|pk|gsk|xai|pplx|csk|nvapi|hf)[-_][\w*-]+/g,
  /\S*\*{3,}\S*/g,
  /\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g,
  /(?=[\w+/=-]*\d)[\w+/=-]{32,}/g,
]

/** A vendor's sentence without what is nobody's business, at most 500 characters. */
function clean(message: string): string {
  let text = message.slice(0, MAX_MESSAGE_CHARACTERS * 4)
  for (const pattern of PRIVATE) text = text.replace(pattern, '[…]')
  const characters = [...text.replace(/\s+/g, ' ').trim()]
  if (characters.length <= MAX_MESSAGE_CHARACTERS) return characters.join('')
  return `${characters.slice(0, MAX_MESSAGE_CHARACTERS - 1).join('')}…`
}

function paramOf({ param }: Problem): string | null {
  return param !== null && /^[\w.[\]-]{1,128}$/.test(param) ? param : null
}

function named(what: string, value: string): string {
  return /^[\w.-]{1,64}$/.test(value) ? `, ${what} ${value}` : ''
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

/** Reads every shape of error body that is known of these vendors. */
function problemOf(body: any): Problem {
  // Google's compatible surface wraps the body in a list.
  const outer = (Array.isArray(body) ? body[0] : body) ?? {}
  const inner =
    typeof outer.error === 'string' ? { message: outer.error } : Object(outer.error ?? outer)
  const raw = inner.metadata?.raw
  // A reseller's "Provider returned error": what the vendor said is inside.
  if (typeof raw === 'string' && raw.trimStart().startsWith('{')) {
    const origin = problemOf(parse(raw))
    if (origin.message) return { ...origin, status: origin.status || statusOf(inner) }
  }
  const [issue] = issuesOf(inner.message?.detail ?? inner.detail)
  const path = Array.isArray(issue?.loc) ? issue.loc.filter((part: unknown) => part !== 'body') : []
  const param = typeof inner.param === 'string' ? inner.param : path.join('.') || null
  const said = [inner.message, raw, inner.detail, inner.msg].find(
    (text) => typeof text === 'string' && text !== 'Provider returned error',
  )
  const message =
    said ?? (issue?.msg && path.length > 0 ? `${path.join('.')}: ${issue.msg}` : issue?.msg)
  return {
    message: typeof message === 'string' ? message : '',
    type: text(inner.type ?? inner.status),
    code: text(inner.code ?? outer.code),
    param,
    status: statusOf(inner),
    moderated: Array.isArray(inner.metadata?.reasons),
    retryAfterMs: delayOf(inner.details),
  }
}

function issuesOf(detail: unknown): any[] {
  return Array.isArray(detail) ? detail : []
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

function statusOf(error: any): number {
  for (const value of [error.status_code, error.code, error.raw_status_code]) {
    const status = Number(value)
    if (Number.isInteger(status) && status >= 400 && status < 600) return status
  }
  return 0
}

/** Google's `RetryInfo`. */
function delayOf(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined
  const delay = details.find((detail) => typeof detail?.retryDelay === 'string')?.retryDelay
  return delay === undefined ? undefined : waitMs(delay)
}

/** ms that the headers ask to wait. */
function retryAfter(headers: Headers): number | undefined {
  const exactMs = Number(headers['retry-after-ms'])
  if (exactMs > 0) return exactMs
  const wait = headers['retry-after'] && waitMs(headers['retry-after'])
  if (wait) return wait
  const waits: number[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (!/ratelimit.*-reset/.test(name)) continue
    // An allowance that is not used up has nothing to do with this refusal.
    if (Number(headers[name.replace('-reset', '-remaining')]) > 0) continue
    const ms = waitMs(value)
    if (ms) waits.push(ms)
  }
  return waits.length > 0 ? Math.max(...waits) : undefined
}

function waitInText(message: string): number | undefined {
  const [, wait] = /(?:try again|retry) (?:in|after) (\d[\d.hms]*)/i.exec(message) ?? []
  return wait === undefined ? undefined : waitMs(wait.replace(/\.$/, ''))
}

const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** Seconds (`2`), a duration (`2m59.56s`, `120ms`), an epoch (s or ms) or a date, as ms from now. */
function waitMs(value: string): number | undefined {
  const number = Number(value)
  if (Number.isFinite(number)) {
    const ms =
      number > 1e12
        ? number - Date.now()
        : number > 1e9
          ? number * 1000 - Date.now()
          : number * 1000
    return ms > 0 ? ms : undefined
  }
  if (/^(?:\d+(?:\.\d+)?(?:ms|[hms]))+$/.test(value)) {
    let ms = 0
    for (const [, amount, unit] of value.matchAll(/(\d+(?:\.\d+)?)(ms|[hms])/g)) {
      ms += Number(amount) * UNITS_MS[unit!]!
    }
    return ms
  }
  const ms = Date.parse(value) - Date.now()
  return ms > 0 ? ms : undefined
}
