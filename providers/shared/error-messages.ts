import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'

/** Error messages of vendors, for clients. */
const MAX_MESSAGE_CHARACTERS = 500
/** Patterns of the operator's identifiers, addresses and secrets. */
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

/**
 * A vendor's message without private parts, shortened to 500 characters.
 * @param own further private patterns of this vendor, with the flag `g`
 */
export function clean(message: string, own: readonly RegExp[] = []): string {
  let text = message.slice(0, MAX_MESSAGE_CHARACTERS * 4)
  for (const pattern of [...own, ...PRIVATE]) text = text.replace(pattern, '[…]')
  const characters = [...text.replace(/\s+/g, ' ').trim()]
  if (characters.length <= MAX_MESSAGE_CHARACTERS) return characters.join('')
  return `${characters.slice(0, MAX_MESSAGE_CHARACTERS - 1).join('')}…`
}

// Failures of vendors of speech and transcription, mostly from the HTTP status.

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
