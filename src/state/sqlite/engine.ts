/**
 * The SQLite engine: one process, one folder, one database file. Admission is decided in memory, from account books, and
 * does not wait for the disk. Whatever moves money is on disk before the caller gets its answer.
 */
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { createStorage } from 'unstorage'
import { cannotBook, ConfigError, LostState } from '../../errors/errors.ts'
import { inTime } from '../../lifetime/scope.ts'
import { checkAmount, type Pico } from '../../money/money.ts'
import { LOST, STALE } from '../ledger/book.ts'
import { Clock, DAY_MS, dayOf } from '../ledger/clock.ts'
import { checkAdjustment } from '../ledger/checks.ts'
import { foldBounds } from '../ledger/items.ts'
import type {
  AccountBalance,
  AccountTotals,
  Adjustment,
  Admission,
  AdmissionRequest,
  Discrepancy,
  HoldRequest,
  HoldResult,
  KeyOfAccount,
  Imported,
  KeyLimits,
  KeySpend,
  RatesUsed,
  Lease,
  Leave,
  Ledger,
  LedgerHealth,
  LedgerItem,
  LedgerRow,
  Log,
  Orphan,
  Raise,
  Settled,
  Settlement,
  TopUp,
} from '../ledger/ledger.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import type { Audit } from '../audit.ts'
import { StoredRecords, type Records } from '../records.ts'
import { SqliteAudit } from './audit-log.ts'
import { checkPages, copyLedger } from './backup.ts'
import { AccountBooks } from './books.ts'
import { exportFile } from './export.ts'
import { CannotOpen } from './file.ts'
import { LEDGER_FILE } from './folder.ts'
import { sqliteDriver } from './records.ts'
import { RESCUE_FILE, RescueFile } from './rescue.ts'
import { readBody } from './sql.ts'
import type { Snapshot } from './snapshot.ts'
import { valueOf, type StoredRow } from './store.ts'
import { startThread } from './thread.ts'
import { UnwrittenCharges } from './unwritten.ts'
import { WorkerClient } from './worker-client.ts'

/** Options of {@link openSqlite}. */
interface SqliteOptions {
  /** The folder; created if it does not exist. */
  readonly path: string
  /** Days after which usage rows are folded. Without it they are kept for ever. */
  readonly retentionDays?: number | undefined
  /** How many dated copies are kept. Without it none is made. */
  readonly copies?: number | undefined
  readonly log: Log
  /** The clock, ms since epoch; tests bring their own. */
  readonly now?: () => number
}

/** How far back the spend of a window is loaded: the clock may have been set back, a settlement may come late. */
const RECENT_MS = 3 * DAY_MS
const PAGE_ROWS = 200
/** For a thread that reads the file to end. In the middle of a large one it does not. */
const READER_MS = 2000
/** Rows folded in one transaction, so that settlements wait a few milliseconds at most. */
export const FOLDED_ROWS = 500

/**
 * Opens the ledger and the records of a folder. The folder belongs to this process until the ledger is closed.
 * @throws ConfigError with a sentence about `state.path` when the folder cannot be used, or belongs to another process
 */
export async function openSqlite({
  path,
  retentionDays,
  copies,
  log,
  now = () => Date.now(),
}: SqliteOptions): Promise<{
  readonly ledger: SqliteLedger
  readonly records: Records
  readonly audit: Audit
}> {
  const folder = resolve(path)
  const clock = new Clock(now)
  const from = firstDay(clock)
  const init = { path: folder, from }
  const { worker, snapshot, identity, rolledBack } = await startThread(init, log).catch(refuse)
  const restart = () => startThread({ ...init, expected: identity }, log)
  const client = new WorkerClient(worker, log, { restart })
  const exportItems = () => exportFile(join(folder, LEDGER_FILE))
  const ledger = new SqliteLedger({
    client,
    clock,
    from,
    snapshot,
    exportItems,
    retentionDays,
    rolledBack,
    rescue: new RescueFile(join(folder, RESCUE_FILE)),
    check: (signal) => checkPages(join(folder, LEDGER_FILE), signal),
    ...(copies && {
      copy: (signal) => copyLedger({ folder, day: dayOf(now()), keep: copies, signal }),
    }),
    log,
  })
  const records = new StoredRecords(createStorage({ driver: sqliteDriver(client, now) }))
  return { ledger, records, audit: new SqliteAudit(client, now) }
}

/** @throws ConfigError for a folder that cannot be used */
function refuse(error: unknown): never {
  if (!(error instanceof CannotOpen)) throw error
  throw new ConfigError('the configuration', [{ path: 'state.path', message: error.message }])
}

/** The first day, `YYYYMMDD`, whose spend a start loads. */
export function firstDay(clock: Clock): string {
  return clock.day(clock.now() - RECENT_MS)
}

/** The ledger of one process. `enter`, `hold` and `leave` answer without a promise. */
export class SqliteLedger implements Ledger {
  readonly #client: WorkerClient
  readonly #clock: Clock
  /** The first day, `YYYYMMDD`, from which the books have all spend. */
  readonly #from: string
  readonly #exportItems: () => AsyncIterable<LedgerItem>
  readonly #books: AccountBooks
  readonly #unwritten: UnwrittenCharges
  readonly #rescue: RescueFile | undefined
  readonly #maintenance: Maintenance
  readonly #ending = new AbortController()
  /** Another thread that has the file open. While it does, closing would leave a write-ahead log. */
  #reading: Promise<void> = Promise.resolve()
  readonly rolledBackRows: number

  constructor(parts: {
    readonly client: WorkerClient
    readonly clock: Clock
    /** See {@link firstDay}. */
    readonly from: string
    readonly snapshot: Snapshot
    /** Reads the whole database as of one moment. */
    readonly exportItems: () => AsyncIterable<LedgerItem>
    readonly retentionDays?: number | undefined
    readonly rolledBack?: number
    /** Takes settlements of a damaged ledger. */
    readonly rescue?: RescueFile
    /** @returns what is damaged in the file */
    readonly check?: (signal: AbortSignal) => Promise<string | undefined>
    readonly copy?: (signal: AbortSignal) => Promise<void>
    readonly log: Log
  }) {
    const { client, clock, retentionDays, copy, check, log } = parts
    this.#client = client
    this.#clock = clock
    this.#from = parts.from
    this.#exportItems = parts.exportItems
    this.rolledBackRows = parts.rolledBack ?? 0
    this.#rescue = parts.rescue
    this.#unwritten = new UnwrittenCharges(client, log, parts.rescue)
    this.#books = new AccountBooks(clock, (...orphan) => {
      const [account, request, key, at] = orphan
      const written = client.write('orphan', [request, account, key, at], valueOf)
      // Its caller does not wait for it; closing the ledger logs what could not be written.
      written.catch(() => undefined)
    })
    this.#books.load(parts.snapshot)
    client.onRestart((snapshot) => this.#books.reload(snapshot, this.#unwritten))
    this.#maintenance = new Maintenance({
      ledger: this,
      verifies: true,
      ...(check && {
        check: async () => {
          const reason = await this.#reads(check)
          if (reason !== undefined) client.lose({ what: 'damaged', reason })
          return reason === undefined
        },
      }),
      ...(copy && { copy: () => this.#reads(copy) }),
      optimize: () => client.read('optimize'),
      retentionDays,
      now: () => clock.now(),
      log,
    })
  }

  /** Batches written since the start, each with one sync of the disk. */
  get commits(): number {
    return this.#client.commits
  }

  /** @throws Unavailable while the disk cannot be written, or while a settlement is deferred */
  enter(entry: AdmissionRequest): Admission {
    this.#check()
    return this.#books.find(entry.account)?.enter(entry) ?? STALE
  }

  /**
   * @throws Unavailable as `enter`; RangeError for a negative hold, one above MAX_AMOUNT, or a key
   * whose spend has passed it
   */
  hold(hold: HoldRequest): HoldResult {
    this.#check()
    return this.#books.find(hold.account)?.hold(hold) ?? LOST
  }

  raise(raise: Raise): void {
    this.#books.find(raise.account)?.raise(raise)
  }

  /** Resolves when the charge is on disk, or after ten seconds as `deferred`; the write is still tried then. */
  settle(settlement: Settlement): Promise<Settled> {
    const { request, account, key, day } = settlement
    const book = this.#books.of(account)
    // Ends the call, whichever day is charged and whether or not it was settled before.
    const held = book.charge({ request, key, day, cost: 0n })
    return this.#unwritten.write(settlement, book, held)
  }

  async waive(lease: Lease): Promise<Settled> {
    return this.#unwritten.waive(lease, this.#books.of(lease.account))
  }

  leave({ account, request, slot }: Leave): void {
    this.#books.find(account)?.leave(request, slot === undefined)
  }

  async renew(leases: readonly Lease[]): Promise<void> {
    for (const { account, request } of leases) this.#books.find(account)?.renew(request)
  }

  /**
   * Counts only once it is on disk: money that a crash could take away is not lent. The answer's `cost` is the negative
   * amount.
   * @throws Unavailable while the disk cannot be written; RangeError for an amount or balance out of bounds
   */
  async topUp({ account, amount, reference, note }: TopUp): Promise<Settled> {
    checkAmount('a top-up', amount, 1n)
    this.#client.check()
    const credit = { reference, account, amount, at: this.#clock.now(), note }
    return this.#client.write('topUp', [credit], (result) => {
      const { fresh, cost } = valueOf(result)
      const book = this.#books.of(account)
      if (fresh) book.credit(amount)
      return { state: fresh ? 'charged' : 'duplicate', cost, balance: book.balance }
    })
  }

  /**
   * Counts only once it is on disk. The answer's `cost` is the negative amount.
   * @throws Unavailable while the disk cannot be written; RangeError for an amount or balance out of bounds
   */
  async adjust({ account, amount, reference, reason }: Adjustment): Promise<Settled> {
    checkAdjustment(amount)
    this.#client.check()
    const correction = { reference, account, amount, at: this.#clock.now(), reason }
    return this.#client.write('adjust', [correction], (result) => {
      const { fresh, cost } = valueOf(result)
      const book = this.#books.of(account)
      if (fresh) book.adjust(amount)
      return { state: fresh ? 'charged' : 'duplicate', cost, balance: book.balance }
    })
  }

  async account(id: string): Promise<AccountBalance> {
    return this.#books.find(id)?.state() ?? { balance: 0n, available: 0n, paid: false }
  }

  async balances(ids: readonly string[]): Promise<AccountTotals[]> {
    return ids.map((id) => this.#books.totals(id))
  }

  async spends(keys: readonly KeyOfAccount[]): Promise<Pico[]> {
    return keys.map(({ account, key }) => this.#books.lifetimeOf(account, key))
  }

  async key(account: string, id: string): Promise<KeySpend> {
    return this.#books.spent(account, id)
  }

  async rates(account: string, id: string): Promise<RatesUsed> {
    return this.#books.rates(account, id)
  }

  /**
   * Limits are in force at once. Limits that are in force and on disk already are not written again.
   * @throws Unavailable while the disk cannot be written; RangeError for a rate or concurrency below 1
   */
  async limits(account: string, id: string, limits: KeyLimits, revision: number): Promise<void> {
    this.#client.check()
    const book = this.#books.of(account)
    const { limits: former, revision: formerRevision } = book.key(id)
    book.limit(id, limits, revision)
    if (revision < formerRevision) return
    const same = revision === formerRevision && isDeepStrictEqual(former, limits)
    if (!(same && this.#books.isStored(former))) {
      await this.#client.write('limits', [account, id, limits, revision], valueOf)
    }
    this.#books.noteStored(limits)
  }

  usage(account: string, before = Infinity): AsyncGenerator<LedgerRow> {
    return paged((last) => this.#client.read('rows', account, last, PAGE_ROWS), before)
  }

  /** Adds up the rows, and compares with the sums in the file and in memory. */
  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const recent = firstDay(this.#clock)
    const from = recent > this.#from ? recent : this.#from
    const ids = account === undefined ? await this.#client.read('accounts') : [account]
    const found: Discrepancy[] = []
    for (const id of new Set([...ids, ...(account === undefined ? this.#books.accounts() : [])])) {
      let report
      while (!report) report = await this.#client.read('audit', id, from)
      const inMemory = this.#books.compare(id, new Map(report.sums), from, this.#unwritten)
      found.push(...report.discrepancies, ...inMemory)
    }
    return found
  }

  orphans(account?: string): AsyncGenerator<Orphan> {
    return paged((last) => this.#client.read('orphans', account ?? null, last, PAGE_ROWS))
  }

  /** As of one moment. Rows written meanwhile stay in the write-ahead log until the export has ended. */
  async *export(): AsyncGenerator<LedgerItem> {
    // When this read is answered, everything written before is in the file.
    await this.#client.read('accounts')
    yield* this.#exportItems()
  }

  /** @throws Unavailable while the disk cannot be written */
  async import(items: readonly LedgerItem[]): Promise<Imported> {
    this.#client.check()
    return this.#client.write('import', [items], (result) => {
      const { added, contradiction: refused } = valueOf(result)
      const fresh = items.filter((_, i) => added[i])
      for (const item of fresh) this.#books.import(item)
      return { taken: added.length, added: fresh.length, ...(refused !== undefined && { refused }) }
    })
  }

  /** @throws Unavailable while the disk cannot be written */
  async fold(before: Date): Promise<number> {
    const { day, at } = foldBounds(before, this.#clock.now())
    for (let rows = 0; ;) {
      this.#client.check()
      const folded = await this.#client.write('fold', [day, at, FOLDED_ROWS], valueOf)
      rows += folded
      if (folded < FOLDED_ROWS) return rows
    }
  }

  health(): LedgerHealth {
    const { count, oldestMs } = this.#client.backlog
    const { size, oldestMs: deferredMs } = this.#unwritten.deferred
    return {
      ok: this.#client.ok && size === 0,
      outbox: Math.max(count, size),
      oldestMs: Math.max(oldestMs, deferredMs),
    }
  }

  get conflicts(): number {
    return this.#unwritten.deferred.conflicts
  }

  get lost(): Promise<string> {
    return this.#client.lost
  }

  get discrepancies(): number {
    return this.#maintenance.discrepancies
  }

  /**
   * Writes what is left and releases the folder.
   * @throws UnbookedSettlements when the disk does not let it; LostState for a ledger that is moved or damaged
   */
  async close(): Promise<void> {
    this.#maintenance.stop()
    this.#ending.abort()
    await inTime(this.#reading, READER_MS, () => new Error('it reads on')).catch(() => undefined)
    await this.#client.close()
    try {
      this.#unwritten.close()
    } finally {
      this.#rescue?.close()
      this.#checkLoss()
    }
  }

  /** Lets another thread read the file, until the ledger is closed. */
  #reads<Result>(read: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const answer = read(this.#ending.signal)
    this.#reading = answer.then(
      () => undefined,
      () => undefined,
    )
    return answer
  }

  /** @throws LostState */
  #checkLoss(): void {
    const { loss } = this.#client
    const settlements = this.#rescue?.used
      ? `; settlements are in ${this.#rescue.path}, for "ledger import" into a copy of the ledger`
      : ''
    if (loss !== undefined) throw new LostState(`${loss}${settlements}`)
    if (settlements !== '') throw new LostState(`the ledger has stopped${settlements}`)
  }

  #check(): void {
    this.#client.check()
    if (this.#unwritten.deferred.size > 0) throw cannotBook()
  }
}

/** Rows in pages, newest first. @param read takes the `seq` before which a page begins */
async function* paged<Row extends StoredRow>(
  read: (before: number) => Promise<readonly Row[]>,
  before = Infinity,
) {
  for (let last = before; ;) {
    const rows = await read(last)
    for (const { body, ...row } of rows) yield { ...row, ...readBody(row.kind, body) }
    if (rows.length < PAGE_ROWS) return
    last = rows.at(-1)!.seq
  }
}
