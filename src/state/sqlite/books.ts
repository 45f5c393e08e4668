/** The account books of one process: the mirror of its file, with which admission decides. */
import type { Pico } from '../../money/money.ts'
import { AccountBook } from '../ledger/book.ts'
import { NO_RATES_USED, NOTHING_SPENT } from '../ledger/sums.ts'
import type { Clock } from '../ledger/clock.ts'
import {
  ACCOUNT,
  type AccountTotals,
  type Discrepancy,
  type KeyLimits,
  type KeySpend,
  type LedgerItem,
  type RatesUsed,
} from '../ledger/ledger.ts'
import { addCost, compareSums } from '../ledger/sums.ts'
import { isBefore } from './audit.ts'
import {
  fillSums,
  lifetimeIn,
  limitsIn,
  totalsIn,
  type Snapshot,
  type StoredBook,
} from './snapshot.ts'
import type { UnwrittenCharges } from './unwritten.ts'

/** Books by account. */
export class AccountBooks {
  readonly #clock: Clock
  readonly #orphaned: (account: string, request: string, key: string, at: number) => void
  readonly #books = new Map<string, AccountBook>()
  /** Accounts of the file that have no book yet. */
  #stored = new Map<string, StoredBook>()
  /** Limits that are in the file as they are here. */
  readonly #storedLimits = new WeakSet<KeyLimits>()

  /** @param orphaned called for a call whose lease expired after its hold: it will not be charged */
  constructor(
    clock: Clock,
    orphaned: (account: string, request: string, key: string, at: number) => void,
  ) {
    this.#clock = clock
    this.#orphaned = orphaned
  }

  /** Undefined for an account that has neither money nor limits. */
  find(account: string): AccountBook | undefined {
    return this.#books.get(account) ?? this.#fromFile(account)
  }

  /** Created on first use. */
  of(account: string): AccountBook {
    return this.find(account) ?? this.#create(account)
  }

  *accounts(): Generator<string> {
    yield* this.#books.keys()
    yield* this.#stored.keys()
  }

  /** Money and spend of an account, whether or not it was used. */
  totals(account: string): AccountTotals {
    const stored = this.#stored.get(account)
    if (stored) return totalsIn(stored, this.#clock.day(this.#clock.now()))
    const book = this.#books.get(account)
    const state = book?.state() ?? { balance: 0n, available: 0n, paid: false }
    return { ...state, spend: book?.spent(ACCOUNT) ?? NOTHING_SPENT }
  }

  /** What a key has spent. */
  spent(account: string, key: string): KeySpend {
    return this.find(account)?.spent(key) ?? NOTHING_SPENT
  }

  /** What a key has used of its rates. */
  rates(account: string, key: string): RatesUsed {
    return this.find(account)?.rates(key) ?? NO_RATES_USED
  }

  /** What a key has ever spent, whether or not its account was used. */
  lifetimeOf(account: string, key: string): Pico {
    const stored = this.#stored.get(account)
    if (stored) return lifetimeIn(stored, key)
    return this.#books.get(account)?.lifetimeOf(key) ?? 0n
  }

  /** Takes the state of a file at the start. */
  load(snapshot: Snapshot): void {
    this.#stored = new Map(snapshot)
  }

  /**
   * Takes the sums of the file again; limits and running calls stay.
   * @param unwritten may be in the file or not. The answer to their second write tells, and takes those back that are.
   */
  reload(snapshot: Snapshot, unwritten: UnwrittenCharges): void {
    this.load(snapshot)
    for (const [account, book] of this.#books) {
      book.clearSums()
      const stored = snapshot.get(account)
      if (stored) fillSums(book, stored)
      this.#stored.delete(account)
    }
    for (const { settlement, day, moved } of unwritten) {
      this.of(settlement.account).move(settlement.key, day, moved)
    }
  }

  /** Whether these limits are in the file. */
  isStored(limits: KeyLimits | undefined): boolean {
    return limits !== undefined && this.#storedLimits.has(limits)
  }

  /** These limits are in the file now. */
  noteStored(limits: KeyLimits): void {
    this.#storedLimits.add(limits)
  }

  /** Applies an item that was imported into the file. */
  import(item: LedgerItem): void {
    const book = this.of(item.account)
    if (item.kind === 'account') book.paid ||= item.paid
    if (item.kind === 'top-up') book.credit(-item.cost)
    if (item.kind === 'adjust') book.adjust(-item.cost)
    if (item.kind === 'total') book.move(item.key, item.day, item.cost)
    if (item.kind === 'usage') book.move(item.key!, item.day!, item.cost)
    if (item.kind !== 'limits') return
    book.limit(item.key, item.limits, item.revision)
    this.noteStored(item.limits)
  }

  /**
   * Compares a book with its rows.
   * @param sums of the rows in the file; the unwritten charges are added to them
   * @param from the first day that is compared, `YYYYMMDD`
   */
  compare(
    account: string,
    sums: Map<string, Pico>,
    from: string,
    unwritten: UnwrittenCharges,
  ): Discrepancy[] {
    const book = this.#books.get(account)
    if (!book) return []
    for (const { settlement, day, moved } of unwritten) {
      if (settlement.account !== account || moved === 0n) continue
      addCost(sums, { kind: 'usage', key: settlement.key, day, cost: moved })
    }
    const settled = [...book.settled()].filter(([what]) => !isBefore(what, from))
    const found = [
      ...compareSums(account, settled, sums),
      ...compareSums(account, book.running(), book.recomputeRunning()),
    ]
    return found.map((one) => ({ ...one, what: `${one.what}, in memory` }))
  }

  #fromFile(account: string): AccountBook | undefined {
    const stored = this.#stored.get(account)
    if (!stored) return undefined
    this.#stored.delete(account)
    const book = this.#create(account)
    fillSums(book, stored)
    for (const { key, limits, revision } of limitsIn(stored)) {
      book.limit(key, limits, revision)
      this.noteStored(limits)
    }
    return book
  }

  #create(account: string): AccountBook {
    const book = new AccountBook(this.#clock, ({ request, key, at }) =>
      this.#orphaned(account, request, key.id, at),
    )
    this.#books.set(account, book)
    return book
  }
}
