/**
 * Every error that a client can receive: status, code, type, param and headers. Each class stands for one kind of status.
 */

import type { Bill, UsageLine } from '../money/money.ts'
import type { FailureClass } from '../plugin.ts'

// The base of all errors that a client can receive, and the headers with the time to wait.

const BRAND = Symbol.for('gateway.error')

interface ErrorOptions {
  /** Path of the request field that the error is about; null when it is about no field. */
  readonly param?: string | null
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** `{"error": {...}}`: the body of every response above 299, and of an error event in a stream. */
export interface ErrorBody {
  error: { message: string; type: string; code: string; param: string | null; usage?: object }
}

/** An error as a client receives it. The message is written for the client; the cause only goes to the log. */
export class GatewayError extends Error {
  readonly status: number
  readonly code: string
  readonly type: string
  readonly param: string | null
  readonly headers: Readonly<Record<string, string>>
  /** The bill and the quantities of a failure for which the client is charged. */
  receipt?: { readonly bill: Bill; readonly meter: readonly UsageLine[] }

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

  /** Whether a value is a GatewayError. Tested by a brand and not by class: a plugin may bring its own copy of this module. */
  static is(error: unknown): error is GatewayError {
    return typeof error === 'object' && error !== null && BRAND in error
  }
}

/** Longest wait after which clients are told to ask again. */
const MAX_WAIT_SECONDS = 60

/** Whole seconds, at least 1. */
function secondsOf(ms = 1000): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

/** Headers that tell clients when to ask again. @param ms the wait, where one is known */
function retryHeaders(status: number, ms?: number): Record<string, string> {
  if (status === 504) return { 'x-should-retry': 'false' }
  const seconds = secondsOf(ms)
  if (status === 503) return { 'retry-after': String(Math.min(30, seconds)) }
  if (status !== 429) return {}
  const never = seconds > MAX_WAIT_SECONDS && { 'x-should-retry': 'false' }
  return { 'retry-after': String(seconds), ...never }
}

/** Statuses of the codes that are not a 400. */
const INVALID_STATUS = {
  unsupported_content_type: 415,
  unsupported_content_encoding: 415,
  request_too_large: 413,
  file_too_large: 413,
  request_timeout: 408,
  method_not_allowed: 405,
  idempotency_in_progress: 409,
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
  | 'idempotency_key_reused'
  | 'idempotency_answer_gone'

/** 400, 405, 408, 409, 413 or 415: the client has to change its request. */
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

/**
 * 401: the key is missing, malformed, unknown, disabled or expired. OpenAI has one code for all of these. `session_ended`: the
 * session of a cookie is over.
 */
export class Unauthenticated extends GatewayError {
  constructor(message: string, code: 'invalid_api_key' | 'session_ended' = 'invalid_api_key') {
    const headers = { 'www-authenticate': 'Bearer' }
    super(401, 'invalid_request_error', code, message, { headers })
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

/** 409: what is asked does not go with the way in which the caller has signed in, or with the state of the object. */
export class NotPossible extends GatewayError {
  constructor(message: string, code: NotPossibleCode = 'not_possible') {
    super(409, 'invalid_request_error', code, message)
  }
}

type NotPossibleCode =
  | 'not_possible'
  | 'not_available'
  | 'account_archived'
  | 'too_many_blocks'
  | 'nothing_to_refund'
  | 'refund_too_large'
  | 'already_refunded'
  | 'period_open'
  | 'period_empty'
  | 'earlier_month_open'
  | 'not_level'
  | 'not_newest'

/** 409: a file that the admin API would have to change cannot be written. */
export class ReadOnly extends GatewayError {
  constructor(message: string) {
    super(409, 'invalid_request_error', 'read_only', message)
  }
}

/** 409: the reference of a credit or a correction was booked with another amount, or that of a reset for another limit. */
export class ReferenceTaken extends GatewayError {
  constructor(message: string) {
    super(409, 'invalid_request_error', 'reference_taken', message, { param: 'reference' })
  }
}

/** 409: the ledger is not the one that was used until now, so nothing is booked; or it is another doubt than an operator has accepted. */
export class LedgerDoubted extends GatewayError {
  constructor(code: 'ledger_in_doubt' | 'state_changed', message: string) {
    super(409, 'invalid_request_error', code, message)
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

/** 503 of calls that the end of the process cuts off. */
export class ShuttingDown extends Unavailable {
  constructor() {
    super('service_unavailable', 'The gateway is shutting down.')
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

// Faults that keep a gateway from starting, or are reported at its end. No client receives these.

export interface ConfigIssue {
  /** Dotted path of the member, such as `providers.openai.options.apiKey`. */
  readonly path: string
  /** Expected and actual value. */
  readonly message: string
}

/** The configuration, or a plugin it names, cannot be used. Thrown at start-up and reload only, never to a client. */
export class ConfigError extends Error {
  readonly issues: readonly ConfigIssue[]
  /** @param source the file, as the operator named it @param issues one or more; the message lists them all */
  constructor(source: string, issues: readonly ConfigIssue[]) {
    const width = Math.max(...issues.map((issue) => issue.path.length))
    const lines = issues.map((issue) => `  ${issue.path.padEnd(width)}  ${issue.message}`)
    super(`${source} is not valid:\n${lines.join('\n')}`)
    this.name = 'ConfigError'
    this.issues = issues
  }
}

/** State is lost, damaged or not written down: an operator has to act before the next start. */
export class LostState extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'LostState'
  }
}

/** Settlements could not be booked before the gateway ended. The log has one line for each. */
export class UnbookedSettlements extends LostState {
  constructor(count: number) {
    const which = count === 1 ? '1 settlement' : `${count} settlements`
    super(`${which} could not be booked: see "settlement not booked" in the log`)
    this.name = 'UnbookedSettlements'
  }
}

// Failures at an upstream: the effect of each class on the client and on routing.

interface FailureRow {
  readonly status: number
  readonly type: string
  readonly code: string
  /** Whether another deployment may be tried. */
  readonly failover: boolean
  /** Whether the failure counts against the health of the deployment. */
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
  upstream_rate: { ...server(429, 'upstream_rate_limited'), type: 'requests' },
  overloaded: server(503, 'provider_overloaded'),
  timeout: server(504, 'upstream_timeout'),
}

/** Messages for clients, without the vendor's words. */
const SENTENCES: Readonly<Record<FailureClass, string>> = {
  bad_request: 'The model provider refused the request.',
  context_length: 'The messages are too long for the context window of this model.',
  content_blocked: 'The content filter of the model provider blocked this request.',
  payload_too_large: 'The request is too large for the model provider.',
  not_found: 'The model provider does not have this model at the moment.',
  upstream_auth: 'The model provider did not accept the credentials of the gateway.',
  upstream_balance: 'The model provider does not serve the gateway at the moment.',
  upstream_rate:
    'The model provider limits this gateway at the moment; the limits of your key are not reached.',
  overloaded: 'The model provider is overloaded at the moment.',
  upstream_error: 'The model provider failed to answer.',
  timeout: 'The model provider did not answer in time.',
}

/** Words by which clients leave the reasoning out and ask again. */
const REASONING_REFUSED = /invalid\W+signature\W+in\W+thinking\W+block/i

export const FAILURE_CLASSES = Object.keys(FAILURES) as readonly FailureClass[]

interface FailureOptions {
  /** OpenAI's error code, where the vendor named a precise one for a fault of the client. */
  readonly code?: string | undefined
  readonly param?: string | null | undefined
  /** Wait that the vendor requested, ms. */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  /** Whether the gateway could not send the request: this does not count against the health of the deployment. */
  readonly unasked?: boolean
  /** The message before it was replaced by the gateway's own. */
  readonly originalMessage?: string
  /** The connection that failed, where no answer came. */
  readonly connection?: FailedConnection
}

/** Why no answer came, for the operator: never with a path, a query or user information. */
export interface FailedConnection {
  /** A code of Node.js, OpenSSL or undici; `PROXY_<status>` where a proxy refused the way. */
  readonly code: string
  /** The other side of the connection that failed: the proxy's, where the proxy cannot be reached. */
  readonly host: string
  readonly port: number
  /** The proxy, as `host:port`, where there is one. */
  readonly via?: string
  /** Whether the other side speaks TLS. */
  readonly secure?: boolean
}

const UNKNOWN_AUTHORITY = 'the certificate is of an authority that is not known: egress.tls.ca'
const CLOSED = 'the other side closed the connection'
const CONNECTION_WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'no such name',
  EAI_AGAIN: 'the name server does not answer',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time, a firewall perhaps',
  ETIMEDOUT: 'no connection in time, a firewall perhaps',
  EHOSTUNREACH: 'no way there',
  ENETUNREACH: 'no way there',
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  CERT_HAS_EXPIRED: 'the certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name',
  ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: 'it wants a client certificate: egress.tls.cert',
  ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE: 'it may want a client certificate: egress.tls.cert',
  ECONNRESET: CLOSED,
  UND_ERR_SOCKET: CLOSED,
}

/** A failed connection as the operator reads it, such as `ECONNREFUSED 10.0.0.1:443: nothing listens there`. */
export function connectionText({ code, host, port, via, secure }: FailedConnection): string {
  const status = /^PROXY_(\d+)$/.exec(code)?.[1]
  if (status !== undefined) {
    const example = `http://name:password@${via}`
    const advice = `: it wants a name and password in egress.proxy or HTTPS_PROXY, as in ${example}`
    // tinyproxy answers 401 where the name or the password is wrong.
    const isUnknown = status === '407' || status === '401'
    return `proxy ${via} refused the tunnel to ${host}:${port} with status ${status}${isUnknown ? advice : ''}`
  }
  const words = CONNECTION_WORDS[code]
  const isClosed = words === CLOSED && secure
  const advice = isClosed
    ? ' before it answered; if it wants a client certificate: egress.tls.cert'
    : ''
  return `${code} ${host}:${port}${words === undefined ? '' : `: ${words}${advice}`}`
}

/**
 * An upstream failed to answer. The plugin chooses the class; status, code, fail-over and retry headers follow from it. The
 * message is written for the client and is never a vendor's raw body.
 */
export class UpstreamFailure extends GatewayError {
  readonly failure: FailureClass
  readonly failover: boolean
  readonly unhealthy: boolean
  readonly unasked: boolean
  #options: FailureOptions

  /** @param message a sentence per class by default, also in place of an empty one */
  constructor(failure: FailureClass, message?: string, options: FailureOptions = {}) {
    const row = FAILURES[failure]
    super(row.status, row.type, options.code ?? row.code, message || SENTENCES[failure], {
      param: options.param === undefined ? (row.param ?? null) : options.param,
      cause: options.cause,
    })
    this.failure = failure
    this.failover = row.failover
    this.unasked = options.unasked ?? false
    this.unhealthy = row.unhealthy && !this.unasked
    this.#options = options
    this.retryAfterMs = options.retryAfterMs
  }

  /** Wait that the vendor requested, ms. A plugin may set it until it throws: message and headers follow. */
  get retryAfterMs(): number | undefined {
    return this.#options.retryAfterMs
  }

  set retryAfterMs(value: number | undefined) {
    const ms = Number.isFinite(value) && value! >= 0 ? value : undefined
    this.#options = { ...this.#options, retryAfterMs: ms }
    Object.assign(this, { headers: retryHeaders(this.status, ms) })
    // Clients decide by these words whether they ask again, so they replace a vendor's own.
    if (this.failure === 'upstream_rate')
      this.message = `${SENTENCES.upstream_rate} Try again in ${secondsOf(ms)}s.`
  }

  /**
   * The same failure with the endpoint's own prompt field in place of `messages`. A field that the plugin named stays.
   * @param param the field that holds the prompt; null for an endpoint without one
   */
  about(param: string | null): UpstreamFailure {
    if (this.param === null || this.#options.param !== undefined) return this
    return new UpstreamFailure(this.failure, this.message, { ...this.#options, param })
  }

  /** The same failure with texts that `clean` has processed: a vendor may quote the operator's key. */
  cleaned(clean: (text: string) => string): UpstreamFailure {
    const { code, param } = this.#options
    const message = clean(this.message)
    const options = {
      ...this.#options,
      ...(code !== undefined && { code: clean(code) }),
      ...(typeof param === 'string' && { param: clean(param) }),
    }
    const same = message === this.message && options.code === code && options.param === param
    return same ? this : new UpstreamFailure(this.failure, message, options)
  }

  /** The connection that failed, where no answer came. */
  get connection(): FailedConnection | undefined {
    return this.#options.connection
  }

  /** The message for a request to something else than a model. @param subject the subject, such as `The search engine` */
  messageOf(subject: string): string {
    return this.message.replace(/^The model provider\b/, subject)
  }

  /** The gateway's own sentence for this failure. */
  get ownWords(): string {
    return SENTENCES[this.failure]
  }

  /** The message before {@link withOwnWords}, for the operator. */
  get originalMessage(): string {
    return this.#options.originalMessage ?? this.message
  }

  /** The same failure in the gateway's own words: vendors quote what they were sent. */
  withOwnWords(): UpstreamFailure {
    const message = REASONING_REFUSED.test(this.message)
      ? 'The model provider has found an invalid signature in thinking block.'
      : SENTENCES[this.failure]
    // A path can quote too.
    const param = FAILURES[this.failure].param ?? null
    return new UpstreamFailure(this.failure, message, {
      ...this.#options,
      param,
      originalMessage: this.originalMessage,
    })
  }

  static override is(error: unknown): error is UpstreamFailure {
    return GatewayError.is(error) && 'failure' in error
  }
}

/** The vendor sent no answer, or an impossible one. */
export function brokenAnswer(message: string, cause?: unknown): UpstreamFailure {
  return new UpstreamFailure('upstream_error', message, { cause })
}

/** A text as an item of a list in a header: visible ASCII, and UTF-8 in percent encoding for anything else. */
export function headerText(text: string): string {
  return text.toWellFormed().replace(/[^\x21-\x7e]|[,%]/gu, (sign) => encodeURIComponent(sign))
}
