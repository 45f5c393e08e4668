/**
 * Settlements on their way to a shared store that may be away, or forget: state design, section 8. What the store does not
 * confirm in time is written to a local file, and sent when it is back; what it did confirm is kept in memory for a while,
 * and sent again whenever another server may have taken over. Receipts make repetition harmless.
 */
import { Unavailable } from '../../errors/errors.ts'
import type { Log, RequestId, Settled, Settlement } from '../ledger/ledger.ts'
import type { OutboxFile, PendingSettlement } from './outbox-file.ts'

export interface OutboxOptions {
  readonly file: OutboxFile
  /** Asks the store to book. Rejects when it has not confirmed by the deadline. */
  readonly send: (settlement: Settlement, deadlineMs: number) => Promise<Settled>
  /** Looks for settlements of one account among its rows. */
  readonly lookUp: (account: string, settlements: readonly Settlement[]) => Promise<ReceiptLookup>
  /** How long the store remembers what it has booked. */
  readonly receiptMs: number
  readonly log: Log
}

/** What rows say of requests; of those that are in neither set, that they were never booked. */
export interface ReceiptLookup {
  readonly booked: ReadonlySet<RequestId>
  /** There may have been a row. */
  readonly unclear: ReadonlySet<RequestId>
}

type Booking = () => Promise<Settled>

const SETTLE_MS = 500
const REPLAY_MS = 2000
const BATCH = 200
/** Longer than a failover takes, and than an append-only file lags behind. */
const REMEMBERED_MS = 120_000
const RETRY_MS = 1000
const ALARM_MS = 60_000

/** What one process has to see through. */
export class Outbox {
  readonly #options: OutboxOptions
  readonly #file: OutboxFile
  readonly #log: Log
  /** Confirmed bookings and when they were, steady ms; oldest first. */
  readonly #confirmed = new Map<Booking, number>()
  /** Whether there may be something in the file. */
  #waiting = true
  /** Whether the store may have forgotten what it confirmed. */
  #doubtful = false
  #replay: Promise<void> | undefined
  #alarmAt = -Infinity
  readonly #timer: NodeJS.Timeout

  constructor(options: OutboxOptions) {
    this.#options = options
    this.#file = options.file
    this.#log = options.log
    const { quarantined } = this.#file.summary()
    if (quarantined > 0) this.#reportQuarantine(quarantined)
    this.#timer = setInterval(() => this.#tick(), RETRY_MS)
    this.#timer.unref()
  }

  /**
   * Resolves when the store has confirmed, or else when the settlement is on the local disk. Then the balance is not
   * known, and 0n in the answer.
   * @throws Unavailable when neither would take it
   */
  async settle(settlement: Settlement): Promise<Settled> {
    try {
      return await this.#book(settlement, SETTLE_MS)
    } catch (error) {
      await this.#append(settlement, error)
      return { state: 'charged', cost: settlement.cost, balance: 0n }
    }
  }

  /** Keeps a booking that was just confirmed. It has to be one that can be repeated. */
  remember(booking: Booking): void {
    const now = performance.now()
    this.#confirmed.set(booking, now)
    for (const [old, at] of this.#confirmed) {
      if (now - at <= REMEMBERED_MS) return
      this.#confirmed.delete(old)
    }
  }

  /** For when the store is back, or may be another: sends everything that it may not have. */
  replay(): void {
    this.#doubtful = true
    void this.#send()
  }

  health(): { readonly waiting: number; readonly oldestMs: number } {
    const { waiting, oldest } = this.#waiting ? this.#file.summary() : { waiting: 0, oldest: null }
    return { waiting, oldestMs: oldest === null ? 0 : Math.max(0, Date.now() - oldest) }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#replay
    this.#file.close()
    // What it has left is for whoever opens it next.
    this.#waiting = false
  }

  async #book(settlement: Settlement, deadlineMs: number): Promise<Settled> {
    const { send } = this.#options
    const settled = await send(settlement, deadlineMs)
    this.remember(() => send(settlement, REPLAY_MS))
    return settled
  }

  async #append(settlement: Settlement, cause: unknown): Promise<void> {
    try {
      await this.#file.append(settlement)
      this.#waiting = true
    } catch (error) {
      this.#log.error(
        `${this.#file.path} cannot be written, and the store has not confirmed`,
        error,
      )
      const message = 'The gateway cannot book this request right now.'
      throw new Unavailable('service_unavailable', message, { cause })
    }
  }

  #tick(): void {
    if (this.#waiting || this.#doubtful) void this.#send()
    const { waiting, oldestMs } = this.health()
    const now = performance.now()
    if (oldestMs < ALARM_MS || now - this.#alarmAt < ALARM_MS) return
    this.#alarmAt = now
    const seconds = Math.round(oldestMs / 1000)
    this.#log.error(`${waiting} settlements wait for the store, the oldest for ${seconds} s`)
  }

  /** One at a time; what comes up meanwhile is for the next tick. */
  #send(): Promise<void> {
    this.#replay ??= this.#sendAll()
      .catch((error: unknown) => this.#log.error('replaying the outbox failed', error))
      .finally(() => (this.#replay = undefined))
    return this.#replay
  }

  async #sendAll(): Promise<void> {
    if (this.#waiting) await this.#sendFile()
    if (this.#doubtful) await this.#sendConfirmed()
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
      // Nothing at all: the store is away.
      if (done.length + unclear.length === 0) break
      last = batch.at(-1)!.seq
    }
    this.#waiting = this.#file.summary().waiting > 0
    if (booked > 0) this.#log.info(`${booked} settlements of the outbox are booked`)
  }

  /** Which of these are booked now, and which nobody can tell of; the others wait on. */
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

  /** For those whose receipts may be gone, if they ever had one; one look-up for each account. */
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
    this.#doubtful = false
    let forgotten = 0
    const since = performance.now() - this.#options.receiptMs / 2
    const bookings = [...this.#confirmed].flatMap(([booking, at]) => (at > since ? [booking] : []))
    for (let i = 0; i < bookings.length; i += BATCH) {
      const batch = bookings.slice(i, i + BATCH)
      const results = await Promise.allSettled(batch.map((booking) => booking()))
      results.forEach((result, j) => {
        if (result.status === 'rejected') this.#doubtful = true
        else if (result.value.state === 'charged') {
          forgotten++
          // It counts from now on.
          this.#confirmed.delete(batch[j]!)
          this.remember(batch[j]!)
        }
      })
      if (this.#doubtful) break
    }
    if (forgotten > 0) {
      this.#log.warn(`the store had forgotten ${forgotten} bookings; they are booked again`)
    }
  }

  #reportQuarantine(count: number): void {
    const { path } = this.#file
    this.#log.error(
      `${count} settlements in ${path} are too old to be sent without a doubt, and are left to you: ` +
        'their rows have "quarantined" set',
    )
  }
}
