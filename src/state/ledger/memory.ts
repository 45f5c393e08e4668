/** The memory engine, for tests and trials: nothing survives the process, and of old rows only the sums are kept. */
import type { Pico } from '../../money/money.ts'
import {
  add,
  AccountBook,
  checkAmount,
  LOST,
  NOTHING_SPENT,
  spendOf,
  STALE,
  windowOf,
} from './book.ts'
import { Clock } from './clock.ts'
import {
  checkSameRow,
  checkTotal,
  checkUnfolded,
  foldBounds,
  inOrder,
  type FoldBounds,
} from './items.ts'
import type {
  AccountBalance,
  Discrepancy,
  Admission,
  AdmissionRequest,
  HoldResult,
  HoldRequest,
  Imported,
  KeyLimits,
  KeySpend,
  Lease,
  Ledger,
  LedgerItem,
  LedgerRow,
  Orphan,
  RowItem,
  Settled,
  Settlement,
  TopUp,
  TotalItem,
} from './ledger.ts'

/** Rows an account keeps, and how many of the oldest that can be are folded at once when there are more. */
const MOST_ROWS = 10_000
const FOLDED_AT_ONCE = 500

/** The engine of one process. `enter`, `hold` and `leave` answer without a promise. */
export class MemoryLedger implements Ledger {
  readonly #clock: Clock
  readonly #accounts = new Map<string, Shelf>()

  /** @param options.now the clock, ms since epoch; the system's unless a test brings its own */
  constructor(options: { readonly now?: () => number } = {}) {
    this.#clock = new Clock(options.now)
  }

  enter(entry: AdmissionRequest): Admission {
    return this.#accounts.get(entry.account)?.book.enter(entry) ?? STALE
  }

  /** @throws RangeError for a negative hold, one above MAX_AMOUNT, or a key whose spend has passed it */
  hold(hold: HoldRequest): HoldResult {
    return this.#accounts.get(hold.account)?.book.hold(hold) ?? LOST
  }

  /** @throws RangeError for a negative cost */
  async settle(settlement: Settlement): Promise<Settled> {
    const { account, request, key, day, cost, usage } = settlement
    checkAmount('a cost', cost, 0n)
    const shelf = this.#shelf(account)
    const { book } = shelf
    const booked = shelf.receipts.usage.get(request)
    if (booked) return { state: 'duplicate', cost: booked.row.cost, balance: book.balance }
    const window = book.charge(settlement)
    append(shelf, { kind: 'usage', request, key, at: usage.at, cost, usage }, window ?? day)
    if (shelf.rows.length > MOST_ROWS) foldOldest(account, shelf)
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
    const shelf = this.#shelf(account)
    const { book } = shelf
    const booked = shelf.receipts['top-up'].get(reference)
    if (booked) return { state: 'duplicate', cost: booked.row.cost, balance: book.balance }
    book.credit(amount)
    const row = {
      kind: 'top-up',
      request: reference,
      at: this.#clock.now(),
      cost: -amount,
    } as const
    append(shelf, { ...row, ...(note !== undefined && { note }) })
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
    const last = rows.findLastIndex(({ row }) => row.seq < before)
    for (let i = last; i >= 0; i--) yield rows[i]!.row
  }

  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const ids = account === undefined ? [...this.#accounts.keys()] : [account]
    return ids.flatMap((id) => {
      const shelf = this.#accounts.get(id)
      return shelf ? discrepancies(id, shelf) : []
    })
  }

  async *orphans(account?: string): AsyncGenerator<Orphan> {
    for (const id of account === undefined ? this.#accounts.keys() : [account]) {
      for await (const row of this.usage(id))
        if (row.kind === 'orphan') yield { ...row, account: id }
    }
  }

  /** As of one moment only if nothing is written meanwhile. */
  async *export(): AsyncGenerator<LedgerItem> {
    for (const [account, { book, rows, totals }] of this.#accounts) {
      yield { kind: 'account', account, paid: book.paid }
      for (const { id: key, limits, revision } of book.keys()) {
        if (limits) yield { kind: 'limits', account, key, limits, revision }
      }
      const byDay = [...totals.values()].sort((a, b) => (a.day < b.day ? -1 : 1))
      const items = rows.map(({ row: kept, day }) => {
        const { seq: _, ...row } = kept
        const unfolded = day !== undefined && totals.has(totalOf(row.key!, day))
        return { ...row, account, ...(day && { day }), ...(unfolded && { unfolded }) } as const
      })
      yield* inOrder(byDay, items)
    }
  }

  async import(items: readonly LedgerItem[]): Promise<Imported> {
    let [taken, added] = [0, 0]
    try {
      for (const item of items) {
        added += Number(take(this.#shelf(item.account), item))
        taken++
      }
      return { taken, added }
    } catch (error) {
      if (error instanceof RangeError) return { taken, added, refused: error.message }
      throw error
    }
  }

  async fold(before: Date): Promise<number> {
    const bounds = foldBounds(before, this.#clock.now())
    return [...this.#accounts].reduce((sum, [id, shelf]) => sum + fold(id, shelf, bounds), 0)
  }

  health(): { ok: boolean; outbox: number; oldestMs: number } {
    return { ok: true, outbox: 0, oldestMs: 0 }
  }

  async close(): Promise<void> {}

  #shelf(account: string): Shelf {
    const found = this.#accounts.get(account)
    if (found) return found
    const book = new AccountBook(this.#clock, ({ request, key, at }) => {
      append(shelf, { kind: 'orphan', request, key: key.id, at, cost: 0n })
    })
    const receipts = { usage: new Map(), 'top-up': new Map(), orphan: new Map() }
    const shelf: Shelf = { book, rows: [], receipts, totals: new Map(), lastSeq: 0 }
    this.#accounts.set(account, shelf)
    return shelf
  }
}

interface Kept {
  readonly row: LedgerRow
  /** Of a usage row: the day that was charged. */
  readonly day: string | undefined
}

/** What the memory engine keeps of an account: the book and the history that proves it. */
interface Shelf {
  readonly book: AccountBook
  /** By `seq`. */
  rows: Kept[]
  lastSeq: number
  /** The same, by kind and request. */
  readonly receipts: Readonly<Record<LedgerRow['kind'], Map<string, Kept>>>
  /** By {@link totalOf}. */
  readonly totals: Map<string, TotalItem>
}

function totalOf(key: string, day: string): string {
  return `${day} ${key}`
}

/** Adds a row, unless it is an orphan's that is there. */
function append(shelf: Shelf, row: Omit<LedgerRow, 'seq'>, day?: string): void {
  const receipts = shelf.receipts[row.kind]
  if (receipts.has(row.request)) return
  const kept = { row: { ...row, seq: ++shelf.lastSeq }, day }
  shelf.rows.push(kept)
  receipts.set(row.request, kept)
}

/** @returns whether it is new. @throws RangeError when it contradicts what is there */
function take(shelf: Shelf, item: LedgerItem): boolean {
  const { book } = shelf
  if (item.kind === 'account') {
    const isNew = item.paid && !book.paid
    book.paid ||= item.paid
    return isNew
  }
  if (item.kind === 'limits') {
    const { key, limits, revision } = item
    if (revision <= book.key(key).revision) return false
    book.limit(key, limits, revision)
    return true
  }
  return item.kind === 'total' ? takeTotal(shelf, item) : takeRow(shelf, item)
}

function takeTotal({ book, rows, totals }: Shelf, item: TotalItem): boolean {
  const { key, day, cost } = item
  const name = totalOf(key, day)
  const same = rows.filter(({ row, day }) => row.key === key && day === item.day)
  const spent = same.reduce((sum, { row }) => sum + row.cost, 0n)
  if (!checkTotal(item, totals.get(name), spent)) return false
  totals.set(name, item)
  book.move(key, day, cost)
  return true
}

function takeRow(shelf: Shelf, item: RowItem): boolean {
  const { book, totals, receipts } = shelf
  const { account, day, unfolded: _, ...row } = item
  const stored = receipts[row.kind].get(row.request)
  if (stored) {
    checkSameRow(item, { ...stored.row, account, ...(stored.day && { day: stored.day }) })
    return false
  }
  if (day !== undefined) {
    checkUnfolded(item, totals.has(totalOf(row.key!, day)))
    book.move(row.key!, day, row.cost)
  }
  if (row.kind === 'top-up') book.credit(-row.cost)
  append(shelf, row, day)
  return true
}

function fold(account: string, shelf: Shelf, bounds: FoldBounds): number {
  const { rows } = shelf
  const isOld = ({ row, day }: Kept) =>
    row.kind === 'usage' && day! < bounds.day && row.at < bounds.at
  foldRows(account, shelf, rows.filter(isOld))
  shelf.rows = rows.filter((one) => !isOld(one))
  return rows.length - shelf.rows.length
}

/** Keeps memory bounded: what is this old needs no receipt any more, since nothing is sent twice inside a process. */
function foldOldest(account: string, shelf: Shelf): void {
  let end = 0
  for (let left = FOLDED_AT_ONCE; left > 0; end++) if (shelf.rows[end]!.row.kind === 'usage') left--
  const oldest = shelf.rows.splice(0, end)
  const kept = oldest.filter(({ row }) => row.kind !== 'usage')
  foldRows(
    account,
    shelf,
    oldest.filter(({ row }) => row.kind === 'usage'),
  )
  shelf.rows.unshift(...kept)
}

function foldRows(account: string, shelf: Shelf, rows: readonly Kept[]): void {
  const sums = new Map<string, { key: string; day: string; rows: number; cost: Pico }>()
  for (const { row, day } of rows) {
    const name = totalOf(row.key!, day!)
    let sum = sums.get(name)
    if (!sum) sums.set(name, (sum = { key: row.key!, day: day!, rows: 0, cost: 0n }))
    sum.rows++
    sum.cost += row.cost
    shelf.receipts.usage.delete(row.request)
  }
  for (const [name, sum] of sums) {
    const before = shelf.totals.get(name) ?? { rows: 0, cost: 0n }
    const total = { ...sum, rows: before.rows + sum.rows, cost: before.cost + sum.cost }
    shelf.totals.set(name, { kind: 'total', account, ...total })
  }
}

function discrepancies(account: string, { book, rows, totals }: Shelf): Discrepancy[] {
  const sums = new Map<string, Pico>()
  const count = (key: string | undefined, day: string | undefined, cost: Pico) => {
    add(sums, 'balance', -cost)
    if (!key || !day) return
    for (const scope of ['lifetime', 'day', 'month'] as const) {
      add(sums, spendOf(key, windowOf(scope, day)), cost)
    }
  }
  for (const { row, day } of rows) count(row.key, day, row.cost)
  for (const { key, day, cost } of totals.values()) count(key, day, cost)
  const found: Discrepancy[] = []
  const compare = (what: string, stored: Pico, recomputed: Pico) => {
    if (stored !== recomputed) found.push({ account, what, stored, recomputed })
  }
  for (const [what, stored] of book.settled()) compare(what, stored, sums.get(what) ?? 0n)
  for (const [what, stored, recomputed] of book.running()) compare(what, stored, recomputed)
  return found
}
