/** Actors of the admin API: tokens with roles, and a bound on guesses of a token. */
import type { H3Event } from 'h3'
import { hash, timingSafeEqual } from 'node:crypto'
import { Forbidden, NotFound, TooManyRequests, Unauthenticated } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Config } from '../../config/config.ts'
import type { Role } from './resources/session.ts'

export interface Actor {
  /** Name of the token. */
  readonly name: string
  readonly role: Role
  /** Address of the client's end of the connection; of a proxy where there is one. */
  readonly address: string
}

export interface AdminToken {
  readonly name: string
  readonly token: string
  readonly role: Role
}

/**
 * Finds the token of a request without a bearer token, such as that of the console's cookie.
 * @throws GatewayError for a request that has to be refused
 */
export type SessionReader = (
  event: H3Event,
  tokens: readonly AdminToken[],
) => AdminToken | undefined

const ROLES: readonly Role[] = ['viewer', 'billing', 'admin']
/** Name of `admin.token`. */
const FIRST_TOKEN = 'admin'
const MINUTE_MS = 60_000
const FAILURES_OF_ADDRESS = 10
const FAILURES_IN_ALL = 100

/** The tokens of a configuration; none means that there is no admin API. */
export function tokensOf({ admin: { token, tokens } }: Pick<Config, 'admin'>): AdminToken[] {
  return token === undefined ? tokens : [{ name: FIRST_TOKEN, token, role: 'admin' }, ...tokens]
}

/** @throws Forbidden, which names the role, for an actor with a lesser role */
export function requireRole({ name, role }: Actor, needed: Role): void {
  if (ROLES.indexOf(role) >= ROLES.indexOf(needed)) return
  const message = `This needs the role ${needed}; the token "${name}" has the role ${role}.`
  throw new Forbidden('forbidden', message)
}

/** Identifies the actors of one gateway. A reloaded configuration applies to the next request. */
export class AdminAuth {
  readonly #gateway: Gateway
  readonly #session: SessionReader
  readonly #guesses = new GuessLimit()

  /** @param session called where a request has no bearer token */
  constructor(gateway: Gateway, session: SessionReader = () => undefined) {
    this.#gateway = gateway
    this.#session = session
  }

  /**
   * The actor of a request.
   * @throws NotFound without a token in the configuration, Unauthenticated for a wrong or missing one, TooManyRequests after
   * too many wrong ones
   */
  actorOf(event: H3Event): Actor {
    const tokens = this.#tokens()
    const address = addressOf(event)
    const secret = /^bearer +(\S+) *$/i.exec(event.req.headers.get('authorization') ?? '')?.[1]
    const token =
      secret === undefined ? this.#session(event, tokens) : this.identify(secret, address)
    if (token) return { name: token.name, role: token.role, address }
    throw new Unauthenticated('Send the admin token as "Authorization: Bearer <token>".')
  }

  /**
   * The token of the configuration that equals the given text. Failures count against the address.
   * @throws NotFound, Unauthenticated and TooManyRequests as {@link actorOf}
   */
  identify(secret: string, address: string): AdminToken {
    const tokens = this.#tokens()
    // Each is compared, so that the time tells nothing about the place of the right one.
    const match = this.attempt(
      address,
      () => tokens.filter(({ token }) => isSame(secret, token))[0],
    )
    if (match) return match
    throw new Unauthenticated('The admin token is wrong.')
  }

  /**
   * Runs one attempt to prove something from an address; undefined is a failure. A proof always passes: otherwise anybody
   * behind the operator's address could lock the operator out.
   * @throws TooManyRequests for a failure after too many others
   */
  attempt<T>(address: string, prove: () => T | undefined): T | undefined {
    const proof = prove()
    if (proof !== undefined) return proof
    const waitMs = this.#guesses.waitMs(address)
    if (waitMs > 0) {
      throw new TooManyRequests('rate_limited', 'Too many wrong admin tokens.', waitMs)
    }
    this.#guesses.note(address)
    return undefined
  }

  #tokens(): AdminToken[] {
    const tokens = tokensOf(this.#gateway.runtime.config)
    if (tokens.length > 0) return tokens
    throw new NotFound('unknown_url', 'There is no such route.')
  }
}

export function addressOf(event: H3Event): string {
  return event.runtime?.node?.req.socket?.remoteAddress ?? ''
}

/** Compares digests, because they have equal lengths, which the comparison needs, and tokens of any length take the same time. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'))
}

/** Counts failures of the last minute, by address and in all. */
class GuessLimit {
  /** Failures, oldest first; at most as many as are allowed in all. */
  #failures: { readonly address: string; readonly at: number }[] = []

  /** How long an address has to wait before its next guess; 0 for none. */
  waitMs(address: string): number {
    if (this.#failures.length === 0) return 0
    const now = performance.now()
    this.#failures = this.#failures.filter(({ at }) => at > now - MINUTE_MS)
    const own = this.#failures.filter((one) => one.address === address)
    const wait = (failures: typeof own, most: number) =>
      failures.length < most ? 0 : failures.at(-most)!.at + MINUTE_MS - now
    return Math.max(wait(own, FAILURES_OF_ADDRESS), wait(this.#failures, FAILURES_IN_ALL))
  }

  note(address: string): void {
    this.#failures.push({ address, at: performance.now() })
  }
}
