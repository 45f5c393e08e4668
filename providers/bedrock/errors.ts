/** Maps Amazon's exceptions to failure classes. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'
import { clean } from '../shared/error-messages.ts'
import { tryParse } from '../shared/http.ts'
import type { Frame } from './frames.ts'

/** The class of each exception name, in lower case. */
const CLASSES: Readonly<Record<string, FailureClass>> = {
  accessdeniedexception: 'upstream_auth',
  expiredtokenexception: 'upstream_auth',
  incompletesignatureexception: 'upstream_auth',
  internalserverexception: 'upstream_error',
  invalidsignatureexception: 'upstream_auth',
  missingauthenticationtokenexception: 'upstream_auth',
  modelerrorexception: 'upstream_error',
  modelnotreadyexception: 'upstream_rate',
  modelstreamerrorexception: 'upstream_error',
  modeltimeoutexception: 'timeout',
  resourcenotfoundexception: 'not_found',
  servicequotaexceededexception: 'upstream_rate',
  serviceunavailableexception: 'overloaded',
  throttlingexception: 'upstream_rate',
  unrecognizedclientexception: 'upstream_auth',
}

const BY_STATUS: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  403: 'upstream_auth',
  404: 'not_found',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'bad_request',
  424: 'upstream_error',
  429: 'upstream_rate',
  503: 'overloaded',
}

const TOO_LONG =
  /(input|prompt) is too long|input tokens exceeded|too many (input )?tokens|exceeds? (the )?(maximum|context)|context (length|window)/i
const NO_MODEL =
  /model identifier is invalid|on-demand throughput isn|end of its life|model .{0,80}not (found|supported in)/i

/** The failure for an answer with an error status. The exception's name is in a header, its message in the body. */
export function httpFailure(
  fail: Host['fail'],
  { status, headers }: UpstreamResponse,
  body: string,
): Error {
  const { __type: type, message, Message: capital } = Object(tryParse(body))
  const name = headers['x-amzn-errortype'] ?? String(type ?? '')
  return toFailure(fail, name, message ?? capital, BY_STATUS[status] ?? 'upstream_error', status)
}

/** The failure for an exception or error frame in a stream. */
export function frameFailure(fail: Host['fail'], { name, payload }: Frame): Error {
  // A validation error is the client's fault. All unknown exceptions are Amazon's.
  const otherwise = /validation/i.test(name) ? 'bad_request' : 'upstream_error'
  return toFailure(fail, name, payload?.message ?? payload?.Message, otherwise, 200)
}

function toFailure(
  fail: Host['fail'],
  errorType: string,
  text: unknown,
  otherwise: FailureClass,
  status: number,
): Error {
  // The header has the form `com.amazon.coral.service#Name:http://internal.amazon.com/…`.
  const name = errorType.split(':', 1)[0]!.split('#').at(-1)!.toLowerCase()
  const message = typeof text === 'string' ? text : ''
  const failure = classify(name, message, otherwise)
  const shown = /^\w{1,64}$/.test(name) ? `, ${name}` : ''
  // The numbers of a full context are for the client.
  const isShown = failure === 'bad_request' || failure === 'context_length'
  const sentence = isShown ? clean(message) : undefined
  return fail(failure, sentence, { cause: new Error(`HTTP ${status}${shown}`) })
}

function classify(name: string, message: string, otherwise: FailureClass): FailureClass {
  const failure = CLASSES[name] ?? otherwise
  if (failure !== 'bad_request') return failure
  if (TOO_LONG.test(message)) return 'context_length'
  return NO_MODEL.test(message) ? 'not_found' : 'bad_request'
}
