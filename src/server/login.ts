/** Signing in through an OpenID Connect provider: the way there, and the way back. */
import { deleteCookie, getCookie, setCookie, type H3, type H3Event } from 'h3'
import { fetch as fetchBy } from 'undici'
import { keptClaims, nameOf, roleOf } from '../access/claims.ts'
import { OidcClients } from '../access/oidc.ts'
import type { Claims, Side } from '../access/credentials.ts'
import type { Config } from '../config/config.ts'
import { NotFound } from '../errors/errors.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { logEvent } from '../observe/events.ts'
import { requestId } from '../state/ids.ts'
import { note } from './admin/audit.ts'
import { beginSession } from './admin/session.ts'
import { oidcActor } from './admin/auth.ts'
import { beginMemberSession, memberActor } from './me/session.ts'
import { addressOf, isEncrypted, requireKnownHost } from './browser.ts'

const COOKIE = 'sluice_login'
const LOGIN_SECONDS = 600
/** Where the browser goes afterwards. */
const PAGES: Readonly<Record<Side, string>> = { operator: '/console', member: '/me' }

type Provider = Config['admin']['login']['oidc'][string]
type Failure = 'login_denied' | 'login_expired' | 'login_failed' | 'no_role' | 'no_membership'

/** A sign-in that did not work. Its cause is for the log. */
class LoginFailed extends Error {
  readonly code: Failure

  constructor(code: Failure, cause: string) {
    super(cause)
    this.code = code
  }
}

/** Adds the routes below `/login`. They are there while the console is. */
export function addLoginRoutes(app: H3, gateway: Gateway): void {
  const clients = oidcClients(gateway)
  app.get('/login/:provider', (event) => begin(event, gateway, clients))
  app.get('/login/:provider/callback', (event) => finish(event, gateway, clients))
}

/** The providers of a gateway, with the ways out of its configuration at each request. */
export function oidcClients(gateway: Pick<Gateway, 'runtime'>): OidcClients {
  return new OidcClients((url, options) => fetchOf(gateway)(url, options))
}

/** Requests to providers take the way of all others: proxy and certificates of `egress`. Connections last for one request. */
function fetchOf({ runtime }: Pick<Gateway, 'runtime'>) {
  return async (url: string, options: object): Promise<Response> => {
    const { dispatcher } = runtime.egress
      .route()
      .open(new URL(url).origin, { connections: 1, onError: () => {} })
    try {
      const answer = await fetchBy(url, { ...options, dispatcher })
      const { status, headers } = answer
      const body = await answer.arrayBuffer()
      const hasBody = body.byteLength > 0 && status !== 204 && status !== 304
      return new Response(hasBody ? body : null, { status, headers: [...headers] })
    } finally {
      await dispatcher.close()
    }
  }
}

function providerOf(event: H3Event, { runtime }: Gateway): [name: string, provider: Provider] {
  const { admin } = runtime.config
  const name = event.context.params?.provider ?? ''
  if (!admin.console || !Object.hasOwn(admin.login.oidc, name)) {
    throw new NotFound('unknown_url', 'There is no such way to sign in.')
  }
  requireKnownHost(event, runtime.config)
  return [name, admin.login.oidc[name]!]
}

async function begin(event: H3Event, gateway: Gateway, clients: OidcClients): Promise<string> {
  const [provider, settings] = providerOf(event, gateway)
  const { config, credentials } = gateway.runtime
  const { basePath } = config.server
  const { searchParams: query } = event.url
  const side = query.get('side') === 'member' ? 'member' : 'operator'
  if (side === 'member' && !(settings.members && config.admin.members.enabled)) {
    throw new NotFound('unknown_url', 'There is no such way to sign in.')
  }
  try {
    const { url, ...secrets } = await clients.begin(settings, redirectUri(config, provider))
    const to = pathBelow(query.get('to'), basePath) ?? basePath + PAGES[side]
    const ticket = { kind: 'login', side, provider, ...secrets, to } as const
    const { secret } = await credentials.ticket(ticket, LOGIN_SECONDS)
    setCookie(event, COOKIE, secret, {
      httpOnly: true,
      sameSite: 'lax',
      path: `${basePath}/login`,
      maxAge: LOGIN_SECONDS,
      ...(isEncrypted(event, config) && { secure: true }),
    })
    return redirect(event, url.href)
  } catch (error) {
    return refuse(event, gateway, { provider, side, error })
  }
}

async function finish(event: H3Event, gateway: Gateway, clients: OidcClients): Promise<string> {
  const [provider, settings] = providerOf(event, gateway)
  const { config, credentials } = gateway.runtime
  const secret = getCookie(event, COOKIE)
  deleteCookie(event, COOKIE, { path: `${config.server.basePath}/login` })
  let side: Side = 'operator'
  try {
    const ticket = secret === undefined ? undefined : await credentials.use(secret, 'login')
    side = ticket?.side ?? side
    if (ticket?.provider !== provider) {
      throw new LoginFailed('login_expired', 'no sign-in of this browser has begun, or it was used')
    }
    const { searchParams: query } = event.url
    if (query.get('error') === 'access_denied') {
      throw new LoginFailed('login_denied', 'the provider says access_denied')
    }
    const answer = new URL(redirectUri(config, provider) + event.url.search)
    const allClaims = await clients.finish(settings, answer, ticket)
    if (side === 'member') await signInMember(event, gateway, provider, allClaims)
    else await signInOperator(event, gateway, provider, keptClaims(allClaims, settings.roles))
    return redirect(event, ticket.to)
  } catch (error) {
    return refuse(event, gateway, { provider, side, error })
  }
}

/** Signs in as the first member of a person; the page lets it change to the others. */
async function signInMember(
  event: H3Event,
  gateway: Gateway,
  provider: string,
  allClaims: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { runtime } = gateway
  const rules = runtime.config.admin.members.join.filter((rule) => rule.provider === provider)
  const claims = keptClaims(allClaims, rules)
  const { members, by } = await runtime.members.ofPerson(provider, claims, rules)
  const [member] = members
  if (!member) {
    const cause = `no member for ${nameOf(claims)} (${claims.email?.toString() ?? claims.sub})`
    throw new LoginFailed('no_membership', cause)
  }
  const actor = memberActor(member, addressOf(event, runtime.config))
  if (by !== 'identity') {
    for (const { id } of members) {
      const after = { by, provider }
      await note({ runtime, actor }, { action: 'member.bind', object: `member:${id}`, after })
    }
  }
  await beginMemberSession(event, gateway, member, 'oidc')
}

async function signInOperator(
  event: H3Event,
  gateway: Gateway,
  provider: string,
  claims: Claims,
): Promise<void> {
  const { runtime } = gateway
  const role = roleOf(claims, runtime.config.admin.login.oidc[provider]!.roles)
  const address = addressOf(event, runtime.config)
  const actor = oidcActor(provider, claims, role ?? 'viewer', address)
  if (!role) {
    const { name, email } = claims
    const after = { refused: 'no_role', name, email }
    await note({ runtime, actor }, { action: 'session.refuse', object: actor.id, after })
    throw new LoginFailed('no_role', `no rule matches ${nameOf(claims)} (${email ?? claims.sub})`)
  }
  await beginSession(event, gateway, { actor, how: 'oidc', subject: { login: provider, claims } })
}

/** Sends the browser back with a code, and nothing of the provider's text; the cause is in the log. */
function refuse(
  event: H3Event,
  { runtime }: Gateway,
  { provider, side, error }: { provider: string; side: Side; error: unknown },
): string {
  const code = error instanceof LoginFailed ? error.code : 'login_failed'
  const id = requestId()
  const reason = runtime.mask.clean(causesOf(error))
  logEvent(runtime.log, 'warn', {
    event: 'login.failed',
    message: `${id}: signing in through ${provider} failed: ${code}: ${reason}`,
    members: { requestId: id, provider, code, why: reason },
  })
  return redirect(event, `${runtime.config.server.basePath}${PAGES[side]}#error=${code}&id=${id}`)
}

function causesOf(error: unknown): string {
  const texts: string[] = []
  for (let at = error; at instanceof Error && texts.length < 4; at = at.cause)
    texts.push(at.message)
  return texts.join(': ')
}

function redirectUri({ server }: Config, provider: string): string {
  return `${server.publicUrl}/login/${provider}/callback`
}

/** A path of one of the two pages; undefined for any other text. */
function pathBelow(to: string | null, basePath: string): string | undefined {
  const url = to === null ? null : URL.parse(to, 'http://here.invalid')
  if (!url || url.host !== 'here.invalid' || !to!.startsWith('/')) return undefined
  const path = url.pathname.startsWith(`${basePath}/`) ? url.pathname.slice(basePath.length) : ''
  return /^\/(?:console|me)(?:\/|$)/.test(path) ? url.pathname + url.search : undefined
}

function redirect(event: H3Event, location: string): string {
  event.res.status = 302
  event.res.headers.set('location', location)
  event.res.headers.set('cache-control', 'no-store')
  event.res.headers.set('referrer-policy', 'no-referrer')
  return ''
}
