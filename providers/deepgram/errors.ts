/** Maps Deepgram's errors to failure classes. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'
import { audioFailure, classOfStatus } from '../shared/audio-errors.ts'
import { textOf, tryParse } from '../shared/http.ts'

/** Statuses that mean something to Deepgram only. */
const CLASSES: Readonly<Record<number, FailureClass>> = {
  404: 'not_found',
  411: 'bad_request',
  414: 'bad_request',
  415: 'bad_request',
}

/** The failure for an answer with an error status. */
export function httpFailure(fail: Host['fail'], response: UpstreamResponse, body: string): Error {
  const { status } = response
  const { code, message } = problemIn(body)
  const failure = classOfStatus(status, CLASSES)
  const cause = new Error(`HTTP ${status}${/^[\w -]{1,64}$/.test(code) ? `, ${code}` : ''}`)
  if (failure === 'bad_request' || failure === 'payload_too_large') {
    if (/character (count|limit)|characters/i.test(message)) {
      const sentence = 'The input is too long for this model.'
      return fail('bad_request', sentence, {
        code: 'string_above_max_length',
        param: 'input',
        cause,
      })
    }
    const undecodable = /corrupt|unsupported data|failed to (process|decode)/i.test(message)
    if (undecodable) {
      const sentence = 'The model provider could not decode the file.'
      return fail('bad_request', sentence, { code: 'invalid_audio', param: 'file', cause })
    }
  }
  return audioFailure(fail, failure, response, cause)
}

function problemIn(text: string): { readonly code: string; readonly message: string } {
  const body = Object(tryParse(text))
  return {
    code: textOf(body.err_code ?? body.category),
    message: textOf(body.err_msg ?? body.message),
  }
}
