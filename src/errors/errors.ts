/**
 * Everything that can go wrong, in the form a client sees it: status, code, type, param, headers.
 * The catalogue is section 2.2 of the wire contract; the classes only group its rows.
 */
import { costJson, type Bill } from '../money/money.ts'
import type { FailureClass } from '../plugin.ts'

const BRAND = Symbol.for('gateway.error')

export interface ErrorOptions {
  readonly param?: string | null
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** `{"error": {...}}`: the body of every non-2xx answer, and of an error after a stream's head. */
export interface ErrorBody {
  error: { message: string; type: string; code: string; param: string | null; usage?: object }
}

export class GatewayError extends Error {
  readonly status: number
  readonly code: string
  readonly type: string
  readonly param: string | null
  readonly headers: Readonly<Record<string, string>>
  /** What the failed call was charged, with the quantities in the form of the endpoint's `usage`. */
  charged?: { readonly bill: Bill; readonly usage: object }

  constructor(
    status: number,
    type: string,
    code: string,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.status = status
    this.type = type
    this.code = code
    this.param = options.param ?? null
    this.headers = options.headers ?? {}
  }

  get [BRAND](): true {
    return true
  }

  /** By brand, not by class: a plugin may carry another copy of this module. */
  static is(error: unknown): error is GatewayError {
    return typeof error === 'object' && error !== null && BRAND in error
  }
}

const INVALID_STATUS = {
  unsupported_content_type: 415,
  unsupported_content_encoding: 415,
  request_too_large: 413,
  file_too_large: 413,
  request_timeout: 408,
  method_not_allowed: 405,
} as const

export type InvalidCode =
  | keyof typeof INVALID_STATUS
  | 'invalid_json'
  | 'invalid_multipart'
  | 'missing_required_parameter'
  | 'invalid_type'
  | 'invalid_value'
  | 'empty_array'
  | 'empty_string'
  | 'string_above_max_length'
  | 'array_above_max_length'
  | 'integer_below_min_value'
  | 'integer_above_max_value'
  | 'decimal_below_min_value'
  | 'decimal_above_max_value'
  | 'unsupported_value'
  | 'unsupported_parameter'
  | 'wrong_endpoint'
  | 'references_not_supported'
  | 'invalid_base64'
  | 'invalid_image'
  | 'invalid_audio'
  | 'invalid_document'
  | 'fetch_failed'
  | 'invalid_policy'

/** The client sent something that cannot be served: 400, 405, 408, 413 or 415. */
export class InvalidRequest extends GatewayError {
  constructor(code: InvalidCode, message: string, options: ErrorOptions = {}) {
    const status = (INVALID_STATUS as Record<string, number>)[code] ?? 400
    super(status, 'invalid_request_error', code, message, options)
  }
}

/** 400 `policy_violation`: the key's own guard said no, in error form. The one failure that is charged. */
export class PolicyViolation extends GatewayError {
  constructor(message: string) {
    super(400, 'invalid_request_error', 'policy_violation', message)
  }
}

/** 401: no key, or none that is good. One code for all of these (wire contract, D5). */
export class Unauthenticated extends GatewayError {
  constructor(message: string) {
    const headers = { 'www-authenticate': 'Bearer' }
    super(401, 'invalid_request_error', 'invalid_api_key', message, { headers })
  }
}

/** 402: the account's settled balance is zero or below. */
export class PaymentRequired extends GatewayError {
  constructor(message: string) {
    super(402, 'insufficient_quota', 'insufficient_credits', message)
  }
}

/** 403: a spend cap is reached, or the model is not for this key. */
export class Forbidden extends GatewayError {
  constructor(code: 'key_limit_exceeded' | 'model_not_allowed', message: string) {
    if (code === 'key_limit_exceeded') super(403, 'insufficient_quota', code, message)
    else super(403, 'invalid_request_error', code, message, { param: 'model' })
  }
}

/** 404: no such route, model, or (admin only) record. */
export class NotFound extends GatewayError {
  constructor(code: 'model_not_found' | 'unknown_url' | 'not_found', message: string) {
    const param = code === 'model_not_found' ? 'model' : null
    super(404, 'invalid_request_error', code, message, { param })
  }
}

/**
 * 429. The wait becomes the retry headers and the sentence clients match on (wire contract, 2.4): exact for short waits,
 * "do not retry" for waits above a minute, spread over a second where a slot or held money has to come free.
 */
export class TooManyRequests extends GatewayError {
  constructor(code: 'rate_limited', reason: string, retryAfterMs: number)
  constructor(code: 'too_many_concurrent', reason: string)
  constructor(code: 'rate_limited' | 'too_many_concurrent', reason: string, retryAfterMs?: number) {
    const ms = Math.max(1, Math.ceil(retryAfterMs ?? 500 + Math.random() * 1000))
    const seconds = retryAfterMs === undefined ? 1 : Math.max(1, Math.ceil(ms / 1000))
    const headers: Record<string, string> =
      seconds <= 60
        ? { 'retry-after': String(seconds), 'retry-after-ms': String(ms) }
        : { 'retry-after': String(seconds), 'x-should-retry': 'false' }
    super(429, 'requests', code, `${reason} Try again in ${seconds}s.`, { headers })
  }
}

/** 503: we cannot serve now. `Retry-After` in seconds is always there. */
export class Unavailable extends GatewayError {
  constructor(
    code: 'service_unavailable' | 'guard_unavailable',
    message: string,
    options: ErrorOptions & { readonly retryAfterSeconds?: number } = {},
  ) {
    const seconds = options.retryAfterSeconds ?? (code === 'guard_unavailable' ? 5 : 1)
    const headers = { 'retry-after': String(Math.min(30, Math.max(1, Math.ceil(seconds)))) }
    super(503, 'server_error', code, message, { ...options, headers })
  }
}

/** 500. The message is fixed; the cause goes to the log and nowhere else. */
export class InternalError extends GatewayError {
  constructor(cause: unknown) {
    const message = 'The gateway failed to process this request. The error has been logged.'
    super(500, 'server_error', 'internal_error', message, { cause })
  }
}

interface FailureRow {
  readonly status: number
  readonly type: string
  readonly code: string
  /** Whether another deployment may be asked instead (provider contract, section 4). */
  readonly failover: boolean
  /** Whether the deployment itself is to blame, so that it counts against its health. */
  readonly unhealthy: boolean
  readonly param?: string
}

const invalid = (status: number, code: string, param?: string): FailureRow => ({
  status,
  type: 'invalid_request_error',
  code,
  failover: false,
  unhealthy: false,
  ...(param === undefined ? {} : { param }),
})
const server = (status: number, code: string): FailureRow => ({
  status,
  type: 'server_error',
  code,
  failover: true,
  unhealthy: true,
})

const FAILURES: Readonly<Record<FailureClass, FailureRow>> = {
  bad_request: invalid(400, 'upstream_rejected'),
  context_length: invalid(400, 'context_length_exceeded', 'messages'),
  content_blocked: invalid(400, 'content_policy_violation', 'messages'),
  payload_too_large: invalid(413, 'request_too_large'),
  not_found: server(502, 'upstream_error'),
  upstream_auth: server(502, 'upstream_error'),
  upstream_balance: server(502, 'upstream_error'),
  upstream_error: server(502, 'upstream_error'),
  upstream_rate: server(503, 'provider_overloaded'),
  overloaded: server(503, 'provider_overloaded'),
  timeout: server(504, 'upstream_timeout'),
}

export interface FailureOptions {
  /** The OpenAI error code where the vendor gave a precise one for the client's fault. */
  readonly code?: string
  readonly param?: string | null
  /** How long the vendor asked us to wait. */
  readonly retryAfterMs?: number
  readonly cause?: unknown
}

/**
 * A vendor did not answer as hoped. The class is the plugin's judgement; status, code, fail-over and retry headers
 * follow from it. The message is written for the client: never a vendor's raw body.
 */
export class UpstreamFailure extends GatewayError {
  readonly failure: FailureClass
  readonly retryAfterMs: number | undefined
  readonly failover: boolean
  readonly unhealthy: boolean
  readonly #options: FailureOptions

  constructor(failure: FailureClass, message: string, options: FailureOptions = {}) {
    const row = FAILURES[failure]
    super(row.status, row.type, options.code ?? row.code, message, {
      param: options.param === undefined ? (row.param ?? null) : options.param,
      cause: options.cause,
      headers: retryHeaders(row.status, options.retryAfterMs),
    })
    this.failure = failure
    this.retryAfterMs = options.retryAfterMs
    this.failover = row.failover
    this.unhealthy = row.unhealthy
    this.#options = options
  }

  /**
   * The same where what was asked is not `messages`. @param param the field that holds it; a plugin that named another one
   * knew better
   */
  about(param: string | null): UpstreamFailure {
    if (this.param === null || this.#options.param !== undefined) return this
    return new UpstreamFailure(this.failure, this.message, { ...this.#options, param })
  }

  static override is(error: unknown): error is UpstreamFailure {
    return GatewayError.is(error) && 'failure' in error
  }
}

/** One thing that is wrong with the configuration. */
export interface ConfigIssue {
  /** Dotted path of the member, such as `providers.openai.options.apiKey`. */
  readonly path: string
  /** What was expected and what was found. */
  readonly message: string
}

/** Start-up and reload only: the configuration, or a plugin it names, cannot be used. */
export class ConfigError extends Error {
  readonly issues: readonly ConfigIssue[]
  /** @param source the file, as the operator named it */
  constructor(source: string, issues: readonly ConfigIssue[]) {
    const width = Math.max(...issues.map((issue) => issue.path.length))
    const lines = issues.map((issue) => `  ${issue.path.padEnd(width)}  ${issue.message}`)
    super(`${source} is not valid:\n${lines.join('\n')}`)
    this.name = 'ConfigError'
    this.issues = issues
  }
}

/** Anything that was thrown, as a GatewayError; what we did not foresee becomes a 500 that says nothing. */
export function toGatewayError(error: unknown): GatewayError {
  return GatewayError.is(error) ? error : new InternalError(error)
}

/** The body a client gets. */
export function toErrorBody(error: GatewayError): ErrorBody {
  const { message, type, code, param, charged } = error
  const body: ErrorBody = { error: { message, type, code, param } }
  if (charged) body.error.usage = { ...charged.usage, ...costJson(charged.bill) }
  return body
}

function retryHeaders(status: number, retryAfterMs = 1000): Record<string, string> {
  if (status === 504) return { 'x-should-retry': 'false' }
  if (status !== 503) return {}
  return { 'retry-after': String(Math.min(30, Math.max(1, Math.ceil(retryAfterMs / 1000)))) }
}
