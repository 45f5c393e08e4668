/**
 * Signing in to the console: a token of the admin API becomes a signed cookie, which scripts cannot read. Nothing is stored, so
 * every gateway with the same configuration accepts it, and a session ends with its token.
 */
import type { EventHandler, H3, H3Event } from 'h3'
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import * as v from 'valibot'
import { Forbidden, GatewayError, InvalidRequest, Unauthenticated } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from './audit.ts'
import { addressOf, tokensOf, type AdminAuth, type AdminToken, type SessionReader } from './auth.ts'
import { momentOrNull } from './resources/settings.ts'
import type { Session } from './resources/session.ts'
import { bodyOf } from './route.ts'

interface OpenSession {
  readonly token: AdminToken
  /** ms since epoch */
  readonly expiresAt: number
}

/** Paths below `/admin`. */
export const SESSION_ROUTES = [
  'GET /session',
  'POST /session',
  'DELETE /session',
  'POST /session/once',
] as const

const COOKIE = 'sluice_console'
const SESSION_MS = 12 * 3_600_000
const ONCE_MS = 15 * 60_000
/** Sessions and single-use tokens have different signatures, so that neither passes as the other. */
type Kind = 'v1' | 'once'

const signIn = v.strictObject({ token: v.pipe(v.string(), v.maxLength(1000)) })

/** The link that signs its reader in once, within 15 minutes. @param base address of the gateway */
export function signInLink(base: string, token: AdminToken): string {
  // A fragment reaches no server and no log.
  return `${base}/console#token=${seal('once', token, Date.now() + ONCE_MS)}`
}

/**
 * Finds the token of the console's cookie; undefined without a valid cookie. Renews it past half its time. Throws Forbidden for
 * a request that may come from another site, and GatewayError for an unknown host.
 */
export const sessionReader =
  (gateway: Gateway): SessionReader =>
  (event, tokens) => {
    const session = sessionOf(event, tokens)
    if (!session) return undefined
    requireKnownHost(event, gateway)
    requireSameOrigin(event)
    if (session.expiresAt - Date.now() < SESSION_MS / 2) setCookie(event, session.token)
    return session.token
  }

/**
 * Adds the routes of sessions. They stand beside the table of routes, because a request to sign in has no role yet.
 * @param version of the console served now
 */
export function addSessionRoutes(
  app: H3,
  gateway: Gateway,
  auth: AdminAuth,
  version: () => Promise<string | undefined>,
): void {
  const view = async (
    { name, role }: Pick<AdminToken, 'name' | 'role'>,
    expiresAt?: number,
  ): Promise<{ data: Session }> => ({
    data: {
      name,
      role,
      expires_at: momentOrNull(expiresAt),
      version: (await version()) ?? null,
      demo: gateway.demo !== undefined,
      ...(gateway.demo?.isFilling && { demo_filling: true }),
    },
  })
  const handlers: Record<(typeof SESSION_ROUTES)[number], EventHandler> = {
    'GET /session'(event) {
      requireKnownHost(event, gateway)
      const session = sessionOf(event, tokensOf(gateway.runtime.config))
      // The console asks this first: no session is a normal answer, not a failure.
      if (!session && !event.req.headers.has('authorization')) return { data: null }
      return view(auth.actorOf(event), session?.expiresAt)
    },
    async 'POST /session'(event) {
      requireKnownHost(event, gateway)
      requireSameOrigin(event)
      const token = await tokenOf(event, gateway, auth)
      const expiresAt = setCookie(event, token)
      await note(
        { runtime: gateway.runtime, actor: { ...token, address: addressOf(event) } },
        { action: 'session.create', object: `token:${token.name}`, after: { role: token.role } },
      )
      return view(token, expiresAt)
    },
    'DELETE /session'(event) {
      requireSameOrigin(event)
      event.res.headers.append('set-cookie', `${COOKIE}=; ${attributes(event)}; Max-Age=0`)
      return { data: null }
    },
    'POST /session/once'(event) {
      const { name } = auth.actorOf(event)
      const token = tokensOf(gateway.runtime.config).find((one) => one.name === name)!
      const expiresAt = Date.now() + ONCE_MS
      const once = seal('once', token, expiresAt)
      event.res.status = 201
      return { data: { token: once, expires_at: new Date(expiresAt).toISOString() } }
    },
  }
  for (const route of SESSION_ROUTES) {
    const [method, path] = route.split(' ') as ['GET' | 'POST' | 'DELETE', string]
    app.on(method, path, handlers[route])
  }
}

/**
 * Refuses pages and sessions to host names that are not this host's: for a browser, a foreign page whose name was made to point
 * here is of the same origin. Decision: requests with a bearer token do not come from a browser, so they are not checked.
 * @throws GatewayError 421
 */
export function requireKnownHost(event: H3Event, { runtime }: Pick<Gateway, 'runtime'>): void {
  const host = hostnameOf(event.req.headers.get('host') ?? '')
  if (isIP(host) !== 0 || host === 'localhost' || runtime.config.admin.hosts.includes(host)) return
  const message =
    `The console and the admin API do not answer to the host name ${JSON.stringify(host.slice(0, 100))}. ` +
    'Add it to admin.hosts of the configuration.'
  throw new GatewayError(421, 'invalid_request_error', 'forbidden', message)
}

/** The token that signs in. @throws Unauthenticated, TooManyRequests, InvalidRequest */
async function tokenOf(event: H3Event, gateway: Gateway, auth: AdminAuth): Promise<AdminToken> {
  const { runtime } = gateway
  const body = await bodyOf({ event, runtime })
  const parsed = v.safeParse(signIn, body)
  if (!parsed.success) {
    const message =
      "Invalid 'token': expected a token of the configuration, or one of a sign-in link."
    throw new InvalidRequest('invalid_value', message, { param: 'token' })
  }
  const { token } = parsed.output
  const address = addressOf(event)
  if (!token.startsWith('once.')) return auth.identify(token, address)
  const session = auth.attempt(address, () => open('once', token, tokensOf(runtime.config)))
  if (session && (await useUp(runtime, token))) return session.token
  throw new Unauthenticated(
    'This sign-in link was used, or is older than 15 minutes. Ask for a new one.',
  )
}

/** Marks a token as used. @returns whether this is the first use: of several gateways with one state, one wins */
async function useUp({ records }: Runtime, token: string): Promise<boolean> {
  const [, , , nonce] = token.split('.')
  const key = `once:${nonce}`
  if (!(await records.create(key, { used: true }))) return false
  await records.put(key, { used: true }, { ttlSeconds: (2 * ONCE_MS) / 1000 })
  return true
}

function sessionOf(event: H3Event, tokens: readonly AdminToken[]): OpenSession | undefined {
  const cookies = event.req.headers.get('cookie') ?? ''
  const value = new RegExp(`(?:^|; *)${COOKIE}=([^;]*)`).exec(cookies)?.[1]
  return value === undefined ? undefined : open('v1', value, tokens)
}

/** @returns when it expires, ms since epoch */
function setCookie(event: H3Event, token: AdminToken): number {
  const expiresAt = Date.now() + SESSION_MS
  const value = seal('v1', token, expiresAt)
  const age = `Max-Age=${SESSION_MS / 1000}`
  event.res.headers.append('set-cookie', `${COOKIE}=${value}; ${attributes(event)}; ${age}`)
  return expiresAt
}

/**
 * Attributes of the cookie. The page's own address tells whether the way to it is encrypted; behind a proxy the gateway's
 * socket does not.
 */
function attributes(event: H3Event): string {
  const isSecure = event.req.headers.get('origin')?.startsWith('https:') ?? false
  return `HttpOnly; SameSite=Strict; Path=/admin${isSecure ? '; Secure' : ''}`
}

/** `<kind>.<expiry>.<name of the token>.<nonce>.<signature>` */
function seal(kind: Kind, token: AdminToken, expiresAt: number): string {
  const nonce = randomBytes(12).toString('base64url')
  const text = `${kind}.${Math.floor(expiresAt / 1000)}.${token.name}.${nonce}`
  return `${text}.${signatureOf(text, token)}`
}

function open(kind: Kind, sealed: string, tokens: readonly AdminToken[]): OpenSession | undefined {
  const parts = sealed.split('.')
  if (parts.length !== 5 || parts[0] !== kind) return undefined
  const [, expiry, name, , signature] = parts as [string, string, string, string, string]
  const token = tokens.find((one) => one.name === name)
  if (!token || !/^\d{1,12}$/.test(expiry)) return undefined
  const expected = Buffer.from(signatureOf(parts.slice(0, 4).join('.'), token))
  const actual = Buffer.from(signature)
  if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) return undefined
  const expiresAt = Number(expiry) * 1000
  return expiresAt > Date.now() ? { token, expiresAt } : undefined
}

function signatureOf(text: string, { token }: AdminToken): string {
  const key = Buffer.from(hkdfSync('sha256', token, '', 'console session', 32))
  return createHmac('sha256', key).update(text).digest('base64url')
}

/**
 * Requires a request of the same origin. Browsers send whether a page of the same origin made it; older ones at least send the
 * origin or page. Changes need a content type that no form can have.
 * @throws Forbidden
 */
function requireSameOrigin({ req }: H3Event): void {
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
