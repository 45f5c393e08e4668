/** Which route answers a request. */
import { H3, withBase, type EventHandler, type H3Event, type HTTPError } from 'h3'
import { toNodeHandler } from 'h3/node'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { adminApp } from './admin/api.ts'
import { AdminAuth } from './admin/auth.ts'
import { requireKnownHost, sessionReader } from './admin/session.ts'
import { CONSOLE_PATHS, ConsolePages } from './console.ts'
import { metricsOf } from './metrics.ts'
import { answerProbe } from './probes.ts'
import type { Siblings } from './siblings.ts'
import { checkHead, isPlainPath, oneAtATime, tidyUrl } from './front.ts'
import { UnknownRoutes } from './unknown-routes.ts'
import { commonHeaders } from './node-http.ts'
import { refuse, refuseByPath, shuttingDown } from './refusals.ts'
import { serve } from './serve.ts'
import {
  GatewayError,
  InvalidRequest,
  NotFound,
  toErrorBody,
  toGatewayError,
} from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { requestId } from '../state/ids.ts'
import { ROUTES, type Route } from '../gateway/routes.ts'

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
  return app
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
