/**
 * The SQLite engine: one process, one folder, one database file. Admission is decided in memory, from account books, and does
 * not wait for the disk. Whatever moves money is on disk before the caller gets its answer.
 */
import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { createStorage, type Storage } from 'unstorage'
import {
  cannotBook,
  ConfigError,
  LostState,
  NotFound,
  ReferenceTaken,
} from '../../errors/errors.ts'
import { inTime } from '../../lifetime/scope.ts'
import type { Pico } from '../../money/money.ts'
import { LOST, STALE } from '../ledger/book.ts'
import { checkBooking, readBody, refuseBlock } from '../ledger/bookings.ts'
import { firstKept } from '../ledger/sums.ts'
import { Clock, DAY_MS, dayOf, windowOf, type ZoneRule } from '../ledger/windows.ts'
import { checkAccepted, inDoubt, sentenceOf } from '../ledger/doubt.ts'
import {
  type AccountBalance,
  type AccountTotals,
  type Admission,
  type BookedCharge,
  type AdmissionRequest,
  type Discrepancy,
  type HoldRequest,
  type HoldResult,
  type KeyOfAccount,
  type Imported,
  type KeyLimits,
  type CounterView,
  type Reset,
  type ResetDone,
  type KeySpend,
  type RatesUsed,
  type Lease,
  type Leave,
  type Ledger,
  type LedgerHealth,
  type LedgerItem,
  type LedgerRow,
  type Log,
  type Orphan,
  type Raise,
  type RequestId,
  type Settled,
  type Settlement,
  type TakeRows,
  type AcceptedDoubt,
  type Doubt,
  type LedgerState,
  SCHEMA,
  type AccountCredit,
  type Booking,
} from '../ledger/ledger.ts'
import type { Archive } from '../ledger/archive.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import type { Audit } from '../audit.ts'
import { StoredRecords, type Records } from '../records.ts'
import { SqliteAudit } from './audit-log.ts'
import { exportFile } from './export.ts'
import { CannotOpen } from './file.ts'
import { LEDGER_FILE } from './folder.ts'
import { sqliteDriver } from './records.ts'
import { RescueFile } from './rescue.ts'
import { type Snapshot, AccountBooks } from './snapshot.ts'
import { type StoredRow, isRefused, type CommandResult, type WriteName, Store } from './store.ts'
import {
  checkPages,
  copyLedger,
  Damage,
  openHistory,
  startThread,
  WorkerClient,
  type HistoryReader,
} from './worker-client.ts'
import { UnwrittenCharges } from './unwritten.ts'

interface SqliteOptions {
  /** Created if it does not exist. */
  readonly path: string
  /** Days after which usage rows are folded. Absent: never. */
  readonly retentionDays?: number | undefined
  /** Takes rows before they are folded. */
  readonly archive?: Archive | undefined
  /** Number of dated copies that are kept. Absent: none is made. */
  readonly copies?: number | undefined
  readonly log: Log
  /** ms since epoch; tests bring their own. */
  readonly now?: () => number
}

/** Age to which the spend of a window is loaded: the clock may have been set back, a settlement may come late. */
const RECENT_MS = 3 * DAY_MS
const PAGE_ROWS = 200
/** How long closing waits for a thread that reads the file. In the middle of a large one it does not end. */
const READER_MS = 2000
/** Sums of spend removed in one transaction, so that settlements wait a few milliseconds at most. */
const DROPPED_SUMS = 1000
/** Accounts that are added up between two comparisons with the books. */
const AUDITED_ACCOUNTS = 100

/**
 * Opens the ledger and the records of a folder. The folder belongs to this process until the ledger is closed.
 * @throws ConfigError with a sentence about `state.path` when the folder cannot be used, or belongs to another process
 */
export async function openSqlite({
  path,
  retentionDays,
  archive,
  copies,
  log,
  now = () => Date.now(),
}: SqliteOptions): Promise<{
  readonly ledger: SqliteLedger
  readonly records: Records
  readonly storage: Storage
  readonly audit: Audit
}> {
  const folder = resolve(path)
  const clock = new Clock(now)
  const from = firstDay(clock)
  const init = { path: folder, from }
  const started = await startThread(init, log).catch(refuse)
  const { worker, snapshot, identity, isNew, rolledBack, doubt } = started
  const file = join(folder, LEDGER_FILE)
  // Threads beside the ledger read this file, and never another one that takes its place.
  const { ino: inode } = statSync(file)
  const restart = () => startThread({ ...init, expected: identity }, log)
  const client = new WorkerClient(worker, log, { restart })
  const exportItems = () => exportFile(file)
  const ledger = new SqliteLedger({
    client,
    clock,
    from,
    snapshot,
    exportItems,
    openHistory: (signal) => openHistory(file, inode, signal),
    retentionDays,
    archive,
    isNew,
    rolledBack,
    doubt,
    place: folder,
    rescue: new RescueFile(join(folder, RESCUE_FILE)),
    check: (signal) => checkPages(file, inode, signal),
    ...(copies && {
      copy: (signal) => copyLedger({ folder, inode, day: dayOf(now()), keep: copies, signal }),
    }),
    log,
  })
  const storage = createStorage({ driver: sqliteDriver(client, now) })
  return {
    ledger,
    records: new StoredRecords(storage),
    storage,
    audit: new SqliteAudit(client, now),
  }
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
  readonly #openHistory: (signal: AbortSignal) => Promise<HistoryReader>
  readonly #books: AccountBooks
  readonly #unwritten: UnwrittenCharges
  readonly #rescue: RescueFile | undefined
  readonly #maintenance: Maintenance
  readonly #ending = new AbortController()
  /** Work of other threads that have the file open. While they do, closing would leave a write-ahead log. */
  #reading: Promise<void> = Promise.resolve()
  readonly rolledBackRows: number
  readonly #engine: LedgerState['engine']
  readonly #place: string
  #doubt: Doubt | undefined
  onBooked: (charge: BookedCharge) => void = () => {}
  onReplayed: (bookings: number) => void = () => {}

  constructor(parts: {
    readonly client: WorkerClient
    readonly clock: Clock
    /** See {@link firstDay}. */
    readonly from: string
    readonly snapshot: Snapshot
    /** Reads the whole database as of one moment. */
    readonly exportItems: () => AsyncIterable<LedgerItem>
    readonly openHistory: (signal: AbortSignal) => Promise<HistoryReader>
    readonly retentionDays?: number | undefined
    readonly archive?: Archive | undefined
    readonly isNew?: boolean
    readonly rolledBack?: number
    readonly doubt?: Doubt | undefined
    /** Folder of the file; absent for a ledger in memory. */
    readonly place?: string
    /** Takes settlements of a damaged ledger. */
    readonly rescue?: RescueFile
    /** @returns the damage in the file */
    readonly check?: (signal: AbortSignal) => Promise<string | undefined>
    readonly copy?: (signal: AbortSignal) => Promise<void>
    readonly log: Log
  }) {
    const { client, clock, retentionDays, copy, check, log } = parts
    this.#client = client
    this.#clock = clock
    this.#from = parts.from
    this.#exportItems = parts.exportItems
    this.#openHistory = parts.openHistory
    this.rolledBackRows = parts.rolledBack ?? 0
    this.#doubt = parts.doubt
    this.#engine = parts.place === undefined ? 'memory' : 'file'
    this.#place = parts.place ?? 'memory'
    this.#rescue = parts.rescue
    const booked = (charge: BookedCharge) => this.onBooked(charge)
    this.#unwritten = new UnwrittenCharges(client, log, booked, parts.rescue)
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
      isNew: parts.isNew ?? false,
      verify: () => this.verify(),
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
      archive: parts.archive,
      now: () => clock.now(),
      log,
    })
  }

  /** Number of batches written since the start, each with one sync of the disk. */
  get commits(): number {
    return this.#client.commits
  }

  /** @throws Unavailable while the disk cannot be written, or while a settlement is deferred */
  enter(entry: AdmissionRequest): Admission {
    this.#check()
    return this.#books.find(entry.account)?.enter(entry) ?? STALE
  }

  /** @throws Unavailable as `enter`; RangeError for a negative hold, or one above MAX_AMOUNT */
  hold(hold: HoldRequest): HoldResult {
    this.#check()
    return this.#books.find(hold.account)?.hold(hold) ?? LOST
  }

  raise(raise: Raise): void {
    this.#books.find(raise.account)?.raise(raise)
  }

  /** Resolves when the charge is on disk, or after ten seconds as `deferred`; the write is still tried then. */
  settle(settlement: Settlement): Promise<Settled> {
    const { request, account } = settlement
    const book = this.#books.of(account)
    // Ends the call, whichever day is charged and whether or not it was settled earlier.
    const held = book.end(request)
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
   * Counts only once it is on disk: money that a crash could take away is not lent.
   * @throws Unavailable while the disk cannot be written; RangeError for an amount out of bounds
   */
  async book(booking: Booking): Promise<Settled> {
    checkBooking(booking)
    this.#checkWritable()
    return this.#client.write('book', [booking, this.#clock.now()], (result) => {
      const booked = valueOf(result)
      if (typeof booked === 'string') refuseBlock(booked, booking)
      const { fresh, cost } = booked
      const book = this.#books.of(booking.account)
      if (fresh) book.book(booking, -cost)
      return { state: fresh ? 'charged' : 'duplicate', cost, balance: book.balance }
    })
  }

  credit(account: string): Promise<AccountCredit> {
    return this.#client.read('credit', account)
  }

  async account(id: string): Promise<AccountBalance> {
    return this.#books.find(id)?.state() ?? { balance: 0n, available: 0n, paid: false }
  }

  async balances(
    ids: readonly string[],
    zoneOf?: (id: string) => ZoneRule | undefined,
  ): Promise<AccountTotals[]> {
    return ids.map((id) => this.#books.totals(id, zoneOf?.(id)))
  }

  async spends(keys: readonly KeyOfAccount[]): Promise<Pico[]> {
    return keys.map(({ account, key }) => this.#books.lifetimeOf(account, key))
  }

  async key(account: string, id: string, zone?: ZoneRule): Promise<KeySpend> {
    return this.#books.spent(account, id, zone)
  }

  async counters(account: string, owner: string, zone?: ZoneRule): Promise<CounterView[]> {
    return this.#books.find(account)?.counters(owner, zone) ?? []
  }

  async reset({ zone, ...reset }: Reset): Promise<ResetDone> {
    this.#checkWritable()
    const { account, owner, limit, reference } = reset
    const known = await this.#client.read('resetOf', account, reference)
    if (known) return repeated(reset, known)
    const book = this.#books.of(account)
    const taken = book.resettable(owner, limit, zone)
    if (!taken) throw new NotFound('not_found', `There is no limit ${JSON.stringify(limit)}.`)
    const write = [{ ...reset, ...taken, at: this.#clock.now() }] as const
    return this.#client.write('reset', [...write], (result) => {
      const { fresh, ...stored } = valueOf(result)
      if (!fresh) return repeated(reset, stored)
      const { window, counted } = stored
      if (counted > 0n) book.addReset(owner, limit, window, counted)
      return { counted, window, duplicate: false }
    })
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

  receipt(account: string, request: RequestId): Promise<Pico | undefined> {
    return this.#client.read('receipt', account, request)
  }

  /** What an earlier process had written was read at the start. */
  async isBooked(): Promise<boolean> {
    return true
  }

  usage(account: string, before = Infinity): AsyncGenerator<LedgerRow> {
    return paged((last) => this.#client.read('rows', account, last, PAGE_ROWS), before)
  }

  async verify(account?: string): Promise<readonly Discrepancy[]> {
    const stored = (id: string) => this.#client.read('sums', id)
    // When it is answered, everything written before is in the file.
    await stored('')
    const differences: Discrepancy[] = []
    await this.#readHistory(async (history) => {
      const all = async () => new Set([...(await history.accounts()), ...this.#books.accounts()])
      const ids = account === undefined ? [...(await all())] : [account]
      for (let i = 0; i < ids.length; i += AUDITED_ACCOUNTS) {
        const some = ids.slice(i, i + AUDITED_ACCOUNTS)
        differences.push(...(await history.audit(some, firstKept(this.#clock.now()))))
        for (const id of some) {
          const kept = this.#loadedSince()
          differences.push(...(await this.#books.compare(id, kept, this.#unwritten, stored)))
        }
      }
    })
    return differences
  }

  /** The first windows of which the books have all spend. */
  #loadedSince(): readonly [day: string, month: string] {
    const recent = firstDay(this.#clock)
    const day = recent > this.#from ? recent : this.#from
    return [day, windowOf('month', day)]
  }

  orphans(account?: string): AsyncGenerator<Orphan> {
    return paged((last) => this.#client.read('orphans', account ?? null, last, PAGE_ROWS))
  }

  /** Always empty: the file has every receipt that was not folded, so a charge that waits is booked once. */
  quarantined(): readonly Settlement[] {
    return []
  }

  async bookQuarantined(): Promise<undefined> {}

  dropQuarantined(): undefined {}

  /** Exports the state of one moment. Rows written meanwhile stay in the write-ahead log until the export has ended. */
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

  /** Drops spend of windows that are not kept, too. @throws Unavailable while the disk cannot be written; RangeError for an invalid date */
  async fold(before: Date, take?: TakeRows): Promise<number> {
    const now = this.#clock.now()
    let rows = 0
    await this.#readHistory(async (history) => {
      for (let from: string | undefined = ''; from !== undefined;) {
        this.#client.check()
        const { steps, months, next } = await history.foldable(from, before.getTime(), now)
        for (const [month, lines] of months) await take?.(month, lines)
        if (steps.length > 0) rows += await this.#client.write('fold', [steps], valueOf)
        from = next
      }
    })
    await this.#dropSpend(now)
    return rows
  }

  async #dropSpend(now: number): Promise<void> {
    const [day, month] = firstKept(now)
    for (;;) {
      this.#client.check()
      if (
        (await this.#client.write('dropSpend', [day, month, DROPPED_SUMS], valueOf)) < DROPPED_SUMS
      )
        return
    }
  }

  assertOpen(): void {
    this.#check()
  }

  /** The file is compared with what is known of it when it is opened. */
  suspect(): void {}

  /** The file belongs to this process alone, so there is nothing to look at. */
  async confirm(): Promise<void> {
    this.#check()
  }

  async compact(): Promise<void> {
    await this.#client.read('compact', this.#clock.now())
  }

  async state(): Promise<LedgerState> {
    const { id, bytes } = await this.#client.read('size')
    const doubt = this.#doubt
    return { id, schema: SCHEMA, engine: this.#engine, ...(doubt && { doubt }), bytes }
  }

  async accept(accepted: AcceptedDoubt): Promise<void> {
    checkAccepted(this.#doubt, accepted)
    await this.#client.read('accept')
    this.#doubt = undefined
  }

  adopt(id: string): Promise<boolean> {
    return this.#client.read('adopt', id)
  }

  health(): LedgerHealth {
    const { count, oldestMs } = this.#client.backlog
    const { size, oldestMs: deferredMs } = this.#unwritten.deferred
    const doubt = this.#doubt
    return {
      ok: this.#client.ok && size === 0 && !doubt,
      ...(doubt && { doubt: sentenceOf(doubt, this.#place) }),
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
   * Writes the remaining charges and releases the folder.
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

  #readHistory(read: (history: HistoryReader) => Promise<void>): Promise<void> {
    return this.#reads(async (signal) => {
      const history = await this.#openHistory(signal)
      try {
        await read(history)
      } catch (error) {
        if (error instanceof Damage) this.#client.lose({ what: 'damaged', reason: error.message })
        throw error
      } finally {
        history.close()
      }
    })
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

  #checkWritable(): void {
    if (this.#doubt) throw inDoubt()
    this.#client.check()
  }

  #check(): void {
    this.#checkWritable()
    if (this.#unwritten.deferred.size > 0) throw cannotBook()
  }
}

/** The answer to a reset that was done before. @throws ReferenceTaken for one of another limit */
function repeated(
  { owner, limit, reference }: Omit<Reset, 'zone'>,
  known: Omit<ResetDone, 'duplicate'> & { readonly owner: string; readonly limit: string },
): ResetDone {
  if (known.owner !== owner || known.limit !== limit) {
    throw new ReferenceTaken(`The reference ${JSON.stringify(reference)} belongs to another limit.`)
  }
  return { counted: known.counted, window: known.window, duplicate: true }
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

/** @throws RangeError for a write that was refused */
function valueOf<Name extends WriteName>(result: CommandResult<Name>): ReturnType<Store[Name]> {
  if (isRefused(result)) throw new RangeError(result.refused)
  return result
}

/** Name of the file of lines in the folder of the ledger. */
const RESCUE_FILE = 'rescue.jsonl'
