/** The front door: one Node server and one h3 app, which dispatches every request. */
import { H3, withBase, type EventHandler, type H3Event, type HTTPError } from 'h3'
import { toNodeHandler } from 'h3/node'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { adminApp } from './admin/api.ts'
import { AdminAuth } from './admin/auth.ts'
import { requireKnownHost, sessionReader } from './admin/session.ts'
import { CONSOLE_PATHS, ConsolePages } from './console.ts'
import { bind, limitConnections } from './listener.ts'
import { metricsOf } from './metrics.ts'
import { answerProbe } from './probes.ts'
import type { Siblings } from './siblings.ts'
import {
  checkHead,
  isPlainPath,
  keepsBodyBack,
  letContinue,
  oneAtATime,
  openFront,
  tidyUrl,
} from './front.ts'
import { UnknownRoutes } from './unknown-routes.ts'
import { NodeIncoming, NodeOutgoing, commonHeaders } from './node-http.ts'
import {
  GatewayError,
  InvalidRequest,
  NotFound,
  Unavailable,
  toErrorBody,
  toGatewayError,
} from '../errors/errors.ts'
import type { BodyOwner } from '../gateway/body-budget.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { warmUp } from '../patterns/patterns.ts'
import { requestId } from '../state/ids.ts'
import { Call, ClientDisconnected, type ErrorResponse } from '../pipeline/pipeline.ts'
import { ROUTES, errorWriterOf, type Route } from '../gateway/routes.ts'

/** A listening gateway. */
export interface Server {
  /** Without a trailing slash. */
  readonly url: string
  /**
   * Ends in steps. The gateway is not ready any more, and serves new requests for the delay, because balancers learn late.
   * Then it accepts none, waits for running calls up to the grace, and aborts the rest, which charges them.
   */
  close(limits?: CloseLimits): Promise<void>
}

/** Times of {@link Server.close}; by default those of the configuration. */
interface CloseLimits {
  readonly delaySeconds?: number
  readonly graceSeconds?: number
  /** Ends both waits when it is aborted. */
  readonly hurry?: AbortSignal
}

interface ListenOptions {
  /** Default `server.port` of the configuration; 0 takes any free port. */
  readonly port?: number
  readonly host?: string
  /** The other processes of this address. */
  readonly siblings?: Siblings
}

/** Longer than in the usual reverse proxies, so that they close idle connections and not the gateway. */
const KEEP_ALIVE_MS = 75_000
const DEFAULT_HEADERS_ALLOWED = 'authorization, content-type, x-session-id'
/** Bytes of a refused upload that are still read, so that the client reads the refusal. */
const LINGER_BYTES = 16 * 1024 * 1024
const LINGER_MS = 5_000
/** Requests of connections that were made before the listener closed are served for this long, where there is a delay. */
const LATE_MS = 1_000
/** Time after the grace in which aborted calls send their last bytes, and are settled. */
const FAREWELL_MS = 7_000

/** Starts to serve. @throws Error when the address cannot be opened; listhen does not say why */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Server> {
  const settings = gateway.runtime.config.server
  const host = options.host ?? settings.host
  const port = options.port ?? settings.port
  let refusing = false
  warmUp()
  const { siblings } = options
  const handler = createHandler(gateway, () => refusing, siblings)
  const server = await bind(handler, host, port, siblings !== undefined)
  openFront(server, handler, gateway.runtime.log)
  server.keepAliveTimeout = KEEP_ALIVE_MS
  limitConnections(server, gateway)
  const { port: bound } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async close({ delaySeconds, graceSeconds, hurry } = {}) {
      const { shutdownDelay, shutdownGrace } = gateway.runtime.config.server
      gateway.stop()
      const delayMs = (delaySeconds ?? shutdownDelay) * 1000
      await pause(delayMs, hurry)
      const closed = new Promise((resolve) => server.close(resolve))
      // A balancer that knew of no end has connected just before: it gets no second chance for a POST.
      await pause(Math.min(delayMs, LATE_MS), hurry)
      refusing = true
      server.closeIdleConnections()
      if (!(await drained(gateway, (graceSeconds ?? shutdownGrace) * 1000, hurry))) {
        for (const call of gateway.running) {
          call.abort(shuttingDown())
        }
        await drained(gateway, FAREWELL_MS)
      }
      server.closeIdleConnections()
      server.closeAllConnections()
      await closed
    },
  }
}

/**
 * The request listener: probes, and one h3 app for the rest. Routes of the API are handlers of Node's objects, so that a call
 * makes no web Request and no web Response. Metrics and the admin API are handlers of h3's events.
 */
export function createHandler(
  gateway: Gateway,
  isRefusing: () => boolean,
  siblings?: Siblings,
): RequestListener {
  const app = new H3({
    silent: true,
    allowMalformedURL: true,
    onError(thrown) {
      const error = toPublicError(thrown)
      if (error.status === 500) gateway.runtime.log.error('internal error', error.cause)
      const { status, headers } = error
      return Response.json(toErrorBody(error), { status, headers: { ...headers } })
    },
  })
  const unknown = new UnknownRoutes(gateway)
  const refuseUnknown = refusing((request) => unknown.refuse(request))
  for (const route of ROUTES) {
    const handler = nodeHandler((request, response) => serve(gateway, route, request, response))
    const pattern = route.path.replace(/\{\w+\}$/, '**')
    app.on(route.method, pattern, handler)
    if (route.method === 'GET') app.on('HEAD', pattern, handler)
    app.all(
      pattern,
      refusing(({ method }) => wrongMethod(method, route)),
    )
  }
  const auth = new AdminAuth(gateway, sessionReader(gateway))
  const pages = new ConsolePages(gateway)
  app.get('/metrics', (event) => {
    setCommonHeaders(event)
    return metricsOf(gateway, auth, event, siblings)
  })
  const admin = adminApp(gateway, auth, setOwnHeaders, () => pages.version())
  // Mounted, its middleware would see every request of the API.
  app.all('/admin/**', withBase('/admin', admin.handler))
  const servePage = nodeHandler(async (request, response) => {
    if (!(await pages.answer(request, response))) {
      await refuseByPath(request, response, unknown.refuse(request))
    }
  })
  for (const path of CONSOLE_PATHS) {
    for (const method of ['GET', 'HEAD'] as const) {
      app.on(method, path, (event) => {
        requireKnownHost(event, gateway)
        return servePage(event)
      })
    }
  }
  app.all('/**', refuseUnknown)
  const handle = toNodeHandler(app) as RequestListener
  return oneAtATime((request, response) => {
    if (gateway.stopping) response.shouldKeepAlive = false
    const problem = checkHead(request)
    if (problem) {
      const { status, headers } = problem
      return refuse(request, response, requestId(), { status, headers, body: toErrorBody(problem) })
    }
    request.url = tidyUrl(request.url ?? '/')
    if (request.method === 'OPTIONS' && !isForOperators(request.url)) {
      return preflight(request, response)
    }
    // h3 decodes paths before it looks for a route. Those of the API are compared as received.
    if (!isPlainPath(request.url)) {
      return refuseByPath(request, response, unknown.refuse(request))
    }
    if (answerProbe(gateway, request, response, siblings)) return undefined
    if (isRefusing()) return refuseByPath(request, response, shuttingDown())
    return handle(request, response)
  })
}

function shuttingDown(): Unavailable {
  return new Unavailable('service_unavailable', 'The gateway is shutting down.')
}

/** Tells h3 that a request was answered through Node's objects. */
const HANDLED = Symbol.for('h3.handled')

/** Handles requests through Node's objects; the handler resolves when the response is complete. */
function nodeHandler(
  handle: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>,
): EventHandler {
  // Not h3's own `fromNodeHandler`: it listens to four events of every response.
  return async ({ runtime }) => {
    const { req, res } = runtime!.node!
    await handle(req as IncomingMessage, res as ServerResponse)
    return HANDLED
  }
}

/** Refuses every request with the error that belongs to it. */
function refusing(errorOf: (request: IncomingMessage) => GatewayError): EventHandler {
  return nodeHandler((request, response) => refuseByPath(request, response, errorOf(request)))
}

/** Sets the headers of every response, for routes that answer through h3. */
function setCommonHeaders({ runtime }: H3Event): void {
  const response = runtime!.node!.res!
  const headers = commonHeaders(requestId())
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!)
}

/** As {@link setCommonHeaders}, for routes that no page of another origin may read. */
function setOwnHeaders({ runtime }: H3Event): void {
  const response = runtime!.node!.res!
  const id = requestId()
  response.setHeader('x-service-request-id', id)
  response.setHeader('x-request-id', id)
}

/** Runs one call from its first byte to its last. Every path ends the call. */
async function serve(
  gateway: Gateway,
  route: Route,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { runtime } = gateway
  const { bodyTimeout, limits } = runtime.config.server
  const incoming = new NodeIncoming(request, {
    limits,
    onStart: () => letContinue(request, response),
    startTimeout: (onTimeout) => call.timeout(bodyTimeout * 1000, onTimeout),
    share: () => gateway.bodies.share(ownerOf(call)),
  })
  const { path, endpoint, format } = route
  const call = new Call({ id: requestId(), path, endpoint, format, incoming, runtime })
  gateway.track(call)
  call.scope.defer(() => incoming.release())
  const out = new NodeOutgoing(response, call)
  response.on('close', () => {
    if (response.writableFinished) return
    // Abort first: a flow that waits for a read notices nothing else.
    call.abort(new ClientDisconnected())
    void call.end('cancelled')
  })
  try {
    await format.write(call, await route.run(call), out)
  } catch (thrown) {
    if (call.outcome === 'cancelled') return
    const error = toGatewayError(thrown)
    call.report(error)
    const { status, headers, body } = format.writeError(error, call, call.id)
    call.status = status
    call.error = error
    await call.end('failed')
    if (out.headSent) return out.destroy()
    const text = JSON.stringify(body)
    out.head(status, errorHeaders(request, headers, text))
    await finish(request, response, text)
  }
}

/** Whose body a call reads, once it was admitted. */
function ownerOf({ key, account, entered }: Call): BodyOwner {
  return { key: key.id, account: account.id, freeTier: !entered.paid }
}

/** Answers a request that becomes no call, in the form of its path. */
function refuseByPath(
  request: IncomingMessage,
  response: ServerResponse,
  error: GatewayError,
): Promise<void> {
  const id = requestId()
  const writeError = errorWriterOf(request.url!.split('?', 1)[0]!)
  return refuse(request, response, id, writeError(error, undefined, id))
}

/** Answers a request that becomes no call. */
async function refuse(
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

function errorHeaders(
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
async function finish(
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

function wrongMethod(method = '', { path, method: own }: Route): InvalidRequest {
  const allow = own === 'GET' ? 'GET, HEAD, OPTIONS' : 'POST, OPTIONS'
  const message = `${path} does not take ${method}. Allowed: ${allow}.`
  return new InvalidRequest('method_not_allowed', message, { headers: { allow } })
}

/** Whether a path is the admin API's or the console's. */
function isForOperators(url: string): boolean {
  return /^\/(admin|console|me)(\/|\?|$)/.test(url)
}

/** An error that h3 caught, for the client: the gateway's own as it is, h3's by its status. */
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

/** Resolves true when no call is running, false after `withinMs` or when `hurry` is aborted. */
async function drained(gateway: Gateway, withinMs: number, hurry?: AbortSignal): Promise<boolean> {
  const end = performance.now() + withinMs
  while (gateway.running.size > 0) {
    if (performance.now() >= end || hurry?.aborted) return false
    await pause(25)
  }
  return true
}

/** Waits, unless `hurry` is aborted. */
async function pause(ms: number, hurry?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, hurry && { signal: hurry }).catch(() => {})
}
