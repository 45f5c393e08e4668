/** Requests to vendors: addresses, headers, answers with an error status, answers that are JSON, and conversions of values. */
import {
  parseExactly,
  type Host,
  type UpstreamRequest,
  type UpstreamResponse,
  type MediaFile,
  type SpeechInput,
} from '../../src/plugin.ts'

const MAX_ERROR_BYTES = 1024 * 1024

/** An address and a path below it. */
export function joinUrl(base: string, path: string): string {
  return `${base.replace(/\/+$/, '')}/${path}`
}

/** Headers for every request. The operator's headers win over the plugin's own. Names are in lower case. */
export function mergeHeaders(
  own: Readonly<Record<string, string>>,
  operator: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = { ...own }
  for (const [name, value] of Object.entries(operator)) headers[name.toLowerCase()] = value
  return headers
}

/** Makes the failure for an answer with another status than 2xx. @param body JSON, HTML or empty */
export type HttpFailure = (fail: Host['fail'], response: UpstreamResponse, body: string) => Error

/** Sends a request. @throws the failure for another status than 2xx; the signal's reason after an abort */
export async function send(
  host: Host,
  request: UpstreamRequest,
  httpFailure: HttpFailure,
): Promise<UpstreamResponse> {
  const response = await host.request(request)
  return hasSucceeded(response) ? response : refuse(host, response, request.signal, httpFailure)
}

/** Whether the status is 2xx. */
export function hasSucceeded({ status }: UpstreamResponse): boolean {
  return status >= 200 && status <= 299
}

/** @throws the failure for an answer with another status than 2xx; the signal's reason after an abort */
export async function refuse(
  host: Host,
  response: UpstreamResponse,
  signal: AbortSignal,
  httpFailure: HttpFailure,
): Promise<never> {
  throw httpFailure(host.fail, response, await readErrorBody(response, signal))
}

/**
 * The body of an answer with an error status: JSON, HTML or nothing. It is empty when it cannot be read, because the
 * status alone still tells what happened.
 * @throws the signal's reason after an abort
 */
export async function readErrorBody(
  response: UpstreamResponse,
  signal: AbortSignal,
): Promise<string> {
  try {
    return await response.text(MAX_ERROR_BYTES)
  } catch {
    signal.throwIfAborted()
    return ''
  }
}

/**
 * Whether an answer is a stream of events. A vendor or a proxy may answer in the other form than the one requested, so
 * the content type decides.
 * @param requested whether a stream was requested; counts where the type is neither JSON nor HTML
 */
export function isEventStream({ headers }: UpstreamResponse, requested: boolean): boolean {
  const type = headers['content-type'] ?? ''
  return type.includes('event-stream') || (requested && !/json|html/.test(type))
}

/**
 * Parses an answer that has to be JSON.
 * @param parse replaces `JSON.parse`
 * @throws the failure class `upstream_error` when the text is not JSON
 */
export function parseAnswer(
  text: string,
  fail: Host['fail'],
  parse: (text: string) => unknown = JSON.parse,
): any {
  try {
    return parse(text)
  } catch {
    // The cause is left out because it quotes the body.
    throw notAnAnswer(fail)
  }
}

/** Parses JSON; undefined when the text is not JSON. */
export function tryParse(text: string): any {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A text that a vendor sent; '' for what is no text. A JSON object may lack what String() needs of it. */
export function textOf(value: unknown): string {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' ? value : ''
}

/** The failure for an answer in an unknown form. */
export function notAnAnswer(fail: Host['fail']): Error {
  return fail('upstream_error', 'The model provider sent something that is not an answer.')
}

/** Finished parts as the asynchronous sequence that a provider returns. */
export async function* asSequence<T>(parts: readonly T[]): AsyncGenerator<T, void, undefined> {
  yield* parts
}

/** A vendor's token count as a whole number; 0 for anything but a positive number. */
export function tokenCount(value: unknown): number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value) ? Math.round(value) : 0
}

/** Tokens that are a part of others, and never more; null where the vendor does not report them. */
export function partOf(value: unknown, whole = Infinity): number | null {
  return value === undefined || value === null ? null : Math.min(tokenCount(value), whole)
}

/** A vendor's token count as a whole number; null for anything that is no count, so that this never means 0. */
export function countOrNone(value: unknown): number | null {
  const isCount = typeof value === 'number' && value >= 0 && Number.isFinite(value)
  return isCount ? Math.ceil(value) : null
}

/** A count that a vendor leaves out where it is 0, and more that it counts beside; null for anything that is no count. */
export function countWith(value: unknown, more: number): number | null {
  const count = value === undefined ? 0 : countOrNone(value)
  return count === null ? null : count + more
}

/** Bytes as base64. */
export function toBase64({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** A file as a data URL. */
export function toDataUrl({ bytes, mediaType }: Pick<MediaFile, 'bytes' | 'mediaType'>): string {
  return `data:${mediaType};base64,${toBase64(bytes)}`
}

/** Name of a voice, or id of a custom one. */
export function voiceName(voice: SpeechInput['voice']): string {
  return typeof voice === 'string' ? voice : voice.id
}

/** A call's arguments as an object. Text that is not a JSON object becomes `{"raw": …}`. */
export function toInput(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    const input = parseExactly(text)
    if (isPlainObject(input)) return input
  } catch {
    // Invalid JSON from a model goes back to the model as text.
  }
  return { raw: text }
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return !(JSON as { isRawJSON(value: unknown): boolean }).isRawJSON(value)
}
