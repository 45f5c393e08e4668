/**
 * What Redis may lack, because it was unreachable or has lost recent writes in a failover. Settlements that it does not confirm in time
 * are in a local file, which is sent when Redis is back. A confirmed one stays in memory for two minutes and is sent again whenever
 * another server may have become primary. Receipts make repetition harmless, and the number of its row where a receipt has expired.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { formatPico, type Pico } from '../../money/money.ts'
import type { Log, RequestId, Settled, Settlement } from '../ledger/ledger.ts'
import { unbookedLine } from '../ledger/unconfirmed.ts'
import { createFile, lockFile, transact } from '../sqlite/file.ts'
import { Reserve, RESERVE_USED } from '../sqlite/folder.ts'

interface OutboxOptions {
  readonly file: OutboxFile
  /** Whether the file outlives the machine that this process runs on. */
  readonly isKept: boolean
  /** The id of this gateway. */
  readonly gateway: string
  /** Tells all gateways that everything which one that has ended left behind is booked. */
  readonly tellBooked: (gateway: string) => Promise<void>
  /** Books a settlement in Redis. Rejects unless Redis confirms by the deadline. `row`: its number, where it was booked before. */
  readonly send: (
    settlement: Settlement,
    deadlineMs: number,
    row?: number,
  ) => Promise<Settled & { readonly row?: number }>
  /** Looks up settlements of one account among its rows. */
  readonly lookUp: (account: string, settlements: readonly Settlement[]) => Promise<ReceiptLookup>
  /** How long Redis keeps a receipt. */
  readonly receiptMs: number
  /** Identity of the ledger; undefined while nothing may be sent. */
  readonly ledger: () => string | undefined
  /** Whether the present ledger was accepted in the place of another one. */
  readonly wasIts: (ledger: string) => Promise<boolean>
  /** It is called with each settlement of the file that is booked. */
  readonly booked: (settlement: Settlement, settled: Settled) => void
  /** It is called where Redis had lost confirmed bookings, which are booked again. */
  readonly replayed: (bookings: number) => void
  readonly log: Log
}

/** Result of a look-up. A request in neither set was never booked. */
export interface ReceiptLookup {
  readonly booked: ReadonlySet<RequestId>
  /** Requests that may have had a row. */
  readonly unclear: ReadonlySet<RequestId>
}

type Booking = () => Promise<Settled>

interface Confirmed {
  readonly booking: Booking
  /** Steady ms. */
  readonly at: number
  /** Cost of a settlement. */
  readonly cost?: Pico
}

const REPLAY_MS = 2000
const BATCH = 200
/** A time longer than a failover takes, and longer than an append-only file lags behind. */
const REMEMBERED_MS = 120_000

export class Outbox {
  readonly #options: OutboxOptions
  readonly #file: OutboxFile
  readonly #log: Log
  /** Confirmed bookings, oldest first; settlements by {@link receiptOf}. */
  readonly #confirmed = new Map<string | Booking, Confirmed>()
  /** Whether the file may hold settlements. */
  #pending = true
  #lastSummary: { readonly waiting: number; readonly oldest: number | null } = {
    waiting: 0,
    oldest: null,
  }
  #isReadable = true
  /** The look at the file that is under way. */
  #look: Promise<void> | undefined
  /** Last state of the file in the log. */
  #wasWritable = true
  /** Whether Redis may have lost confirmed bookings. */
  #resendConfirmed = false
  #lastLedger: string | null = null

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#file = options.file
    this.#log = options.log
    this.#file.enter(options.gateway)
    const { quarantined } = this.#file.summary()
    if (quarantined > 0) this.#reportQuarantine(quarantined)
  }

  /** Books a settlement in Redis. Rejects unless Redis confirms by the deadline. */
  async book(settlement: Settlement, deadlineMs: number): Promise<Settled> {
    const { send } = this.#options
    let { row, ...settled } = await send(settlement, deadlineMs)
    const { cost } = settled
    const booking = async () => {
      const again = await send({ ...settlement, cost }, REPLAY_MS, row)
      row = again.row ?? row
      return again
    }
    this.#keep(receiptOf(settlement), { booking, at: performance.now(), cost })
    return settled
  }

  /** Stores a settlement in the file, unless Redis has confirmed it before. @returns the first cost. @throws the error of the disk */
  async append(entry: { readonly settlement: Settlement }): Promise<Pico> {
    const confirmed = this.#confirmed.get(receiptOf(entry.settlement))?.cost
    if (confirmed !== undefined) return confirmed
    try {
      const cost = await this.#file.append(entry, this.#ledger)
      this.#pending = true
      return cost
    } catch (error) {
      const { message } = error as Error
      throw new Error(`${this.#file.path} cannot be written: ${message}`, { cause: error })
    }
  }

  /** Keeps a confirmed booking, which has to be idempotent. */
  remember(booking: Booking): void {
    this.#keep(booking, { booking, at: performance.now() })
  }

  #keep(id: string | Booking, confirmed: Confirmed): void {
    this.#confirmed.delete(id)
    this.#confirmed.set(id, confirmed)
    for (const [old, { at }] of this.#confirmed) {
      if (confirmed.at - at <= REMEMBERED_MS) return
      this.#confirmed.delete(old)
    }
  }

  /** Has the next {@link deliver} send confirmed bookings again: Redis is back, or another server may have become primary. */
  mayLack(): void {
    this.#resendConfirmed = true
  }

  /** Settlements that an operator has to decide about, oldest first. */
  quarantined(): readonly Settlement[] {
    return this.#file.quarantined().map(({ settlement }) => settlement)
  }

  /** Books one of them. @throws Unavailable. @returns undefined where there is none */
  async bookQuarantined(request: RequestId): Promise<Settled | undefined> {
    const entry = this.#quarantinedOf(request)
    if (!entry) return undefined
    const settled = await this.#options.send(entry.settlement, REPLAY_MS)
    this.#file.remove([entry.seq])
    return settled
  }

  /** Gives one of them up. @returns undefined where there is none */
  dropQuarantined(request: RequestId, reason: string): Settlement | undefined {
    const entry = this.#quarantinedOf(request)
    if (!entry) return undefined
    this.#file.remove([entry.seq])
    this.#log.warn(unbookedLine(entry.settlement, `dropped by an operator: ${reason}`))
    return entry.settlement
  }

  #quarantinedOf(request: RequestId): PendingSettlement | undefined {
    return this.#file.quarantined().find(({ settlement }) => settlement.request === request)
  }

  /** Why running calls could not be charged without Redis. */
  get why(): string | undefined {
    const { fault, path } = this.#file
    return fault === undefined ? undefined : `${path} cannot be written: ${fault}`
  }

  /** Whether its file could be written at the last look. */
  get isWritable(): boolean {
    return this.#file.fault === undefined
  }

  /** Settlements in the file, quarantined ones left out, and the age of the oldest. */
  health(): { readonly waiting: number; readonly oldestMs: number } {
    const { waiting, oldest } = this.#inFile()
    return { waiting, oldestMs: oldest === null ? 0 : Math.max(0, Date.now() - oldest) }
  }

  /** Summary of the file; the last one read while it cannot be read. */
  #inFile(): { readonly waiting: number; readonly oldest: number | null } {
    if (!this.#pending) return { waiting: 0, oldest: null }
    try {
      this.#lastSummary = this.#file.summary()
      this.#isReadable = true
    } catch (error) {
      if (this.#isReadable) this.#log.error(`${this.#file.path} cannot be read`, error)
      this.#isReadable = false
    }
    return this.#lastSummary
  }

  /** Whether there is something to send. What belongs to another ledger stays in the file. */
  get isWaiting(): boolean {
    const ledger = this.#ledger
    return this.#pending && (ledger === null || this.#file.page(ledger, 0, 1).length > 0)
  }

  /** Releases the file, and reports what it still has; the next process that opens it sends the rest. */
  async close(isAll: boolean): Promise<number> {
    try {
      await this.#look
      if (isAll) await this.#reportOwn()
      return this.#reportLeft()
    } finally {
      this.#file.close()
      this.#pending = false
    }
  }

  /** Logs what the file still has. @returns the number of settlements that go with it */
  #reportLeft(): number {
    if (!this.#file.isOpen) return 0
    const { path } = this.#file
    const left = this.#file.all().map(({ settlement }) => settlement)
    if (left.length === 0) return 0
    const sum = formatPico(left.reduce((all, { cost }) => all + cost, 0n))
    const message = `${left.length} settlements of ${sum} USD in all are left in ${path}`
    const members = { entries: left.length, sum, path: dirname(path) }
    this.#log.warn({ event: 'outbox.left', message, members })
    if (this.#options.isKept) return 0
    for (const one of left) this.#log.error(unbookedLine(one, 'the outbox goes with its folder'))
    return left.length
  }

  /** Identity of the ledger that calls were admitted by last; null where none was seen yet. */
  get #ledger(): string | null {
    return (this.#lastLedger = this.#options.ledger() ?? this.#lastLedger)
  }

  look(): void {
    this.#look ??= this.#lookAtFile().finally(() => (this.#look = undefined))
  }

  async #lookAtFile(): Promise<void> {
    await this.#file.look()
    const { fault, path } = this.#file
    if (this.isWritable === this.#wasWritable) return
    this.#wasWritable = this.isWritable
    if (this.isWritable) this.#log.info(`${path} can be written again`)
    else this.#log.error(`${path} cannot be written, no calls are admitted until it can: ${fault}`)
  }

  /** Sends everything that Redis may lack. */
  async deliver(): Promise<void> {
    const ledger = this.#options.ledger()
    if (ledger === undefined) return
    if (this.#pending) {
      await this.#file.takeOver(ledger, this.#options.wasIts)
      await this.#sendFile(ledger)
    }
    if (this.#resendConfirmed) await this.#sendConfirmed()
  }

  /** @param ledger settlements of other ledgers stay in the file */
  async #sendFile(ledger: string): Promise<void> {
    let booked = 0
    for (let last = 0; ;) {
      const batch = this.#file.page(ledger, last, BATCH)
      if (batch.length === 0) break
      const { done, unclear } = await this.#sendBatch(batch)
      this.#file.remove(done)
      this.#file.quarantine(unclear)
      if (unclear.length > 0) this.#reportQuarantine(unclear.length)
      booked += done.length
      // Redis cannot be reached.
      if (done.length + unclear.length === 0) break
      last = batch.at(-1)!.seq
    }
    this.#pending = this.#file.summary().waiting > 0
    if (!this.#pending) await this.#reportEnded()
    if (booked > 0) this.#log.info(`${booked} settlements of the outbox are booked`)
  }

  /** Reports gateways that have ended, whose settlements are booked. A quarantined one is for the operator to decide. */
  async #reportEnded(): Promise<void> {
    const { gateway, tellBooked } = this.#options
    if (this.#file.summary().quarantined > 0) return
    for (const id of this.#file.ended(gateway)) {
      await tellBooked(id)
      this.#file.forget(id)
    }
  }

  /** Reports this gateway at its end, where nothing of it is left. Where Redis is away, the next process does. */
  async #reportOwn(): Promise<void> {
    const { gateway, tellBooked } = this.#options
    if (!this.#file.isOpen) return
    const { waiting, quarantined } = this.#file.summary()
    if (waiting + quarantined > 0) return
    await tellBooked(gateway).then(
      () => this.#file.forget(gateway),
      () => undefined,
    )
  }

  /** @returns settlements that are booked now, and those that may have been booked earlier; the others stay pending */
  async #sendBatch(
    batch: readonly PendingSettlement[],
  ): Promise<{ done: number[]; unclear: number[] }> {
    const [done, unclear]: [number[], number[]] = [[], []]
    const lookUps = this.#lookUpOld(batch)
    await Promise.allSettled(
      batch.map(async ({ seq, settlement }) => {
        const lookUp = await lookUps.get(seq)
        if (lookUp?.booked.has(settlement.request)) return void done.push(seq)
        if (lookUp?.unclear.has(settlement.request)) return void unclear.push(seq)
        this.#options.booked(settlement, await this.book(settlement, REPLAY_MS))
        done.push(seq)
      }),
    )
    return { done, unclear }
  }

  /** Looks up settlements whose receipts may have expired, once per account. */
  #lookUpOld(batch: readonly PendingSettlement[]): Map<number, Promise<ReceiptLookup>> {
    const before = Date.now() - this.#options.receiptMs / 2
    const old = Map.groupBy(
      batch.filter(({ at }) => at < before),
      ({ settlement }) => settlement.account,
    )
    const lookUps = new Map<number, Promise<ReceiptLookup>>()
    for (const [account, entries] of old) {
      const settlements = entries.map(({ settlement }) => settlement)
      const lookUp = this.#options.lookUp(account, settlements)
      for (const { seq } of entries) lookUps.set(seq, lookUp)
    }
    return lookUps
  }

  async #sendConfirmed(): Promise<void> {
    this.#resendConfirmed = false
    let lost = 0
    const since = performance.now() - this.#options.receiptMs / 2
    const confirmed = [...this.#confirmed].filter(([, { at }]) => at > since)
    for (let i = 0; i < confirmed.length; i += BATCH) {
      const batch = confirmed.slice(i, i + BATCH)
      const results = await Promise.allSettled(batch.map(([, { booking }]) => booking()))
      results.forEach((result, j) => {
        if (result.status === 'rejected') this.#resendConfirmed = true
        else if (result.value.state === 'charged') {
          lost++
          // Its two minutes begin again.
          const [id, one] = batch[j]!
          this.#keep(id, { ...one, at: performance.now() })
        }
      })
      if (this.#resendConfirmed) break
    }
    if (lost > 0) {
      this.#log.warn(`Redis had lost ${lost} bookings; they are booked again`)
      this.#options.replayed(lost)
    }
  }

  #reportQuarantine(count: number): void {
    const { path } = this.#file
    this.#log.error(
      `${count} settlements in ${path} are too old to be sent safely. Decide about them yourself: ` +
        '"sluicegate ledger outbox" lists them',
    )
  }
}

/** Identifies a settlement: Redis books a request once in each account. */
function receiptOf({ account, request }: Settlement): string {
  return `${account} ${request}`
}

// Settlements on disk that Redis has not confirmed: one SQLite file per process, in a folder that several processes may share.
// A lock beside each file ends with its process, so the next process that starts adopts the file of a dead one.
//
// Writes block the main thread until they are on disk. They happen only while Redis cannot be reached, when no calls are
// admitted, and once per turn of the event loop.

interface PendingSettlement {
  /** Its value ascends in the order of arrival. */
  readonly seq: number
  /** When it was written to the file, ms since epoch. */
  readonly at: number
  readonly settlement: Settlement
}

interface Append {
  readonly entry: { readonly settlement: Settlement }
  readonly ledger: string | null
  readonly resolve: (cost: Pico) => void
  readonly reject: (error: unknown) => void
}

const NAME = /^outbox-(\d+)\.db$/
/** Bound where no limit is configured. */
const MOST_BYTES = 2 ** 30
const AT_LIMIT = 'it has reached state.outboxLimit'
/** Larger than the part of a file that file systems store in its directory entry. */
const PROBE = Buffer.alloc(4096)
/** How long to wait for a lock: an operator may be reading the file. */
const BUSY_TIMEOUT_MS = 2000

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS waiting (
    seq INTEGER PRIMARY KEY,
    account TEXT NOT NULL,
    request TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- the settlement as JSON, its cost in pico-dollars as text
    body TEXT NOT NULL,
    -- 1: for the operator to decide, because it may have been booked
    quarantined INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, request)
  ) STRICT;
  -- gateways whose settlements are in the file, or were
  CREATE TABLE IF NOT EXISTS gateway (id TEXT PRIMARY KEY) STRICT`

export class OutboxFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #lock: DatabaseSync
  readonly #sql: ReturnType<typeof prepare>
  readonly #reserve: Reserve
  readonly #mostPages: number
  #appends: Append[] = []
  #fault: string | undefined

  /**
   * Takes the first file of the folder that no process has, and moves the settlements of other such files into it.
   * @param folder created if it does not exist. @param limitBytes bound of the file, beyond which appends are refused
   * @throws Error when it cannot be used
   */
  static open(folder: string, limitBytes = MOST_BYTES): OutboxFile {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    let own: OutboxFile | undefined
    for (let n = 1; !own; n++) own = OutboxFile.#claim(join(folder, `outbox-${n}.db`), limitBytes)
    try {
      for (const name of readdirSync(folder).filter((name) => NAME.test(name))) {
        const other = OutboxFile.#claim(join(folder, name), limitBytes)
        if (!other) continue
        own.#adopt(other)
        other.close()
        other.#reserve.remove()
      }
      return own
    } catch (error) {
      own.close()
      throw error
    }
  }

  /** Settlements in the files of a folder that no process has, quarantined ones included, oldest first in each. */
  static left(folder: string): Settlement[] {
    const names = readdirSync(folder).filter((name) => NAME.test(name))
    return names.flatMap((name) => {
      const path = join(folder, name)
      const lock = lockFile(`${path}-owner`)
      if (!lock) return []
      try {
        using db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
        const rows = db.prepare('SELECT seq, at, body FROM waiting ORDER BY seq').all()
        return (rows as unknown as Row[]).map((row) => toPending(row).settlement)
      } finally {
        lock.close()
      }
    })
  }

  static #claim(path: string, limitBytes: number): OutboxFile | undefined {
    const lock = lockFile(`${path}-owner`)
    if (!lock) return undefined
    try {
      return new OutboxFile(path, lock, limitBytes)
    } catch (error) {
      lock.close()
      throw error
    }
  }

  private constructor(path: string, lock: DatabaseSync, limitBytes: number) {
    this.path = path
    this.#lock = lock
    createFile(path)
    this.#db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
    this.#db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    this.#db.exec(SCHEMA)
    addLedger(this.#db)
    this.#mostPages = Math.floor(limitBytes / this.#pragma('page_size')) + 1
    this.#db.exec(`PRAGMA max_page_count = ${this.#mostPages}`)
    this.#sql = prepare(this.#db)
    this.#reserve = new Reserve(`${path}-reserve`)
  }

  get isOpen(): boolean {
    return this.#db.isOpen
  }

  /** Why nothing more could be written at the last {@link look}. */
  get fault(): string | undefined {
    return this.#reserve.used ? RESERVE_USED : this.#fault
  }

  /** Checks whether settlements could be written, and keeps the reserve of the disk. Never rejects. */
  async look(): Promise<void> {
    await this.#reserve.make()
    try {
      if (this.#db.isOpen) this.#fault = this.#isAtLimit() ? AT_LIMIT : await this.#probe()
    } catch (error) {
      this.#fault = (error as Error).message
    }
  }

  /**
   * Resolves when the settlement is on the disk, as it is at the moment of the write. An earlier one of the same request stands.
   * @param ledger its identity. @returns the stored cost. @throws Error when it cannot be written
   */
  append(entry: { readonly settlement: Settlement }, ledger: string | null): Promise<Pico> {
    return new Promise((resolve, reject) => {
      if (this.#appends.length === 0) setImmediate(() => this.#flush())
      this.#appends.push({ entry, ledger, resolve, reject })
    })
  }

  /** Gives settlements of other ledgers to one that was accepted in their place. */
  async takeOver(ledger: string, wasIts: (other: string) => Promise<boolean>): Promise<void> {
    for (const { ledger: other } of this.#sql.others.all(ledger)) {
      if (await wasIts(String(other))) this.#sql.takeOver.run(ledger, other!)
    }
  }

  /** Pending settlements of a ledger, oldest first. @param after a `seq` */
  page(ledger: string, after: number, limit: number): PendingSettlement[] {
    const rows = this.#sql.page.all(ledger, after, limit) as unknown as Row[]
    return rows.map(toPending)
  }

  /** Everything that is in the file, oldest first. */
  all(): PendingSettlement[] {
    return (this.#sql.all.all() as unknown as Row[]).map(toPending)
  }

  /** Settlements that are not sent, oldest first. */
  quarantined(): PendingSettlement[] {
    return (this.#sql.quarantined.all() as unknown as Row[]).map(toPending)
  }

  remove(seqs: readonly number[]): void {
    transact(this.#db, () => seqs.forEach((seq) => this.#sql.remove.run(seq)))
  }

  /** Excludes settlements from sending. */
  quarantine(seqs: readonly number[]): void {
    transact(this.#db, () => seqs.forEach((seq) => this.#sql.quarantine.run(seq)))
  }

  /** Number of pending settlements, time of the oldest (ms since epoch), and number of quarantined ones. */
  summary(): {
    readonly waiting: number
    readonly oldest: number | null
    readonly quarantined: number
  } {
    return this.#sql.summary.get() as ReturnType<OutboxFile['summary']>
  }

  /** Enters a gateway, whose settlements may come into the file. */
  enter(gateway: string): void {
    this.#sql.enter.run(gateway)
  }

  /** Gateways that had the file, or one that was adopted, and have ended. @param own the one that has it */
  ended(own: string): string[] {
    return this.#sql.gateways.all(own).map(({ id }) => id as string)
  }

  forget(gateway: string): void {
    this.#sql.forget.run(gateway)
  }

  /** Writes pending appends and releases the file. A second call does nothing. */
  close(): void {
    if (!this.#db.isOpen) return
    this.#flush()
    this.#db.close()
    this.#lock.close()
  }

  /** Writes another file, in the background, because the main thread would wait for a row. @throws the error of the disk */
  async #probe(): Promise<undefined> {
    const path = `${this.path}-probe`
    try {
      await writeFile(path, PROBE, { mode: 0o600 })
    } finally {
      await rm(path, { force: true })
    }
  }

  #isAtLimit(): boolean {
    return this.#pragma('page_count') >= this.#mostPages && this.#pragma('freelist_count') === 0
  }

  #pragma(name: 'page_size' | 'page_count' | 'freelist_count'): number {
    return Number(this.#db.prepare(`PRAGMA ${name}`).get()![name])
  }

  #flush(): void {
    const appends = this.#appends.splice(0)
    if (appends.length === 0) return
    const now = Date.now()
    const costs: Pico[] = []
    try {
      this.#reserve.lend(() =>
        transact(this.#db, () => {
          for (const append of appends) costs.push(this.#insert(append, now))
        }),
      )
    } catch (error) {
      for (const { reject } of appends) reject(error)
      return
    }
    appends.forEach(({ resolve }, i) => resolve(costs[i]!))
  }

  /** @returns the stored cost */
  #insert({ entry: { settlement }, ledger }: Append, now: number): Pico {
    const { account, request, cost } = settlement
    const body = JSON.stringify({ ...settlement, cost: String(cost) })
    const { changes } = this.#sql.insert.run(account, request, now, body, 0, ledger)
    if (Number(changes) === 1) return cost
    const { body: stored } = this.#sql.body.get(account, request) as { body: string }
    return BigInt(JSON.parse(stored).cost)
  }

  /** Writes to this file before it deletes from the other one: after a crash between, settlements are sent twice at worst. */
  #adopt(other: OutboxFile): void {
    const rows = other.#db.prepare('SELECT * FROM waiting ORDER BY seq').all()
    const ended = other.ended('')
    if (rows.length + ended.length === 0) return
    transact(this.#db, () => {
      for (const id of ended) this.enter(id)
      for (const { account, request, at, body, quarantined, ledger } of rows) {
        this.#sql.insert.run(account!, request!, at!, body!, quarantined!, ledger!)
      }
    })
    other.#db.exec('DELETE FROM waiting; DELETE FROM gateway')
  }
}

/** The identity of the ledger that a settlement belongs to, which files of earlier releases do not have. */
function addLedger(db: DatabaseSync): void {
  const has = db.prepare(`SELECT 1 FROM pragma_table_info('waiting') WHERE name = 'ledger'`).get()
  if (!has) db.exec('ALTER TABLE waiting ADD COLUMN ledger TEXT')
}

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare(
      `INSERT OR IGNORE INTO waiting (account, request, at, body, quarantined, ledger)
       VALUES (?, ?, ?, ?, ?, ?)`,
    ),
    body: db.prepare('SELECT body FROM waiting WHERE account = ? AND request = ?'),
    page: db.prepare(
      `SELECT seq, at, body FROM waiting WHERE ifnull(ledger, ?1) = ?1 AND seq > ?2
         AND quarantined = 0 ORDER BY seq LIMIT ?3`,
    ),
    enter: db.prepare('INSERT OR IGNORE INTO gateway (id) VALUES (?)'),
    gateways: db.prepare('SELECT id FROM gateway WHERE id <> ?'),
    forget: db.prepare('DELETE FROM gateway WHERE id = ?'),
    others: db.prepare('SELECT DISTINCT ledger FROM waiting WHERE ledger <> ?'),
    takeOver: db.prepare('UPDATE waiting SET ledger = ? WHERE ledger = ?'),
    quarantined: db.prepare('SELECT seq, at, body FROM waiting WHERE quarantined = 1 ORDER BY seq'),
    all: db.prepare('SELECT seq, at, body FROM waiting ORDER BY seq'),
    remove: db.prepare('DELETE FROM waiting WHERE seq = ?'),
    quarantine: db.prepare('UPDATE waiting SET quarantined = 1 WHERE seq = ?'),
    summary: db.prepare(
      `SELECT count(*) FILTER (WHERE quarantined = 0) AS waiting,
         min(at) FILTER (WHERE quarantined = 0) AS oldest,
         count(*) FILTER (WHERE quarantined = 1) AS quarantined FROM waiting`,
    ),
  }
}

type Row = Omit<PendingSettlement, 'settlement'> & { readonly body: string }

function toPending({ seq, at, body }: Row): PendingSettlement {
  const { cost, ...settlement } = JSON.parse(body)
  return { seq, at, settlement: { ...settlement, cost: BigInt(cost) } }
}
