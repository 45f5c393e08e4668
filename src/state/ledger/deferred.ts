/**
 * Settlements that are durable nowhere yet: neither the store nor the local disk has confirmed them. An engine keeps them in
 * memory and retries; settlements that cannot be kept, or remain at the end, are written to the log.
 */
import { UnbookedSettlements } from '../../errors/errors.ts'
import { formatPico, MAX_AMOUNT } from '../../money/money.ts'
import type { Lease, Log, RequestId, Settled, Settlement } from './ledger.ts'

/** How long a caller waits for a settlement before it is deferred. */
export const SETTLE_MS = 10_000
/** Most settlements that are kept. No call is admitted while there is one, so only running calls can add to them. */
const MOST_KEPT = 10_000

interface Kept {
  settlement: Settlement
  /** Steady ms. */
  readonly since: number
}

/** The deferred settlements of one engine, oldest first. */
export class DeferredSettlements implements Iterable<Settlement> {
  readonly #log: Log
  readonly #mostKept: number
  readonly #kept = new Map<RequestId, Kept>()
  /** Settlements that a store is asked to book for the first time. */
  readonly #tried = new Map<RequestId, Settlement>()
  /** Settlements beyond the bound. They are logged after this turn: until then they can be waived. */
  readonly #lost = new Map<RequestId, Settlement>()
  /** Receipts of deferred settlements that are booked now. */
  readonly #receipts = new Map<RequestId, Settled>()
  #conflicts = 0
  #unfit = 0
  #closed = false

  constructor(log: Log, mostKept = MOST_KEPT) {
    this.#log = log
    this.#mostKept = mostKept
  }

  get size(): number {
    return this.#kept.size
  }

  /** Age of the oldest settlement. */
  get oldestMs(): number {
    for (const { since } of this.#kept.values()) return performance.now() - since
    return 0
  }

  /** Number of settlements since the start that were booked earlier with another cost. The first cost stands. */
  get conflicts(): number {
    return this.#conflicts
  }

  /** The present form of a settlement: with a cost of 0 once it was waived. */
  get(request: RequestId): Settlement | undefined {
    return this.#kept.get(request)?.settlement ?? this.#tried.get(request)
  }

  /** Whether a settlement is kept, or can be. */
  hasRoomFor({ request }: Settlement): boolean {
    return this.#kept.has(request) || (!this.#closed && this.#kept.size < this.#mostKept)
  }

  /** Makes a settlement waivable until it is kept or booked. */
  trying(settlement: Settlement): void {
    this.#tried.set(settlement.request, settlement)
  }

  /** Keeps a settlement; one beyond the bound is logged. */
  keep(settlement: Settlement): Settled {
    const { request, cost } = settlement
    this.#tried.delete(request)
    if (this.#closed) this.drop(settlement, 'the ledger is closed')
    else if (!this.hasRoomFor(settlement)) this.#lose(settlement)
    else if (!this.#kept.has(request)) {
      this.#kept.set(request, { settlement, since: performance.now() })
    }
    return { state: 'deferred', cost, balance: 0n }
  }

  /** Logs a settlement that will never be booked. */
  drop(settlement: Settlement, reason: string): void {
    this.#kept.delete(settlement.request)
    this.#log.error(unbookedLine(settlement, reason))
  }

  #lose(settlement: Settlement): void {
    if (this.#lost.size === 0) setImmediate(() => this.#dropLost())
    this.#lost.set(settlement.request, settlement)
  }

  #dropLost(): void {
    for (const settlement of this.#lost.values()) {
      this.drop(settlement, `${this.#mostKept} others wait already`)
      this.#unfit++
    }
    this.#lost.clear()
  }

  /** Whether a settlement can be booked at all; one whose amount is out of bounds is logged. */
  accepts(settlement: Settlement): boolean {
    const { cost } = settlement
    if (cost >= 0n && cost <= MAX_AMOUNT) return true
    this.drop(settlement, 'its amount is out of bounds')
    return false
  }

  /** The store has booked a settlement, now or earlier. */
  booked({ request, cost }: Settlement, settled: Settled): Settled {
    const due = this.get(request)?.cost ?? cost
    this.#tried.delete(request)
    if (this.#kept.delete(request)) {
      const [oldest] = this.#receipts.keys()
      if (this.#receipts.size >= this.#mostKept) this.#receipts.delete(oldest!)
      this.#receipts.set(request, { ...settled, state: 'duplicate' })
    }
    if (due !== settled.cost) {
      this.#conflicts++
      const [booked, now] = [settled.cost, due].map(formatPico)
      this.#log.error(`${request} was booked before with ${booked} USD, not ${now}; this stands`)
    }
    return settled
  }

  /**
   * Sets the cost of a kept settlement to 0: its answer was not sent.
   * @returns the settlement as it will be booked, or the receipt if it was booked meanwhile
   */
  waive({ request }: Lease): Settlement | Settled {
    const kept = this.#kept.get(request)
    if (kept) return (kept.settlement = waived(kept.settlement))
    for (const open of [this.#tried, this.#lost]) {
      const settlement = open.get(request)
      if (!settlement) continue
      open.set(request, waived(settlement))
      return waived(settlement)
    }
    const receipt = this.#receipts.get(request)
    this.#receipts.delete(request)
    return receipt ?? { state: 'duplicate', cost: 0n, balance: 0n }
  }

  *[Symbol.iterator](): Iterator<Settlement> {
    for (const { settlement } of this.#kept.values()) yield settlement
  }

  /** Logs the remaining settlements. @throws UnbookedSettlements when there are any, or some were beyond the bound earlier */
  close(): void {
    this.#closed = true
    this.#dropLost()
    const left = this.#kept.size + this.#unfit
    for (const settlement of this) this.drop(settlement, 'the gateway ends')
    if (left > 0) throw new UnbookedSettlements(left)
  }
}

/** The settlement of a failed call, with a cost of 0. */
export function waived(settlement: Settlement): Settlement {
  return { ...settlement, cost: 0n, usage: { ...settlement.usage, outcome: 'failed' } }
}

/** A line of the log that ends in the row of a settlement. */
export function unbookedLine(settlement: Settlement, reason: string): string {
  return `settlement not booked (${reason}): ${bookableRow(settlement)}`
}

/** The row of a settlement in the form of `ledger export`, so that `ledger import` can book it. */
export function bookableRow(settlement: Settlement): string {
  const { account, key, request, day, cost, usage } = settlement
  const { at } = usage
  return JSON.stringify({
    kind: 'usage',
    account,
    key,
    request,
    day,
    at,
    cost: formatPico(cost),
    usage,
  })
}
