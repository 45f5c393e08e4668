/**
 * Delivers settlements to Redis, which may be unreachable, or may lose recent writes in a failover. A settlement that Redis
 * does not confirm in time goes to a local file and is sent when Redis is back. A confirmed one stays in memory for two
 * minutes and is sent again whenever another server may have become primary. Receipts make repetition harmless.
 */
import type { Pico } from '../../money/money.ts'
import { DeferredSettlements } from '../ledger/deferred.ts'
import type { Lease, Log, RequestId, Settled, Settlement } from '../ledger/ledger.ts'
import type { OutboxFile, PendingSettlement } from './outbox-file.ts'

/** Options of an {@link Outbox}. */
interface OutboxOptions {
  readonly file: OutboxFile
  /** Books a settlement in Redis. Rejects unless Redis confirms by the deadline. */
  readonly send: (settlement: Settlement, deadlineMs: number) => Promise<Settled>
  /** Looks up settlements of one account among its rows. */
  readonly lookUp: (account: string, settlements: readonly Settlement[]) => Promise<ReceiptLookup>
  /** How long Redis keeps a receipt. */
  readonly receiptMs: number
  readonly log: Log
}

/** Result of a look-up. A request in neither set was never booked. */
export interface ReceiptLookup {
  readonly booked: ReadonlySet<RequestId>
  /** Requests that may have had a row. */
  readonly unclear: ReadonlySet<RequestId>
}

type Booking = () => Promise<Settled>

/** A booking that Redis has confirmed. */
interface Confirmed {
  readonly booking: Booking
  /** Steady ms. */
  readonly at: number
  /** Of a settlement. */
  readonly cost?: Pico
}

/** Deadline while a client waits. */
const SETTLE_MS = 500
const REPLAY_MS = 2000
const BATCH = 200
/** Longer than a failover takes, and longer than an append-only file lags behind. */
const REMEMBERED_MS = 120_000
const RETRY_MS = 1000
const ALARM_MS = 60_000

/** The outbox of one process. */
export class Outbox {
  readonly #options: OutboxOptions
  readonly #file: OutboxFile
  readonly #log: Log
  readonly #deferred: DeferredSettlements
  /** Confirmed bookings, oldest first; settlements by {@link receiptOf}. */
  readonly #confirmed = new Map<string | Booking, Confirmed>()
  /** Whether the file may hold settlements. */
  #pending = true
  #lastSummary: { readonly waiting: number; readonly oldest: number | null } = {
    waiting: 0,
    oldest: null,
  }
  #isReadable = true
  /** A look at the file that is under way. */
  #look: Promise<void> | undefined
  /** What the log says of the file. */
  #wasWritable = true
  /** Whether Redis may have lost confirmed bookings. */
  #resendConfirmed = false
  #replay: Promise<void> | undefined
  #alarmAt = -Infinity
  readonly #timer: NodeJS.Timeout

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#file = options.file
    this.#log = options.log
    this.#deferred = new DeferredSettlements(options.log)
    const { quarantined } = this.#file.summary()
    if (quarantined > 0) this.#reportQuarantine(quarantined)
    this.#timer = setInterval(() => this.#tick(), RETRY_MS)
    this.#timer.unref()
  }

  /**
   * Resolves when Redis has confirmed, or else when the settlement is on the local disk; the balance is unknown then, and 0n
   * in the answer. When neither can store it, the settlement is deferred.
   */
  async settle(settlement: Settlement): Promise<Settled> {
    if (!this.#deferred.accepts(settlement)) {
      return { state: 'deferred', cost: settlement.cost, balance: 0n }
    }
    this.#deferred.trying(settlement)
    try {
      return await this.#book(settlement, SETTLE_MS)
    } catch {
      const due = this.#deferred.get(settlement.request) ?? settlement
      const cost = this.#confirmed.get(receiptOf(settlement))?.cost
      if (cost === undefined) return this.#append(due)
      // What was told first stands, and is sent again when Redis is back.
      return this.#deferred.booked(due, { state: 'duplicate', cost, balance: 0n })
    }
  }

  /** See {@link Ledger.waive}. */
  waive(lease: Lease): Settled {
    const answer = this.#deferred.waive(lease)
    return 'state' in answer ? answer : { state: 'deferred', cost: answer.cost, balance: 0n }
  }

  /** Keeps a booking that was just confirmed. It has to be idempotent. */
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

  /** Sends everything that Redis may lack. Called when it is back, or when another server may have become primary. */
  replay(): void {
    this.#resendConfirmed = true
    void this.#send()
  }

  /** Whether every settlement so far is durable, and running calls could be charged without Redis. */
  get ok(): boolean {
    return this.#deferred.size === 0 && this.isWritable
  }

  /** Whether its file can be written, as of the last look at it. */
  get isWritable(): boolean {
    return this.#file.fault === undefined
  }

  /** See {@link Ledger.conflicts}. */
  get conflicts(): number {
    return this.#deferred.conflicts
  }

  /** Settlements that Redis has not confirmed, deferred ones included. */
  health(): { readonly waiting: number; readonly oldestMs: number } {
    const { waiting, oldest } = this.#inFile()
    const { size, oldestMs } = this.#deferred
    const onDiskMs = oldest === null ? 0 : Math.max(0, Date.now() - oldest)
    return { waiting: waiting + size, oldestMs: Math.max(onDiskMs, oldestMs) }
  }

  /** Of a file that cannot be read right now: what was read last. */
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

  /** Tries deferred settlements once more. @throws UnbookedSettlements when that fails */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all([this.#replay, this.#look])
    try {
      await this.#sendDeferred()
      this.#deferred.close()
    } finally {
      this.#file.close()
      // The next process that opens the file sends the rest.
      this.#pending = false
    }
  }

  async #book(settlement: Settlement, deadlineMs: number): Promise<Settled> {
    const { send } = this.#options
    const settled = await send(settlement, deadlineMs)
    const { cost } = settled
    const booking = () => send({ ...settlement, cost }, REPLAY_MS)
    this.#keep(receiptOf(settlement), { booking, at: performance.now(), cost })
    return this.#deferred.booked(settlement, settled)
  }

  /** Stores a settlement in the file, or keeps it in memory where the file cannot be written. */
  async #append(settlement: Settlement): Promise<Settled> {
    try {
      const cost = await this.#file.append(settlement)
      this.#pending = true
      return this.#deferred.booked(settlement, { state: 'charged', cost, balance: 0n })
    } catch (error) {
      if (this.#deferred.size === 0) {
        const where = this.#file.path
        this.#log.error(
          `${where} cannot be written, and Redis has not confirmed; no calls are admitted until one of them can`,
          error,
        )
      }
      return this.#deferred.keep(settlement)
    }
  }

  /** Stores deferred settlements, oldest first, up to the first that cannot be stored. */
  async #sendDeferred(): Promise<void> {
    let booked = 0
    for (const { request } of this.#deferred) {
      const settlement = this.#deferred.get(request)
      if (!settlement) continue
      try {
        await this.#book(settlement, REPLAY_MS)
      } catch {
        const { state } = await this.#append(this.#deferred.get(request) ?? settlement)
        if (state === 'deferred') break
      }
      booked++
    }
    if (booked > 0) this.#log.info(`${booked} deferred settlements are stored`)
  }

  #tick(): void {
    if (this.#pending || this.#resendConfirmed || this.#deferred.size > 0) void this.#send()
    this.#look ??= this.#lookAtFile().finally(() => (this.#look = undefined))
    const { waiting, oldestMs } = this.health()
    const now = performance.now()
    if (oldestMs < ALARM_MS || now - this.#alarmAt < ALARM_MS) return
    this.#alarmAt = now
    const seconds = Math.round(oldestMs / 1000)
    this.#log.error(`${waiting} settlements wait for Redis, the oldest for ${seconds} s`)
  }

  async #lookAtFile(): Promise<void> {
    await this.#file.look()
    const { fault, path } = this.#file
    if (this.isWritable === this.#wasWritable) return
    this.#wasWritable = this.isWritable
    if (this.isWritable) this.#log.info(`${path} can be written again`)
    else this.#log.error(`${path} cannot be written, no calls are admitted until it can: ${fault}`)
  }

  /** Runs once at a time; later settlements wait for the next tick. */
  #send(): Promise<void> {
    this.#replay ??= this.#sendAll()
      .catch((error: unknown) => this.#log.error('replaying the outbox failed', error))
      .finally(() => (this.#replay = undefined))
    return this.#replay
  }

  async #sendAll(): Promise<void> {
    await this.#sendDeferred()
    if (this.#pending) await this.#sendFile()
    if (this.#resendConfirmed) await this.#sendConfirmed()
  }

  async #sendFile(): Promise<void> {
    let booked = 0
    for (let last = 0; ;) {
      const batch = this.#file.page(last, BATCH)
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
    if (booked > 0) this.#log.info(`${booked} settlements of the outbox are booked`)
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
        await this.#book(settlement, REPLAY_MS)
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
    }
  }

  #reportQuarantine(count: number): void {
    const { path } = this.#file
    this.#log.error(
      `${count} settlements in ${path} are too old to be sent safely. Decide about them yourself: ` +
        'their rows have "quarantined" set',
    )
  }
}

/** Redis books a request once in each account. */
function receiptOf({ account, request }: Settlement): string {
  return `${account} ${request}`
}
