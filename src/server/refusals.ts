/** Answers that are errors: of requests that become no call, and the last bytes of any refusal. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Unavailable, type GatewayError } from '../errors/errors.ts'
import { errorWriterOf } from '../gateway/routes.ts'
import type { ErrorResponse } from '../pipeline/pipeline.ts'
import { requestId } from '../state/ids.ts'
import { keepsBodyBack } from './front.ts'
import { commonHeaders } from './node-http.ts'

/** Bytes of a refused upload that are still read, so that the client reads the refusal. */
const LINGER_BYTES = 16 * 1024 * 1024
const LINGER_MS = 5_000

/** The error of what a gateway that closes does not serve any more. */
export function shuttingDown(): Unavailable {
  return new Unavailable('service_unavailable', 'The gateway is shutting down.')
}

/** Answers a request that becomes no call, in the form of its path. */
export function refuseByPath(
  request: IncomingMessage,
  response: ServerResponse,
  error: GatewayError,
): Promise<void> {
  const id = requestId()
  const writeError = errorWriterOf(request.url!.split('?', 1)[0]!)
  return refuse(request, response, id, writeError(error, undefined, id))
}

/** Answers a request that becomes no call. */
export async function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  id: string,
  { status, headers, body }: ErrorResponse,
): Promise<void> {
  const text = JSON.stringify(body)
  const list = commonHeaders(id)
  for (const [name, value] of Object.entries(errorHeaders(request, headers, text))) {
    list.push(name, value)
  }
  response.writeHead(status, list)
  await finish(request, response, text)
}

/** Headers of an error with a body of JSON; the connection closes where a body is still coming. */
export function errorHeaders(
  request: IncomingMessage,
  headers: Readonly<Record<string, string>>,
  body: string,
) {
  return {
    ...headers,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...(request.complete || !hasBody(request) ? {} : { connection: 'close' }),
  }
}

/**
 * Sends the body of a refusal. While the client is still sending, the connection stays open, within bounds, so that the
 * client reads the answer: closing a socket with unread data resets it, and client libraries then repeat the upload.
 * Resolves when the response may be ended.
 */
export async function finish(
  request: IncomingMessage,
  response: ServerResponse,
  body: string,
): Promise<void> {
  if (request.complete || !hasBody(request) || keepsBodyBack(request))
    return void response.end(body)
  response.write(body)
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = LINGER_BYTES
  const timer = globalThis.setTimeout(resolve, LINGER_MS)
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) resolve()
  })
  request.once('end', resolve).once('close', resolve)
  request.resume()
  await promise
  clearTimeout(timer)
  request.removeAllListeners('data')
  response.end()
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}
