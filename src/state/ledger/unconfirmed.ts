/**
 * Settlements that a store has not confirmed. Each ends in the store, or on the local disk where the engine has a place for it, or
 * is kept in memory and tried again each second. What can be kept no longer is a line of the log, which `ledger import` books. No call
 * is admitted while one is kept, so only running calls can add to them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { UnbookedSettlements } from '../../errors/errors.ts'
import { formatPico, MAX_AMOUNT, type Pico } from '../../money/money.ts'
import type { Lease, Log, RequestId, Settled, Settlement } from './ledger.ts'

/** How long a caller waits for a settlement before it is deferred. */
export const SETTLE_MS = 10_000
const RETRY_MS = 1000
/** Age from which waiting settlements are logged, and the time between two such lines. */
const ALARM_MS = 60_000
/** Most settlements that are kept. */
const MOST_KEPT = 10_000

/** What the mirror of a store has of one settlement. */
interface Applied {
  /** Makes the mirror have a form of the settlement, or nothing of it. @returns the balance of its account */
  move(to: Settlement | undefined): Pico
  /** Makes the store write this form, unless it is writing another one right now. */
  rewrite(settlement: Settlement): void
}

interface Entry<A> {
  /** Its present form: with a cost of 0 once it was waived. */
  settlement: Settlement
  /** The form in which it was settled. */
  readonly first: Settlement
  readonly applied: A
  /** Steady ms. */
  readonly since: number
  /** Answers the caller, once. It is forgotten then: a Set keeps removed entries, and with them a whole call, until it grows. */
  answer: ((settled: Settled) => void) | undefined
  /** The attempt to store it on the disk. */
  storing?: Promise<void>
}

interface Store<A> {
  /**
   * Has a settlement booked, and calls one of the functions once.
   * @param done takes the receipt, or why the store refuses it for ever. @param failed called when this attempt has not booked it
   * @param isRepeated whether it is kept, so that no caller waits
   */
  send(
    entry: { readonly settlement: Settlement; readonly applied: A },
    done: (outcome: Settled | { readonly refused: string }) => void,
    failed: () => void,
    isRepeated: boolean,
  ): void
  /** Takes back a settlement that is not being written right now. @returns whether it was taken back */
  withdraw?(applied: A): boolean
}

/** A place on the local disk, and the way from there to the store. */
interface Disk {
  /**
   * Stores the form that a settlement has at the moment of the write, because it can be waived until then.
   * @returns the stored cost; undefined where the place is not in use. @throws the error of the disk
   */
  append(entry: { readonly settlement: Settlement }): Promise<Pico | undefined> | undefined
  /** Settlements that wait there. */
  health?(): { readonly waiting: number; readonly oldestMs: number }
  /** Looks whether it can be written. */
  look?(): void
  /** Sends to the store what it may lack. */
  deliver?(): Promise<void>
  /** Whether there is something that could be delivered. */
  readonly isWaiting?: boolean
  /** @param isAll whether nothing is left in memory. @returns the number of settlements that are lost with the place */
  close?(isAll: boolean): Promise<number>
}

/** The unconfirmed settlements of one engine. */
export class Unconfirmed<A extends Applied | undefined> implements Iterable<A> {
  readonly #store: Store<A>
  readonly #disk: Disk
  readonly #log: Log
  readonly #timer: NodeJS.Timeout
  /** Those that the store or the disk is asked to take, in the order of their attempts. */
  readonly #open = new Set<Entry<A>>()
  /** Deferred ones, oldest first. The store may still be asked to take one. */
  readonly #kept = new Map<RequestId, Entry<A>>()
  /** Those beyond the bound. They are logged after this turn: until then they can be waived. */
  readonly #lost = new Map<RequestId, Entry<A>>()
  /** Receipts of deferred settlements that are booked now. */
  readonly #receipts = new Map<RequestId, Settled>()
  #retrying: Promise<void> | undefined
  #alarmAt = -Infinity
  #conflicts = 0
  #unfit = 0
  #closed = false

  constructor({ store, disk, log }: { store: Store<A>; disk?: Disk | undefined; log: Log }) {
    this.#store = store
    this.#disk = disk ?? { append: () => undefined }
    this.#log = log
    this.#timer = setInterval(() => this.#tick(), RETRY_MS).unref()
  }

  /** Resolves when a settlement is in the store or on the disk, or as `deferred`; never rejects. */
  settle(settlement: Settlement, applied: A): Promise<Settled> {
    const { cost } = settlement
    if (cost < 0n || cost > MAX_AMOUNT) {
      this.#drop(settlement, 'its amount is out of bounds')
      return Promise.resolve(deferred(settlement))
    }
    return new Promise((resolve) => {
      const since = performance.now()
      this.#send({ settlement, first: settlement, applied, since, answer: resolve })
    })
  }

  /** See {@link Ledger.waive}. */
  waive({ request }: Lease): Settled {
    const all = [this.#kept.get(request), this.#lost.get(request), ...this.#open]
    const entries = new Set(all.filter((entry) => entry?.settlement.request === request))
    let answer: Settled | undefined
    for (const entry of entries as Set<Entry<A>>) {
      if (this.#open.has(entry)) this.#defer(entry)
      entry.settlement = waived(entry.settlement)
      entry.applied?.rewrite(entry.settlement)
      answer = { ...deferred(entry.settlement), balance: entry.applied?.move(undefined) ?? 0n }
    }
    answer ??= this.#receipts.get(request)
    this.#receipts.delete(request)
    return answer ?? { state: 'duplicate', cost: 0n, balance: 0n }
  }

  /** Notes the receipt of a settlement. The first cost stands. */
  booked({ request, cost }: Settlement, settled: Settled): Settled {
    if (this.#kept.delete(request)) {
      const [oldest] = this.#receipts.keys()
      if (this.#receipts.size >= MOST_KEPT) this.#receipts.delete(oldest!)
      this.#receipts.set(request, { ...settled, state: 'duplicate' })
    }
    if (cost !== settled.cost) {
      this.#conflicts++
      const [before, now] = [settled.cost, cost].map(formatPico)
      this.#log.error(`${request} was booked before with ${before} USD, not ${now}; this stands`)
    }
    return settled
  }

  /** Number of settlements since the start that were booked earlier with another cost. */
  get conflicts(): number {
    return this.#conflicts
  }

  /** Why no call may be admitted. */
  get why(): string | undefined {
    const { size } = this.#kept
    return size > 0 ? `${size} settlements are only in memory` : undefined
  }

  /** Settlements that are not in the store, and the age of the oldest. Those of the first attempt are not among them. */
  health(): { readonly waiting: number; readonly oldestMs: number } {
    const onDisk = this.#disk.health?.() ?? { waiting: 0, oldestMs: 0 }
    const [oldest] = this.#kept.values()
    const keptMs = oldest ? performance.now() - oldest.since : 0
    const waiting = onDisk.waiting + this.#kept.size
    return { waiting, oldestMs: Math.max(onDisk.oldestMs, keptMs) }
  }

  /** What the mirror has of settlements that the store may lack. */
  *[Symbol.iterator](): Iterator<A> {
    for (const { applied } of this.#open) yield applied
  }

  /** Sends what the store may lack, once at a time. */
  retry(): Promise<void> {
    this.#retrying ??= this.#retryAll()
      .catch((error: unknown) => this.#log.error('sending settlements again failed', error))
      .finally(() => (this.#retrying = undefined))
    return this.#retrying
  }

  /**
   * Logs what is left.
   * @param patience aborted when nothing is sent again any more; absent: once more
   * @throws UnbookedSettlements where a settlement is in no store, and in no file that stays
   */
  async close(patience: AbortSignal = AbortSignal.abort()): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all([...this.#open].map(({ storing }) => storing))
    await this.#retrying
    for (;;) {
      await this.retry()
      if (patience.aborted || (this.#kept.size === 0 && !this.#disk.isWaiting)) break
      await sleep(RETRY_MS, undefined, { signal: patience }).catch(() => undefined)
    }
    this.#closed = true
    this.#dropLost()
    const left = this.#kept.size + this.#unfit
    for (const { settlement } of this.#kept.values()) this.#drop(settlement, 'the gateway ends')
    const lost = (await this.#disk.close?.(left === 0)) ?? 0
    if (left + lost > 0) throw new UnbookedSettlements(left + lost)
  }

  #send(entry: Entry<A>, isRepeated = false): void {
    this.#open.add(entry)
    const done = (outcome: Settled | { readonly refused: string }) => this.#done(entry, outcome)
    this.#store.send(entry, done, () => (entry.storing = this.#toDisk(entry)), isRepeated)
  }

  #done(entry: Entry<A>, outcome: Settled | { readonly refused: string }): void {
    this.#open.delete(entry)
    const { settlement, first, applied } = entry
    if ('refused' in outcome) {
      applied?.move(undefined)
      this.#drop(settlement, outcome.refused)
      return answer(entry, deferred(settlement))
    }
    const { state, cost } = outcome
    const stored = cost === settlement.cost ? settlement : first
    const balance = applied?.move(state === 'charged' ? stored : undefined) ?? outcome.balance
    answer(entry, this.booked(settlement, { state, cost, balance }))
  }

  /** Stores a settlement that the store has not taken on the disk, or keeps it. */
  async #toDisk(entry: Entry<A>): Promise<void> {
    try {
      const cost = await this.#disk.append(entry)
      if (cost !== undefined) return this.#done(entry, { state: 'charged', cost, balance: 0n })
    } catch (error) {
      if (this.#kept.size === 0) {
        const sentence = 'a settlement can be stored nowhere, no calls are admitted until it can'
        this.#log.error(sentence, error)
      }
    }
    this.#open.delete(entry)
    this.#keep(entry)
  }

  #keep(entry: Entry<A>): void {
    const { settlement } = entry
    if (this.#closed) this.#drop(settlement, 'the ledger is closed')
    else if (!this.#hasRoomFor(entry)) this.#lose(entry)
    else if (!this.#kept.has(settlement.request)) this.#kept.set(settlement.request, entry)
    answer(entry, deferred(settlement))
  }

  #hasRoomFor({ settlement }: Entry<A>): boolean {
    return this.#kept.has(settlement.request) || this.#kept.size < MOST_KEPT
  }

  /** Answers the caller of a settlement that the store still tries to write. One beyond the bound is not written, if that can be. */
  #defer(entry: Entry<A>): void {
    if (this.#kept.get(entry.settlement.request) === entry) return
    if (!this.#hasRoomFor(entry)) {
      if (!this.#store.withdraw?.(entry.applied)) return answer(entry, deferred(entry.settlement))
      this.#open.delete(entry)
      entry.applied?.move(undefined)
    }
    this.#keep(entry)
  }

  #lose(entry: Entry<A>): void {
    if (this.#lost.size === 0) setImmediate(() => this.#dropLost())
    this.#lost.set(entry.settlement.request, entry)
  }

  #dropLost(): void {
    for (const { settlement } of this.#lost.values()) {
      this.#drop(settlement, `${MOST_KEPT} others wait already`)
      this.#unfit++
    }
    this.#lost.clear()
  }

  /** Logs a settlement that will never be booked. */
  #drop(settlement: Settlement, reason: string): void {
    this.#kept.delete(settlement.request)
    this.#log.error(unbookedLine(settlement, reason))
  }

  #tick(): void {
    this.#disk.look?.()
    void this.retry()
    const now = performance.now()
    for (const entry of this.#open) {
      if (entry.since <= now - SETTLE_MS) this.#defer(entry)
    }
    const { waiting, oldestMs } = this.health()
    if (oldestMs < ALARM_MS || now - this.#alarmAt < ALARM_MS) return
    this.#alarmAt = now
    const seconds = Math.round(oldestMs / 1000)
    this.#log.error(`${waiting} settlements wait to be booked, the oldest for ${seconds} s`)
  }

  /** Tries kept settlements, oldest first, up to the first that nothing takes; then what the disk has. */
  async #retryAll(): Promise<void> {
    let stored = 0
    for (const entry of this.#kept.values()) {
      // The store tries this one by itself.
      if (this.#open.has(entry)) continue
      await new Promise<unknown>((resolve) => {
        entry.answer = resolve
        this.#send(entry, true)
      })
      if (this.#kept.has(entry.settlement.request)) break
      stored++
    }
    if (stored > 0) this.#log.info(`${stored} deferred settlements are stored`)
    await this.#disk.deliver?.()
  }
}

function answer(entry: Entry<unknown>, settled: Settled): void {
  const take = entry.answer
  entry.answer = undefined
  take?.(settled)
}

function deferred({ cost }: Settlement): Settled {
  return { state: 'deferred', cost, balance: 0n }
}

/** The settlement of a failed call, with a cost of 0. */
function waived(settlement: Settlement): Settlement {
  return { ...settlement, cost: 0n, usage: { ...settlement.usage, outcome: 'failed' } }
}

/** A line of the log that ends in the row of a settlement. */
export function unbookedLine(settlement: Settlement, reason: string): string {
  return `settlement not booked (${reason}): ${bookableRow(settlement)}`
}

/** The row of a settlement in the form of `ledger export`, so that `ledger import` can book it. */
export function bookableRow(settlement: Settlement): string {
  const { account, key, request, day, cost, usage } = settlement
  const { at } = usage
  return JSON.stringify({
    kind: 'usage',
    account,
    key,
    request,
    day,
    at,
    cost: formatPico(cost),
    usage,
  })
}
