/** From Deepgram's "no" to one of the gateway's failure classes. */
import type { FailureClass, Host, UpstreamResponse } from '../../src/plugin.ts'

const MAX_ERROR_BYTES = 64 * 1024

const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  404: 'not_found',
  408: 'timeout',
  411: 'bad_request',
  413: 'payload_too_large',
  414: 'bad_request',
  415: 'bad_request',
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

/** @throws the signal's reason when nobody wants to know any more */
export async function failureOf(
  response: UpstreamResponse,
  fail: Host['fail'],
  signal: AbortSignal,
): Promise<Error> {
  const { status, headers } = response
  const { code, message } = await saidIn(response, signal)
  const failure = CLASSES[status] ?? 'upstream_error'
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
      return fail(failure, sentence, { code: 'invalid_audio', param: 'file', cause })
    }
  }
  const seconds = Number(headers['retry-after'])
  return fail(failure, SENTENCES[failure] ?? 'The model provider failed.', {
    cause,
    ...(seconds > 0 && { retryAfterMs: seconds * 1000 }),
  })
}

async function saidIn(
  response: UpstreamResponse,
  signal: AbortSignal,
): Promise<{ readonly code: string; readonly message: string }> {
  try {
    const body = Object(JSON.parse(await response.text(MAX_ERROR_BYTES)))
    return {
      code: String(body.err_code ?? body.category ?? ''),
      message: String(body.err_msg ?? body.message ?? ''),
    }
  } catch {
    signal.throwIfAborted()
    return { code: '', message: '' }
  }
}
