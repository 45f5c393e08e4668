/** Maps ElevenLabs' errors to failure classes. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'
import { audioFailure, classOfStatus } from '../shared/audio-errors.ts'
import { tryParse } from '../shared/http.ts'

/** Names in the body that are more exact than the HTTP status. */
const BY_NAME: Readonly<Record<string, FailureClass>> = {
  quota_exceeded: 'upstream_balance',
  too_many_concurrent_requests: 'upstream_rate',
  rate_limit_exceeded: 'upstream_rate',
  system_busy: 'overloaded',
  model_not_found: 'not_found',
}

/** ElevenLabs answers with 404 when the voice does not exist. */
const CLASSES: Readonly<Record<number, FailureClass>> = { 404: 'bad_request' }

/** Errors of the client that have their own message, code and parameter. */
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

/** The failure for an answer with an error status. */
export function httpFailure(fail: Host['fail'], response: UpstreamResponse, body: string): Error {
  const { status } = response
  const name = statusNameIn(body)
  const failure = BY_NAME[name] ?? classOfStatus(status, CLASSES)
  const cause = new Error(`HTTP ${status}${name ? `, ${name}` : ''}`)
  const fault = failure === 'bad_request' && FAULTS.find(([pattern]) => pattern.test(name))
  if (fault) {
    const [, message, code, param] = fault
    return fail(failure, message, { code, param, cause })
  }
  return audioFailure(fail, failure, response, cause)
}

/** The name in `{detail: {status, message}}`; empty when `detail` is a text or a list of fields. */
function statusNameIn(body: string): string {
  const { detail } = Object(tryParse(body))
  const name = detail?.status ?? detail?.code
  return typeof name === 'string' && /^[\w-]{1,64}$/.test(name) ? name : ''
}
