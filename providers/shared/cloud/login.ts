/** Keeps the credentials that a login gives, such as an access token, and gets new ones before they expire. */
import type { Host, LoginReport, Provider, UpstreamResponse } from '../../../src/plugin.ts'
import { readErrorBody } from '../http.ts'
import { createRequests, LoginFailure, type LoginRequests } from './requests.ts'

/** What a source of credentials has given. */
export interface Issued<T> {
  readonly credentials: T
  /** How long they are valid from now on, in ms; Infinity for lasting ones. */
  readonly lifetimeMs: number
  /** Where they come from, for the operator: such as `metadata server`. */
  readonly source: string
}

/** Gets credentials. Everything it asks goes through `requests`, which has the time limit. @throws LoginFailure */
type Issue<T> = (requests: LoginRequests) => Promise<Issued<T>>

/** New credentials are requested this long before the end of the old ones, or in the middle of a short life. */
const AHEAD_MS = 5 * 60_000
/** The pause between two attempts while there are valid credentials. */
const PAUSE_MS = 10_000
/** The pause between two renewals that a vendor caused by refusing valid credentials: it may never accept this login. */
const REFUSAL_PAUSE_MS = 60_000
const LIMIT_MS = 10_000

interface Kept<T> extends Issued<T> {
  /** Steady ms. */
  readonly renewAt: number
  readonly endsAt: number
  readonly secrets: readonly string[]
}

/**
 * The login of one configured instance. However many requests wait, one renewal runs. While it fails the credentials that
 * are there serve until they expire. All times are taken from the steady clock.
 */
export class Login<T extends object> {
  readonly #host: Host
  readonly #issue: Issue<T>
  readonly #now: () => number
  readonly #closed = new AbortController()
  #kept: Kept<T> | undefined
  /** Credentials that a vendor refused. */
  #refused: T | undefined
  #renewal: Promise<Kept<T>> | undefined
  #notBefore = -Infinity
  #refusalNotBefore = -Infinity

  /** What a provider with this login has besides its methods. */
  readonly members: Pick<Provider, 'logIn' | 'close'> = {
    logIn: (signal) => this.report(signal),
    close: () => this.close(),
  }

  /** @param now steady ms */
  constructor(host: Host, issue: Issue<T>, now: () => number = () => performance.now()) {
    this.#host = host
    this.#issue = issue
    this.#now = now
  }

  /**
   * Valid credentials: the same object until they are renewed.
   * @param signal the signal of the request that needs them; the renewal goes on for others
   * @throws the failure class `upstream_auth`; the reason of the signal
   */
  async credentials(signal: AbortSignal): Promise<T> {
    const kept = this.#held()
    if (!kept) return (await this.#renewedFor(signal)).credentials
    if (kept.credentials === this.#refused) {
      return this.#renewedFor(signal).then(
        (renewed) => renewed.credentials,
        () => (signal.throwIfAborted(), kept.credentials),
      )
    }
    const now = this.#now()
    if (now >= kept.renewAt && now >= this.#notBefore) this.#renewInBackground()
    return kept.credentials
  }

  /**
   * Notes that a vendor refused credentials before their time.
   * @returns whether {@link credentials} may give others; false if that was tried a short time ago
   */
  refused(credentials: T): boolean {
    if (this.#kept?.credentials !== credentials || this.#refused === credentials) return true
    const now = this.#now()
    if (now < this.#refusalNotBefore) return false
    this.#refusalNotBefore = now + REFUSAL_PAUSE_MS
    this.#refused = credentials
    return true
  }

  /** Logs in, unless there are valid credentials. @throws as {@link credentials} */
  async report(signal: AbortSignal): Promise<LoginReport> {
    const { source, endsAt } = this.#held() ?? (await this.#renewedFor(signal))
    if (endsAt === Infinity) return { source }
    return { source, expiresAt: Math.round(Date.now() + endsAt - this.#now()) }
  }

  /** Ends a renewal that is running, and allows no other. */
  close(): void {
    this.#closed.abort(new LoginFailure('login', 'the provider was closed'))
  }

  #held(): Kept<T> | undefined {
    return this.#kept && this.#now() < this.#kept.endsAt ? this.#kept : undefined
  }

  async #renewedFor(signal: AbortSignal): Promise<Kept<T>> {
    try {
      return await unlessAborted(this.#renew(), signal)
    } catch (cause) {
      signal.throwIfAborted()
      throw this.#host.fail('upstream_auth', undefined, { cause })
    }
  }

  #renewInBackground(): void {
    this.#renew().catch((error: Error) => {
      if (this.#closed.signal.aborted) return
      this.#host.log.warn(`the login could not be renewed before it expires: ${error.message}`)
    })
  }

  #renew(): Promise<Kept<T>> {
    this.#renewal ??= this.#attempt().finally(() => {
      this.#renewal = undefined
      this.#refused = undefined
    })
    return this.#renewal
  }

  /** @throws LoginFailure */
  async #attempt(): Promise<Kept<T>> {
    const began = this.#now()
    this.#notBefore = began + PAUSE_MS
    const secrets: string[] = []
    const before = this.#kept?.secrets ?? []
    const limit = new AbortController()
    const end = () => limit.abort(this.#closed.signal.reason)
    const timer = setTimeout(() => {
      limit.abort(new LoginFailure('login', `it took more than ${LIMIT_MS / 1000} seconds`))
    }, LIMIT_MS)
    this.#closed.signal.addEventListener('abort', end)
    try {
      this.#closed.signal.throwIfAborted()
      const requests = createRequests(this.#host, limit.signal, (texts) => {
        secrets.push(...texts)
        this.#host.mask([...before, ...secrets])
      })
      const issued = await unlessAborted(this.#issue(requests), limit.signal)
      const { lifetimeMs, source } = issued
      if (Number.isNaN(lifetimeMs)) throw new LoginFailure(source, 'the credentials have no end')
      if (lifetimeMs <= 0) throw new LoginFailure(source, 'the credentials have expired')
      const renewAt = began + Math.max(lifetimeMs - AHEAD_MS, lifetimeMs / 2)
      this.#kept = { ...issued, renewAt, endsAt: began + lifetimeMs, secrets }
      return this.#kept
    } catch (error) {
      throw LoginFailure.of(error)
    } finally {
      clearTimeout(timer)
      this.#closed.signal.removeEventListener('abort', end)
    }
  }
}

/** Headers that authenticate a request. */
export type AuthHeaders = Readonly<Record<string, string>>

/**
 * A host whose requests carry the headers of a login; headers that a request has itself win. After a 401 the login is renewed
 * and the request is repeated, once.
 */
export function withLogin(host: Host, login: Login<AuthHeaders>): Host {
  return {
    ...host,
    async request(request) {
      const { signal } = request
      const send = (credentials: AuthHeaders): Promise<UpstreamResponse> =>
        host.request({ ...request, headers: { ...credentials, ...request.headers } })
      const credentials = await login.credentials(signal)
      const response = await send(credentials)
      if (response.status !== 401 || !login.refused(credentials)) return response
      const renewed = await login.credentials(signal)
      if (renewed === credentials) return response
      await readErrorBody(response, signal)
      return send(renewed)
    },
  }
}

/** Waits for a promise as long as the signal allows. @throws the reason of the signal */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
