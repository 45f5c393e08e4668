import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { H3, withBase, type EventHandler, type H3Event, type HTTPError } from 'h3'
import { toNodeHandler } from 'h3/node'
import { AdminAuth } from './admin/auth.ts'
import { requireKnownHost } from './browser.ts'
import { CONSOLE_PATHS, ConsolePages } from './console.ts'
import { addLoginRoutes } from './login.ts'
import { metricsOf } from './metrics.ts'
import type { Siblings, Reason } from './siblings.ts'
import {
  checkHead,
  isPlainPath,
  oneAtATime,
  tidyUrl,
  refuse,
  refuseByPath,
  shuttingDown,
  letContinue,
  errorHeaders,
  finish,
  whenClosed,
} from './front.ts'
import { commonHeaders, NodeIncoming, NodeOutgoing } from './node-http.ts'
import {
  cannotBook,
  GatewayError,
  InvalidRequest,
  NotFound,
  toErrorBody,
  toGatewayError,
} from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { requestId } from '../state/ids.ts'
import { ROUTES, type Route, hintFor } from '../gateway/routes.ts'
import { shownAddress } from '../observe/address.ts'
import { clientAddress } from './client-address.ts'
import { logEvent } from '../observe/events.ts'
import { LineLimit } from '../observe/access-log.ts'
import type { BodyOwner } from '../gateway/body-budget.ts'
import { tellCost } from '../endpoints/shared/write.ts'
import { Call, ClientDisconnected, run, type Runtime } from '../pipeline/pipeline.ts'
import { incomingOf } from './admin/route.ts'

const DEFAULT_HEADERS_ALLOWED = 'authorization, content-type, x-session-id'

/**
 * The request listener: probes, and one h3 app for the rest.
 * @param isRefusing whether the gateway is closing and accepts no further request
 */
export function createHandler(
  gateway: Gateway,
  isRefusing: () => boolean,
  siblings?: Siblings,
): RequestListener {
  const unknown = new UnknownRoutes(gateway)
  const app = createApp(gateway, unknown, siblings)
  const handle = toNodeHandler(app) as RequestListener
  return oneAtATime((request, response) => {
    if (gateway.stopping) response.shouldKeepAlive = false
    const problem = checkHead(request)
    if (problem) {
      const { status, headers } = problem
      return refuse(request, response, requestId(), { status, headers, body: toErrorBody(problem) })
    }
    request.url = tidyUrl(request.url ?? '/', gateway.runtime.config.server.basePath)
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

/**
 * The h3 app. Routes of the API are handlers of Node's objects, so that a call makes no web Request and no web Response.
 * Metrics and the admin API are handlers of h3's events.
 */
function createApp(gateway: Gateway, unknown: UnknownRoutes, siblings?: Siblings): H3 {
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
  const auth = new AdminAuth(gateway)
  const pages = new ConsolePages(gateway)
  addLoginRoutes(app, gateway)
  app.get('/metrics', (event) => {
    setCommonHeaders(event)
    return metricsOf(gateway, auth, event, siblings)
  })
  app.post('/payments/webhook', (event) => {
    setOwnHeaders(event)
    return takeWebhook(gateway.runtime, event)
  })
  // Mounted, its middleware would see every request of the API.
  app.all('/admin/**', withBase('/admin', adminHandler(gateway, auth, pages)))
  app.all('/me/api/**', withBase('/me/api', meHandler(gateway)))
  const servePage = nodeHandler(async (request, response) => {
    if (!(await pages.answer(request, response))) {
      await refuseByPath(request, response, unknown.refuse(request))
    }
    return null
  })
  for (const path of CONSOLE_PATHS) {
    for (const method of ['GET', 'HEAD'] as const) {
      app.on(method, path, (event) => {
        requireKnownHost(event, gateway.runtime.config)
        return servePage(event)
      })
    }
  }
  app.all('/**', refuseUnknown)
  return app
}

/** The admin API, which is loaded with its first request. */
function adminHandler(gateway: Gateway, auth: AdminAuth, pages: ConsolePages): EventHandler {
  let app: Promise<H3> | undefined
  const load = async () => {
    const { adminApp } = await import('./admin/api.ts')
    return adminApp(gateway, auth, setOwnHeaders, () => pages.version())
  }
  return async (event) => (await (app ??= load())).handler(event)
}

/** The API of members, which is loaded with its first request. */
function meHandler(gateway: Gateway): EventHandler {
  let app: Promise<H3> | undefined
  const load = async () => (await import('./me/api.ts')).meApp(gateway, setOwnHeaders)
  return async (event) => {
    const { admin } = gateway.runtime.config
    if (!admin.enabled || !admin.members.enabled) {
      throw new NotFound('unknown_url', 'There is no such route.')
    }
    return (await (app ??= load())).handler(event)
  }
}

/** Handles requests through Node's objects; the handler resolves when the response is complete. */
function nodeHandler(
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<null>,
): EventHandler {
  // Not h3's own `fromNodeHandler`: it listens to four events of every response. Where a response has ended, a value of null
  // changes nothing.
  return ({ runtime }) => {
    const { req, res } = runtime!.node!
    return handle(req as IncomingMessage, res as ServerResponse)
  }
}

function refusing(errorOf: (request: IncomingMessage) => GatewayError): EventHandler {
  return nodeHandler(async (request, response) => {
    await refuseByPath(request, response, errorOf(request))
    return null
  })
}

/** Sets the headers of every response, for routes that answer through h3. */
function setCommonHeaders({ runtime }: H3Event): void {
  const response = runtime!.node!.res!
  const headers = commonHeaders(requestId())
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!)
}

/** Sets headers as {@link setCommonHeaders}, for routes that no page of another origin may read. */
function setOwnHeaders({ runtime }: H3Event): void {
  const response = runtime!.node!.res!
  const id = requestId()
  response.setHeader('x-service-request-id', id)
  response.setHeader('x-request-id', id)
}

function preflight(request: IncomingMessage, response: ServerResponse): void {
  const requested = request.headers['access-control-request-headers']
  response.writeHead(204, [
    ...commonHeaders(requestId()),
    'access-control-allow-methods',
    'GET, HEAD, POST, OPTIONS',
    'access-control-allow-headers',
    typeof requested === 'string' && requested ? requested : DEFAULT_HEADERS_ALLOWED,
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

function isForOperators(url: string): boolean {
  return /^\/(admin|console|me|login)(\/|\?|$)/.test(url)
}

/** The public form of an error that h3 caught: the gateway's own errors unchanged, h3's by status. */
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

// Probes of supervisors and balancers. Answered before any routing, so that a fault behind the front door cannot hide it.

const PROBES: Readonly<Record<string, (gateway: Gateway, siblings?: Siblings) => Reason[]>> = {
  // A restart repairs no store and no vendor, so this probe only shows that the event loop turns.
  '/livez': () => [],
  // A listening server has its configuration and its state.
  '/startupz': () => [],
  '/readyz': noneReady,
  '/health': noneReady,
}

/** Answer for the bare address: coding assistants request it before their first call. */
const SERVICE = { object: 'service', name: 'sluicegate', api: '/v1', openapi: '/openapi.json' }

/** Answers a probe, or a request for the bare address. @returns false for any other request */
function answerProbe(
  gateway: Gateway,
  { method, url = '', headers }: IncomingMessage,
  response: ServerResponse,
  siblings?: Siblings,
): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  const path = url.split('?', 1)[0]!
  if (path === '/') {
    // Only a browser asks for a page; clients that look for the API get the description of the service.
    if (
      method === 'GET' &&
      gateway.runtime.config.admin.console &&
      headers.accept?.includes('text/html')
    ) {
      response.writeHead(302, {
        location: `${gateway.runtime.config.server.basePath}/console`,
        'cache-control': 'no-store',
      })
      response.end()
      return true
    }
    write(response, method, 200, SERVICE)
    return true
  }
  if (!Object.hasOwn(PROBES, path)) return false
  const reasons = PROBES[path]!(gateway, siblings)
  const ok = reasons.length === 0
  write(response, method, ok ? 200 : 503, { status: ok ? 'ok' : 'unavailable', reasons })
  return true
}

function write(response: ServerResponse, method: string, status: number, answer: object): void {
  const body = JSON.stringify(answer)
  response.writeHead(status, [
    ...commonHeaders(requestId()),
    'content-type',
    'application/json',
    'content-length',
    String(Buffer.byteLength(body)),
    'cache-control',
    'no-store',
  ])
  response.end(method === 'HEAD' ? undefined : body)
}

/** Reasons of all processes of one address: a balancer cannot choose among them, so a reason of one counts for all. */
function noneReady(gateway: Gateway, siblings?: Siblings): Reason[] {
  const own = notReady(gateway)
  return siblings ? [...new Set([...own, ...siblings.reasons])] : own
}

/**
 * Why this process cannot take new work. Vendors do not count: their outage hits every replica alike, and clients need the
 * answer that names it.
 */
export function notReady({ runtime, bodies, seeding, stopping, faulty }: Gateway): Reason[] {
  const { ok, outbox, outboxFault } = runtime.ledger.health()
  return [
    ...(stopping ? (['draining'] as const) : []),
    ...(seeding.isPending ? (['seed'] as const) : []),
    ...(ok || outboxFault ? [] : (['ledger'] as const)),
    ...(outboxFault || (!ok && outbox > 0) ? (['outbox'] as const) : []),
    ...(bodies.exhausted ? (['memory'] as const) : []),
    ...(faulty ? (['fault'] as const) : []),
  ]
}

// Requests for routes that do not exist: the answer names those that do, and the operator learns of them within bounds.

const MAX_SHOWN = 100
/** Common subject of all lines: paths are the choice of clients, so none is a subject of its own. */
const SUBJECT = 'unknown routes'

/** Counts and logs such requests. One for each server. */
class UnknownRoutes {
  readonly #gateway: Gateway
  readonly #lines: LineLimit

  constructor(gateway: Gateway) {
    this.#gateway = gateway
    this.#lines = new LineLimit((count) => {
      gateway.runtime.log.info(`${count} more requests for unknown routes in a minute`)
    })
  }

  /** The error for such a request. The query of its URL is not shown. */
  refuse(request: IncomingMessage): NotFound {
    const { method = 'GET', url = '/' } = request
    const { metrics, log, config } = this.#gateway.runtime
    const path = url.split('?', 1)[0]!
    const route = `${method} ${shownOf(path)}`
    metrics.unknownRoute()
    if (this.#lines.admits(SUBJECT, performance.now())) {
      const { trustedProxies } = config.server
      const address = shownAddress(clientAddress(request, trustedProxies), config.log.address)
      const members = { method, path: shownOf(path), status: 404, address }
      logEvent(log, 'info', { event: 'route.unknown', message: `no route ${route}`, members })
    }
    return new NotFound('unknown_url', `No route ${route}. ${hintFor(method, path)}`)
  }
}

/** A path without text that could be a key, in visible characters. */
function shownOf(path: string): string {
  const visible = path.replaceAll(/[^\x21-\x7e]/g, '?').replaceAll(/sk-[\w-]+/g, 'sk-…')
  return visible.length > MAX_SHOWN ? `${visible.slice(0, MAX_SHOWN)}…` : visible
}

// One call on the socket: from the first byte of its request to the last byte of its answer.

/** Runs one call. Every path ends it. Never rejects. */
function serve(
  gateway: Gateway,
  route: Route,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<null> {
  const { runtime } = gateway
  const { bodyTimeout, limits, trustedProxies } = runtime.config.server
  const incoming = new NodeIncoming(request, {
    limits,
    trustedProxies,
    onStart: () => letContinue(request, response),
    startTimeout: (onTimeout) => call.timeout(bodyTimeout * 1000, onTimeout),
    share: () => gateway.bodies.share(ownerOf(call)),
  })
  const { path, endpoint, format } = route
  const call = new Call({ id: requestId(), path, endpoint, format, incoming, runtime })
  gateway.track(call)
  call.scope.defer(() => incoming.release())
  const out = new NodeOutgoing(response, call)
  whenClosed(request, () => {
    if (response.writableFinished) return
    // An answer that may be asked for again is read to its end.
    if (call.copy && call.chain) return out.detach()
    // Abort first: an answer that waits notices nothing else.
    call.abort(new ClientDisconnected())
    void call.end('cancelled')
  })
  return new Promise((resolve) => {
    const ended = () => resolve(null)
    run(call, route.stages, out, (error) => {
      if (error === undefined) ended()
      else refuseCall(call, request, response, out, error).then(ended, ended)
    })
  })
}

/** Sends an error as a status, or breaks off a response whose head was sent. */
async function refuseCall(
  call: Call,
  request: IncomingMessage,
  response: ServerResponse,
  out: NodeOutgoing,
  thrown: unknown,
): Promise<void> {
  const { answer, format, id } = call
  if (answer.outcome === 'cancelled') return
  let error = toGatewayError(thrown)
  call.report(error)
  await call.stop()
  tellCost(call, error)
  let written = format.writeError(error, call, id)
  answer.status = written.status
  answer.error = error
  await call.end('failed', thrown)
  if (out.headSent) return out.destroy()
  if (answer.unbooked && error.receipt?.bill.cost) {
    // A cost that a client is told is durable.
    error = cannotBook()
    written = format.writeError(error, call, id)
  }
  const { status, headers, body } = written
  const text = JSON.stringify(body)
  out.head(status, errorHeaders(request, headers, text))
  await finish(request, response, text)
}

/** The key and the account whose share of memory the body of an admitted call uses. */
function ownerOf({ admission: { key, account, entered } }: Call): BodyOwner {
  return { key: key.id, account: account.id, freeTier: !entered!.paid }
}

// `POST /payments/webhook`: what the payment provider tells. Without a key: the signature is what proves its origin.

const LIMIT_BYTES = 262_144

/** @throws InvalidRequest for a wrong signature; Unavailable where it has to be delivered again */
async function takeWebhook(runtime: Runtime, event: H3Event): Promise<object> {
  const { metrics, payments, paymentProvider } = runtime
  if (!paymentProvider) throw new NotFound('unknown_url', 'There is no such route.')
  try {
    const pieces: Buffer[] = []
    await incomingOf({ event, runtime }).pieces(LIMIT_BYTES, (piece) => void pieces.push(piece))
    const delivery = { headers: event.req.headers, body: Buffer.concat(pieces) }
    const events = await payments.deliver(delivery)
    if (events === undefined) {
      const message = 'The signature of this webhook is missing, wrong or old. Nothing was booked.'
      throw new InvalidRequest('invalid_value', message)
    }
    metrics.webhook(events === 0 ? 'ignored' : 'taken')
    return { data: { events } }
  } catch (error) {
    const isRefused = GatewayError.is(error) && error.status < 500
    metrics.webhook(isRefused ? 'refused' : 'failed')
    throw error
  }
}
