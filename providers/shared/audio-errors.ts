/** Failures of vendors of speech and transcription, mostly from the HTTP status. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'

const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'bad_request',
  429: 'upstream_rate',
  503: 'overloaded',
  504: 'timeout',
}

/** The failure class of an HTTP status. @param own statuses that mean something else to this vendor */
export function classOfStatus(
  status: number,
  own: Readonly<Record<number, FailureClass>>,
): FailureClass {
  return own[status] ?? CLASSES[status] ?? 'upstream_error'
}

/** A failure with the gateway's message, and with the wait that `Retry-After` asks for in seconds. */
export function audioFailure(
  fail: Host['fail'],
  failure: FailureClass,
  { headers }: UpstreamResponse,
  cause: Error,
): Error {
  const seconds = Number(headers['retry-after'])
  return fail(failure, undefined, {
    cause,
    ...(seconds > 0 && { retryAfterMs: seconds * 1000 }),
  })
}
