/** Proofs of the operators of the admin API: tokens, the console's session, and a bound on guesses of a token. */
import type { H3Event } from 'h3'
import { hash, timingSafeEqual } from 'node:crypto'
import { hashSecret } from '../../accounts/secrets.ts'
import { rightsOf, type Actor } from '../../access/actors.ts'
import { nameOf, roleOf } from '../../access/claims.ts'
import type { Claims, FoundSession, StoredToken, Subject } from '../../access/credentials.ts'
import { InvalidRequest, NotFound, TooManyRequests, Unauthenticated } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Config } from '../../config/config.ts'
import type { IncomingMessage } from 'node:http'
import { shownAddress } from '../../observe/address.ts'
import { LineLimit } from '../../observe/access-log.ts'
import { logEvent } from '../../observe/events.ts'
import { isIn, peerOf } from '../client-address.ts'
import {
  addressOf,
  requestOf,
  requireKnownHost,
  requireSameOrigin,
  sessionCookie,
  setSessionCookie,
} from '../browser.ts'
import { STRONG_LENGTH, type How, type OperatorRole } from './resources/session.ts'

/** A token of the configuration. */
export interface ConfiguredToken {
  readonly name: string
  readonly token: string
  readonly role: OperatorRole
}

/** An actor, and how it has proved who it is. */
export interface Proof {
  readonly actor: Actor
  readonly how: How
  /** What a session of it stands for; absent for the header of a proxy. */
  readonly subject?: Subject
  readonly session?: FoundSession
}

/** Name of `admin.token`. */
export const FIRST_TOKEN = 'admin'
const MINUTE_MS = 60_000
const FAILURES_OF_ADDRESS = 10
const FAILURES_IN_ALL = 100

/** The tokens of a configuration; none means that there is no admin API. */
export function tokensOf({ admin: { token, tokens } }: Pick<Config, 'admin'>): ConfiguredToken[] {
  return token === undefined ? tokens : [{ name: FIRST_TOKEN, token, role: 'admin' }, ...tokens]
}

/** Identifies the actors of one gateway. A reloaded configuration applies to the next request. */
export class AdminAuth {
  readonly #gateway: Gateway
  readonly #guesses = new GuessLimit()
  /** Lines about headers that are ignored: one a minute. */
  readonly #ignored = new LineLimit(() => {}, 1)

  constructor(gateway: Gateway) {
    this.#gateway = gateway
  }

  /** The actor of a request. @throws as {@link AdminAuth.proofOf} */
  async actorOf(event: H3Event): Promise<Actor> {
    return (await this.proofOf(event)).actor
  }

  /**
   * The proof of a request: a bearer token, else the console's session, else the header of a proxy.
   * @throws NotFound where there is no admin API, Unauthenticated for a wrong or missing proof, TooManyRequests after too many
   * wrong ones, Forbidden for a request that may come from another site, Unavailable
   */
  async proofOf(event: H3Event): Promise<Proof> {
    this.#requireAdmin()
    const secret = /^bearer +(\S+) *$/i.exec(event.req.headers.get('authorization') ?? '')?.[1]
    if (secret !== undefined) return this.identify(event, secret)
    const proof = await this.ofBrowser(event)
    if (proof) return proof
    if (sessionCookie(event, 'operator') !== undefined) {
      throw new Unauthenticated('This session has ended. Sign in again.', 'session_ended')
    }
    throw new Unauthenticated('Send the admin token as "Authorization: Bearer <token>".')
  }

  /** The proof of a token. Failures count against the address. @throws as {@link AdminAuth.proofOf} */
  async identify(event: H3Event, secret: string): Promise<Proof> {
    const address = addressOf(event, this.#gateway.runtime.config)
    // Each is compared, so that the time tells nothing about the place of the right one.
    this.#requireAdmin()
    const tokens = tokensOf(this.#gateway.runtime.config)
    const [configured] = tokens.filter(({ token }) => isSame(secret, token))
    if (configured) {
      if (secret.length < STRONG_LENGTH) this.#guesses.check(address)
      return this.#ofConfigured(configured, address)
    }
    const { credentials } = this.#gateway.runtime
    const token = await credentials.tokenOf(secret, isReading(event))
    if (token) {
      await credentials.noteUse(secret, token)
      return ofStored(token, hashSecret(secret), address)
    }
    return this.refuse(address, 'The admin token is wrong.')
  }

  /**
   * Refuses a wrong proof, and counts it. A right one always passes: otherwise anybody behind the operator's address could lock
   * the operator out.
   * @throws Unauthenticated, or TooManyRequests after too many others
   */
  refuse(address: string, message: string): never {
    noteRefusal(this.#gateway, 'admin', address)
    this.#guesses.check(address)
    this.#guesses.note(address)
    throw new Unauthenticated(message)
  }

  /** The proof of the console's cookie, or of the header of a proxy that authenticates; undefined without. */
  async ofBrowser(event: H3Event): Promise<Proof | undefined> {
    return (await this.ofSession(event)) ?? this.#ofProxy(event)
  }

  /** The proof of the console's cookie; undefined without a session that goes on. Sends the cookie again from time to time. */
  async ofSession(event: H3Event): Promise<Proof | undefined> {
    const secret = sessionCookie(event, 'operator')
    if (secret === undefined) return undefined
    const { credentials, config } = this.#gateway.runtime
    requireKnownHost(event, config)
    requireSameOrigin(event)
    const { sessions } = config.admin
    const foundSession = await credentials.session(secret, 'operator', sessions, isReading(event))
    if (!foundSession) return undefined
    const { session } = foundSession
    const proof = await this.ofSubject(event, session.subject)
    if (!proof) {
      await credentials.endSession(foundSession.sha256)
      return undefined
    }
    const prolonged = await credentials.prolong(foundSession, sessions)
    if (prolonged) setSessionCookie(event, config, secret, prolonged, sessions.idle)
    const { id, how } = session
    return { ...proof, actor: { ...proof.actor, session: id }, how, session: foundSession }
  }

  /** What a session or a link stands for, as it is now; undefined where that may do nothing any more. */
  async ofSubject(event: H3Event, subject: Subject): Promise<Proof | undefined> {
    const { config, credentials } = this.#gateway.runtime
    const address = addressOf(event, config)
    if ('login' in subject) return ofLogin(subject, config, address)
    if (!('token' in subject)) return undefined
    const configured = tokensOf(config).find(({ token }) => hashSecret(token) === subject.token)
    if (configured) return this.#ofConfigured(configured, address)
    const token = await credentials.tokenByHash(subject.token, isReading(event))
    return token && ofStored(token, subject.token, address)
  }

  #ofConfigured({ name, role, token }: ConfiguredToken, address: string): Proof {
    const actor = actorOf(`file:${name}`, name, role, address)
    return { actor, how: 'token', subject: { token: hashSecret(token) } }
  }

  /** The proof of the headers that a proxy has set. From any other peer they mean nothing. @throws InvalidRequest */
  #ofProxy(event: H3Event): Proof | undefined {
    const { config, log } = this.#gateway.runtime
    const { proxy } = config.admin.login
    if (!proxy || !event.req.headers.has(proxy.user)) return undefined
    const request = requestOf(event)
    if (!isIn(peerOf(request), proxy.from)) {
      if (!this.#ignored.admits('', performance.now())) return undefined
      const message = `the header ${proxy.user} of ${peerOf(request)} is ignored, which is not in admin.login.proxy.from`
      logEvent(log, 'warn', { event: 'login.header_ignored', message, members: {} })
      return undefined
    }
    const [user, email, groups] = [proxy.user, proxy.email, proxy.groups].map((name) =>
      name === undefined ? undefined : onlyHeader(request, name),
    )
    if (user === undefined) return undefined
    requireKnownHost(event, config)
    requireSameOrigin(event)
    const claims = {
      iss: 'proxy',
      sub: user,
      user,
      ...(email !== undefined && { email }),
      groups: groups?.split(',').map((group) => group.trim()) ?? [],
    }
    const role = roleOf(claims, proxy.roles)
    if (!role) throw new Unauthenticated(`No rule gives ${JSON.stringify(user)} a role.`)
    const address = addressOf(event, config)
    return { actor: actorOf(`proxy:${user}`, email ?? user, role, address), how: 'proxy' }
  }

  /** @throws NotFound where the configuration has no way in */
  #requireAdmin(): void {
    const { config } = this.#gateway.runtime
    const { oidc, proxy } = config.admin.login
    if (tokensOf(config).length > 0 || proxy || Object.keys(oidc).length > 0) return
    throw new NotFound('unknown_url', 'There is no such route.')
  }
}

/** The value of a header; undefined for an empty one. @throws InvalidRequest for one that occurs twice, or is no plain text */
function onlyHeader({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  const values = rawHeaders.filter(
    (_, i) => i % 2 === 1 && rawHeaders[i - 1]!.toLowerCase() === name,
  )
  const [value = ''] = values
  // oxlint-disable-next-line no-control-regex -- Control characters are what it looks for.
  if (values.length <= 1 && value.length <= 1024 && !/[\x00-\x1f\x7f]/.test(value)) {
    return value.trim() || undefined
  }
  const message = `The header ${name} has to occur once, with at most 1024 characters.`
  throw new InvalidRequest('invalid_value', message, { param: name })
}

/** The proof of a person that a provider has named, by the rules of the present configuration. */
function ofLogin(
  subject: Extract<Subject, { login: string }>,
  { admin: { login } }: Config,
  address: string,
): Proof | undefined {
  const provider = Object.hasOwn(login.oidc, subject.login) ? login.oidc[subject.login] : undefined
  const role = provider && roleOf(subject.claims, provider.roles)
  if (!role) return undefined
  return { actor: oidcActor(subject.login, subject.claims, role, address), how: 'oidc', subject }
}

export function oidcActor(
  provider: string,
  claims: Claims,
  role: OperatorRole,
  address: string,
): Actor {
  return actorOf(`oidc:${provider}/${claims.sub}`, nameOf(claims), role, address)
}

function ofStored({ id, name, role }: StoredToken, sha256: string, address: string): Proof {
  const actor = actorOf(`token:${id}`, name, role, address)
  return { actor, how: 'token', subject: { token: sha256 } }
}

function actorOf(id: string, name: string, role: OperatorRole, address: string): Actor {
  return { id, name, role, rights: rightsOf(role), address }
}

/** A line about a wrong proof of an operator or member, for programs that block addresses. */
export function noteRefusal({ runtime }: Gateway, scope: 'admin' | 'me', address: string): void {
  const shown = shownAddress(address, runtime.config.log.address)
  runtime.authFailures.failed({ scope, why: 'unknown', address: shown })
}

/** Whether a request changes nothing: it may go on with what was read before an outage of the state. */
function isReading({ req: { method } }: H3Event): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Compares digests, because they have equal lengths, which the comparison needs, and tokens of any length take the same time. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'))
}

/** Counts failures of the last minute, by address and in all. */
export class GuessLimit {
  /** Failures, oldest first; at most as many as are allowed in all. */
  #failures: { readonly address: string; readonly at: number }[] = []

  /** @throws TooManyRequests where an address has to wait before its next guess */
  check(address: string): void {
    const waitMs = this.#waitMs(address)
    if (waitMs > 0) {
      throw new TooManyRequests('rate_limited', 'Too many wrong tokens.', waitMs)
    }
  }

  note(address: string): void {
    this.#failures.push({ address, at: performance.now() })
  }

  #waitMs(address: string): number {
    if (this.#failures.length === 0) return 0
    const now = performance.now()
    this.#failures = this.#failures.filter(({ at }) => at > now - MINUTE_MS)
    const own = this.#failures.filter((one) => one.address === address)
    const wait = (failures: typeof own, most: number) =>
      failures.length < most ? 0 : failures.at(-most)!.at + MINUTE_MS - now
    return Math.max(wait(own, FAILURES_OF_ADDRESS), wait(this.#failures, FAILURES_IN_ALL))
  }
}
