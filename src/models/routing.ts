/**
 * Which deployment serves a call. Health and pins outlive a hot reload; they are losable, so they stay in this process.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Catalog, Deployment, Model } from './catalog.ts'
import type { UpstreamFailure } from '../errors/errors.ts'
import { Health } from './health.ts'

/** What ties a call to calls before it. The same session of two accounts is two sessions. */
export interface SessionAffinity {
  readonly account: string
  /** The id of a session. */
  readonly session?: string | undefined
  /** A signature in the conversation that means something only to whoever made it. */
  readonly bond?: string | undefined
}

const PIN_TTL_MS = 3_600_000
const MAX_PINS = 50_000
/** A client that waits itself is told to wait at least as long. */
const SHORT_PAUSE_MS = 1000
const NONE: readonly Deployment[] = []

export class Routing {
  readonly #now: () => number
  readonly #random: () => number
  /** By deployment id. */
  readonly #health = new Map<string, Health>()
  readonly #pins = new LRUCache<string, string>({
    max: MAX_PINS,
    ttl: PIN_TTL_MS,
    // A session that goes on stays where it is.
    updateAgeOnGet: true,
  })

  /** @param random in [0, 1), as `Math.random` */
  constructor(now: () => number = Date.now, random: () => number = Math.random) {
    this.#now = now
    this.#random = random
  }

  /** How a deployment has been doing; calls report to it. */
  healthOf(deployment: Deployment): Health {
    let health = this.#health.get(deployment.id)
    if (!health) this.#health.set(deployment.id, (health = new Health(this.#now)))
    return health
  }

  /**
   * The deployment to ask next: the one that answered this conversation or session before, if it is open; else of those
   * with the lowest priority number the one that a session belongs to (a weighted rendezvous hash, so that related
   * requests stay together without stored state), or the better of two that are drawn by weight. One that rests is better
   * than none: the one that has rested longest.
   * @param tried those that this call has asked
   * @returns undefined when all were
   */
  choose(model: Model, ties?: SessionAffinity, tried = NONE): Deployment | undefined {
    const { deployments } = model
    if (deployments.length === 1) return tried.length > 0 ? undefined : deployments[0]
    const now = this.#now()
    let priority = Infinity
    let one: Deployment | undefined
    let count = 0
    let weight = 0
    for (const deployment of deployments) {
      if (deployment.priority > priority || !this.#isOpen(deployment, now, tried)) continue
      if (deployment.priority < priority) {
        priority = deployment.priority
        count = 0
        weight = 0
      }
      one = deployment
      count++
      weight += deployment.weight
    }
    if (!one) return this.#soonest(deployments, tried)
    const kept = ties && this.#keptAt(model, ties)
    if (kept && this.#isOpen(kept, now, tried)) return kept
    if (count === 1) return one
    const candidates = { deployments, priority, now, tried, weight }
    return ties?.session === undefined
      ? this.#betterOfTwo(candidates)
      : this.#homeOf(ties.account, ties.session, candidates)
  }

  /**
   * A deployment has answered: a session that is there because others were not well stays there, and does not flap back.
   */
  remember(model: Model, { account, session }: SessionAffinity, deployment: Deployment): void {
    if (session === undefined) return
    if (model.deployments.every((one) => this.healthOf(one).flawless)) return
    this.#pins.set(pinOf(model, account, session), deployment.id)
  }

  /** An answer held a signature: the conversation goes on where it was made. */
  pin({ account }: SessionAffinity, bond: string, deployment: Deployment): void {
    this.#pins.set(bondOf(account, bond), deployment.id)
  }

  /**
   * Forgets the health of deployments that are gone or, because they were set up anew, may be better.
   * @param isSame whether a provider of this name is set up as before
   */
  retain(catalog: Catalog, isSame: (provider: string) => boolean): void {
    const kept = new Set<string>()
    for (const { deployments } of catalog.all()) {
      for (const { id, provider } of deployments) if (isSame(provider)) kept.add(id)
    }
    for (const id of this.#health.keys()) if (!kept.has(id)) this.#health.delete(id)
  }

  #isOpen(deployment: Deployment, now: number, tried: readonly Deployment[]): boolean {
    return this.healthOf(deployment).isOpen(now) && !tried.includes(deployment)
  }

  #soonest(
    deployments: readonly Deployment[],
    tried: readonly Deployment[],
  ): Deployment | undefined {
    let soonest: Deployment | undefined
    for (const one of deployments) {
      if (tried.includes(one)) continue
      if (!soonest || this.healthOf(one).restsUntil < this.healthOf(soonest).restsUntil) {
        soonest = one
      }
    }
    return soonest
  }

  #keptAt(model: Model, { account, session, bond }: SessionAffinity): Deployment | undefined {
    const id =
      (bond === undefined ? undefined : this.#pins.get(bondOf(account, bond))) ??
      (session === undefined ? undefined : this.#pins.get(pinOf(model, account, session)))
    return id === undefined ? undefined : model.deployments.find((one) => one.id === id)
  }

  #homeOf(account: string, session: string, candidates: Candidates): Deployment {
    let home: Deployment | undefined
    let least = Infinity
    for (const deployment of candidates.deployments) {
      if (!this.#isCandidate(deployment, candidates)) continue
      // -ln(u)/w for uniform u: the smallest of these is a weighted draw.
      const score = -Math.log(uniform(account, session, deployment.id)) / deployment.weight
      if (score >= least) continue
      home = deployment
      least = score
    }
    return home!
  }

  /** Weights decide, unless the one they choose is clearly worse off than another. */
  #betterOfTwo(candidates: Candidates): Deployment {
    const first = this.#draw(candidates)
    const second = this.#draw(candidates, first)
    const share = first.weight / second.weight
    return this.healthOf(first).isWorseThan(this.healthOf(second), share) ? second : first
  }

  #draw(candidates: Candidates, but?: Deployment): Deployment {
    let left = this.#random() * (candidates.weight - (but?.weight ?? 0))
    let drawn: Deployment | undefined
    for (const deployment of candidates.deployments) {
      if (deployment === but || !this.#isCandidate(deployment, candidates)) continue
      drawn = deployment
      left -= deployment.weight
      if (left < 0) break
    }
    return drawn!
  }

  #isCandidate(deployment: Deployment, { priority, now, tried }: Candidates): boolean {
    return deployment.priority === priority && this.#isOpen(deployment, now, tried)
  }
}

/** Those that a call may go to: open, not tried, of one priority. */
interface Candidates {
  readonly deployments: readonly Deployment[]
  readonly priority: number
  readonly now: number
  readonly tried: readonly Deployment[]
  /** Of all of them. */
  readonly weight: number
}

/**
 * ms to wait before the same deployment is asked once more, for want of another (provider contract, section 4).
 * @returns undefined where that is no use, or takes too long
 */
export function retryDelayMs({ failure, retryAfterMs = 0 }: UpstreamFailure): number | undefined {
  if (failure === 'upstream_error') return 0
  if (retryAfterMs > SHORT_PAUSE_MS) return undefined
  if (failure === 'overloaded') return Math.max(retryAfterMs, 200 + Math.random() * 400)
  return failure === 'upstream_rate' && retryAfterMs > 0 ? retryAfterMs : undefined
}

function pinOf(model: Model, account: string, session: string): string {
  return JSON.stringify([account, session, model.id])
}

/** Signatures may be long, and are nobody's business. */
function bondOf(account: string, bond: string): string {
  return hash('sha256', JSON.stringify([account, bond]), 'base64url')
}

/** A number in (0, 1) that depends on nothing but its arguments. */
function uniform(account: string, session: string, deployment: string): number {
  const digest = hash('sha1', JSON.stringify([account, session, deployment]), 'hex')
  return (Number.parseInt(digest.slice(0, 12), 16) + 1) / (2 ** 48 + 2)
}
