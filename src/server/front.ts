/** Treatment of a request before any routing: its head is checked, and its connection gets one request at a time. */
import {
  STATUS_CODES,
  type IncomingMessage,
  type RequestListener,
  type Server as NodeServer,
  type ServerResponse,
} from 'node:http'
import type { Duplex } from 'node:stream'
import type { ConsolaInstance } from 'consola'
import { GatewayError, InvalidRequest, toErrorBody, ShuttingDown } from '../errors/errors.ts'
import { requestId } from '../state/ids.ts'
import { commonHeaders } from './node-http.ts'
import { errorWriterOf, ROUTES } from '../gateway/routes.ts'
import type { ErrorResponse } from '../pipeline/http.ts'

/** Most fields in a head. Node bounds its bytes: 16 KiB. */
const MAX_FIELDS = 100
const HEAD_MS = 10_000
/** Interval at which Node looks for heads that are late. */
const HEAD_CHECK_MS = 1_000
/** Most requests that wait for the one before them on their connection. */
const MAX_WAITING = 8
/** How long a client has to read a refusal of data that is not HTTP. */
const FAREWELL_MS = 2_000
const CLOSE = { headers: { connection: 'close' } }
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Requests that wait for `100 Continue` with their body. */
const waitingForContinue = new WeakSet<IncomingMessage>()

/**
 * Prepares a listening server for requests: sets its limits, and answers data that never becomes a request.
 * @param handler listens to the requests
 */
export function openFront(
  server: NodeServer & { requireHostHeader?: boolean; connectionsCheckingInterval?: number },
  handler: RequestListener,
  log: ConsolaInstance,
): void {
  server.headersTimeout = HEAD_MS
  server.connectionsCheckingInterval = HEAD_CHECK_MS
  // Node starts the check when the server begins to listen, which is in the past, so it is started again here.
  server.emit('listening')
  // Bodies have a timeout of their own, which large ones outlast as long as they make progress.
  server.requestTimeout = 0
  // Checked here, so that the answer has the gateway's form.
  server.requireHostHeader = false
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    waitingForContinue.add(request)
    handler(request, response)
  })
  // A server may ignore expectations that it does not know.
  server.on('checkExpectation', handler)
  server.on('connect', (_request, socket: Duplex) => {
    socket.on('error', () => {})
    refuseSocket(socket, wrongMethod('CONNECT'))
  })
  server.on('clientError', (error: Error & { code?: string }, socket: Duplex) => {
    const refusal = refusalOf(error.code)
    if (!refusal || !socket.writable || connections.get(socket)?.response.headersSent)
      return void socket.destroy()
    if (refused.has(socket)) return
    log.warn(`a request was refused, because it is not HTTP: ${error.code}`)
    refuseSocket(socket, refusal)
  })
}

/** A request with its response. */
type Turn = readonly [request: IncomingMessage, response: ServerResponse]

interface Connection {
  /** Response of the running request, or else of the last one. */
  response: ServerResponse
  isBusy: boolean
  /** Owner of the response, told once that it is closed. */
  onClose?: (() => void) | undefined
  /** Requests that came meanwhile. */
  readonly waiting: Turn[]
}

const connections = new WeakMap<Duplex, Connection>()
/** Connections that get a refusal before they are closed. */
const refused = new WeakSet<Duplex>()

/** The client's fault by the code of the parser; undefined where no client can read it. */
function refusalOf(code = ''): GatewayError | undefined {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return headTooLarge()
    case 'HPE_INVALID_METHOD':
      return wrongMethod('this method')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new InvalidRequest(
        'request_timeout',
        'The head of the request did not arrive in time. Send it again, without pauses.',
      )
    default:
      return code.startsWith('HPE_')
        ? new InvalidRequest('invalid_value', 'The request is not valid HTTP/1.1.')
        : undefined
  }
}

/** Answers where there is no response object, and closes the connection. */
function refuseSocket(socket: Duplex, error: GatewayError): void {
  refused.add(socket)
  const body = JSON.stringify(toErrorBody(error))
  const headers = [
    ...commonHeaders(requestId()),
    ...Object.entries(error.headers).flat(),
    'content-type',
    'application/json',
    'content-length',
    String(Buffer.byteLength(body)),
    'connection',
    'close',
  ]
  const lines = [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`)
  // Destroyed at once, it would reset the connection where unread bytes are left, and the client would not read the answer.
  setTimeout(() => socket.destroy(), FAREWELL_MS).unref()
}

function headTooLarge(): GatewayError {
  const message = `The head of the request has more than 16 KiB or ${MAX_FIELDS} fields.`
  return new GatewayError(431, 'invalid_request_error', 'request_too_large', message, CLOSE)
}

function wrongMethod(method: string): InvalidRequest {
  const message = `The gateway does not take ${method}. Allowed: ${METHODS}.`
  return new InvalidRequest('method_not_allowed', message, { headers: { allow: METHODS } })
}

/** The problem with a parsed head; undefined for a valid one. */
export function checkHead(request: IncomingMessage): GatewayError | undefined {
  const { rawHeaders, httpVersionMinor, httpVersionMajor, method = '' } = request
  if (rawHeaders.length > 2 * MAX_FIELDS) return headTooLarge()
  if (!METHODS.includes(method)) return wrongMethod(method)
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  const { host } = request.headers
  const isOld = httpVersionMajor === 1 && httpVersionMinor === 0
  if (hosts === 0 && isOld) return undefined
  if (hosts === 1 && host && !/[\s,/\\]/.test(host)) return undefined
  return new InvalidRequest(
    'invalid_value',
    'The request must have one Host field, with the name and port of the gateway.',
    CLOSE,
  )
}

/**
 * The target as path and query: without scheme, authority and the path that a proxy has before the gateway, with runs of `/` made one, without a `/` at its end and with a
 * doubled `/v1` made one, because base URLs are often mis-set.
 */
export function tidyUrl(target: string, basePath = ''): string {
  const authority = /^https?:\/\/[^/?]*/i.exec(target)?.[0] ?? ''
  const rest = target.slice(authority.length)
  const originForm = authority && !rest.startsWith('/') ? `/${rest}` : rest
  const url = basePath === '' ? originForm : withoutBase(originForm, basePath)
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  let tidy = path.replace(/\/{2,}/g, '/')
  while (tidy.startsWith('/v1/v1/')) tidy = tidy.slice(3)
  if (tidy.length > 1 && tidy.endsWith('/')) tidy = tidy.slice(0, -1)
  tidy = routeOf(tidy)
  return tidy === path ? url : tidy + url.slice(path.length)
}

/** Routes without `/v1`, as clients ask whose base URL is without it. */
const BARE = new Map(
  ROUTES.filter(({ path }) => path.startsWith('/v1/') && !path.includes('{')).map(({ path }) => [
    path.slice('/v1'.length),
    path,
  ]),
)
const ALIASES: ReadonlyMap<string, string> = new Map([
  ...BARE,
  // Where clients of Cohere and of OpenRouter look.
  ['/v2/rerank', '/v1/rerank'],
  ['/v1/auth/key', '/v1/key'],
])

/** The route that a client means whose base URL lacks `/v1`, or is that of another gateway; any other path as it is. */
function routeOf(path: string): string {
  const own = path.startsWith('/api/v1/') ? path.slice('/api'.length) : path
  const alias = ALIASES.get(own)
  if (alias !== undefined) return alias
  return own.startsWith('/models/') ? `/v1${own}` : own
}

/** A proxy may keep the path that it has before the gateway, or strip it. */
function withoutBase(url: string, basePath: string): string {
  if (!url.startsWith(basePath)) return url
  const rest = url.slice(basePath.length)
  if (rest === '' || rest.startsWith('?')) return `/${rest}`
  return rest.startsWith('/') ? rest : url
}

/**
 * Parts of a path that readers interpret differently: backslashes, control characters, dot segments, and encoded dots, slashes
 * and zeros.
 */
// oxlint-disable-next-line no-control-regex -- Control characters are what it looks for.
const AMBIGUOUS = /[\\\0-\x1f\x7f]|%(?:00|2e|2f|5c)|\/\.\.?(?:\/|$)/i

/** Paths before ids in which clients encode characters. */
const WITH_IDS = ['/v1/models/', '/admin/']
/** Paths before ids with slashes. */
const WITH_SLASHES = ['/v1/models/', '/admin/deployments/', '/admin/models/']

/** Whether every reader interprets a path in the same way. It is compared as received, so any other path is unknown. */
export function isPlainPath(url: string): boolean {
  const path = url.split('?', 1)[0]!
  if (!path.includes('%')) return path.startsWith('/') && !AMBIGUOUS.test(path)
  const isBelow = (prefix: string) => path.startsWith(prefix)
  if (!WITH_IDS.some(isBelow)) return false
  return !AMBIGUOUS.test(WITH_SLASHES.some(isBelow) ? path.replaceAll(/%2f/gi, '/') : path)
}

/** Sends `100 Continue` where the client waits for it. Called when the body is first read. */
export function letContinue(request: IncomingMessage, response: ServerResponse): void {
  if (waitingForContinue.delete(request)) response.writeContinue()
}

/** Whether the client waits with its body for `100 Continue`. */
function keepsBodyBack(request: IncomingMessage): boolean {
  return waitingForContinue.has(request)
}

/** Has the owner of a running response told that it is closed; its connection listens already. */
export function whenClosed({ socket }: IncomingMessage, onClose: () => void): void {
  connections.get(socket)!.onClose = onClose
}

/**
 * Gives each connection one request at a time: Node.js itself would start all that a client sends ahead. While eight wait, the
 * socket is paused.
 */
export function oneAtATime(handler: RequestListener): RequestListener {
  const run = ([request, response]: Turn, connection: Connection) => {
    const { waiting } = connection
    connection.response = response
    connection.isBusy = true
    response.on('close', () => {
      const { socket } = request
      const { onClose } = connection
      connection.onClose = undefined
      onClose?.()
      const next = waiting.shift()
      connection.isBusy = next !== undefined && !socket.destroyed
      if (!next || !connection.isBusy) return
      if (waiting.length === MAX_WAITING - 1) socket.resume()
      run(next, connection)
    })
    handler(request, response)
  }
  return (request, response) => {
    const { socket } = request
    let connection = connections.get(socket)
    if (!connection) {
      connection = { response, isBusy: false, waiting: [] }
      connections.set(socket, connection)
    }
    const { isBusy, waiting } = connection
    if (!isBusy) return run([request, response], connection)
    waiting.push([request, response])
    if (waiting.length >= MAX_WAITING) socket.pause()
  }
}

// Answers that are errors: of requests that become no call, and the last bytes of any refusal.

/** Most bytes of a refused upload that are still read, so that the client reads the refusal. */
const LINGER_BYTES = 16 * 1024 * 1024
const LINGER_MS = 5_000

/** The error of a closing gateway for requests that it no longer serves. */
export function shuttingDown(): ShuttingDown {
  return new ShuttingDown()
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
 * Sends the body of a refusal. While the client is still sending, the connection stays open, within bounds, so that the client
 * reads the answer: closing a socket with unread data resets it, and client libraries then repeat the upload.
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
