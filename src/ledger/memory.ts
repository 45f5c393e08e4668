/** The memory engine, for tests and trials: nothing survives the process, and every row is kept for as long as it runs. */
import type { Pico } from '../money.ts'
import {
  add,
  Book,
  checkAmount,
  Clock,
  LOST,
  NOTHING_SPENT,
  spendOf,
  STALE,
  windowOf,
} from './book.ts'
import type {
  AccountBalance,
  Discrepancy,
  Entered,
  Entry,
  Held,
  Hold,
  KeyLimits,
  KeySpend,
  Lease,
  Ledger,
  LedgerRow,
  RequestId,
  Settled,
  Settlement,
  TopUp,
} from './ledger.ts'

/** The engine of one process. `enter`, `hold` and `leave` answer without a promise. */
export class MemoryLedger implements Ledger {
  readonly #clock: Clock
  readonly #accounts = new Map<string, Shelf>()

  /** @param options.now the clock, ms since epoch; the system's unless a test brings its own */
  constructor(options: { readonly now?: () => number } = {}) {
    this.#clock = new Clock(options.now)
  }

  enter(entry: Entry): Entered {
    return this.#accounts.get(entry.account)?.book.enter(entry) ?? STALE
  }

  /** @throws RangeError for a negative hold, one above MAX_AMOUNT, or a key whose spend has passed it */
  hold(hold: Hold): Held {
    return this.#accounts.get(hold.account)?.book.hold(hold) ?? LOST
  }

  /** @throws RangeError for a negative cost */
  async settle(settlement: Settlement): Promise<Settled> {
    const { account, request, key, day, cost, usage } = settlement
    checkAmount('a cost', cost, 0n)
    const { book, receipts, rows } = this.#shelf(account)
    const receipt = receipts.get(request)
    if (receipt !== undefined) return { state: 'duplicate', cost: receipt, balance: book.balance }
    const window = book.charge(settlement)
    receipts.set(request, cost)
    const row = {
      seq: rows.length + 1,
      kind: 'usage',
      request,
      key,
      at: usage.at,
      cost,
      usage,
    } as const
    rows.push({ row, day: window ?? day })
    return { state: 'charged', cost, balance: book.balance }
  }

  leave(lease: Lease): void {
    this.#accounts.get(lease.account)?.book.leave(lease.request)
  }

  async renew(leases: readonly Lease[]): Promise<void> {
    for (const { account, request } of leases) this.#accounts.get(account)?.book.renew(request)
  }

  /** The answer's `cost` is the amount, negative. @throws RangeError for an amount or balance out of bounds */
  async topUp({ account, amount, reference, note }: TopUp): Promise<Settled> {
    checkAmount('a top-up', amount, 1n)
    const { book, references, rows } = this.#shelf(account)
    const booked = references.get(reference)
    if (booked !== undefined) return { state: 'duplicate', cost: -booked, balance: book.balance }
    book.credit(amount)
    references.set(reference, amount)
    const row = {
      seq: rows.length + 1,
      kind: 'top-up',
      request: reference,
      at: this.#clock.now(),
      cost: -amount,
      ...(note === undefined ? {} : { note }),
    } as const
    rows.push({ row })
    return { state: 'charged', cost: -amount, balance: book.balance }
  }

  async account(id: string): Promise<AccountBalance> {
    const book = this.#accounts.get(id)?.book
    return book ? book.state() : { balance: 0n, available: 0n, paid: false }
  }

  async key(account: string, id: string): Promise<KeySpend> {
    return this.#accounts.get(account)?.book.spent(id) ?? NOTHING_SPENT
  }

  /** @throws RangeError for a rate or concurrency below 1 */
  async limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void> {
    this.#shelf(account).book.limit(id, limits, revision)
  }

  async *usage(account: string, before = Infinity): AsyncGenerator<LedgerRow> {
    const rows = this.#accounts.get(account)?.rows ?? []
    for (let seq = Math.min(before - 1, rows.length); seq >= 1; seq--) yield rows[seq - 1]!.row
  }

  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const ids = account === undefined ? [...this.#accounts.keys()] : [account]
    return ids.flatMap((id) => {
      const shelf = this.#accounts.get(id)
      return shelf ? discrepancies(id, shelf) : []
    })
  }

  health(): { ok: boolean; outbox: number; oldestMs: number } {
    return { ok: true, outbox: 0, oldestMs: 0 }
  }

  async close(): Promise<void> {}

  #shelf(account: string): Shelf {
    const found = this.#accounts.get(account)
    if (found) return found
    const rows: Shelf['rows'] = []
    const book = new Book(this.#clock, ({ request, key, at }) => {
      rows.push({
        row: { seq: rows.length + 1, kind: 'orphan', request, key: key.id, at, cost: 0n },
      })
    })
    const shelf = { book, rows, receipts: new Map(), references: new Map() }
    this.#accounts.set(account, shelf)
    return shelf
  }
}

/** What the memory engine keeps of an account: the book and the history that proves it. */
interface Shelf {
  readonly book: Book
  /** A row's place is its `seq`, less one. */
  readonly rows: { readonly row: LedgerRow; readonly day?: string }[]
  readonly receipts: Map<RequestId, Pico>
  readonly references: Map<string, Pico>
}

function discrepancies(account: string, { book, rows }: Shelf): Discrepancy[] {
  const sums = new Map<string, Pico>()
  for (const { row, day } of rows) {
    add(sums, 'balance', -row.cost)
    if (!row.key || !day) continue
    for (const scope of ['lifetime', 'day', 'month'] as const) {
      add(sums, spendOf(row.key, windowOf(scope, day)), row.cost)
    }
  }
  const found: Discrepancy[] = []
  const compare = (what: string, stored: Pico, recomputed: Pico) => {
    if (stored !== recomputed) found.push({ account, what, stored, recomputed })
  }
  for (const [what, stored] of book.settled()) compare(what, stored, sums.get(what) ?? 0n)
  for (const [what, stored, recomputed] of book.running()) compare(what, stored, recomputed)
  return found
}
