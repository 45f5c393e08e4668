/**
 * What admission decides with: balance, spend, limits, leases and holds of one account, in memory. It knows no rows and no
 * receipts, so an engine that stores those elsewhere keeps Books as its mirror.
 */
import { formatPico, MAX_AMOUNT, type Pico } from '../../money/money.ts'
import { DAY_MS, type Clock } from './clock.ts'
import {
  LEASE_MS,
  type AccountBalance,
  type CapScope,
  type Admission,
  type AdmissionRequest,
  type FreeTierLimits,
  type HoldResult,
  type HoldRequest,
  type KeyLimits,
  type KeySpend,
  type RateStatus,
  type RequestId,
  type Settlement,
} from './ledger.ts'
import { RateLog } from './rate.ts'

/** Retry-After of a refusal that ends when a running call does (state design, 4.4). */
const RETRY_MS = 1000
/** Days, and months, whose spend a Book keeps per key; a cap needs one of each, a late settlement a few. */
const KEPT_WINDOWS = 40

export const STALE: Admission = { ok: false, why: 'stale' }
const DISABLED: Admission = { ok: false, why: 'disabled' }
const EXPIRED: Admission = { ok: false, why: 'expired' }
export const LOST: HoldResult = { ok: false, why: 'lost' }
const NOT_FREE: HoldResult = { ok: false, why: 'tier' }
const NO_CREDITS: HoldResult = { ok: false, why: 'credits' }
const ALL_HELD: HoldResult = { ok: false, why: 'held', retryAfterMs: RETRY_MS }
export const NOTHING_SPENT: KeySpend = { lifetime: 0n, day: 0n, month: 0n, inFlight: 0 }

/** A call that holds a lease. */
export interface RunningCall {
  readonly request: RequestId
  readonly key: KeyBook
  /** Calendar time of its entry. */
  readonly at: number
  /** Steady time of its entry in the key's log; undefined once that was given back. */
  slot: number | undefined
  /** Steady time. */
  expiresAt: number
  held: { readonly amount: Pico; readonly day: string; readonly billed: boolean } | undefined
}

/**
 * One account as admission sees it. Everything is O(1) but a sweep, which is linear in the leases that expired.
 * To load one from rows: assign `balance` and `paid`, then `key(id).window(name).settled`, then `limit`.
 */
export class AccountBook {
  /** Top-ups minus settled costs. */
  balance: Pico = 0n
  paid = false
  #held: Pico = 0n
  /** Entries of an unpaid account, all keys together: in the last minute, and on one day. */
  readonly #log = new RateLog()
  #entries = 0
  #entriesDay = ''
  readonly #keys = new Map<string, KeyBook>()
  /** In the order in which the leases expire. */
  readonly #calls = new Map<RequestId, RunningCall>()
  /** Steady time before which no lease expires. */
  #sweepAt = Infinity
  readonly #clock: Clock
  readonly #orphaned: (call: RunningCall) => void

  /** @param orphaned told of calls whose lease expired after money was set aside: nothing will be charged for them */
  constructor(clock: Clock, orphaned: (call: RunningCall) => void) {
    this.#clock = clock
    this.#orphaned = orphaned
  }

  /** See {@link Ledger.enter}. A request that has its lease already is told so again. */
  enter(entry: AdmissionRequest): Admission {
    const now = this.#clock.now()
    const time = this.#clock.steady(now)
    this.#sweep(time)
    const key = this.#keys.get(entry.key)
    const limits = key?.limits
    if (!limits || entry.revision < key.revision) return STALE
    if (limits.disabled) return DISABLED
    if (limits.expiresAt !== undefined && now >= limits.expiresAt) return EXPIRED
    const tier = this.paid ? undefined : entry.freeTier
    const known = this.#calls.get(entry.request)
    if (known) {
      const lease = now + known.expiresAt - time
      return {
        ok: true,
        at: known.at,
        lease,
        paid: this.paid,
        rate: this.#rate(key, limits, tier, time),
      }
    }
    const refusal = this.#refusal(key, limits, tier, now, time)
    if (refusal) return refusal
    key.log.push(time, limits.rpm)
    if (tier) {
      this.#log.push(time, tier.rpm)
      this.#entries = this.#entriesOn(now) + 1
      this.#entriesDay = this.#clock.day(now)
    }
    key.running++
    const expiresAt = time + LEASE_MS
    const { request } = entry
    this.#calls.set(request, { request, key, at: now, slot: time, expiresAt, held: undefined })
    if (expiresAt < this.#sweepAt) this.#sweepAt = expiresAt
    const rate = this.#rate(key, limits, tier, time)
    return { ok: true, at: now, lease: now + LEASE_MS, paid: this.paid, rate }
  }

  /** See {@link Ledger.hold}. A call whose money is held already is told so again. @throws RangeError */
  hold({ request, hold, free }: HoldRequest): HoldResult {
    checkAmount('a hold', hold, 0n)
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const call = this.#calls.get(request)
    if (!call) return LOST
    if (call.held) return { ok: true, day: call.held.day, billed: call.held.billed }
    const day = this.#clock.day(now)
    if (!this.paid) {
      if (!free) return NOT_FREE
      call.held = { amount: 0n, day, billed: false }
      return { ok: true, day, billed: false }
    }
    const { key } = call
    const cap = key.limits?.cap
    const spend = cap && key.window(windowOf(cap.scope, day))
    if (cap && spend!.settled >= cap.amount) return capped(cap.scope, now)
    if (this.balance <= 0n) return NO_CREDITS
    if (this.balance <= this.#held || (cap && spend!.settled + spend!.held >= cap.amount)) {
      if (call.slot !== undefined) key.log.remove(call.slot)
      call.slot = undefined
      return ALL_HELD
    }
    const { lifetime } = key
    // The largest of the key's counters: what fits it fits the stores' 64 bits everywhere.
    checkAmount(`the spend of key ${key.id}`, lifetime.settled + lifetime.held + hold, 0n)
    call.held = { amount: hold, day, billed: true }
    if (hold > 0n) {
      this.#held += hold
      for (const window of key.windows(day)) window.held += hold
    }
    return { ok: true, day, billed: true }
  }

  /**
   * Takes the cost off the balance and onto the key's windows, and ends the call if it still runs. Not idempotent:
   * receipts are the engine's.
   * @returns the day of the call's own hold, which is then the one charged; undefined when it has none any more
   */
  charge({
    request,
    key,
    day,
    cost,
  }: Pick<Settlement, 'request' | 'key' | 'day' | 'cost'>): string | undefined {
    const call = this.#calls.get(request)
    if (call) this.#release(call)
    this.move(key, call?.held?.day ?? day, cost)
    return call?.held?.day
  }

  /** Moves a cost from the balance to what a key has spent; a negative one back. */
  move(key: string, day: string, cost: Pico): void {
    if (cost === 0n) return
    this.balance -= cost
    for (const window of this.key(key).windows(day)) window.settled += cost
  }

  /** Ends a call without charge. */
  leave(request: RequestId): void {
    const call = this.#calls.get(request)
    if (call) this.#release(call)
  }

  /** Gives a lease its full time again, if it is still there. */
  renew(request: RequestId): void {
    const call = this.#calls.get(request)
    if (!call) return
    call.expiresAt = this.#clock.steady(this.#clock.now()) + LEASE_MS
    // To the end, which keeps the order by expiry.
    this.#calls.delete(request)
    this.#calls.set(request, call)
  }

  /** Adds to the balance and ends the free tier. @throws RangeError when the balance would pass MAX_AMOUNT */
  credit(amount: Pico): void {
    checkAmount('the balance after this top-up', this.balance + amount)
    this.balance += amount
    this.paid = true
  }

  /** Sets a key's limits, unless they are older than those it has. @throws RangeError for a limit below 1 */
  limit(id: string, limits: KeyLimits, revision: number): void {
    checkLimit('rpm', limits.rpm)
    checkLimit('concurrency', limits.concurrency)
    const key = this.key(id)
    if (revision < key.revision) return
    key.limits = limits
    key.revision = revision
  }

  state(): AccountBalance {
    this.#sweep(this.#clock.steady(this.#clock.now()))
    return { balance: this.balance, available: this.balance - this.#held, paid: this.paid }
  }

  /** What a key has settled up to now, and how many of its calls run. */
  spent(id: string): KeySpend {
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const key = this.#keys.get(id)
    if (!key) return NOTHING_SPENT
    const [lifetime, day, month] = key.windows(this.#clock.day(now))
    const settled = { lifetime: lifetime.settled, day: day.settled, month: month.settled }
    return { ...settled, inFlight: key.running }
  }

  /** A key's part of the book, made when it is new. */
  key(id: string): KeyBook {
    let key = this.#keys.get(id)
    if (!key) this.#keys.set(id, (key = new KeyBook(id)))
    return key
  }

  keys(): IterableIterator<KeyBook> {
    return this.#keys.values()
  }

  /** Everything settled, under the name that an audit gives the same sum of rows. */
  *settled(): Generator<readonly [what: string, amount: Pico]> {
    yield ['balance', this.balance]
    for (const key of this.#keys.values()) {
      for (const [name, { settled }] of key.named()) yield [spendOf(key.id, name), settled]
    }
  }

  /** Every sum over running calls, as kept and as added up anew. */
  *running(): Generator<readonly [what: string, kept: Pico, sum: Pico]> {
    const sums = new Map<string, Pico>()
    for (const { key, held } of this.#calls.values()) {
      add(sums, `calls of key ${key.id}`, 1n)
      if (!held) continue
      add(sums, 'held', held.amount)
      for (const scope of ['lifetime', 'day', 'month'] as const) {
        add(sums, `held, ${spendOf(key.id, windowOf(scope, held.day))}`, held.amount)
      }
    }
    yield ['held', this.#held, sums.get('held') ?? 0n]
    for (const key of this.#keys.values()) {
      const calls = `calls of key ${key.id}`
      yield [calls, BigInt(key.running), sums.get(calls) ?? 0n]
      for (const [name, spend] of key.named()) {
        const what = `held, ${spendOf(key.id, name)}`
        yield [what, spend.held, sums.get(what) ?? 0n]
      }
    }
  }

  /**
   * Of the limits that refuse, the one with the longest wait answers, so that after this wait none of them does.
   * Decision: `rate` keeps speaking of requests per minute when the day's are used up, with none left until midnight.
   */
  #refusal(
    key: KeyBook,
    limits: KeyLimits,
    tier: FreeTierLimits | undefined,
    now: number,
    time: number,
  ): Admission | undefined {
    const minuteMs = Math.max(
      key.log.waitMs(time, limits.rpm),
      tier ? this.#log.waitMs(time, tier.rpm) : 0,
    )
    const dayMs = tier && this.#entriesOn(now) >= tier.perDay ? DAY_MS - (now % DAY_MS) : 0
    if (dayMs > minuteMs) {
      const rate = { ...this.#rate(key, limits, tier, time), remaining: 0, resetMs: dayMs }
      return { ok: false, why: 'day', retryAfterMs: dayMs, rate }
    }
    if (minuteMs > 0) {
      const rate = this.#rate(key, limits, tier, time)
      return { ok: false, why: 'rpm', retryAfterMs: minuteMs, rate }
    }
    if (key.running < limits.concurrency && (!tier || this.#calls.size < tier.concurrency)) return
    const rate = this.#rate(key, limits, tier, time)
    return { ok: false, why: 'concurrency', retryAfterMs: RETRY_MS, rate }
  }

  /** Of the logs that apply, the one with fewer entries left; of two such, the one with the lower limit. */
  #rate(
    key: KeyBook,
    limits: KeyLimits,
    tier: FreeTierLimits | undefined,
    time: number,
  ): RateStatus {
    const own = key.log.rate(time, limits.rpm)
    if (!tier) return own
    const shared = this.#log.rate(time, tier.rpm)
    const fewer = shared.remaining - own.remaining || shared.limit - own.limit
    return fewer < 0 ? shared : own
  }

  #entriesOn(now: number): number {
    return this.#entriesDay === this.#clock.day(now) ? this.#entries : 0
  }

  #sweep(time: number): void {
    if (time < this.#sweepAt) return
    this.#sweepAt = Infinity
    for (const call of this.#calls.values()) {
      if (call.expiresAt > time) {
        this.#sweepAt = call.expiresAt
        return
      }
      this.#release(call)
      if (call.held) this.#orphaned(call)
    }
  }

  #release({ request, key, held }: RunningCall): void {
    this.#calls.delete(request)
    key.running--
    if (!held || held.amount === 0n) return
    this.#held -= held.amount
    for (const window of key.windows(held.day)) window.held -= held.amount
  }
}

/** What a key spent in one window; `held` belongs to calls that still run. */
export interface WindowSpend {
  settled: Pico
  held: Pico
}

/** A key's part of a Book. */
export class KeyBook {
  readonly id: string
  limits: KeyLimits | undefined = undefined
  revision = -Infinity
  running = 0
  readonly log = new RateLog()
  readonly lifetime: WindowSpend = { settled: 0n, held: 0n }
  readonly #days = new Map<string, WindowSpend>()
  readonly #months = new Map<string, WindowSpend>()

  constructor(id: string) {
    this.id = id
  }

  /** @param name `lifetime`, a day `YYYYMMDD` or a month `YYYYMM` */
  window(name: string): WindowSpend {
    if (name === 'lifetime') return this.lifetime
    const windows = name.length === 6 ? this.#months : this.#days
    const found = windows.get(name)
    if (found) return found
    const spend = { settled: 0n, held: 0n }
    windows.set(name, spend)
    // By name, not by age: one that was dropped can then never come back and count from zero.
    if (windows.size > KEPT_WINDOWS) windows.delete([...windows.keys()].sort()[0]!)
    return spend
  }

  /** The three windows that a day's money counts in. */
  windows(day: string): readonly [lifetime: WindowSpend, day: WindowSpend, month: WindowSpend] {
    return [this.lifetime, this.window(day), this.window(windowOf('month', day))]
  }

  *named(): Generator<readonly [name: string, spend: WindowSpend]> {
    yield ['lifetime', this.lifetime]
    yield* this.#days
    yield* this.#months
  }
}

/** Adds to one of several sums. */
export function add(sums: Map<string, Pico>, what: string, amount: Pico): void {
  sums.set(what, (sums.get(what) ?? 0n) + amount)
}

/** What a discrepancy in a key's window is called. */
export function spendOf(key: string, window: string): string {
  return `spend of key ${key}, ${window}`
}

/** The name of the window of a scope that a UTC day, `YYYYMMDD`, falls into. */
export function windowOf(scope: CapScope, day: string): string {
  if (scope === 'lifetime') return scope
  return scope === 'day' ? day : day.slice(0, 6)
}

/** @throws RangeError for an amount below `least` or above MAX_AMOUNT, naming it as `what` */
export function checkAmount(what: string, amount: Pico, least?: Pico): void {
  if (amount <= MAX_AMOUNT && (least === undefined || amount >= least)) return
  const lower = least === undefined ? '' : least === 0n ? 'at least 0 and ' : 'above 0 and '
  const upper = `at most ${formatPico(MAX_AMOUNT)} USD`
  throw new RangeError(`${what} has to be ${lower}${upper}, not ${formatPico(amount)}`)
}

function capped(scope: CapScope, now: number): HoldResult {
  if (scope === 'lifetime') return { ok: false, why: 'cap', scope }
  const date = new Date(now)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  const resetsAt = scope === 'day' ? now - (now % DAY_MS) + DAY_MS : Date.UTC(year, month + 1)
  return { ok: false, why: 'cap', scope, resetsAt }
}

function checkLimit(name: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 1) return
  throw new RangeError(`${name} has to be a whole number of at least 1, not ${value}`)
}
