/** Deployments that operators have disabled, on all gateways of one state. */
import { steadyNow } from '../lifetime/scope.ts'
import type { Routing } from '../models/routing.ts'
import type { Log } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'

interface Order {
  /** Moment of the order, ms since epoch. */
  readonly at: number
  /** End of the cooldown, ms since epoch; 0 for a deployment that was enabled again. */
  readonly until: number
}

/** The stored orders: one record, because a gateway reads all of them at once. */
interface Orders {
  readonly revision: number
  readonly orders: Readonly<Record<string, Order>>
}

const KEY = 'taken-out'
const READ_MS = 2000
/** Retention of an order that enables a deployment again, so that every gateway reads it. */
const KEPT_MS = 600_000

export class DisabledDeployments {
  readonly #records: Records
  readonly #routing: Routing
  readonly #log: Log
  /** Whether other gateways give orders too. */
  readonly #isShared: boolean
  #orders: Orders['orders'] = {}
  #readAt = -Infinity

  constructor(
    { records, routing, log }: { records: Records; routing: Routing; log: Log },
    isShared: boolean,
  ) {
    this.#records = records
    this.#routing = routing
    this.#log = log
    this.#isShared = isShared
  }

  /** Carries out the stored orders. Never rejects: without them calls go to every deployment. */
  async load(): Promise<void> {
    try {
      this.#apply((await this.#records.get<Orders>(KEY))?.orders ?? {})
    } catch (error) {
      this.#log.warn('the deployments that were taken out could not be read', error)
    }
  }

  /** Disables a deployment for some seconds. @throws Unavailable while the state cannot be reached */
  disable(id: string, seconds: number): Promise<void> {
    const now = steadyNow()
    return this.#order(id, { at: now, until: now + seconds * 1000 })
  }

  /** Enables a deployment again, also one in a cooldown after failures. @throws Unavailable while the state cannot be reached */
  enable(id: string): Promise<void> {
    return this.#order(id, { at: steadyNow(), until: 0 })
  }

  /** Reads the orders of other gateways. @param now steady ms */
  tick(now: number): void {
    if (!this.#isShared || now - this.#readAt < READ_MS) return
    this.#readAt = now
    void this.load()
  }

  async #order(id: string, order: Order): Promise<void> {
    for (;;) {
      const stored = await this.#records.get<Orders>(KEY)
      const current = Object.entries(stored?.orders ?? {}).filter(([, one]) => !isPast(one))
      const orders = { ...Object.fromEntries(current), [id]: order }
      const revision = stored?.revision ?? 0
      const next = { revision: revision + 1, orders }
      const isDone = stored
        ? await this.#records.replace(KEY, next, revision)
        : await this.#records.create(KEY, next)
      if (isDone) return this.#apply(orders)
    }
  }

  #apply(orders: Orders['orders']): void {
    for (const [id, { at, until }] of Object.entries(orders)) {
      if (this.#orders[id]?.at === at) continue
      if (until === 0) this.#routing.resume(id)
      else this.#routing.takeOut(id, until)
    }
    this.#orders = orders
  }
}

function isPast({ at, until }: Order): boolean {
  return Math.max(until, at + KEPT_MS) < steadyNow()
}
