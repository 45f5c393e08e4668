/** What holds for requests of a browser: where they may come from, and the cookies of sessions. */
import { deleteCookie, getCookie, setCookie, type H3Event } from 'h3'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { Session, Side } from '../access/credentials.ts'
import type { Config } from '../config/config.ts'
import { Forbidden, GatewayError } from '../errors/errors.ts'
import { clientAddress, isForwardedHttps } from './client-address.ts'

const COOKIES: Readonly<Record<Side, { readonly name: string; readonly path: string }>> = {
  operator: { name: 'sluice_console', path: '/admin' },
  member: { name: 'sluice_me', path: '/me' },
}

export function requestOf(event: H3Event): IncomingMessage {
  return event.runtime!.node!.req as IncomingMessage
}

export function addressOf(event: H3Event, { server }: Config): string {
  return clientAddress(requestOf(event), server.trustedProxies)
}

/** The secret of the session's cookie; undefined without one. */
export function sessionCookie(event: H3Event, side: Side): string | undefined {
  return getCookie(event, COOKIES[side].name) || undefined
}

/** @param idle seconds without use after which the session ends */
export function setSessionCookie(
  event: H3Event,
  { server }: Config,
  secret: string,
  { side, secure, keep, endsAt }: Session,
  idle: number,
): void {
  const { name, path } = COOKIES[side]
  const maxAge = Math.min(idle, Math.ceil((endsAt - Date.now()) / 1000))
  setCookie(event, name, secret, {
    httpOnly: true,
    sameSite: 'strict',
    path: server.basePath + path,
    ...(secure && { secure }),
    ...(keep && { maxAge }),
  })
}

export function clearSessionCookie(event: H3Event, side: Side, { server }: Config): void {
  const { name, path } = COOKIES[side]
  deleteCookie(event, name, {
    httpOnly: true,
    sameSite: 'strict',
    path: server.basePath + path,
  })
}

/** Whether the browser's way here is encrypted: by the public address, by the page's own, or by what a trusted proxy says. */
export function isEncrypted(event: H3Event, { server }: Config): boolean {
  return (
    server.publicUrl?.startsWith('https:') === true ||
    event.req.headers.get('origin')?.startsWith('https:') === true ||
    isForwardedHttps(requestOf(event), server.trustedProxies)
  )
}

/**
 * Refuses pages and sessions to host names that are not this host's: for a browser, a foreign page whose name was made to point
 * here is of the same origin. Decision: requests with a bearer token do not come from a browser, so they are not checked.
 * @throws GatewayError 421
 */
export function requireKnownHost(event: H3Event, { server, admin }: Config): void {
  const host = hostnameOf(event.req.headers.get('host') ?? '')
  const own = server.publicUrl && new URL(server.publicUrl).hostname
  if (isIP(host) !== 0 || host === 'localhost' || host === own || admin.hosts.includes(host)) return
  const message =
    `The console and the admin API do not answer to the host name ${JSON.stringify(host.slice(0, 100))}. ` +
    'Add it to admin.hosts of the configuration.'
  throw new GatewayError(421, 'invalid_request_error', 'forbidden', message)
}

/**
 * Requires a request of the same origin. Browsers send whether a page of the same origin made it; older ones at least send the
 * origin or page. Changes need a content type that no form can have.
 * @throws Forbidden
 */
export function requireSameOrigin({ req }: H3Event): void {
  const { headers, method } = req
  const site = headers.get('sec-fetch-site')
  const origin = headers.get('origin') ?? headers.get('referer')
  const isOwn =
    site === null
      ? origin !== null && URL.canParse(origin) && new URL(origin).host === headers.get('host')
      : site === 'same-origin'
  if (!isOwn) {
    throw new Forbidden('forbidden', 'This request does not come from the console of this gateway.')
  }
  const isJson = /^application\/json\b/i.test(headers.get('content-type') ?? '')
  if (method !== 'GET' && method !== 'HEAD' && !isJson) {
    throw new Forbidden(
      'forbidden',
      'Requests of the console need the content type application/json.',
    )
  }
}

/** The host without the port. */
function hostnameOf(host: string): string {
  const [, address] = /^\[([^\]]*)\]/.exec(host) ?? []
  return (address ?? host.replace(/:\d+$/, '')).toLowerCase()
}
