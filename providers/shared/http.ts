/** Requests to vendors: addresses, headers, answers with an error status, and answers that are JSON. */
import type { Host, UpstreamRequest, UpstreamResponse } from '../../src/plugin.ts'

const MAX_ERROR_BYTES = 1024 * 1024

/** An address and a path below it. */
export function joinUrl(base: string, path: string): string {
  return `${base.replace(/\/+$/, '')}/${path}`
}

/** Headers of every request: those of the plugin, and those of the operator, which win. Names in lower case. */
export function mergeHeaders(
  own: Readonly<Record<string, string>>,
  operator: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = { ...own }
  for (const [name, value] of Object.entries(operator)) headers[name.toLowerCase()] = value
  return headers
}

/**
 * Sends a request.
 * @param toError makes the failure for an answer with another status than 2xx, from the text of its body
 * @throws that failure; the signal's reason after an abort
 */
export async function send(
  host: Host,
  request: UpstreamRequest,
  toError: (response: UpstreamResponse, body: string) => Error,
): Promise<UpstreamResponse> {
  const response = await host.request(request)
  if (response.status >= 200 && response.status <= 299) return response
  throw toError(response, await readErrorBody(response, request.signal))
}

/**
 * The body of an answer with an error status: JSON, HTML or nothing. Empty when it cannot be read, because the status
 * alone still says what happened.
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
 * @param parse may be replaced by a parser that keeps more than `JSON.parse` does
 * @throws the failure class `upstream_error` when it is not JSON
 */
export function parseAnswer(
  text: string,
  fail: Host['fail'],
  parse: (text: string) => unknown = JSON.parse,
): any {
  try {
    return parse(text)
  } catch {
    // Without the cause, which quotes the body.
    throw notAnAnswer(fail)
  }
}

/** Parses JSON; undefined when it is none. */
export function tryParse(text: string): any {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The failure for an answer, or a part of one, in an unknown form. */
export function notAnAnswer(fail: Host['fail']): Error {
  return fail('upstream_error', 'The model provider sent something that is not an answer.')
}

/** Parts that are there already, as the asynchronous sequence that a provider returns. */
export async function* asSequence<T>(parts: readonly T[]): AsyncGenerator<T, void, undefined> {
  yield* parts
}
