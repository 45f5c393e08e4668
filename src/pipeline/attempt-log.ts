/** Log events of an attempt at a deployment that failed, or that has recovered it. */
import type { SentRequest } from '../lifetime/scope.ts'
import { connectionText, UpstreamFailure } from '../errors/errors.ts'
import { maskedAddress } from '../errors/issues.ts'
import type { Deployment } from '../models/catalog.ts'
import { concernsOperator } from '../models/routing.ts'
import { logEvent } from '../observe/events.ts'
import { scrub, vendorMessage } from '../observe/vendor-message.ts'
import type { Call } from './pipeline.ts'

/** The step after a failed attempt. */
export type NextStep = 'retry' | 'fail_over' | 'fall_back' | 'give_up'

/** An attempt that failed. */
export interface FailedAttempt {
  readonly failure: UpstreamFailure
  readonly deployment: Deployment
  /** Number of the attempt in its call, from 1. */
  readonly attempt: number
  /** ms since the attempt began. */
  readonly ms: number
  /** The request that was sent last. */
  readonly sent: SentRequest | undefined
  /** The words of the vendor; see {@link failureMessage}. */
  readonly message: string | undefined
  /** Length of the cooldown that the failure has started. */
  readonly cooldownMs: number | undefined
}

/** Logs a failed attempt as the event `upstream.failed`, and the cooldown that it starts as `deployment.cooldown`. */
export function logFailure(call: Call, failed: FailedAttempt, next: NextStep): void {
  const { failure, deployment, message, cooldownMs } = failed
  const { log, mask } = call.runtime
  const { id, provider } = deployment
  if (failure.unhealthy) call.runtime.routing.healthOf(deployment).explained(message)
  const cooldown =
    cooldownMs === undefined
      ? ''
      : `; calls avoid it for ${cooldownMs / 1000} s while others serve the model`
  const cause = failure.connection ? '' : mask.clean(causeOf(failure))
  const what = failure.unasked ? 'was not asked' : 'failed'
  const words = message === undefined ? '' : `: ${message}`
  logEvent(log, levelOf(failure), {
    event: 'upstream.failed',
    message: `${call.id}: ${id} ${what}: ${failure.failure}${cause}${words}${cooldown}`,
    members: {
      requestId: call.id,
      provider,
      deployment: id,
      attempt: failed.attempt,
      ...answerOf(failed.sent),
      class: failure.failure,
      ms: Math.round(failed.ms),
      ...(failure.connection ? { cause: message } : { vendor_message: message }),
      next,
    },
  })
  if (cooldownMs === undefined) return
  const until = new Date(Date.now() + cooldownMs).toISOString()
  logEvent(log, 'warn', {
    event: 'deployment.cooldown',
    message: `${id} is in cooldown until ${until}: ${failure.failure}`,
    members: { deployment: id, class: failure.failure, until },
  })
}

export function logRecovery({ runtime: { log } }: Call, { id }: Deployment): void {
  logEvent(log, 'info', {
    event: 'deployment.healthy',
    message: `${id} is well again`,
    members: { deployment: id },
  })
}

/** A fault of the client is no fault of the vendor or of the operator. */
function levelOf(failure: UpstreamFailure): 'error' | 'warn' | 'info' {
  if (failure.unasked) return 'error'
  if (!failure.unhealthy) return 'info'
  return concernsOperator(failure) ? 'error' : 'warn'
}

/** Headers in which vendors name their request. */
const VENDOR_IDS = [
  'x-request-id',
  'request-id',
  'x-amzn-requestid',
  'apim-request-id',
  'dg-request-id',
]

function answerOf(sent: SentRequest | undefined) {
  if (!sent) return {}
  const { method, url, status, headers } = sent
  const named = VENDOR_IDS.map((name) => headers[name]).find((id) => id !== undefined)
  return {
    method,
    url: withoutQuery(url),
    status: status === 0 ? undefined : status,
    vendor_request_id: named !== undefined && /^[\w.:-]{1,100}$/.test(named) ? named : undefined,
  }
}

/** The origin and path of an address, without what may be a key. */
function withoutQuery(url: string): string | undefined {
  const parsed = URL.parse(url)
  return parsed ? maskedAddress(`${parsed.origin}${parsed.pathname}`) : undefined
}

/** Why an attempt failed: the words of the vendor without credentials and long quotations, or why there was no connection. */
export function failureMessage(
  { sent, failure }: Pick<FailedAttempt, 'sent' | 'failure'>,
  clean: (text: string) => string,
): string | undefined {
  if (sent?.errorBody !== undefined) return vendorMessage(sent.errorBody, clean)
  if (failure.connection) return clean(connectionText(failure.connection))
  // The words belong to an answer that failed on the way; with a cause they are the gateway's own.
  return failure.cause === undefined ? scrub(failure.originalMessage, clean) : undefined
}

/** The cause of a failure for the log: names and codes, never a body, a key or an address. */
function causeOf(failure: UpstreamFailure): string {
  const { cause } = failure
  if (!(cause instanceof Error)) return ''
  const code = 'code' in cause ? ` ${String(cause.code)}` : ''
  const message = cause.message.replace(/\bhttps?:\/\/\S+/g, '[address]').slice(0, 200)
  return ` (${cause.name}${code}: ${message})`
}
