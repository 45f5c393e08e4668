/**
 * The embedded engine: one process, one folder, one SQLite file. Admission is decided from Books in memory, without
 * waiting; what moves money is on disk before it is answered (state design, section 6).
 */
import { once } from 'node:events'
import { extname, join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { Worker } from 'node:worker_threads'
import { createStorage } from 'unstorage'
import type { Pico } from '../../money/money.ts'
import { createRecords, type Records } from '../records.ts'
import {
  add,
  AccountBook,
  checkAmount,
  LOST,
  NOTHING_SPENT,
  spendOf,
  STALE,
  windowOf,
} from '../ledger/book.ts'
import { Clock, DAY_MS } from '../ledger/clock.ts'
import { isBefore } from './audit.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import type { BackupJob } from './backup-worker.ts'
import { exportFile } from './export.ts'
import { LEDGER_FILE } from './file.ts'
import { WorkerClient } from './worker-client.ts'
import { sqliteDriver } from './records.ts'
import { readBody } from './sql.ts'
import type { Charge, CommandResult, Snapshot, StoredRow, WriteName } from './store.ts'
import { foldBounds } from '../ledger/items.ts'
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
  Log,
  Orphan,
  Settled,
  Settlement,
  TopUp,
} from '../ledger/ledger.ts'

export interface SqliteOptions {
  /** The folder; made if it is not there. */
  readonly path: string
  /** Days after which usage rows are folded; they are kept for good without. */
  readonly retentionDays?: number | undefined
  readonly log: Log
  /** The clock, ms since epoch; the system's unless a test brings its own. */
  readonly now?: () => number
}

/** How far back a start looks for spend: a clock may have been set back, a settlement may be late. */
const RECENT_MS = 3 * DAY_MS
const PAGE_ROWS = 200
/** At a time: settlements wait for no more than some milliseconds. */
const FOLDED_ROWS = 500

/**
 * Opens the ledger and the records of a folder, which then belongs to this process until the ledger is closed.
 * @throws ConfigError with a sentence about `state.path` when the folder cannot be used, or belongs to another process
 */
export async function openSqlite({
  path,
  retentionDays,
  log,
  now = () => Date.now(),
}: SqliteOptions): Promise<{
  readonly ledger: SqliteLedger
  readonly records: Records
}> {
  const folder = resolve(path)
  const clock = new Clock(now)
  const from = clock.day(clock.now() - RECENT_MS)
  const { link, snapshot } = await WorkerClient.open({ path: folder, from }, log)
  const ledger = new SqliteLedger({ folder, link, clock, from, snapshot, retentionDays, log })
  const records = createRecords(createStorage({ driver: sqliteDriver(link, now) }))
  return { ledger, records }
}

/** The engine of one process. `enter`, `hold` and `leave` answer without a promise. */
export class SqliteLedger implements Ledger {
  readonly #folder: string
  readonly #link: WorkerClient
  readonly #clock: Clock
  /** The first day, `YYYYMMDD`, of which the Books know everything. */
  readonly #from: string
  readonly #books = new Map<string, AccountBook>()
  /** What Books have already been charged and the file has not. */
  readonly #early = new Set<Charge>()
  /** Limits that are in the file as they are here. */
  readonly #stored = new WeakSet<KeyLimits>()
  readonly #care: Maintenance

  constructor(parts: {
    readonly folder: string
    readonly link: WorkerClient
    readonly clock: Clock
    readonly from: string
    readonly snapshot: Snapshot
    readonly retentionDays: number | undefined
    readonly log: Log
  }) {
    this.#folder = parts.folder
    this.#link = parts.link
    this.#clock = parts.clock
    this.#from = parts.from
    const { accounts, spend, limits } = parts.snapshot
    for (const { id, balance, paid } of accounts) Object.assign(this.#book(id), { balance, paid })
    for (const { account, key, window, amount } of spend) {
      this.#book(account).key(key).window(window).settled = amount
    }
    for (const { account, key, limits: stored, revision } of limits) {
      this.#book(account).limit(key, stored, revision)
      this.#stored.add(stored)
    }
    const { clock, link, retentionDays, log } = parts
    this.#care = new Maintenance({
      ledger: this,
      verifies: true,
      optimize: () => link.read('optimize'),
      retentionDays,
      now: () => clock.now(),
      log,
    })
  }

  /** Batches written since the start: each was one sync of the disk. */
  get commits(): number {
    return this.#link.commits
  }

  /** @throws Unavailable while the disk cannot be written */
  enter(entry: AdmissionRequest): Admission {
    this.#link.check()
    return this.#books.get(entry.account)?.enter(entry) ?? STALE
  }

  /**
   * @throws Unavailable while the disk cannot be written; RangeError for a negative hold, one above MAX_AMOUNT, or a key
   * whose spend has passed it
   */
  hold(hold: HoldRequest): HoldResult {
    this.#link.check()
    return this.#books.get(hold.account)?.hold(hold) ?? LOST
  }

  /**
   * Waits for as long as the disk cannot be written: what a client is told it paid has been written down.
   * @throws RangeError for a negative cost
   */
  async settle(settlement: Settlement): Promise<Settled> {
    const { request, account, key, cost, usage } = settlement
    checkAmount('a cost', cost, 0n)
    const book = this.#book(account)
    // Ends the call, whichever day pays and whether or not it was settled before.
    const held = book.charge({ ...settlement, cost: 0n })
    const body = JSON.stringify(usage)
    const charge = { request, account, key, cost, day: held ?? settlement.day, at: usage.at, body }
    // A call that still had its hold was not settled before; of others only the file knows.
    const early = held !== undefined
    if (early) {
      book.move(key, charge.day, cost)
      this.#early.add(charge)
    }
    return this.#link.write('settle', [charge], (outcome) => {
      this.#early.delete(charge)
      const fresh = 'value' in outcome && outcome.value.fresh
      if (fresh !== early) book.move(key, charge.day, fresh ? cost : -cost)
      const booked = resultOf(outcome)
      return { state: fresh ? 'charged' : 'duplicate', cost: booked.cost, balance: book.balance }
    })
  }

  leave(lease: Lease): void {
    this.#books.get(lease.account)?.leave(lease.request)
  }

  async renew(leases: readonly Lease[]): Promise<void> {
    for (const { account, request } of leases) this.#books.get(account)?.renew(request)
  }

  /**
   * Counts from when it is on disk: money that may be forgotten is not lent. The answer's `cost` is the amount, negative.
   * @throws Unavailable while the disk cannot be written; RangeError for an amount or balance out of bounds
   */
  async topUp({ account, amount, reference, note }: TopUp): Promise<Settled> {
    checkAmount('a top-up', amount, 1n)
    this.#link.check()
    const credit = { reference, account, amount, at: this.#clock.now(), note }
    return this.#link.write('topUp', [credit], (outcome) => {
      const { fresh, cost } = resultOf(outcome)
      const book = this.#book(account)
      if (fresh) book.credit(amount)
      return { state: fresh ? 'charged' : 'duplicate', cost, balance: book.balance }
    })
  }

  async account(id: string): Promise<AccountBalance> {
    return this.#books.get(id)?.state() ?? { balance: 0n, available: 0n, paid: false }
  }

  async key(account: string, id: string): Promise<KeySpend> {
    return this.#books.get(account)?.spent(id) ?? NOTHING_SPENT
  }

  /**
   * Limits count at once. Those that are in force and on disk already are not written again.
   * @throws Unavailable while the disk cannot be written; RangeError for a rate or concurrency below 1
   */
  async limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void> {
    this.#link.check()
    const book = this.#book(account)
    const { limits: former, revision: formerRevision } = book.key(id)
    book.limit(id, limits, revision)
    if (revision < formerRevision) return
    const same = revision === formerRevision && isDeepStrictEqual(former, limits)
    if (!(same && this.#stored.has(former!))) {
      await this.#link.write('limits', [account, id, limits, revision], resultOf)
    }
    this.#stored.add(limits)
  }

  async *usage(account: string, before = Infinity): AsyncGenerator<LedgerRow> {
    for (let last = before; ;) {
      const rows = await this.#link.read('rows', account, last, PAGE_ROWS)
      yield* rows.map(toLedgerRow)
      if (rows.length < PAGE_ROWS) return
      last = rows.at(-1)!.seq
    }
  }

  /** Adds up the rows, and compares with the sums in the file and with those in memory. */
  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const recent = this.#clock.day(this.#clock.now() - RECENT_MS)
    const from = recent > this.#from ? recent : this.#from
    const ids = account === undefined ? await this.#link.read('accounts') : [account]
    const found: Discrepancy[] = []
    for (const id of new Set([...ids, ...(account === undefined ? this.#books.keys() : [])])) {
      let report
      while (!report) report = await this.#link.read('audit', id, from)
      found.push(...report.discrepancies, ...this.#inMemory(id, new Map(report.sums), from))
    }
    return found
  }

  async *orphans(account?: string): AsyncGenerator<Orphan> {
    for (let last = Infinity; ;) {
      const rows = await this.#link.read('orphans', account ?? null, last, PAGE_ROWS)
      yield* rows.map(toLedgerRow)
      if (rows.length < PAGE_ROWS) return
      last = rows.at(-1)!.seq
    }
  }

  /** Whatever is written while it goes on waits in the log for its end. */
  async *export(): AsyncGenerator<LedgerItem> {
    // What was handed over before is in the file when this is answered.
    await this.#link.read('accounts')
    yield* exportFile(join(this.#folder, LEDGER_FILE))
  }

  /** @throws Unavailable while the disk cannot be written */
  async import(items: readonly LedgerItem[]): Promise<Imported> {
    this.#link.check()
    return this.#link.write('import', [items], (outcome) => {
      const { added, refused } = resultOf(outcome)
      const fresh = items.filter((_, i) => added[i])
      for (const item of fresh) this.#mirror(item)
      return { taken: added.length, added: fresh.length, ...(refused !== undefined && { refused }) }
    })
  }

  /** @throws Unavailable while the disk cannot be written */
  async fold(before: Date): Promise<number> {
    const { day, at } = foldBounds(before, this.#clock.now())
    for (let rows = 0; ;) {
      this.#link.check()
      const folded = await this.#link.write('fold', [day, at, FOLDED_ROWS], resultOf)
      rows += folded
      if (folded < FOLDED_ROWS) return rows
    }
  }

  health(): { ok: boolean; outbox: number; oldestMs: number } {
    const { count, oldestMs } = this.#link.backlog
    return { ok: this.#link.ok, outbox: count, oldestMs }
  }

  /**
   * Writes a copy of the whole file as it is now, while it is in use, and checks it.
   * @param target a file that is not there yet
   * @throws Error when it cannot be written, or is there
   */
  async backup(target: string): Promise<void> {
    const copy: BackupJob = { source: join(this.#folder, LEDGER_FILE), target: resolve(target) }
    const script = new URL(`./backup-worker${extname(import.meta.url)}`, import.meta.url)
    await once(new Worker(script, { name: 'ledger copy', workerData: copy, execArgv: [] }), 'exit')
  }

  /** Writes what is left and gives the folder up. */
  async close(): Promise<void> {
    this.#care.stop()
    await this.#link.close()
  }

  #book(account: string): AccountBook {
    const found = this.#books.get(account)
    if (found) return found
    const book = new AccountBook(this.#clock, ({ request, key, at }) => {
      const written = this.#link.write('orphan', [request, account, key.id, at], resultOf)
      // Nobody waits for it, and who closes the ledger is told what was not written.
      written.catch(() => undefined)
    })
    this.#books.set(account, book)
    return book
  }

  /** Has the Book know what an import has put into the file. */
  #mirror(item: LedgerItem): void {
    const book = this.#book(item.account)
    if (item.kind === 'account' || item.kind === 'top-up') book.paid = true
    if (item.kind === 'top-up') book.balance -= item.cost
    if (item.kind === 'total') book.move(item.key, item.day, item.cost)
    if (item.kind === 'usage') book.move(item.key!, item.day!, item.cost)
    if (item.kind !== 'limits') return
    book.limit(item.key, item.limits, item.revision)
    this.#stored.add(item.limits)
  }

  /** @param sums of the rows that are in the file, to which those are added that the Book is ahead by */
  #inMemory(account: string, sums: Map<string, Pico>, from: string): Discrepancy[] {
    const book = this.#books.get(account)
    if (!book) return []
    for (const charge of this.#early) {
      if (charge.account !== account) continue
      add(sums, 'balance', -charge.cost)
      for (const scope of ['lifetime', 'day', 'month'] as const) {
        add(sums, spendOf(charge.key, windowOf(scope, charge.day)), charge.cost)
      }
    }
    const found: Discrepancy[] = []
    const compare = (what: string, stored: Pico, recomputed: Pico) => {
      if (stored !== recomputed)
        found.push({ account, what: `${what}, in memory`, stored, recomputed })
    }
    for (const [what, stored] of book.settled()) {
      if (!isBefore(what, from)) compare(what, stored, sums.get(what) ?? 0n)
    }
    for (const [what, stored, recomputed] of book.running()) compare(what, stored, recomputed)
    return found
  }
}

/** @throws RangeError for what no ledger holds */
function resultOf<Name extends WriteName>(outcome: CommandResult<Name>) {
  if ('refused' in outcome) throw new RangeError(outcome.refused)
  return outcome.value
}

function toLedgerRow<Row extends StoredRow>({ body, ...row }: Row) {
  return { ...row, ...readBody(row.kind, body) }
}
