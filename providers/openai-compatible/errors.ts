/** Maps the error bodies of all compatible vendors to failure classes, with messages for clients. */
import type { FailureClass, Host } from '../../src/plugin.ts'
import { clean } from '../shared/error-messages.ts'
import { textOf, tryParse, type HttpFailure } from '../shared/http.ts'
import { isError } from './members.ts'

/** The readable members of an error body. */
export interface Problem {
  readonly message: string
  readonly type: string
  readonly code: string
  readonly param: string | null
  /** HTTP status in the body, for errors under status 200; 0 when absent. */
  readonly status: number
  /** The vendor's moderation gave reasons. */
  readonly moderated: boolean
  /** Categories that a content filter found. */
  readonly filtered: readonly string[]
  /** Milliseconds to wait, as the body asks. */
  readonly retryAfterMs: number | undefined
}

type Headers = Readonly<Record<string, string>>

/** A failure and its class. */
export interface Failed {
  readonly failure: FailureClass
  readonly error: Error
}

/** The failure for an answer with an error status. */
export const httpFailure: HttpFailure = (fail, { status, headers }, body) =>
  toFailure(fail, problemOf(tryParse(body)), status, headers).error

/** The failure for an error in a started answer; undefined when the payload is not an error. */
export function inbandFailure(fail: Host['fail'], payload: any): Failed | undefined {
  if (!isError(payload)) return undefined
  const problem = problemOf(payload)
  return toFailure(fail, problem, problem.status, {})
}

/**
 * The failure for a problem.
 * @param status the status of the answer; 0 for an error in a started answer
 * @param own classes of codes that mean something else here than in {@link BY_CODE}
 */
export function toFailure(
  fail: Host['fail'],
  problem: Problem,
  status: number,
  headers: Headers,
  own?: ReadonlyMap<string, FailureClass>,
): Failed {
  const failure = classify(problem, status, own)
  return { failure, error: fail(failure, ...describe(failure, problem, status, headers)) }
}

/** The message for the client, and further properties of the failure. */
function describe(
  failure: FailureClass,
  problem: Problem,
  status: number,
  headers: Headers,
): [message: string | undefined, options: Parameters<Host['fail']>[2]] {
  const { message, type, code, filtered } = problem
  const cause = new Error([`HTTP ${status}`, named('type', type), named('code', code)].join(''))
  switch (failure) {
    case 'bad_request':
      return [clean(message), { ...clientCode(problem), param: paramOf(problem), cause }]
    case 'context_length':
      // Its numbers are for the client.
      return [clean(message), { cause }]
    case 'content_blocked':
      if (filtered.length === 0) return [undefined, { cause }]
      return [
        `The content filter of the model provider blocked this request. It found: ${filtered.join(', ')}.`,
        { cause },
      ]
    case 'upstream_rate':
    case 'overloaded': {
      const waitMs = retryAfter(headers) ?? problem.retryAfterMs ?? waitInText(message)
      return [
        undefined,
        { ...(waitMs !== undefined && { retryAfterMs: Math.ceil(waitMs) }), cause },
      ]
    }
    default:
      return [undefined, { cause }]
  }
}

/** Error codes and types that are more exact than the status. */
const BY_CODE: ReadonlyMap<string, FailureClass> = new Map(
  Object.entries({
    context_length: ['context_length_exceeded', 'exceed_context_size_error', '3051'],
    content_blocked: [
      'content_filter',
      'content_policy_violation',
      'image_content_policy_violation',
      'invalid_prompt',
      'cyber_policy',
      'bio_policy',
      'misalignment_policy_violation',
      'moderation_blocked',
      'data_inspection_failed',
      'responsibleaipolicyviolation',
    ],
    upstream_balance: [
      'insufficient_quota',
      'credit_balance_exhausted',
      'usage_not_included',
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
      'server_is_overloaded',
      'service_tier_capacity_exceeded',
      '3505',
      'slow_down',
      'unavailable_error',
    ],
    upstream_rate: ['rate_limit_exceeded', 'rate_limit_error', 'rate_limit_reached_error'],
    // The model wrote an invalid tool call, so another attempt may succeed.
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
/** A path that a vendor quotes, such as `/v1/moderations`, is no reason. */
const MODERATED = /moderat(?!ions\b)|flagged|safety_check|content (policy|filter)|usage guidelines/

function classify(
  problem: Problem,
  status: number,
  own?: ReadonlyMap<string, FailureClass>,
): FailureClass {
  const text = problem.message.toLowerCase()
  const code = problem.code.toLowerCase()
  const byCode = own?.get(code) ?? BY_CODE.get(code) ?? BY_CODE.get(problem.type.toLowerCase())
  // The request exceeds the rate limit of a whole minute, so waiting does not help.
  if ((status === 429 || byCode === 'upstream_rate') && text.includes('request too large')) {
    return 'bad_request'
  }
  if (byCode) return byCode
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

/** Error codes of the gateway's API that vendors use too. */
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

/** Vendors' codes with the same meaning as a code of the gateway's API. */
const CODE_ALIASES: ReadonlyMap<string, string> = new Map([
  ['unknown_parameter', 'unsupported_parameter'],
  ['invalid_image_file', 'invalid_image'],
  ['invalid_image_format', 'invalid_image'],
  ['invalid_base64_image', 'invalid_image'],
  ['image_parse_error', 'invalid_image'],
  ['empty_image_file', 'invalid_image'],
  ['unsupported_image_media_type', 'invalid_image'],
])

function clientCode({ code, param }: Problem): { code: string } | undefined {
  // The request is valid; another model may support this size.
  if (param === 'size' && code === 'invalid_value') return { code: 'unsupported_value' }
  const name = CODE_ALIASES.get(code) ?? code
  return CLIENT_CODES.has(name) ? { code: name } : undefined
}

function paramOf({ param }: Problem): string | null {
  return param !== null && /^[\w.[\]-]{1,128}$/.test(param) ? param : null
}

function named(what: string, value: string): string {
  return /^[\w.-]{1,64}$/.test(value) ? `, ${what} ${value}` : ''
}

/** Reads an error body of any known shape. */
export function problemOf(body: any): Problem {
  // Google's compatible API wraps the body in a list.
  const outer = (Array.isArray(body) ? body[0] : body) ?? {}
  const inner =
    typeof outer.error === 'string' ? { message: outer.error } : Object(outer.error ?? outer)
  const raw = inner.metadata?.raw
  // A reseller says "Provider returned error" and quotes the vendor's error.
  if (typeof raw === 'string' && raw.trimStart().startsWith('{')) {
    const origin = problemOf(tryParse(raw))
    if (origin.message) return { ...origin, status: origin.status || statusOf(inner) }
  }
  const [issue] = issuesOf(inner.message?.detail ?? inner.detail)
  const path = Array.isArray(issue?.loc) ? issue.loc.filter((part: unknown) => part !== 'body') : []
  const param = typeof inner.param === 'string' ? inner.param : path.join('.') || null
  const sentence = [inner.message, raw, inner.detail, inner.msg].find(
    (text) => typeof text === 'string' && text !== 'Provider returned error',
  )
  const message =
    sentence ?? (issue?.msg && path.length > 0 ? `${path.join('.')}: ${issue.msg}` : issue?.msg)
  return {
    message: typeof message === 'string' ? message : '',
    type: textOf(inner.type ?? inner.status),
    code: textOf(inner.code ?? outer.code),
    param,
    status: statusOf(inner),
    moderated: Array.isArray(inner.metadata?.reasons),
    filtered: filteredIn(inner.innererror?.content_filter_result),
    retryAfterMs: retryInfoDelay(inner.details),
  }
}

/** The categories that Azure's content filter blocked. */
function filteredIn(verdicts: any): string[] {
  return Object.keys(Object(verdicts)).filter(
    (category) => /^[\w-]{1,40}$/.test(category) && verdicts[category]?.filtered === true,
  )
}

function issuesOf(detail: unknown): any[] {
  return Array.isArray(detail) ? detail : []
}

function statusOf(error: any): number {
  for (const value of [error.status_code, error.code, error.raw_status_code]) {
    const status = typeof value === 'string' || typeof value === 'number' ? Number(value) : NaN
    if (Number.isInteger(status) && status >= 400 && status < 600) return status
  }
  return 0
}

// Reads how long a vendor asks to wait, from headers, error details or the error message.

/** Milliseconds of Google's `RetryInfo` in the details of an error. */
function retryInfoDelay(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined
  const delay = details.find((detail) => typeof detail?.retryDelay === 'string')?.retryDelay
  return delay === undefined ? undefined : waitMs(delay)
}

/** Milliseconds that the headers ask to wait. */
function retryAfter(headers: Readonly<Record<string, string>>): number | undefined {
  const exactMs = Number(headers['retry-after-ms'])
  if (exactMs > 0) return exactMs
  const wait = headers['retry-after'] && waitMs(headers['retry-after'])
  if (wait) return wait
  const waits: number[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (!/ratelimit.*-reset/.test(name)) continue
    // A rate limit that is not exhausted did not cause the error.
    if (Number(headers[name.replace('-reset', '-remaining')]) > 0) continue
    const ms = waitMs(value)
    if (ms) waits.push(ms)
  }
  return waits.length > 0 ? Math.max(...waits) : undefined
}

/** Milliseconds that an error message asks to wait. */
function waitInText(message: string): number | undefined {
  const [, wait] = /(?:try again|retry) (?:in|after) (\d[\d.hms]*)/i.exec(message) ?? []
  return wait === undefined ? undefined : waitMs(wait.replace(/\.$/, ''))
}

const UNITS_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/**
 * Milliseconds from now for seconds (`2`), a duration (`2m59.56s`, `120ms`), a Unix time in seconds or milliseconds, or
 * a date.
 */
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
