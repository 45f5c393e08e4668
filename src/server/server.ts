/** The front door: one Node server, the API's routes on raw Node objects, an h3 app for everything else. */
import { H3, HTTPError } from 'h3'
import { toNodeHandler } from 'h3/node'
import { listen as listhen } from 'listhen'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server as NodeServer,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { adminApp, healthOf, metricsOf } from './admin/api.ts'
import { NodeIncoming, NodeOutgoing, commonHeaders } from './node-http.ts'
import {
  GatewayError,
  InvalidRequest,
  NotFound,
  Unavailable,
  toErrorBody,
  toGatewayError,
} from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { warmUp } from '../patterns/patterns.ts'
import { requestId } from '../state/ids.ts'
import { Call, ClientDisconnected } from '../pipeline/pipeline.ts'
import { ROUTES, type Route } from '../gateway/routes.ts'

export interface Server {
  /** Without a trailing slash. */
  readonly url: string
  /** Stops accepting, waits for running calls up to the grace, aborts the rest, which charges them. */
  close(graceSeconds?: number): Promise<void>
}

export interface ListenOptions {
  /** Default `server.port` of the configuration; 0 takes any free port. */
  readonly port?: number
  readonly host?: string
}

/** Longer than the reverse proxies in front: they, not we, close idle connections. */
const KEEP_ALIVE_MS = 75_000
const DEFAULT_HEADERS_ALLOWED = 'authorization, content-type, x-session-id'
/** How much of a refused upload is still read, so that the client gets to read the refusal. */
const LINGER_BYTES = 16 * 1024 * 1024
const LINGER_MS = 5_000
/** After the grace: what aborted calls get to say goodbye. */
const FAREWELL_MS = 2_000

/** @throws Error when the address cannot be had; listhen does not say why */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Server> {
  const settings = gateway.runtime.config.server
  const host = options.host ?? settings.host
  const port = options.port ?? settings.port
  let draining = false
  warmUp()
  const handler = createHandler(gateway, () => draining)
  const server = await bind(handler, host, port)
  server.keepAliveTimeout = KEEP_ALIVE_MS
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async close(graceSeconds = gateway.runtime.config.server.shutdownGrace) {
      draining = true
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeIdleConnections()
      if (!(await drained(gateway, graceSeconds * 1000))) {
        for (const call of gateway.running) {
          call.abort(new Unavailable('service_unavailable', 'The gateway is shutting down.'))
        }
        await drained(gateway, FAREWELL_MS)
      }
      server.closeIdleConnections()
      server.closeAllConnections()
      await closed
    },
  }
}

/** listhen opens the port; it cannot be asked for any free one, so that is done here. */
async function bind(handler: RequestListener, hostname: string, port: number): Promise<NodeServer> {
  if (port === 0) {
    const server = createServer(handler)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(0, hostname, resolve)
    })
    return server
  }
  const open = ['0.0.0.0', '::', ''].includes(hostname)
  const listener = await listhen(handler, {
    hostname,
    port,
    public: open,
    // Without these three it ends running streams on SIGTERM, and a busy port silently becomes another one.
    autoClose: false,
    isProd: true,
    showURL: false,
  })
  const server = listener.server as NodeServer
  // It counts requests for a way to close that is not used here, and puts a listener on each of them.
  const listeners = server.listeners('request') as RequestListener[]
  if (listeners.includes(handler)) {
    for (const one of listeners) if (one !== handler) server.off('request', one)
  }
  return server
}

/** The request listener: `/v1` routes go straight to their pipelines, everything else through h3. */
export function createHandler(gateway: Gateway, isDraining: () => boolean): RequestListener {
  const routes = new Map(ROUTES.map((route) => [route.path, route]))
  const other = toNodeHandler(createApp(gateway))
  return (request, response) => {
    const path = pathOf(request.url ?? '/')
    const route = routes.get(path)
    if (request.method === 'OPTIONS') return preflight(request, response)
    if (isDraining()) {
      const error = new Unavailable('service_unavailable', 'The gateway is shutting down.')
      return refuse(request, response, error)
    }
    if (route) {
      if (takes(route, request)) return void serve(gateway, route, path, request, response)
      return refuse(request, response, wrongMethod(request.method, path, route))
    }
    if (path === '/v1' || path.startsWith('/v1/'))
      return refuse(request, response, unknownUrl(path))
    const headers = commonHeaders(requestId())
    for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!)
    return other(request, response)
  }
}

/** Everything that is not hot. */
function createApp(gateway: Gateway): H3 {
  const app = new H3({
    silent: true,
    onError(thrown) {
      const error = toPublicError(thrown)
      if (error.status === 500) gateway.runtime.log.error('internal error', error.cause)
      return Response.json(toErrorBody(error), {
        status: error.status,
        headers: { ...error.headers },
      })
    },
  })
  app.get('/health', () => healthOf(gateway))
  app.get('/metrics', (event) => metricsOf(gateway, event.req.headers.get('authorization')))
  app.mount('/admin', adminApp(gateway))
  app.all('/**', (event) => {
    throw unknownUrl(event.url.pathname)
  })
  return app
}

/** Runs one call from its first byte to its last. Every way out ends the call. */
async function serve(
  gateway: Gateway,
  route: Route,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { runtime } = gateway
  const { bodyTimeout } = runtime.config.server
  const incoming = new NodeIncoming(request, path, (ring) => call.timeout(bodyTimeout * 1000, ring))
  const call = new Call({ id: requestId(), path: route.path, incoming, runtime })
  gateway.track(call)
  if (route.endpoint) call.endpoint = route.endpoint
  const out = new NodeOutgoing(response, call)
  response.on('close', () => {
    if (response.writableFinished) return
    // Abort first: a generator that waits for a read does not hear of anything else.
    call.abort(new ClientDisconnected())
    void call.end('cancelled')
  })
  try {
    await route.write(call, await route.run(call), out)
  } catch (thrown) {
    if (call.outcome === 'cancelled') return
    const error = toGatewayError(thrown)
    call.report(error)
    call.status = error.status
    call.errorCode = error.code
    await call.end('failed')
    if (out.headSent) return out.destroy()
    const body = JSON.stringify(toErrorBody(error))
    out.head(error.status, errorHeaders(request, error, body))
    finish(request, response, body)
  }
}

/** An answer to a request that never became a call. */
function refuse(request: IncomingMessage, response: ServerResponse, error: GatewayError): void {
  const body = JSON.stringify(toErrorBody(error))
  const headers = commonHeaders(requestId())
  for (const [name, value] of Object.entries(errorHeaders(request, error, body))) {
    headers.push(name, value)
  }
  response.writeHead(error.status, headers)
  finish(request, response, body)
}

function errorHeaders(request: IncomingMessage, error: GatewayError, body: string) {
  return {
    ...error.headers,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...(request.complete || !hasBody(request) ? {} : { connection: 'close' }),
  }
}

/**
 * Sends the end of a refusal. Where the client is still sending, the connection is kept just long enough for it to read
 * the answer: closing over unread data resets the socket, and client libraries then repeat the whole upload.
 */
function finish(request: IncomingMessage, response: ServerResponse, body: string): void {
  if (request.complete || !hasBody(request)) return void response.end(body)
  response.write(body)
  let left = LINGER_BYTES
  const timer = setTimeout(close, LINGER_MS)
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length
    if (left < 0) close()
  })
  request.once('end', close).once('close', close)
  request.resume()

  function close(): void {
    clearTimeout(timer)
    request.removeAllListeners('data')
    response.end()
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

function preflight(request: IncomingMessage, response: ServerResponse): void {
  const asked = request.headers['access-control-request-headers']
  response.writeHead(204, [
    ...commonHeaders(requestId()),
    'access-control-allow-methods',
    'GET, HEAD, POST, OPTIONS',
    'access-control-allow-headers',
    typeof asked === 'string' && asked ? asked : DEFAULT_HEADERS_ALLOWED,
    'access-control-max-age',
    '7200',
  ])
  response.end()
}

/** Without query; runs of `/` collapse, a trailing `/` is dropped, a doubled `/v1` becomes one (wire contract, D1). */
export function pathOf(url: string): string {
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  if (
    !path.includes('//') &&
    !path.startsWith('/v1/v1/') &&
    !(path.length > 1 && path.endsWith('/'))
  ) {
    return path
  }
  let tidy = path.replace(/\/{2,}/g, '/')
  while (tidy.startsWith('/v1/v1/')) tidy = tidy.slice(3)
  return tidy.length > 1 && tidy.endsWith('/') ? tidy.slice(0, -1) : tidy
}

function takes(route: Route, { method }: IncomingMessage): boolean {
  return method === route.method || (method === 'HEAD' && route.method === 'GET')
}

function wrongMethod(method = '', path: string, route: Route): InvalidRequest {
  const allow = route.method === 'GET' ? 'GET, HEAD, OPTIONS' : 'POST, OPTIONS'
  return new InvalidRequest(
    'method_not_allowed',
    `${path} does not take ${method}. Allowed: ${allow}.`,
    {
      headers: { allow },
    },
  )
}

function unknownUrl(path: string): NotFound {
  const shown = JSON.stringify(path.length > 100 ? `${path.slice(0, 100)}…` : path)
  const known = ROUTES.find((route) => path.endsWith(route.path.slice('/v1'.length)))
  const hint = known
    ? ` Did you mean ${known.path}? The base URL of a client ends in /v1.`
    : ' The API is under /v1.'
  return new NotFound('unknown_url', `There is no route ${shown}.${hint}`)
}

/** What h3 caught: our own errors as they are, its own by their status. */
function toPublicError(thrown: HTTPError): GatewayError {
  if (GatewayError.is(thrown)) return thrown
  if (GatewayError.is(thrown.cause)) return thrown.cause
  if (thrown.status === 404) return new NotFound('unknown_url', 'There is no such route.')
  if (thrown.status === 405)
    return new InvalidRequest('method_not_allowed', 'This route does not take that method.')
  if (thrown.status >= 400 && thrown.status < 500) {
    return new InvalidRequest('invalid_json', 'The request could not be read.')
  }
  return toGatewayError(thrown.cause ?? thrown)
}

/** Resolves true when no call is running any more, false when `withinMs` have passed. */
async function drained(gateway: Gateway, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs
  while (gateway.running.size > 0) {
    if (performance.now() >= end) return false
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  return true
}
