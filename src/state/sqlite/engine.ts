/**
 * The SQLite engine: one process, one folder, one database file. Admission is decided in memory, from account books, and does
 * not wait for the disk. Whatever moves money is on disk before the caller gets its answer.
 */
import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Driver, type Storage, createStorage } from 'unstorage'
import {
  ConfigError,
  LostState,
  NotFound,
  ReferenceTaken,
  cannotBook,
} from '../../errors/errors.ts'
import { inTime } from '../../lifetime/scope.ts'
import type { Pico } from '../../money/money.ts'
import type { Audit, AuditEntry, AuditFilter, AuditRow } from '../audit.ts'
import type { Archive } from '../ledger/archive.ts'
import { LOST, STALE } from '../ledger/book.ts'
import { checkBooking, readBody, refuseBlock } from '../ledger/bookings.ts'
import { checkAccepted, inDoubt, sentenceOf } from '../ledger/doubt.ts'
import {
  type AcceptedDoubt,
  type AccountBalance,
  type AccountCredit,
  type AccountTotals,
  type Admission,
  type AdmissionRequest,
  type BookedCharge,
  type Booking,
  type CounterView,
  type Discrepancy,
  type Doubt,
  type HoldRequest,
  type HoldResult,
  type Imported,
  type KeyLimits,
  type KeyOfAccount,
  type KeySpend,
  type Lease,
  type Leave,
  type Ledger,
  type LedgerHealth,
  type LedgerItem,
  type LedgerRow,
  type LedgerState,
  type Log,
  type Orphan,
  Outage,
  type Raise,
  type RatesUsed,
  type RequestId,
  type Reset,
  type ResetDone,
  SCHEMA,
  type Settled,
  type Settlement,
  type TakeRows,
} from '../ledger/ledger.ts'
import { Maintenance } from '../ledger/maintenance.ts'
import { firstKept, type Verified } from '../ledger/sums.ts'
import { Unconfirmed } from '../ledger/unconfirmed.ts'
import { Clock, DAY_MS, type ZoneRule, dayOf, windowOf } from '../ledger/windows.ts'
import { type Records, StoredRecords } from '../records.ts'
import { exportFile } from './reader.ts'
import { CannotOpen } from './file.ts'
import { LEDGER_FILE, runningGateway } from './folder.ts'
import { RescueFile } from './rescue.ts'
import { AccountBooks, AppliedCharge, type Charge, type Snapshot } from './snapshot.ts'
import {
  type CommandResult,
  Store,
  type StoredRecord,
  type StoredRow,
  type WriteName,
  isRefused,
} from './store.ts'
import {
  Damage,
  type HistoryReader,
  WorkerClient,
  checkPages,
  copyLedger,
  openHistory,
  startThread,
} from './worker-client.ts'

interface SqliteOptions {
  /** It is created if it does not exist. */
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
  const started = await startThread(init, log).catch((error) => refuse(error, folder))
  const { worker, snapshot, identity, isNew, doubt } = started
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
function refuse(error: unknown, folder: string): never {
  if (!(error instanceof CannotOpen)) throw error
  const running = runningGateway(folder)
  const since = running?.started_at.slice(0, 16).replace('T', ' ')
  const message =
    running === undefined
      ? error.message
      : `A gateway runs here already: ${running.url} (process ${running.pid}, since ${since} UTC, in ${folder}). Stop it first, or work on a copy: "sluicegate docs operate/backup". Several gateways need Redis.`
  const refused = new ConfigError('the configuration', [{ path: 'state.path', message }])
  // The configuration is right.
  if (running) refused.message = message
  throw refused
}

/** The first day, `YYYYMMDD`, whose spend a start loads. */
export function firstDay(clock: Clock): string {
  return clock.day(clock.now() - RECENT_MS)
}

/** The ledger of one process. `enter`, `hold` and `leave` answer without a promise. */
export class SqliteLedger implements Ledger {
  readonly #client: WorkerClient
  readonly #outage = new Outage()
  readonly #clock: Clock
  /** The first day, `YYYYMMDD`, from which the books have all spend. */
  readonly #from: string
  readonly #exportItems: () => AsyncIterable<LedgerItem>
  readonly #openHistory: (signal: AbortSignal) => Promise<HistoryReader>
  readonly #books: AccountBooks
  readonly #unconfirmed: Unconfirmed<AppliedCharge>
  readonly #rescue: RescueFile | undefined
  readonly #maintenance: Maintenance
  /** What accounts of many rows added up to when they were verified last. */
  readonly #verified = new Map<string, Verified>()
  readonly #ending = new AbortController()
  /** Work of other threads that have the file open. While they do, closing would leave a write-ahead log. */
  #reading: Promise<void> = Promise.resolve()
  #lastReset: Promise<unknown> = Promise.resolve()
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
    this.#doubt = parts.doubt
    this.#engine = parts.place === undefined ? 'memory' : 'file'
    this.#place = parts.place ?? 'memory'
    this.#rescue = parts.rescue
    this.#unconfirmed = new Unconfirmed({
      store: {
        send: ({ applied: { charge } }, done, failed) => {
          client.queue('settle', charge, (result) => this.#settled(charge, result, done), failed)
        },
        withdraw: ({ charge }) => client.withdraw(charge),
      },
      disk: {
        append({ settlement }) {
          // A ledger that is closed has no more to say than the log.
          return client.broken ? parts.rescue?.append(settlement) : undefined
        },
      },
      log,
    })
    this.#books = new AccountBooks(clock, (...orphan) => {
      const [account, request, key, at] = orphan
      const written = client.write('orphan', [request, account, key, at], valueOf)
      // Its caller does not wait for it; closing the ledger logs what could not be written.
      written.catch(() => undefined)
    })
    this.#books.load(parts.snapshot)
    client.onRestart((snapshot) => this.#books.reload(snapshot, this.#unconfirmed))
    this.#maintenance = new Maintenance({
      ledger: this,
      isNew: parts.isNew ?? false,
      verify: (isWhole) => this.#verifyDaily(isWhole),
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
    const applied = new AppliedCharge(settlement, held ?? settlement.day, book)
    // A call with a hold of its own was not settled earlier; of others only the file can tell.
    if (held !== undefined) applied.move(settlement)
    return this.#unconfirmed.settle(settlement, applied)
  }

  /** The answer of the file to a charge. */
  #settled(
    [request, account, key, day, , at, body]: Charge,
    result: CommandResult<'settle'>,
    done: (outcome: Settled | { readonly refused: string }) => void,
  ): void {
    if (isRefused(result)) return done(result)
    // The book has the balance.
    if ('before' in result) return done({ state: 'duplicate', cost: result.before, balance: 0n })
    const [cost, seq, previous] = result
    done({ state: 'charged', cost, balance: 0n })
    const charge = { request: request as RequestId, account, key, day, at, body }
    this.onBooked({ ...charge, cost, seq, previous })
  }

  async waive(lease: Lease): Promise<Settled> {
    return this.#unconfirmed.waive(lease)
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

  /** Resets one after the other: each takes off what the ones before it have left. */
  reset(reset: Reset): Promise<ResetDone> {
    const done = this.#lastReset.then(() => this.#reset(reset))
    this.#lastReset = done.catch(() => undefined)
    return done
  }

  async #reset({ zone, ...reset }: Reset): Promise<ResetDone> {
    this.#checkWritable()
    const { account, owner, limit, reference } = reset
    const existing = await this.#client.read('resetOf', account, reference)
    if (existing) return repeated(reset, existing)
    const book = this.#books.of(account)
    const resettable = book.resettable(owner, limit, zone)
    if (!resettable) throw new NotFound('not_found', `There is no limit ${JSON.stringify(limit)}.`)
    const write = [{ ...reset, ...resettable, at: this.#clock.now() }] as const
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

  verify(account?: string): Promise<readonly Discrepancy[]> {
    return this.#verify(account, new Map())
  }

  /** Goes on from where each account was verified last, but for a whole verification. */
  #verifyDaily(isWhole: boolean): Promise<readonly Discrepancy[]> {
    if (isWhole) this.#verified.clear()
    return this.#verify(undefined, this.#verified)
  }

  /** @param verified what is known of accounts, and then is of these */
  async #verify(
    account: string | undefined,
    verified: Map<string, Verified>,
  ): Promise<readonly Discrepancy[]> {
    const stored = (id: string) => this.#client.read('sums', id)
    // When it is answered, everything written before is in the file.
    await stored('')
    const differences: Discrepancy[] = []
    await this.#readHistory(async (history) => {
      const all = async () => new Set([...(await history.accounts()), ...this.#books.accounts()])
      const ids = account === undefined ? [...(await all())] : [account]
      for (let i = 0; i < ids.length; i += AUDITED_ACCOUNTS) {
        const some = ids.slice(i, i + AUDITED_ACCOUNTS)
        const earlier = new Map([...verified].filter(([id]) => some.includes(id)))
        const verifications = await history.audit({
          accounts: some,
          kept: firstKept(this.#clock.now()),
          verified: earlier,
        })
        for (const id of some) {
          const of = verifications.get(id)
          differences.push(...(of?.differences ?? []))
          if (of?.verified) verified.set(id, of.verified)
          else verified.delete(id)
          const kept = this.#loadedSince()
          differences.push(...(await this.#books.compare(id, kept, this.#unconfirmed, stored)))
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
      return {
        stored: added.length,
        added: fresh.length,
        ...(refused !== undefined && { refused }),
      }
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
    const size = await this.#client.read('size')
    const rows = await this.#readHistory((history) => history.rows())
    const doubt = this.#doubt
    return { ...size, schema: SCHEMA, engine: this.#engine, ...(doubt && { doubt }), rows }
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
    const { waiting, oldestMs: waitingMs } = this.#unconfirmed.health()
    const doubt = this.#doubt && sentenceOf(this.#doubt, this.#place)
    const why = this.#client.why ?? doubt ?? this.#unconfirmed.why
    return {
      ok: why === undefined,
      ...(doubt !== undefined && { doubt }),
      ...this.#outage.at(why),
      outbox: Math.max(count, waiting),
      oldestMs: Math.max(oldestMs, waitingMs),
    }
  }

  get conflicts(): number {
    return this.#unconfirmed.conflicts
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
      await this.#unconfirmed.close()
    } finally {
      this.#rescue?.close()
      this.#checkLoss()
    }
  }

  #readHistory<Result>(read: (history: HistoryReader) => Promise<Result>): Promise<Result> {
    return this.#reads(async (signal) => {
      const history = await this.#openHistory(signal)
      try {
        return await read(history)
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
    if (this.#unconfirmed.why !== undefined) throw cannotBook()
  }
}

/** The answer to a reset that was done before. @throws ReferenceTaken for one of another limit */
function repeated(
  { owner, limit, reference }: Omit<Reset, 'zone'>,
  existing: Omit<ResetDone, 'duplicate'> & { readonly owner: string; readonly limit: string },
): ResetDone {
  if (existing.owner !== owner || existing.limit !== limit) {
    throw new ReferenceTaken(`The reference ${JSON.stringify(reference)} belongs to another limit.`)
  }
  return { counted: existing.counted, window: existing.window, duplicate: true }
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

// Records in the database of the ledger, written in its batches.

interface Item {
  readonly key: string
  readonly value: string
  readonly options?: Options
}

interface Options {
  readonly ttl?: number
}

/**
 * A driver for unstorage. An item is on disk when its promise resolves. `ttl` is in seconds. Several items are set together or
 * not at all. The ledger closes the database.
 * @param now ms since epoch
 */
export function sqliteDriver(client: WorkerClient, now: () => number): Driver<never, WorkerClient> {
  const put = async (items: readonly Item[], common: Options = {}) => {
    client.check()
    const at = now()
    const records = items.map(({ key, value, options }): StoredRecord => {
      const ttl = options?.ttl ?? common.ttl
      return { key, value, expires: ttl === undefined ? undefined : Math.ceil(at + ttl * 1000) }
    })
    await client.write('putRecords', [records, at], done)
  }
  const get = async (key: string) => (await client.read('record', key, now())) ?? null

  return {
    name: 'sqlite',
    flags: { ttl: true },
    getInstance: () => client,
    getItem: get,
    async getItems(items) {
      const keys = items.map(({ key }) => key)
      const values = await client.read('records', keys, now())
      return keys.map((key, i) => ({ key, value: values[i] ?? null }))
    },
    hasItem: async (key) => (await get(key)) !== null,
    setItem: (key, value, options: Options) => put([{ key, value }], options),
    setItems: put,
    async removeItem(key) {
      client.check()
      await client.write('removeRecord', [key], done)
    },
    getKeys: (prefix) => client.read('recordKeys', prefix ?? '', now()),
  }
}

function done(): void {}

// The audit log, in the same database.

/** Entries in table `audit`. The ledger closes the database. */
export class SqliteAudit implements Audit {
  readonly #client: WorkerClient
  readonly #now: () => number

  constructor(client: WorkerClient, now: () => number) {
    this.#client = client
    this.#now = now
  }

  async add(entry: AuditEntry): Promise<void> {
    this.#client.check()
    // Amounts in answers may be objects that only JSON can write, and that no thread takes.
    const plain = JSON.parse(JSON.stringify(entry)) as AuditEntry
    await this.#client.write('addChange', [plain, this.#now()], () => undefined)
  }

  async list(filter: AuditFilter, before: string | undefined, limit: number): Promise<AuditRow[]> {
    const last = before === undefined ? Infinity : Number(before)
    if (before !== undefined && !/^\d{1,15}$/.test(before)) {
      throw new RangeError('expected the id of an entry')
    }
    return this.#client.read('changes', filter, last, limit)
  }
}
