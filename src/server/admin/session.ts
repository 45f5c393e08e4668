/** Signing in to the console and out of it, and links that sign in once. */
import type { EventHandler, H3, H3Event } from 'h3'
import * as v from 'valibot'
import type { Actor } from '../../access/actors.ts'
import {
  ONCE_PREFIX,
  type Credentials,
  type FoundSession,
  type Session as StoredSession,
} from '../../access/credentials.ts'
import { hashSecret } from '../../accounts/secrets.ts'
import type { Config } from '../../config/config.ts'
import { InvalidRequest, NotPossible } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { note } from './audit.ts'
import {
  addressOf,
  clearSessionCookie,
  isEncrypted,
  requireKnownHost,
  requireSameOrigin,
  setSessionCookie,
} from '../browser.ts'
import { type AdminAuth, type ConfiguredToken, type Proof } from './auth.ts'
import { momentOrNull, moment } from './resources/settings.ts'
import type { Session, SignInWays } from './resources/session.ts'
import { bodyOf } from './route.ts'
import { conditionView } from './views.ts'

/** Paths below `/admin`. */
export const SESSION_ROUTES = [
  'GET /session',
  'POST /session',
  'DELETE /session',
  'POST /session/once',
] as const

const signIn = v.strictObject({ token: v.pipe(v.string(), v.maxLength(1000)) })

/** The link that signs its reader in once, within 15 minutes. @param base address of the gateway */
export async function signInLink(
  base: string,
  { token }: Pick<ConfiguredToken, 'token'>,
  credentials: Credentials,
): Promise<string> {
  const { secret } = await credentials.ticket({ kind: 'link', token: hashSecret(token) })
  // A fragment reaches no server and no log.
  return `${base}/console#token=${secret}`
}

/**
 * Adds the routes of sessions. They stand beside the table of routes, because a request to sign in has no role yet.
 * @param version the version of the console served now
 */
export function addSessionRoutes(
  app: H3,
  gateway: Gateway,
  auth: AdminAuth,
  version: () => Promise<string | undefined>,
): void {
  const view = async ({ actor, how, session }: Proof): Promise<{ data: Session }> => {
    const { config } = gateway.runtime
    const { seenAt = 0, endsAt = 0 } = session?.session ?? {}
    const unusedAt = seenAt + config.admin.sessions.idle * 1000
    return {
      data: {
        id: actor.session ?? null,
        name: actor.name,
        role: actor.role as Session['role'],
        rights: [...actor.rights],
        how,
        expires_at: momentOrNull(session && Math.min(unusedAt, endsAt)),
        ends_at: momentOrNull(session && endsAt),
        ...(how === 'proxy' &&
          config.admin.login.proxy?.signOut && { sign_out: config.admin.login.proxy.signOut }),
        base: config.server.basePath,
        version: (await version()) ?? null,
        demo: gateway.demo !== undefined,
        ...(gateway.demo?.isFilling && { demo_filling: true }),
        status: conditionView(gateway),
      },
    }
  }
  const handlers: Record<(typeof SESSION_ROUTES)[number], EventHandler> = {
    async 'GET /session'(event) {
      requireKnownHost(event, gateway.runtime.config)
      if (event.req.headers.has('authorization')) return view(await auth.proofOf(event))
      // The console asks this first: no session is a normal answer, not a failure.
      const proof = await auth.ofBrowser(event)
      return proof ? view(proof) : { data: null, sign_in: waysIn(gateway.runtime.config) }
    },
    async 'POST /session'(event) {
      requireKnownHost(event, gateway.runtime.config)
      requireSameOrigin(event)
      const proof = await proofOf(event, gateway, auth)
      return view(await beginSession(event, gateway, proof))
    },
    async 'DELETE /session'(event) {
      const { runtime } = gateway
      const proof = await auth.ofSession(event)
      if (!proof) requireSameOrigin(event)
      clearSessionCookie(event, 'operator', runtime.config)
      if (proof?.session) {
        const { sha256, session } = proof.session
        await runtime.credentials.endSession(sha256)
        const object = `session:${session.id}`
        await note({ runtime, ...proof }, { action: 'session.end', object, after: { ended: true } })
      }
      return { data: null }
    },
    async 'POST /session/once'(event) {
      const { subject } = await auth.proofOf(event)
      if (!subject || !('token' in subject)) {
        const message = 'A sign-in link stands for a token, and you have signed in without one.'
        throw new NotPossible(message)
      }
      const ticket = { kind: 'link', token: subject.token } as const
      const { secret, expiresAt } = await gateway.runtime.credentials.ticket(ticket)
      event.res.status = 201
      const { publicUrl = null } = gateway.runtime.config.server
      return { data: { token: secret, expires_at: moment(expiresAt), public_url: publicUrl } }
    },
  }
  for (const route of SESSION_ROUTES) {
    const [method, path] = route.split(' ') as ['GET' | 'POST' | 'DELETE', string]
    app.on(method, path, handlers[route])
  }
}

/** How operators sign in here. */
function waysIn({ admin: { login }, server: { basePath } }: Config): SignInWays {
  const providers = Object.entries(login.oidc)
    .filter(([, { roles }]) => roles.length > 0)
    .map(([name, { label = name }]) => ({ name, label, href: `${basePath}/login/${name}` }))
  return { token: true, providers, proxy: login.proxy !== undefined }
}

/** Begins a session of the console, and sends its cookie. */
export async function beginSession(event: H3Event, gateway: Gateway, proof: Proof): Promise<Proof> {
  const { actor, how, subject } = proof
  const { sessions } = gateway.runtime.config.admin
  const of = {
    side: 'operator',
    subject: subject!,
    how: how as Exclude<Proof['how'], 'proxy'>,
    keep: true,
  } as const
  const session = await openSession(event, gateway, actor, of, sessions, { role: actor.role, how })
  return { ...proof, actor: { ...actor, session: session.session.id }, session }
}

/** Begins a session, sends its cookie, and notes it. @param after what the audit log says of it */
export async function openSession(
  event: H3Event,
  { runtime }: Gateway,
  actor: Actor,
  of: Pick<StoredSession, 'side' | 'subject' | 'how' | 'keep'>,
  limits: Config['admin']['sessions'],
  after: object,
): Promise<FoundSession> {
  const { credentials, config } = runtime
  const { session, secret } = await credentials.beginSession(
    {
      ...of,
      actor: actor.id,
      name: actor.name,
      secure: isEncrypted(event, config),
      address: actor.address,
      agent: event.req.headers.get('user-agent') ?? '',
    },
    limits,
  )
  setSessionCookie(event, config, secret, session, limits.idle)
  await note(
    { runtime, actor: { ...actor, session: session.id } },
    { action: 'session.create', object: `session:${session.id}`, after },
  )
  return { sha256: hashSecret(secret), session }
}

/** The proof of who signs in: a token, or a link. @throws Unauthenticated, TooManyRequests, InvalidRequest */
async function proofOf(event: H3Event, gateway: Gateway, auth: AdminAuth): Promise<Proof> {
  const { runtime } = gateway
  const parsed = v.safeParse(signIn, await bodyOf({ event, runtime }))
  if (!parsed.success) {
    const message = "Invalid 'token': expected a token of the admin API, or one of a sign-in link."
    throw new InvalidRequest('invalid_value', message, { param: 'token' })
  }
  const { token } = parsed.output
  if (!token.startsWith(ONCE_PREFIX)) return auth.identify(event, token)
  const ticket = await runtime.credentials.use(token, 'link')
  const proof = ticket && (await auth.ofSubject(event, { token: ticket.token }))
  if (proof) return { ...proof, how: 'link' }
  const message = 'This sign-in link was used, or is older than 15 minutes. Ask for a new one.'
  return auth.refuse(addressOf(event, runtime.config), message)
}
