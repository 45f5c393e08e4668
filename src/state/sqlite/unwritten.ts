/**
 * Charges on their way to the file: an account book has them already, the file not yet. One that waits for too long is deferred: its
 * caller gets an answer, and the write is still tried.
 */
import { DeferredSettlements, SETTLE_MS, waived } from '../ledger/deferred.ts'
import type { AccountBook } from '../ledger/book.ts'
import type { BookedCharge, Lease, Log, RequestId, Settled, Settlement } from '../ledger/ledger.ts'
import type { Pico } from '../../money/money.ts'
import type { RescueFile } from './rescue.ts'
import { isRefused, type Charge, type CommandResult } from './store.ts'
import type { WorkerClient } from './worker-client.ts'
import { countsOf, type Counts } from '../ledger/limit-list.ts'

const NO_COUNTS: Counts = { usd: 0n, tokens: 0n, requests: 0n, concurrent: 0n }

/** Time between two searches for charges that have waited for too long. */
const WATCH_MS = 500

export class UnwrittenCharges implements Iterable<UnwrittenCharge> {
  readonly deferred: DeferredSettlements
  readonly #client: WorkerClient
  readonly #rescue: RescueFile | undefined
  readonly #charges = new Set<UnwrittenCharge>()
  /** One timer for all charges, while there are any. */
  #watcher: NodeJS.Timeout | undefined

  readonly #booked: (charge: BookedCharge) => void

  /** @param booked called with each receipt of the store. @param rescue takes charges that the store will never write */
  constructor(
    client: WorkerClient,
    log: Log,
    booked: (charge: BookedCharge) => void,
    rescue?: RescueFile,
  ) {
    this.#client = client
    this.#booked = booked
    this.#rescue = rescue
    this.deferred = new DeferredSettlements(log)
  }

  /**
   * Writes a charge. Resolves when it is in the file, or as `deferred`; never rejects.
   * @param held the day of the call's own hold. Such a call was not settled earlier, so its book is charged at once; for other
   * calls only the file can tell.
   */
  write(settlement: Settlement, book: AccountBook, held: string | undefined): Promise<Settled> {
    const { cost, day } = settlement
    if (!this.deferred.accepts(settlement)) {
      return Promise.resolve({ state: 'deferred', cost, balance: book.balance })
    }
    return new Promise((resolve) => {
      const unwritten = new UnwrittenCharge(settlement, held ?? day, book, resolve)
      if (held !== undefined) unwritten.book()
      this.#charges.add(unwritten)
      this.#watch()
      this.#client.queue(
        'settle',
        unwritten.charge,
        (result) => this.#written(unwritten, result),
        // The thread has ended, the ledger is closed or damaged.
        () => this.#keep(unwritten),
      )
    })
  }

  /** See {@link Ledger.waive}. @param book of the account */
  waive(lease: Lease, book: AccountBook): Settled {
    for (const unwritten of this.#charges) {
      if (unwritten.settlement.request !== lease.request) continue
      this.#defer(unwritten)
      unwritten.waive()
    }
    const answer = this.deferred.waive(lease)
    if ('state' in answer) return answer
    return { state: 'deferred', cost: answer.cost, balance: book.balance }
  }

  [Symbol.iterator](): Iterator<UnwrittenCharge> {
    return this.#charges.values()
  }

  /** Called after the client was closed. @throws UnbookedSettlements when charges are left */
  close(): void {
    clearTimeout(this.#watcher)
    this.deferred.close()
  }

  /** Handles the result of a charge: it is in the file, or was refused. */
  #written(unwritten: UnwrittenCharge, result: CommandResult<'settle'>): void {
    this.#charges.delete(unwritten)
    const { settlement } = unwritten
    if (isRefused(result)) {
      const balance = unwritten.unbook()
      this.deferred.drop(settlement, result.refused)
      return unwritten.answer({ state: 'deferred', cost: settlement.cost, balance })
    }
    const isFresh = !('before' in result)
    const cost = isFresh ? result[0] : result.before
    const balance = isFresh ? unwritten.book(cost) : unwritten.unbook()
    const state = isFresh ? 'charged' : 'duplicate'
    unwritten.answer(this.deferred.booked(settlement, { state, cost, balance }))
    if (!isFresh) return
    const [request, account, key, day, , at, body] = unwritten.charge
    const [, seq, previous] = result
    this.#booked({
      request: request as RequestId,
      account,
      key,
      day,
      at,
      body,
      cost,
      seq,
      previous,
    })
  }

  /** Stores a charge that the store will not write. */
  #keep(unwritten: UnwrittenCharge): void {
    const { settlement } = unwritten
    try {
      const rescue = this.#client.broken ? this.#rescue : undefined
      if (!rescue) return unwritten.answer(this.deferred.keep(settlement))
      rescue.append(settlement)
    } catch {
      return unwritten.answer(this.deferred.keep(settlement))
    }
    this.#charges.delete(unwritten)
    const { cost } = settlement
    const balance = unwritten.book()
    unwritten.answer(this.deferred.booked(settlement, { state: 'charged', cost, balance }))
  }

  /** Defers a charge. One beyond the bound is not written either; if it is under way, that is decided when it is not. */
  #defer(unwritten: UnwrittenCharge): void {
    const { settlement } = unwritten
    if (!this.deferred.hasRoomFor(settlement)) {
      if (!this.#client.withdraw(unwritten.charge)) {
        return unwritten.answer({ state: 'deferred', cost: settlement.cost, balance: 0n })
      }
      this.#charges.delete(unwritten)
      unwritten.unbook()
    }
    unwritten.answer(this.deferred.keep(settlement))
  }

  #watch(): void {
    this.#watcher ??= setTimeout(() => {
      this.#watcher = undefined
      const before = performance.now() - SETTLE_MS
      for (const unwritten of this.#charges) {
        if (unwritten.since <= before) this.#defer(unwritten)
      }
      if (this.#charges.size > 0) this.#watch()
    }, WATCH_MS).unref()
  }
}

class UnwrittenCharge {
  /** Steady ms. */
  readonly since: number = performance.now()
  readonly charge: Charge
  readonly day: string
  settlement: Settlement
  /** As it was before it was waived. */
  readonly #first: Settlement
  readonly #book: AccountBook
  #answer: ((settled: Settled) => void) | undefined
  #moved: Counts = NO_COUNTS
  #isBooked = false

  /** @param day the charged day */
  constructor(
    settlement: Settlement,
    day: string,
    book: AccountBook,
    answer: (settled: Settled) => void,
  ) {
    this.charge = chargeOf(settlement, day)
    this.settlement = settlement
    this.#first = settlement
    this.day = day
    this.#answer = answer
    this.#book = book
  }

  /**
   * Answers the caller; only the first answer counts. The caller is forgotten then: tables of a Set keep removed entries, and
   * with them a whole call, until a full collection.
   */
  answer(settled: Settled): void {
    const answer = this.#answer
    this.#answer = undefined
    answer?.(settled)
  }

  /** What the book has of this charge. */
  get moved(): Counts {
    return this.#moved
  }

  /** Makes the book have the charge, as the store has it. @returns the new balance */
  book(stored: Pico = this.settlement.cost): Pico {
    const { cost, usage } = stored === this.settlement.cost ? this.settlement : this.#first
    return this.#isBooked ? this.#book.balance : this.#move(countsOf(cost, usage))
  }

  /** Takes the charge out of the book. @returns the new balance */
  unbook(): Pico {
    return this.#isBooked ? this.#move(NO_COUNTS) : this.#book.balance
  }

  /** Sets the cost to 0, unless it was sent to the store already and is booked there. */
  waive(): void {
    this.settlement = waived(this.settlement)
    // The object is changed in place: the client has it as the arguments of the write.
    Object.assign(this.charge, chargeOf(this.settlement, this.day))
    this.unbook()
  }

  #move(counts: Counts): Pico {
    const book = this.#book
    const { settlement, day } = this
    const { usd, tokens, requests } = this.#moved
    const more = {
      usd: counts.usd - usd,
      tokens: counts.tokens - tokens,
      requests: counts.requests - requests,
      concurrent: 0n,
    }
    book.move(settlement, day, more.usd)
    book.count(settlement, settlement.usage.counted, more)
    this.#moved = counts
    this.#isBooked = counts !== NO_COUNTS
    return book.balance
  }
}

function chargeOf(settlement: Settlement, day: string): Charge {
  const { request, account, key, team = null, cost, usage } = settlement
  const { counted } = usage
  const { tokens, requests } = countsOf(cost, usage)
  const counts = counted === undefined ? null : { counted, tokens, requests }
  return [request, account, key, day, cost, usage.at, JSON.stringify(usage), team, counts]
}
