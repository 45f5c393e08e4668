/**
 * Which deployment serves a call. Health and pins outlive a hot reload; they are losable, so they stay in this process.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Deployment, Model } from './catalog.ts'
import type { UpstreamFailure } from './errors.ts'

export interface Health {
  readonly state: 'well' | 'resting'
  /** Failures in a row. */
  readonly failures: number
  /** ms since epoch; only while resting. */
  readonly restsUntil?: number
  /** The class of the last failure. */
  readonly lastFailure?: string
}

/** Who a session belongs to: the same session id of two accounts is two sessions. */
export interface Session {
  readonly account: string
  readonly id: string
}

interface Record {
  failures: number
  restsUntil: number
  lastFailure: string | undefined
}

/** Failures in a row after which a deployment rests. */
const PATIENCE = 3
/** Failures that time does not mend: the deployment rests at once. */
const BROKEN = new Set(['upstream_auth', 'upstream_balance', 'not_found'])
const PIN_TTL_MS = 3_600_000
const MAX_REST_MS = 300_000

export class Routing {
  readonly #now: () => number
  readonly #records = new Map<string, Record>()
  readonly #pins = new LRUCache<string, string>({ max: 50_000, ttl: PIN_TTL_MS })

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /**
   * All deployments of a model, the one to try first in front: lowest priority number, then a weighted draw; with a
   * session the draw is a weighted rendezvous hash, so that related requests stay together without stored state.
   * Resting deployments come last: they are better than no answer.
   */
  order(model: Model, session?: Session): readonly Deployment[] {
    const { deployments } = model
    if (deployments.length < 2) return deployments
    const now = this.#now()
    const pin = session && this.#pins.get(pinOf(model, session))
    const ranked = deployments.map((deployment) => ({
      deployment,
      rest: Math.max(0, (this.#records.get(deployment.id)?.restsUntil ?? 0) - now),
      pinned: deployment.id === pin ? 0 : 1,
      // -ln(u)/w for uniform u: the smallest of these is a weighted draw.
      score:
        -Math.log(session ? uniform(session, deployment.id) : Math.random()) / deployment.weight,
    }))
    ranked.sort(
      (a, b) =>
        a.rest - b.rest ||
        a.pinned - b.pinned ||
        a.deployment.priority - b.deployment.priority ||
        a.score - b.score,
    )
    return ranked.map(({ deployment }) => deployment)
  }

  succeeded(deployment: Deployment): void {
    const record = this.#records.get(deployment.id)
    if (record) this.#records.delete(deployment.id)
  }

  /** @param cooldownMs how long a failing deployment rests, unless its vendor named a time */
  failed(deployment: Deployment, failure: UpstreamFailure, cooldownMs: number): void {
    if (!failure.unhealthy) return
    const record = this.#records.get(deployment.id) ?? {
      failures: 0,
      restsUntil: 0,
      lastFailure: undefined,
    }
    record.failures++
    record.lastFailure = failure.failure
    if (failure.retryAfterMs !== undefined) {
      record.restsUntil = this.#now() + Math.min(failure.retryAfterMs, MAX_REST_MS)
    } else if (record.failures >= PATIENCE || BROKEN.has(failure.failure)) {
      record.restsUntil = this.#now() + cooldownMs
    }
    this.#records.set(deployment.id, record)
  }

  /** Keeps a session where a fail-over moved it, so that it does not flap back. */
  pin(model: Model, session: Session, deployment: Deployment): void {
    this.#pins.set(pinOf(model, session), deployment.id)
  }

  health(deployment: Deployment): Health {
    const record = this.#records.get(deployment.id)
    if (!record) return { state: 'well', failures: 0 }
    const { failures, restsUntil, lastFailure } = record
    const resting = restsUntil > this.#now()
    return {
      state: resting ? 'resting' : 'well',
      failures,
      ...(resting ? { restsUntil } : {}),
      ...(lastFailure ? { lastFailure } : {}),
    }
  }
}

function pinOf(model: Model, session: Session): string {
  return JSON.stringify([session.account, session.id, model.id])
}

/** A number in (0, 1) that depends on nothing but its arguments. */
function uniform(session: Session, deployment: string): number {
  const digest = hash('sha1', JSON.stringify([session.account, session.id, deployment]), 'hex')
  return (Number.parseInt(digest.slice(0, 12), 16) + 1) / (2 ** 48 + 2)
}
