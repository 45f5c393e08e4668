/** What plugins do with whole answers: {@link Host.readJson} and {@link Host.failure}. */
import { brokenAnswer, UpstreamFailure } from '../errors/errors.ts'
import type { FailureClass, FailureOptions, ReadJsonOptions, UpstreamResponse } from '../plugin.ts'

const LIMIT_BYTES = 8 * 1024 * 1024
const MAX_REFUSAL_BYTES = 1024 * 1024

const CLASSES: Readonly<Record<number, FailureClass>> = {
  400: 'bad_request',
  401: 'upstream_auth',
  402: 'upstream_balance',
  403: 'upstream_auth',
  404: 'not_found',
  408: 'timeout',
  413: 'payload_too_large',
  422: 'bad_request',
  429: 'upstream_rate',
  503: 'overloaded',
  529: 'overloaded',
}

/** The value of an answer that is JSON. @throws as {@link Host.readJson} */
export async function readJson(
  response: UpstreamResponse,
  { limitBytes = LIMIT_BYTES }: ReadJsonOptions = {},
): Promise<any> {
  const { status } = response
  if (status < 200 || status > 299) throw await failureOf(response)
  const value = parsed(await response.text(limitBytes))
  if (value === undefined) throw brokenAnswer('The model provider sent something that is not JSON.')
  return value
}

/** The failure that an answer stands for. Its body is read, so that the connection can be used again. */
export async function failureOf(
  response: UpstreamResponse,
  { classes, classify, message }: FailureOptions = {},
): Promise<UpstreamFailure> {
  const { status, headers } = response
  // The status alone tells what happened where the body cannot be read.
  const body = await response.text(MAX_REFUSAL_BYTES).catch(() => '')
  const found = classify?.(parsed(body), status)
  const said = typeof found === 'string' ? { failure: found } : found
  const failure = said?.failure ?? classes?.[status] ?? CLASSES[status] ?? 'upstream_error'
  const retryAfterMs = said?.retryAfterMs ?? waitIn(headers)
  return new UpstreamFailure(failure, message, {
    cause: Object.assign(new Error(`HTTP ${status}`), { status }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

/** Undefined for a text that is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Milliseconds of `retry-after-ms`, or of `retry-after` in seconds or as a date (RFC 9110, section 10.2.3). */
function waitIn(headers: Readonly<Record<string, string>>): number | undefined {
  const exact = Number(headers['retry-after-ms'])
  if (exact > 0) return Math.ceil(exact)
  const text = headers['retry-after'] ?? ''
  const ms = /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return ms > 0 ? Math.ceil(ms) : undefined
}
