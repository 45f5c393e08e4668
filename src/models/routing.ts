/**
 * Chooses the deployment that serves a call. Health of deployments and pins survive a hot reload, but not a restart of the
 * process.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import { steadyNow } from '../lifetime/scope.ts'
import type { Catalog, Deployment, Model } from './catalog.ts'
import type { UpstreamFailure } from '../errors/errors.ts'
import type { FailureClass } from '../plugin.ts'
import type { HealthReport, HealthState } from '../server/admin/resources/model.ts'

// The health of a deployment: a circuit breaker that opens after failures and then lets one call at a time through, and
// measurements of its latency and load.

/** Failures that time does not cure: the operator has to correct the API key, the balance at the vendor or the catalog. */
const FOR_THE_OPERATOR: ReadonlySet<FailureClass> = new Set([
  'upstream_auth',
  'upstream_balance',
  'not_found',
])
/** Failures in a row that start a cooldown. */
const FAILURES_BEFORE_COOLDOWN = 3
/** Upper bound of a cooldown, also where the vendor names a longer time. */
const MAX_COOLDOWN_MS = 300_000
/** Upper bound of a cooldown as a multiple of the configured one. */
const MAX_COOLDOWN_FACTOR = 10
/** Weight of a new measurement in the moving mean. */
const LATENCY_WEIGHT = 0.2
/** Older latency measurements are ignored. */
const MEASUREMENT_TTL_MS = 30_000
/** Differences of latency and load below these are ignored. */
const NOISE_MS = 50
const NOISE_CALLS = 8

/** Whether the operator has to act on a failure, so that it has to be logged. */
export function concernsOperator({ failure }: UpstreamFailure): boolean {
  return FOR_THE_OPERATOR.has(failure)
}

/**
 * Health of one deployment. Each call reports in this order: `begin`, then `answered` or `failed` or neither, then `end`.
 * The outcome of a call counts only while the state in which it began lasts. So a burst of calls that fail together starts
 * one cooldown, and a late outcome changes nothing.
 */
export class Health {
  readonly #now: () => number
  #state: HealthState = 'healthy'
  /** Number of state changes so far; calls remember it when they begin. */
  #epoch = 0
  #since: number | undefined
  #failures = 0
  /** Cooldowns since the last complete answer. */
  #cooldowns = 0
  #cooldownUntil = 0
  /** Taken out by an operator: from when, until when. */
  #out = { since: 0, until: 0 }
  #lastFailure: FailureClass | undefined
  #lastMessage: string | undefined
  #inFlight = 0
  #latencyMs = 0
  #measuredAt = -Infinity
  #succeededAt: number | undefined
  /** Whether an operator has put it back. */
  #isResumed = false

  /** @param now the clock, ms since epoch */
  constructor(now: () => number) {
    this.#now = now
  }

  /** It is true if there was no failure since the last complete answer. */
  get flawless(): boolean {
    return this.#failures === 0 && this.#state === 'healthy'
  }

  /** End of the last cooldown in ms since epoch; in the past, or 0, outside a cooldown. */
  get cooldownUntil(): number {
    return this.#cooldownUntil
  }

  /** Whether a call may go to the deployment: it is healthy, or the cooldown is over and no other call is probing it. */
  isOpen(): boolean {
    if (this.isOut()) return false
    if (this.#state === 'healthy') return true
    return this.#state === 'cooldown' && this.#now() >= this.#cooldownUntil
  }

  /** Whether an operator has taken the deployment out. */
  isOut(): boolean {
    return this.#out.until > 0 && this.#now() < this.#out.until
  }

  /** No call goes to the deployment before a moment, ms since epoch. */
  takeOut(until: number): void {
    this.#out = { since: this.isOut() ? this.#out.since : this.#now(), until }
  }

  /** Puts the deployment in the state of one that has never failed, and was never taken out. */
  resume(): void {
    this.#out.until = 0
    this.#failures = 0
    this.#cooldowns = 0
    this.#lastFailure = undefined
    this.#isResumed = true
    if (this.#state !== 'healthy') this.#become('healthy')
  }

  /**
   * A call goes to the deployment. The first one after a cooldown is the probe.
   * @returns a token that the call passes to the other methods
   */
  begin(): number {
    this.#inFlight++
    if (this.#state === 'cooldown' && this.#now() >= this.#cooldownUntil) this.#become('probing')
    return this.#epoch
  }

  /** The first part of the answer has arrived. @returns true if the deployment has recovered with it */
  answered(began: number, latencyMs: number): boolean {
    this.#latencyMs += (latencyMs - this.#latencyMs) * (this.#measuredAt < 0 ? 1 : LATENCY_WEIGHT)
    this.#measuredAt = this.#now()
    if (began !== this.#epoch || this.#state === 'healthy') return false
    this.#become('healthy')
    return true
  }

  /**
   * The call failed, and the failure counts against the deployment.
   * @param cooldownMs length of the first cooldown; doubled for each further one, unless the vendor names a time
   * @returns ms of the cooldown that this failure starts; undefined if it starts none
   */
  failed(
    began: number,
    { failure, retryAfterMs = 0 }: UpstreamFailure,
    cooldownMs: number,
  ): number | undefined {
    if (this.#isOutdated(began)) return undefined
    this.#failures++
    this.#lastFailure = failure
    this.#lastMessage = undefined
    const patient =
      this.#failures < FAILURES_BEFORE_COOLDOWN &&
      !FOR_THE_OPERATOR.has(failure) &&
      retryAfterMs <= 0
    if (this.#state === 'healthy' && patient) return undefined
    if (this.#state === 'cooldown' && retryAfterMs <= 0) return undefined
    const durationMs =
      retryAfterMs > 0
        ? Math.min(retryAfterMs, MAX_COOLDOWN_MS)
        : cooldownMs * Math.min(2 ** this.#cooldowns, MAX_COOLDOWN_FACTOR)
    const until = this.#now() + durationMs
    if (this.#state === 'cooldown') {
      // The call was sent during the cooldown because the model has no other deployment left.
      this.#cooldownUntil = Math.max(this.#cooldownUntil, until)
      return undefined
    }
    this.#cooldowns++
    this.#cooldownUntil = until
    this.#become('cooldown')
    return durationMs
  }

  /** The call is over. @param complete whether the whole answer has arrived */
  end(began: number, complete = false): void {
    this.#inFlight--
    if (complete) this.#succeededAt = this.#now()
    if (this.#isOutdated(began)) return
    if (this.#state === 'probing') {
      // The probe had no outcome, for example because the client left: the next call probes.
      this.#become('cooldown')
    } else if (complete) {
      this.#failures = 0
      this.#cooldowns = 0
      this.#lastFailure = undefined
    }
  }

  /** Keeps the vendor's message about the last failure. @param message the message without secrets and quotations */
  explained(message: string | undefined): void {
    this.#lastMessage = message
  }

  /**
   * Whether this deployment is at least twice as slow or as busy as another one, beyond noise.
   * @param share number of calls that this one should have for each call of the other one
   */
  isWorseThan(other: Health, share: number): boolean {
    const since = this.#now() - MEASUREMENT_TTL_MS
    const comparable = this.#measuredAt > since && other.#measuredAt > since
    const [mine, theirs] = comparable ? [this.#latencyMs, other.#latencyMs] : [0, 0]
    const pressure = (mine + NOISE_MS) * (this.#inFlight / share + NOISE_CALLS)
    return pressure > 2 * (theirs + NOISE_MS) * (other.#inFlight + NOISE_CALLS)
  }

  /** The present state, for the admin API and the metrics. */
  report(): HealthReport {
    const isOut = this.isOut()
    const cooling = isOut || (this.#state === 'cooldown' && this.#now() < this.#cooldownUntil)
    const until = isOut ? this.#out.until : this.#cooldownUntil
    const since = isOut ? this.#out.since : this.#since
    return {
      state: cooling ? 'cooldown' : this.#state === 'cooldown' ? 'probing' : this.#state,
      ...(since === undefined ? {} : { since }),
      failures: this.#failures,
      ...(cooling ? { cooldownUntil: until } : {}),
      ...(isOut ? { takenOut: true } : {}),
      ...(this.#lastFailure === undefined ? {} : { lastFailure: this.#lastFailure }),
      ...(this.#lastFailure !== undefined && this.#lastMessage !== undefined
        ? { lastMessage: this.#lastMessage }
        : {}),
      ...(this.#measuredAt < 0 ? {} : { latencyMs: this.#latencyMs }),
      inFlight: this.#inFlight,
      ...(this.#succeededAt === undefined ? {} : { succeededAt: this.#succeededAt }),
      isProven: this.#measuredAt >= 0 || this.#isResumed,
    }
  }

  /** The answer that makes a deployment healthy may still break off, so the outcome of that call counts. */
  #isOutdated(began: number): boolean {
    return began < this.#epoch - (this.#state === 'healthy' ? 1 : 0)
  }

  #become(state: HealthState): void {
    if ((state === 'healthy') !== (this.#state === 'healthy')) this.#since = this.#now()
    this.#state = state
    this.#epoch++
  }
}

/** What connects a call with earlier calls. The same session id of two accounts means two sessions. */
export interface SessionAffinity {
  readonly account: string
  /** Session id that the client sent. */
  readonly session?: string | undefined
  /** Provider-specific token in the conversation, such as a reasoning signature, that only the deployment that made it can read. */
  readonly affinityToken?: string | undefined
}

const PIN_TTL_MS = 3_600_000
const MAX_PINS = 50_000
/** A longer delay is left to the client, which is told to wait. */
const MAX_RETRY_DELAY_MS = 1000
const NONE_TRIED: readonly Deployment[] = []

/** Routing of one process: the health of all deployments, and pins of sessions and conversations. */
export class Routing {
  readonly #now: () => number
  readonly #random: () => number
  /** Health by deployment id. */
  readonly #health = new Map<string, Health>()
  /** The moments until which deployments are taken out, by id; ms since epoch. */
  readonly #out = new Map<string, number>()
  readonly #pins = new LRUCache<string, string>({
    ...atMost(MAX_PINS),
    ttl: PIN_TTL_MS,
    // An active session keeps its deployment.
    updateAgeOnGet: true,
  })

  /** @param random gives numbers in [0, 1), as `Math.random` does */
  constructor(now: () => number = steadyNow, random: () => number = Math.random) {
    this.#now = now
    this.#random = random
  }

  /** The health of a deployment, to which calls report. */
  healthOf(deployment: Deployment): Health {
    let health = this.#health.get(deployment.id)
    if (!health) {
      this.#health.set(deployment.id, (health = new Health(this.#now)))
      health.takeOut(this.#out.get(deployment.id) ?? 0)
    }
    return health
  }

  /** No call goes to a deployment before a moment, ms since epoch. */
  takeOut(id: string, until: number): void {
    this.#out.set(id, until)
    this.#health.get(id)?.takeOut(until)
  }

  /** Calls go to a deployment as if it had never failed, and had not been taken out. */
  resume(id: string): void {
    this.#out.delete(id)
    this.#health.get(id)?.resume()
  }

  /**
   * The deployment that the call tries next, in this order:
   * 1. the one that answered this conversation or session before, if it accepts calls;
   * 2. of those with the lowest priority number: for a session, the one that a weighted rendezvous hash assigns, which keeps
   *    related requests together without stored state; otherwise the better of two that are drawn by weight;
   * 3. if none accepts calls, the one whose cooldown ends first.
   *
   * Deployments that an operator has taken out are left out.
   * @param tried deployments that this call has tried already
   * @returns undefined when there is none, or all were tried
   */
  choose(model: Model, affinity?: SessionAffinity, tried = NONE_TRIED): Deployment | undefined {
    const { deployments } = model
    if (deployments.length === 1) {
      const only = deployments[0]!
      return tried.length > 0 || this.healthOf(only).isOut() ? undefined : only
    }
    const open = deployments.filter((one) => this.healthOf(one).isOpen() && !tried.includes(one))
    if (open.length === 0) return this.#firstToRecover(deployments, tried)
    const pinned = affinity && this.#pinned(model, affinity)
    if (pinned && open.includes(pinned)) return pinned
    const priority = Math.min(...open.map((one) => one.priority))
    const candidates = open.filter((one) => one.priority === priority)
    if (candidates.length === 1) return candidates[0]
    return affinity?.session === undefined
      ? this.#betterOfTwo(candidates)
      : rendezvous(affinity.account, affinity.session, candidates)
  }

  /**
   * A deployment has answered a call of a session. The session stays there if any deployment of the model has failed
   * lately, so that it does not move back and forth while a deployment recovers.
   */
  remember(model: Model, { account, session }: SessionAffinity, deployment: Deployment): void {
    if (session === undefined) return
    if (model.deployments.every((one) => this.healthOf(one).flawless)) return
    this.#pins.set(sessionKey(model, account, session), deployment.id)
  }

  /** An answer contained an affinity token: the conversation continues at the deployment that made it. */
  pin({ account }: SessionAffinity, affinityToken: string, deployment: Deployment): void {
    this.#pins.set(tokenKey(account, affinityToken), deployment.id)
  }

  /**
   * Called after a reload: forgets the health of deployments that are gone or whose provider has other settings now.
   * @param isSame whether the provider of this name has the same settings as before
   */
  retain(catalog: Catalog, isSame: (provider: string) => boolean): void {
    const kept = new Set<string>()
    for (const { deployments } of catalog.all()) {
      for (const { id, provider } of deployments) if (isSame(provider)) kept.add(id)
    }
    for (const id of this.#health.keys()) if (!kept.has(id)) this.#health.delete(id)
  }

  #firstToRecover(
    deployments: readonly Deployment[],
    tried: readonly Deployment[],
  ): Deployment | undefined {
    const until = (one: Deployment) => this.healthOf(one).cooldownUntil
    return deployments
      .filter((one) => !tried.includes(one) && !this.healthOf(one).isOut())
      .reduce<Deployment | undefined>(
        (best, one) => (best && until(best) <= until(one) ? best : one),
        undefined,
      )
  }

  #pinned(
    model: Model,
    { account, session, affinityToken }: SessionAffinity,
  ): Deployment | undefined {
    const id =
      (affinityToken === undefined
        ? undefined
        : this.#pins.get(tokenKey(account, affinityToken))) ??
      (session === undefined ? undefined : this.#pins.get(sessionKey(model, account, session)))
    return id === undefined ? undefined : model.deployments.find((one) => one.id === id)
  }

  /** Draws two by weight and returns the first one, unless it is clearly slower or busier than the second one. */
  #betterOfTwo(candidates: readonly Deployment[]): Deployment {
    const first = this.#draw(candidates)
    const second = this.#draw(candidates.filter((one) => one !== first))
    const share = first.weight / second.weight
    return this.healthOf(first).isWorseThan(this.healthOf(second), share) ? second : first
  }

  #draw(candidates: readonly Deployment[]): Deployment {
    let left = this.#random() * candidates.reduce((sum, { weight }) => sum + weight, 0)
    return candidates.find(({ weight }) => (left -= weight) < 0) ?? candidates.at(-1)!
  }
}

/** The deployment with the smallest of -ln(u)/w, for uniform u: a draw by weight w. */
function rendezvous(
  account: string,
  session: string,
  candidates: readonly Deployment[],
): Deployment {
  const score = ({ id, weight }: Deployment) => -Math.log(uniform(account, session, id)) / weight
  const scores = candidates.map(score)
  return candidates[scores.indexOf(Math.min(...scores))]!
}

/**
 * ms to wait before the same deployment is tried again, for a model without another deployment.
 * @returns undefined if another try is useless, or if the vendor asks for a wait that the client should make itself
 */
export function retryDelayMs({ failure, retryAfterMs = 0 }: UpstreamFailure): number | undefined {
  if (failure === 'upstream_error') return 0
  if (retryAfterMs > MAX_RETRY_DELAY_MS) return undefined
  if (failure === 'overloaded') return Math.max(retryAfterMs, 200 + Math.random() * 400)
  return failure === 'upstream_rate' && retryAfterMs > 0 ? retryAfterMs : undefined
}

function sessionKey(model: Model, account: string, session: string): string {
  return JSON.stringify([account, session, model.id])
}

/** Hashed, because tokens can be long. */
function tokenKey(account: string, affinityToken: string): string {
  return hash('sha256', JSON.stringify([account, affinityToken]), 'base64url')
}

/** A uniformly distributed number in (0, 1), the same in every process for the same arguments. */
function uniform(account: string, session: string, deployment: string): number {
  const digest = hash('sha1', JSON.stringify([account, session, deployment]), 'hex')
  return (Number.parseInt(digest.slice(0, 12), 16) + 1) / (2 ** 48 + 2)
}
