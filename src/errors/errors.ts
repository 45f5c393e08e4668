/**
 * Every error that a client can receive: status, code, type, param and headers. Each class stands for one kind of status.
 * Failures at an upstream are in `upstream-failure.ts`, mistakes in a configuration in `startup.ts`.
 */
import {
  GatewayError,
  MAX_WAIT_SECONDS,
  retryHeaders,
  secondsOf,
  type ErrorBody,
  type ErrorOptions,
} from './gateway-error.ts'

export { GatewayError, type ErrorBody } from './gateway-error.ts'
export { ConfigError, LostState, UnbookedSettlements, type ConfigIssue } from './startup.ts'
export { brokenAnswer, FAILURE_CLASSES, UpstreamFailure } from './upstream-failure.ts'

/** Statuses of the codes that are not a 400. */
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
  | 'range_too_large'
  | 'invalid_policy'

/** 400, 405, 408, 413 or 415: the client has to change its request. */
export class InvalidRequest extends GatewayError {
  constructor(code: InvalidCode, message: string, options: ErrorOptions = {}) {
    const status = (INVALID_STATUS as Record<string, number>)[code] ?? 400
    super(status, 'invalid_request_error', code, message, options)
  }
}

/**
 * 400 `policy_violation`: a guard blocked the request and the policy asks for an error instead of a refusal text. Such a call
 * is charged for its guards.
 */
export class PolicyViolation extends GatewayError {
  constructor(message: string) {
    super(400, 'invalid_request_error', 'policy_violation', message)
  }
}

/** 401: the key is missing, malformed, unknown, disabled or expired. OpenAI has one code for all of these. */
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

/** 403: a spend cap of the key is reached, the key may not use the model, or, in the admin API, the role of a token is too low. */
export class Forbidden extends GatewayError {
  constructor(code: 'key_limit_exceeded' | 'model_not_allowed' | 'forbidden', message: string) {
    if (code === 'key_limit_exceeded') super(403, 'insufficient_quota', code, message)
    else {
      const param = code === 'model_not_allowed' ? 'model' : null
      super(403, 'invalid_request_error', code, message, { param })
    }
  }
}

/** 404: there is no such route, model or, in the admin API, record. */
export class NotFound extends GatewayError {
  constructor(code: 'model_not_found' | 'unknown_url' | 'not_found', message: string) {
    const param = code === 'model_not_found' ? 'model' : null
    super(404, 'invalid_request_error', code, message, { param })
  }
}

/** 409: a file that the admin API would have to change cannot be written. */
export class ReadOnly extends GatewayError {
  constructor(message: string) {
    super(409, 'invalid_request_error', 'read_only', message)
  }
}

/** 409: the reference of a credit or a correction was booked with another amount. */
export class ReferenceTaken extends GatewayError {
  constructor(message: string) {
    super(409, 'invalid_request_error', 'reference_taken', message, { param: 'reference' })
  }
}

/** 412: an object of the admin API was changed since the client read it. */
export class RevisionChanged extends GatewayError {
  /** The present object. */
  readonly current: { readonly id: string; readonly revision: number }

  constructor(current: RevisionChanged['current']) {
    const message = `It was changed meanwhile: its revision is ${current.revision}. Read it, and repeat the change with that revision.`
    super(412, 'invalid_request_error', 'revision_changed', message)
    this.current = current
  }
}

/**
 * 429. The wait is in the retry headers and at the end of the message, where clients look for it. It is exact up to a minute;
 * above that clients are told not to retry. Without a known wait (a slot or held money has to come free) clients are spread
 * over one second.
 */
export class TooManyRequests extends GatewayError {
  constructor(code: 'rate_limited', reason: string, retryAfterMs: number)
  constructor(code: 'too_many_concurrent', reason: string)
  constructor(code: 'rate_limited' | 'too_many_concurrent', reason: string, retryAfterMs?: number) {
    const ms = Math.max(1, Math.ceil(retryAfterMs ?? 500 + Math.random() * 1000))
    const seconds = secondsOf(retryAfterMs)
    const headers: Record<string, string> =
      seconds <= MAX_WAIT_SECONDS
        ? { 'retry-after': String(seconds), 'retry-after-ms': String(ms) }
        : { 'retry-after': String(seconds), 'x-should-retry': 'false' }
    super(429, 'requests', code, `${reason} Try again in ${seconds}s.`, { headers })
  }
}

/** 503: the gateway cannot serve the request now. `Retry-After` is always sent, 1 to 30 seconds. */
export class Unavailable extends GatewayError {
  constructor(
    code: 'service_unavailable' | 'guard_unavailable',
    message: string,
    options: ErrorOptions & { readonly retryAfterSeconds?: number } = {},
  ) {
    const seconds = options.retryAfterSeconds ?? (code === 'guard_unavailable' ? 5 : 1)
    const headers = retryHeaders(503, seconds * 1000)
    super(503, 'server_error', code, message, { ...options, headers })
  }
}

/** 503 of calls that cannot be written to the ledger: before they start, or instead of an answer that was not charged. */
export function cannotBook(cause?: unknown): Unavailable {
  const message = 'The gateway cannot write to its ledger right now. Try again later.'
  return new Unavailable('service_unavailable', message, { cause })
}

/** 500. The message is fixed; the cause only goes to the log. */
export class InternalError extends GatewayError {
  constructor(cause: unknown) {
    const message = 'The gateway failed to process this request. The error has been logged.'
    super(500, 'server_error', 'internal_error', message, { cause })
  }
}

/** Any thrown value as a GatewayError. An unknown one becomes a 500 that reveals nothing. */
export function toGatewayError(error: unknown): GatewayError {
  return GatewayError.is(error) ? error : new InternalError(error)
}

export function toErrorBody(error: GatewayError): ErrorBody {
  const { message, type, code, param } = error
  return { error: { message, type, code, param } }
}
