/** Failures at an upstream: the effect of each class on the client and on routing. */
import type { FailureClass } from '../plugin.ts'
import { GatewayError, retryHeaders, secondsOf } from './gateway-error.ts'

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
  readonly code?: string
  readonly param?: string | null
  /** Wait that the vendor requested, ms. */
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
  /** Whether the gateway could not send the request: this does not count against the health of the deployment. */
  readonly unasked?: boolean
  /** The message before it was replaced by the gateway's own. */
  readonly said?: string
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

  set retryAfterMs(given: number | undefined) {
    const ms = Number.isFinite(given) && given! >= 0 ? given : undefined
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

  /** The message for a request to something else than a model. @param subject such as `The search engine` */
  messageOf(subject: string): string {
    return this.message.replace(/^The model provider\b/, subject)
  }

  /** The message before {@link withOwnWords}, for the operator. */
  get said(): string {
    return this.#options.said ?? this.message
  }

  /** The same failure in the gateway's own words: vendors quote what they were sent. */
  withOwnWords(): UpstreamFailure {
    const message = REASONING_REFUSED.test(this.message)
      ? 'The model provider has found an invalid signature in thinking block.'
      : SENTENCES[this.failure]
    // A path can quote too.
    const param = FAILURES[this.failure].param ?? null
    return new UpstreamFailure(this.failure, message, { ...this.#options, param, said: this.said })
  }

  static override is(error: unknown): error is UpstreamFailure {
    return GatewayError.is(error) && 'failure' in error
  }
}

/** The vendor sent no answer, or an impossible one. */
export function brokenAnswer(message: string, cause?: unknown): UpstreamFailure {
  return new UpstreamFailure('upstream_error', message, { cause })
}
