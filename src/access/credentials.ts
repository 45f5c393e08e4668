/**
 * Everything that the gateway makes to be let in with: tokens of the admin API, sessions, what is used once, and tokens to call
 * as a key. Each is a random secret, of which only the SHA-256 is stored, as the key of a record that says what it stands for.
 */
import { performance } from 'node:perf_hooks'
import { LRUCache } from 'lru-cache'
import { hashSecret, hasValidChecksum, need, newSecret, startOf } from '../accounts/secrets.ts'
import type { Condition } from '../accounts/accounts.ts'
import { NotFound, RevisionChanged, Unavailable } from '../errors/errors.ts'
import { atMost } from '../lifetime/cache.ts'
import type { OperatorRole } from '../server/admin/resources/session.ts'
import type { Changed } from '../server/admin/resources/settings.ts'
import type { Records } from '../state/records.ts'

const TOKEN_PREFIX = 'sat-sluice-'
const SESSION_PREFIX = 'session.'
export const ONCE_PREFIX = 'once.'
export const PLAY_PREFIX = 'play.'

const MOST_TOKENS = 500
const LINK_SECONDS = 15 * 60
const PLAY_SECONDS = 600
/** Seconds without use after which a session ends whose cookie ends with the browser. */
const UNKEPT_IDLE = 8 * 3600
const USE_STEP_MS = 3_600_000
const AGENT_LENGTH = 120
const ID_DIGITS = 16
const BATCH = 200
const SESSIONS_BETWEEN_LISTS = 100

// What was read lately is not read again. While the state is away, it lets readers go on.
const CACHE_ENTRIES = 1000
const FRESH_MS = 5000
const FRESH_MISS_MS = 2000
const OUTAGE_MS = 15 * 60_000

/** A token of the admin API that was made at run time. */
export interface StoredToken {
  readonly id: string
  readonly name: string
  readonly role: OperatorRole
  /** Beginning of the secret, for lists. */
  readonly start: string
  readonly expiresAt?: number | undefined
  readonly createdAt: number
  readonly createdBy: string
  /** It is written at most once an hour. */
  readonly usedAt?: number | undefined
  readonly changed: Changed
  readonly revision: number
}

/** What a person is by an OpenID Connect provider: the claims that rules may ask for. */
export type Claims = Readonly<Record<string, string | readonly string[]>> & {
  readonly iss: string
  readonly sub: string
}

export type Subject =
  /** SHA-256 of a token, stored or of the configuration. */
  | { readonly token: string }
  /** Name of a provider, and the claims of the person. */
  | { readonly login: string; readonly claims: Claims }
  | { readonly member: string }
  /** SHA-256 of the secret of an API key. */
  | { readonly key: string }

export type Side = 'operator' | 'member'

export interface Session {
  readonly id: string
  readonly side: Side
  readonly subject: Subject
  /** Id of the actor, for lists. */
  readonly actor: string
  readonly name: string
  readonly how: 'token' | 'link' | 'oidc' | 'invitation' | 'key'
  /** Whether its cookie goes over encrypted connections alone. */
  readonly secure: boolean
  /** Whether its cookie outlives the browser. */
  readonly keep: boolean
  readonly createdAt: number
  readonly seenAt: number
  readonly endsAt: number
  readonly address: string
  readonly agent: string
  readonly revision: number
}

/** What is used once. */
type Ticket =
  | { readonly kind: 'link'; readonly token: string }
  | { readonly kind: 'invitation'; readonly member: string }
  | {
      readonly kind: 'login'
      readonly side: Side
      readonly provider: string
      readonly verifier: string
      readonly nonce: string
      readonly state: string
      readonly to: string
    }

/** A key as which its holder may call. */
interface Play {
  readonly key: string
  readonly revision: number
  readonly by: string
}

/** Durations in seconds: without use, and in all. */
interface SessionLimits {
  readonly idle: number
  readonly lifetime: number
}

interface Read {
  readonly value: object | null
  /** Monotonic ms. */
  readonly at: number
}

/** A session that was found, with the hash of its secret. */
export interface FoundSession {
  readonly sha256: string
  readonly session: Session
}

export class Credentials {
  readonly #records: Records
  readonly #now: () => number
  #begun = 0
  readonly #cache = new LRUCache<string, Read>(atMost(CACHE_ENTRIES))

  /** @param now ms since epoch */
  constructor(records: Records, now: () => number = () => Date.now()) {
    this.#records = records
    this.#now = now
  }

  // Tokens of the admin API.

  /**
   * Makes a token. The result is the only place where its secret can be read.
   * @param reserved names of the configuration's tokens
   * @throws InvalidRequest for a name that is taken, or too many tokens
   */
  async createToken(
    init: Pick<StoredToken, 'name' | 'role' | 'expiresAt'>,
    by: string,
    reserved: readonly string[],
  ): Promise<{ readonly token: StoredToken; readonly secret: string }> {
    const live = (await this.tokens()).filter((one) => !this.#isPast(one.expiresAt))
    need(
      live.length < MOST_TOKENS,
      'name',
      `that of a token to end first: there are ${MOST_TOKENS}`,
    )
    const names = [...reserved, ...live.map(({ name }) => name)]
    need(!names.includes(init.name), 'name', 'new: another token is called so')
    const secret = newSecret(TOKEN_PREFIX)
    const sha256 = hashSecret(secret)
    const at = this.#now()
    const token: StoredToken = {
      ...init,
      id: idOf('tok_', sha256),
      start: startOf(secret, TOKEN_PREFIX),
      createdAt: at,
      createdBy: by,
      changed: { at, by },
      revision: 1,
    }
    // First the record: a list takes an id without a record out of the index.
    await this.#records.create(`token:${sha256}`, token)
    await this.#records.add('tokens', sha256)
    this.#cache.delete(`token:${sha256}`)
    return { token, secret }
  }

  /** All stored tokens, oldest first, those that have expired too. */
  async tokens(): Promise<readonly StoredToken[]> {
    return (await this.#listed<StoredToken>('tokens', 'token')).map(([, token]) => token)
  }

  /** @throws NotFound, RevisionChanged */
  async changeToken(
    id: string,
    change: Partial<Pick<StoredToken, 'name' | 'role'>> & { expiresAt?: number | null | undefined },
    by: string,
    condition: Condition<StoredToken> = {},
  ): Promise<StoredToken> {
    const sha256 = await this.#tokenHash(id)
    const { name, role, expiresAt } = change
    const others = (await this.tokens()).filter((one) => one.id !== id)
    need(!others.some((one) => one.name === name), 'name', 'new: another token is called so')
    const next = await this.#records.update<StoredToken>(`token:${sha256}`, (token) => {
      if (!token) throw missingToken(id)
      checkRevision(token, condition)
      condition.replaced?.(token)
      return {
        ...token,
        name: name ?? token.name,
        role: role ?? token.role,
        expiresAt: expiresAt === undefined ? token.expiresAt : (expiresAt ?? undefined),
        changed: { at: this.#now(), by },
      }
    })
    this.#cache.delete(`token:${sha256}`)
    return next!
  }

  /** Ends a token; its sessions end with it, because each of their requests looks for it. @throws NotFound, RevisionChanged */
  async endToken(id: string, condition: Condition<StoredToken> = {}): Promise<StoredToken> {
    const sha256 = await this.#tokenHash(id)
    const token = await this.#records.get<StoredToken>(`token:${sha256}`)
    if (!token) throw missingToken(id)
    checkRevision(token, condition)
    condition.replaced?.(token)
    await this.#end(`token:${sha256}`)
    await this.#records.drop('tokens', sha256)
    const isOfToken = ({ subject }: Session) => 'token' in subject && subject.token === sha256
    await this.endSessions(isOfToken)
    return token
  }

  /** The token of a secret, if it is valid. @param outage whether what was read before an outage counts */
  async tokenOf(secret: string, outage: boolean): Promise<StoredToken | undefined> {
    if (!isOwn(secret, TOKEN_PREFIX)) return undefined
    return this.tokenByHash(hashSecret(secret), outage)
  }

  async tokenByHash(sha256: string, outage: boolean): Promise<StoredToken | undefined> {
    const token = await this.#read<StoredToken>(`token:${sha256}`, outage)
    return token && !this.#isPast(token.expiresAt) ? token : undefined
  }

  /** Notes that a token was used. Never rejects: the token is valid without. */
  async noteUse(secret: string, token: StoredToken): Promise<void> {
    if (this.#now() - (token.usedAt ?? 0) < USE_STEP_MS) return
    const key = `token:${hashSecret(secret)}`
    const next = { ...token, usedAt: this.#now() }
    // Its revision stays, so that its use disturbs no change that is being made.
    const isDone = await this.#records.replace(key, next, token.revision).catch(() => false)
    if (isDone) this.#keep(key, next)
    else this.#cache.delete(key)
  }

  // Sessions.

  /** Begins a session. The result is the only place where its secret can be read. */
  async beginSession(
    init: Omit<Session, 'id' | 'createdAt' | 'seenAt' | 'endsAt' | 'revision'>,
    { lifetime }: SessionLimits,
  ): Promise<{ readonly session: Session; readonly secret: string }> {
    const secret = newSecret(SESSION_PREFIX)
    const sha256 = hashSecret(secret)
    const createdAt = this.#now()
    const session: Session = {
      ...init,
      agent: init.agent.slice(0, AGENT_LENGTH),
      id: idOf('ses_', sha256),
      createdAt,
      seenAt: createdAt,
      endsAt: createdAt + lifetime * 1000,
      revision: 1,
    }
    await this.#records.create(`session:${sha256}`, session, { ttlSeconds: lifetime })
    await this.#records.add('sessions', sha256)
    // Reading the list takes sessions that are over out of it.
    if (++this.#begun % SESSIONS_BETWEEN_LISTS === 0) await this.sessions(() => false)
    return { session, secret }
  }

  /**
   * The session of a cookie, if it has not ended.
   * @param outage whether what was read before an outage counts. @throws Unavailable
   */
  async session(
    secret: string,
    side: Side,
    { idle }: SessionLimits,
    outage: boolean,
  ): Promise<FoundSession | undefined> {
    if (!isOwn(secret, SESSION_PREFIX)) return undefined
    const sha256 = hashSecret(secret)
    const session = await this.#read<Session>(`session:${sha256}`, outage)
    if (!session || session.side !== side || this.#isPast(session.endsAt)) return undefined
    return this.#now() - session.seenAt > idleOf(session, idle) * 1000
      ? undefined
      : { sha256, session }
  }

  /**
   * Notes that a session is used, in steps. It does not bring back one that has ended meanwhile.
   * @returns the session where its cookie has to be sent again
   */
  async prolong(
    { sha256, session }: FoundSession,
    { idle }: SessionLimits,
  ): Promise<Session | undefined> {
    const now = this.#now()
    const stepMs = Math.min(300_000, (idleOf(session, idle) * 1000) / 4)
    if (now - session.seenAt < stepMs) return undefined
    const key = `session:${sha256}`
    const next = { ...session, seenAt: now }
    const life = { ttlSeconds: Math.max(1, Math.ceil((session.endsAt - now) / 1000)) }
    const isDone = await this.#records
      .replace(key, next, session.revision, life)
      .catch((error: unknown) => {
        if (error instanceof Unavailable) return false
        throw error
      })
    if (isDone) this.#keep(key, next)
    return isDone ? next : undefined
  }

  /** All sessions that have not ended, oldest first. */
  async sessions(isWanted: (session: Session) => boolean): Promise<readonly Session[]> {
    const listed = await this.#listed<Session>('sessions', 'session')
    return listed.map(([, session]) => session).filter(isWanted)
  }

  /** @returns the sessions that this call has ended */
  async endSessions(isWanted: (session: Session) => boolean): Promise<readonly Session[]> {
    const ended: Session[] = []
    for (const [sha256, session] of await this.#listed<Session>('sessions', 'session')) {
      if (isWanted(session) && (await this.endSession(sha256))) ended.push(session)
    }
    return ended
  }

  /** @returns whether this call has ended it */
  async endSession(sha256: string): Promise<boolean> {
    const isEnded = await this.#end(`session:${sha256}`)
    await this.#records.drop('sessions', sha256)
    return isEnded
  }

  // What is used once.

  /** Makes a secret that is used once. @returns it, its hash, and its end in ms since epoch */
  async ticket(
    ticket: Ticket,
    seconds = LINK_SECONDS,
  ): Promise<{ readonly secret: string; readonly sha256: string; readonly expiresAt: number }> {
    const secret = newSecret(ONCE_PREFIX)
    const sha256 = hashSecret(secret)
    await this.#records.create(`ticket:${sha256}`, ticket, { ttlSeconds: seconds })
    return { secret, sha256, expiresAt: this.#now() + seconds * 1000 }
  }

  /** Uses a ticket up: of several uses at the same moment, in all gateways of one state, one gets it. */
  async use<Kind extends Ticket['kind']>(
    secret: string,
    kind: Kind,
  ): Promise<Extract<Ticket, { kind: Kind }> | undefined> {
    if (!isOwn(secret, ONCE_PREFIX)) return undefined
    const key = `ticket:${hashSecret(secret)}`
    const ticket = await this.#records.get<Ticket>(key)
    if (ticket?.kind !== kind || !(await this.#records.del(key))) return undefined
    return ticket as Extract<Ticket, { kind: Kind }>
  }

  // Tokens to call as a key.

  async playToken(play: Play): Promise<{ readonly secret: string; readonly expiresAt: number }> {
    const secret = newSecret(PLAY_PREFIX)
    const life = { ttlSeconds: PLAY_SECONDS }
    await this.#records.create(`play:${hashSecret(secret)}`, play, life)
    return { secret, expiresAt: this.#now() + PLAY_SECONDS * 1000 }
  }

  async play(secret: string): Promise<Play | undefined> {
    return isOwn(secret, PLAY_PREFIX)
      ? this.#records.get<Play>(`play:${hashSecret(secret)}`)
      : undefined
  }

  #isPast(at: number | undefined): boolean {
    return at !== undefined && at <= this.#now()
  }

  async #tokenHash(id: string): Promise<string> {
    const digits = /^tok_([0-9a-f]{16})$/.exec(id)?.[1]
    const hashes = digits === undefined ? [] : await this.#records.list('tokens')
    const sha256 = hashes.find((one) => one.startsWith(digits!))
    if (sha256 === undefined) throw missingToken(id)
    return sha256
  }

  /** A record, from the cache while it is fresh. @throws Unavailable, whose message names what still works */
  async #read<T extends object>(key: string, outage: boolean): Promise<T | undefined> {
    const cached = this.#cache.get(key)
    const ageMs = cached ? performance.now() - cached.at : Infinity
    if (cached && ageMs < (cached.value ? FRESH_MS : FRESH_MISS_MS)) {
      return (cached.value ?? undefined) as T | undefined
    }
    try {
      const value = await this.#records.get<T>(key)
      this.#keep(key, value ?? null)
      return value
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      if (outage && cached?.value && ageMs < OUTAGE_MS) return cached.value as T
      const message =
        'The state cannot be reached, so only a token of the configuration is accepted.'
      throw new Unavailable('service_unavailable', message, { cause: error })
    }
  }

  #keep(key: string, value: object | null): void {
    this.#cache.set(key, { value, at: performance.now() })
  }

  async #end(key: string): Promise<boolean> {
    const isEnded = await this.#records.del(key)
    this.#keep(key, null)
    return isEnded
  }

  /** The records of an index, with their hashes; ids whose record is gone leave the index. */
  async #listed<T extends object>(index: string, kind: string): Promise<(readonly [string, T])[]> {
    const hashes = await this.#records.list(index)
    const entries: (readonly [string, T])[] = []
    const gone: string[] = []
    for (let at = 0; at < hashes.length; at += BATCH) {
      const some = hashes.slice(at, at + BATCH)
      const records = await this.#records.getMany<T>(some.map((sha256) => `${kind}:${sha256}`))
      some.forEach((sha256, i) => {
        if (records[i]) entries.push([sha256, records[i]])
        else gone.push(sha256)
      })
    }
    if (gone.length > 0) await this.#records.drop(index, ...gone)
    return entries
  }
}

function isOwn(secret: string, prefix: string): boolean {
  return secret.startsWith(prefix) && hasValidChecksum(secret, prefix)
}

function idOf(prefix: string, sha256: string): string {
  return prefix + sha256.slice(0, ID_DIGITS)
}

function missingToken(id: string): NotFound {
  const shown = JSON.stringify(id.length > 100 ? `${id.slice(0, 100)}…` : id)
  return new NotFound('not_found', `There is no token ${shown}.`)
}

function idleOf({ keep }: Session, idle: number): number {
  return keep ? idle : Math.min(idle, UNKEPT_IDLE)
}

function checkRevision(token: StoredToken, { expected }: Condition<StoredToken>): void {
  if (expected === undefined || expected === token.revision) return
  throw new RevisionChanged(token)
}
