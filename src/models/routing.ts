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
import { Health } from './health.ts'

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
  /** Until when deployments are taken out, by id; ms since epoch. */
  readonly #out = new Map<string, number>()
  readonly #pins = new LRUCache<string, string>({
    ...atMost(MAX_PINS),
    ttl: PIN_TTL_MS,
    // An active session keeps its deployment.
    updateAgeOnGet: true,
  })

  /** @param random in [0, 1), as `Math.random` */
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
   * The deployment that the call tries next. In this order:
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
