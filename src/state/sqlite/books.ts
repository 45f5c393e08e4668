/** The account books of one process: the mirror of its file, with which admission decides. */
import type { Pico } from '../../money/money.ts'
import { AccountBook } from '../ledger/book.ts'
import type { Clock } from '../ledger/clock.ts'
import type { Discrepancy, KeyLimits, LedgerItem } from '../ledger/ledger.ts'
import { addCost, compareSums } from '../ledger/sums.ts'
import { isBefore } from './audit.ts'
import type { Snapshot } from './store.ts'
import type { UnwrittenCharges } from './unwritten.ts'

/** Books by account. */
export class AccountBooks {
  readonly #clock: Clock
  readonly #orphaned: (account: string, request: string, key: string, at: number) => void
  readonly #books = new Map<string, AccountBook>()
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
    return this.#books.get(account)
  }

  /** Created on first use. */
  of(account: string): AccountBook {
    const found = this.#books.get(account)
    if (found) return found
    const book = new AccountBook(this.#clock, ({ request, key, at }) =>
      this.#orphaned(account, request, key.id, at),
    )
    this.#books.set(account, book)
    return book
  }

  accounts(): Iterable<string> {
    return this.#books.keys()
  }

  /** Takes the state of a file at the start. */
  load(snapshot: Snapshot): void {
    this.#loadSums(snapshot)
    for (const { account, key, limits, revision } of snapshot.limits) {
      this.of(account).limit(key, limits, revision)
      this.noteStored(limits)
    }
  }

  /**
   * Takes the sums of the file again; limits and running calls stay.
   * @param unwritten may be in the file or not. The answer to their second write tells, and takes those back that are.
   */
  reload(snapshot: Snapshot, unwritten: UnwrittenCharges): void {
    for (const book of this.#books.values()) book.clearSums()
    this.#loadSums(snapshot)
    for (const { charge, moved } of unwritten) {
      this.of(charge.account).move(charge.key, charge.day, moved)
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
    for (const { charge, moved } of unwritten) {
      if (charge.account !== account || moved === 0n) continue
      addCost(sums, { kind: 'usage', key: charge.key, day: charge.day, cost: moved })
    }
    const settled = [...book.settled()].filter(([what]) => !isBefore(what, from))
    const found = [
      ...compareSums(account, settled, sums),
      ...compareSums(account, book.running(), book.recomputeRunning()),
    ]
    return found.map((one) => ({ ...one, what: `${one.what}, in memory` }))
  }

  #loadSums({ accounts, spend }: Snapshot): void {
    for (const { id, ...sums } of accounts) Object.assign(this.of(id), sums)
    for (const { account, key, window, amount } of spend) {
      this.of(account).key(key).window(window).settled = amount
    }
  }
}
