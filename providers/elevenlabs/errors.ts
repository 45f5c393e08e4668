/** From ElevenLabs' "no" to one of the gateway's failure classes. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'

const MAX_ERROR_BYTES = 64 * 1024

/** What says more than the HTTP status does. */
const TELLING: Readonly<Record<string, FailureClass>> = {
  quota_exceeded: 'upstream_balance',
  too_many_concurrent_requests: 'upstream_rate',
  rate_limit_exceeded: 'upstream_rate',
  system_busy: 'overloaded',
  model_not_found: 'not_found',
}

const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  404: 'bad_request',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'bad_request',
  429: 'upstream_rate',
  503: 'overloaded',
  504: 'timeout',
}

const SENTENCES: Readonly<Partial<Record<FailureClass, string>>> = {
  bad_request: 'The model provider refused the request as invalid.',
  upstream_rate: 'The model provider is handling too many requests.',
  overloaded: 'The model provider is overloaded.',
  timeout: 'The model provider did not answer in time.',
  payload_too_large: 'The model provider takes no file as large as this one.',
}

/** The client's faults that have a name. */
const FAULTS: readonly (readonly [status: RegExp, message: string, code: string, param: string])[] =
  [
    [/voice/, 'The model provider does not know the voice.', 'invalid_value', 'voice'],
    [
      /max_character_limit|text_too_long/,
      'The input is too long for this model.',
      'string_above_max_length',
      'input',
    ],
    [
      /audio|file_format|corrupt/,
      'The model provider could not decode the file.',
      'invalid_audio',
      'file',
    ],
  ]

/** @throws the signal's reason when nobody wants to know any more */
export async function failureOf(
  response: UpstreamResponse,
  fail: Host['fail'],
  signal: AbortSignal,
): Promise<Error> {
  const { status, headers } = response
  const told = await statusIn(response, signal)
  const failure = TELLING[told] ?? CLASSES[status] ?? 'upstream_error'
  const cause = new Error(`HTTP ${status}${told ? `, ${told}` : ''}`)
  const fault = failure === 'bad_request' && FAULTS.find(([pattern]) => pattern.test(told))
  if (fault) {
    const [, message, code, param] = fault
    return fail(failure, message, { code, param, cause })
  }
  const seconds = Number(headers['retry-after'])
  return fail(failure, SENTENCES[failure] ?? 'The model provider failed.', {
    cause,
    ...(seconds > 0 && { retryAfterMs: seconds * 1000 }),
  })
}

/** `{detail: {status, message}}`; a detail that is a text or a list of fields has no status. */
async function statusIn(response: UpstreamResponse, signal: AbortSignal): Promise<string> {
  try {
    const { detail } = Object(JSON.parse(await response.text(MAX_ERROR_BYTES)))
    const status = detail?.status ?? detail?.code
    return typeof status === 'string' && /^[\w-]{1,64}$/.test(status) ? status : ''
  } catch {
    signal.throwIfAborted()
    return ''
  }
}
