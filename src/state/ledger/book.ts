/**
 * One account in memory, as admission needs it: balance, spend, limits, leases and holds. Rows and receipts are not here:
 * the engine stores them, and keeps one book per account as a mirror of their sums.
 */
import { type Pico, checkAmount, countedOn, MAX_AMOUNT } from '../../money/money.ts'
import { DAY_MS, KeyBook, type Clock, windowEnd } from './clock.ts'
import { checkHold, checkLimits } from './checks.ts'
import {
  cappedSpend,
  exposed,
  RETRY_MS,
  sharedLimits,
  TIGHT_CEILINGS,
  type CappedSpend,
  type SharedLimits,
} from './limits.ts'
import { addRunning, NO_RATES_USED, NOTHING_SPENT, spendName } from './sums.ts'
import {
  ACCOUNT,
  LEASE_MS,
  type AccountBalance,
  type Admission,
  type AdmissionRequest,
  type HeldBy,
  type HoldGranted,
  type HoldRequest,
  type HoldResult,
  type KeyLimits,
  type KeySpend,
  type Raise,
  type RatesUsed,
  type RateStatus,
  type RequestId,
  type Settlement,
} from './ledger.ts'

/** Answer for an unknown account or key, and for a lower revision. */
export const STALE: Admission = { ok: false, why: 'stale' }
const EXPIRED: Admission = { ok: false, why: 'expired', of: 'key' }
/** Answer for a call without a lease. */
export const LOST: HoldResult = { ok: false, why: 'lost' }
const NOT_FREE: HoldResult = { ok: false, why: 'tier' }
const NO_CREDITS: HoldResult = { ok: false, why: 'credits' }

/** A call that holds a lease. */
interface RunningCall {
  readonly request: RequestId
  readonly key: KeyBook
  /** Calendar time of the admission. */
  readonly at: number
  /** Steady time of its entry in the rate logs; undefined once that entry was taken back. */
  slot: number | undefined
  /** Steady time. */
  expiresAt: number
  held: Held | undefined
}

/** Money of a running call. */
interface Held {
  amount: Pico
  readonly ceiling: Pico
  /** The answer of its hold. */
  readonly granted: HoldGranted
}

/**
 * One account. Every method takes constant time, but for the sweep of expired leases, which is linear in their number.
 * An engine loads a book from stored sums: `balance` and `paid`, then `key(id).window(name).settled`, then `limit`.
 */
export class AccountBook {
  /** Top-ups and adjustments minus settled costs. */
  balance: Pico = 0n
  paid = false
  /** Sum of all top-ups; beyond MAX_AMOUNT it is not counted on. */
  paidIn: Pico = 0n
  /** Limits, spend, ceilings and admissions over all keys. */
  readonly #own = new KeyBook(ACCOUNT)
  /** Admissions on one day, while the account was unpaid. */
  #admissions = 0
  #admissionsDay = ''
  readonly #keys = new Map<string, KeyBook>([[ACCOUNT, this.#own]])
  /** In the order in which their leases expire. */
  readonly #calls = new Map<RequestId, RunningCall>()
  /** Steady time before which no lease expires. */
  #sweepAt = Infinity
  readonly #clock: Clock
  readonly #orphaned: (call: RunningCall) => void

  /** @param orphaned called for a call whose lease expired after its hold: it will not be charged */
  constructor(clock: Clock, orphaned: (call: RunningCall) => void) {
    this.#clock = clock
    this.#orphaned = orphaned
  }

  /** See {@link Ledger.enter}. A request that has a lease already gets the same answer again. */
  enter(entry: AdmissionRequest): Admission {
    const now = this.#clock.now()
    const time = this.#clock.steady(now)
    this.#sweep(time)
    const key = this.#keys.get(entry.key)
    const limits = key?.limits
    if (!limits || entry.revision < key.revision) return STALE
    if ((entry.accountRevision ?? 0) < this.#own.revision) return STALE
    if (limits.disabled) return { ok: false, why: 'disabled', of: 'key' }
    if (limits.expiresAt !== undefined && now >= limits.expiresAt) return EXPIRED
    if (this.#own.limits?.disabled) return { ok: false, why: 'disabled', of: 'account' }
    const tier = this.paid ? undefined : entry.freeTier
    const shared = sharedLimits(this.#own.limits, tier)
    const known = this.#calls.get(entry.request)
    if (known) {
      const rate = this.#rate(key, limits, shared, time)
      const lease = now + known.expiresAt - time
      return { ok: true, at: known.at, lease, paid: this.paid, rate }
    }
    const refusal = this.#refusal(key, limits, { ...shared, perDay: tier?.perDay }, now, time)
    if (refusal) return refusal
    key.log.push(time, limits.rpm ?? Infinity)
    if (shared.rpm !== Infinity) this.#own.log.push(time, shared.rpm)
    if (tier) {
      this.#admissions = this.#admissionsOn(now) + 1
      this.#admissionsDay = this.#clock.day(now)
    }
    key.running++
    const expiresAt = time + LEASE_MS
    const { request } = entry
    this.#calls.set(request, { request, key, at: now, slot: time, expiresAt, held: undefined })
    if (expiresAt < this.#sweepAt) this.#sweepAt = expiresAt
    const rate = this.#rate(key, limits, shared, time)
    return { ok: true, at: now, lease: now + LEASE_MS, paid: this.paid, rate }
  }

  /** See {@link Ledger.hold}. A call that holds money already gets the same answer again. @throws RangeError */
  hold(request: HoldRequest): HoldResult {
    const { expected, ceiling, free } = request
    checkHold(request)
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const call = this.#calls.get(request.request)
    if (!call) return LOST
    if (call.held) return call.held.granted
    const day = this.#clock.day(now)
    if (!this.paid) {
      if (!free) return NOT_FREE
      const granted: HoldGranted = { ok: true, day, billed: false, tight: false }
      call.held = { amount: 0n, ceiling: 0n, granted }
      return granted
    }
    const { key } = call
    const caps = [key, this.#own].flatMap((of) => cappedSpend(of, day))
    const reached = caps.find(({ cap, spend }) => spend.settled >= cap.amount)
    if (reached) {
      const { of, cap } = reached
      const owner = of === this.#own ? 'account' : 'key'
      return { ok: false, why: 'cap', of: owner, ...windowEnd(cap.scope, now) }
    }
    if (this.balance <= 0n) return NO_CREDITS
    const by = this.#waitsFor(request, caps)
    if (by) {
      this.#uncount(call)
      return { ok: false, why: 'held', by, retryAfterMs: RETRY_MS }
    }
    const { lifetime } = this.#own
    // The largest counter of the account: what fits into it fits into the 64 bits of every other one.
    checkAmount('the spend of the account', lifetime.settled + lifetime.held + expected, 0n)
    this.#add(key, day, expected)
    for (const part of [key, this.#own]) part.ceilings += ceiling
    const near = TIGHT_CEILINGS * ceiling
    const tight =
      this.balance - lifetime.held < near ||
      caps.some(({ cap, spend }) => cap.amount - spend.settled - spend.held < near)
    const granted: HoldGranted = { ok: true, day, billed: true, tight: tight && ceiling > 0n }
    call.held = { amount: expected, ceiling, granted }
    return granted
  }

  /** See {@link Ledger.raise}. Without effect too where the spend of the account would pass MAX_AMOUNT. */
  raise({ request, from, to }: Raise): void {
    const call = this.#calls.get(request)
    const held = call?.held
    if (!held || held.amount !== from || to <= from || to > held.ceiling) return
    const { settled, held: sum } = this.#own.lifetime
    if (settled + sum + to - from > MAX_AMOUNT) return
    this.#add(call.key, held.granted.day, to - from)
    held.amount = to
  }

  /**
   * Moves the cost from the balance to the key's windows, and ends the call if it still runs. Not idempotent: the engine
   * checks receipts.
   * @returns the day of the call's own hold, which was charged then; undefined when the call holds nothing any more
   */
  charge({
    request,
    key,
    day,
    cost,
  }: Pick<Settlement, 'request' | 'key' | 'day' | 'cost'>): string | undefined {
    const call = this.#calls.get(request)
    if (call) this.#release(call)
    const held = call?.held?.granted.day
    this.move(key, held ?? day, cost)
    return held
  }

  /** Moves a cost from the balance to a key's spend; a negative cost moves back. */
  move(key: string, day: string, cost: Pico): void {
    if (cost === 0n) return
    this.balance -= cost
    for (const part of [this.key(key), this.#own]) {
      for (const window of part.windows(day)) window.settled += cost
    }
  }

  /** Forgets every settled sum; running calls stay. They are loaded again. */
  clearSums(): void {
    Object.assign(this, { balance: 0n, paid: false, paidIn: 0n })
    for (const key of this.#keys.values()) {
      for (const [, window] of key.named()) window.settled = 0n
    }
  }

  /** Ends a call without charge. @param counted whether it still counts in the rate limit */
  leave(request: RequestId, counted = true): void {
    const call = this.#calls.get(request)
    if (!call) return
    if (!counted) this.#uncount(call)
    this.#release(call)
  }

  /** Extends a lease to its full time, if it has not expired. */
  renew(request: RequestId): void {
    const call = this.#calls.get(request)
    if (!call) return
    call.expiresAt = this.#clock.steady(this.#clock.now()) + LEASE_MS
    // Moved to the end, which keeps the order by expiry.
    this.#calls.delete(request)
    this.#calls.set(request, call)
  }

  /** Adds to the balance and ends the free tier. @throws RangeError when the balance would pass MAX_AMOUNT */
  credit(amount: Pico): void {
    checkAmount('the balance after this top-up', this.balance + amount)
    this.balance += amount
    this.paid = true
    this.paidIn = countedOn(this.paidIn + amount)
  }

  /** Adds a correction, which may be negative, to the balance. The engine has checked its bounds. */
  adjust(amount: Pico): void {
    this.balance += amount
  }

  /** Sets a key's limits, unless the stored ones have a higher revision. @throws RangeError for a limit below 1 */
  limit(id: string, limits: KeyLimits, revision: number): void {
    checkLimits(limits)
    const key = this.key(id)
    if (revision < key.revision) return
    key.limits = limits
    key.revision = revision
  }

  state(): AccountBalance {
    this.#sweep(this.#clock.steady(this.#clock.now()))
    const available = this.balance - this.#own.lifetime.held
    return { balance: this.balance, available, paid: this.paid }
  }

  /** The settled spend of a key or of {@link ACCOUNT}, and the number of running calls. */
  spent(id: string): KeySpend {
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const key = this.#keys.get(id)
    if (!key) return NOTHING_SPENT
    const [lifetime, day, month] = key.windows(this.#clock.day(now))
    const settled = { lifetime: lifetime.settled, day: day.settled, month: month.settled }
    return { ...settled, inFlight: key === this.#own ? this.#calls.size : key.running }
  }

  /** What is used of the rates of a key or of {@link ACCOUNT}. */
  rates(id: string): RatesUsed {
    const now = this.#clock.now()
    const time = this.#clock.steady(now)
    const key = this.#keys.get(id)?.log.used(time) ?? NO_RATES_USED.key
    return { key, account: this.#own.log.used(time), today: this.#admissionsOn(now) }
  }

  /** A key's settled spend. */
  lifetimeOf(id: string): Pico {
    return this.#keys.get(id)?.lifetime.settled ?? 0n
  }

  /** A key's part of the book; created on first use. */
  key(id: string): KeyBook {
    let key = this.#keys.get(id)
    if (!key) this.#keys.set(id, (key = new KeyBook(id)))
    return key
  }

  keys(): IterableIterator<KeyBook> {
    return this.#keys.values()
  }

  /** Every settled sum, under the name that `verify` gives to the same sum over the rows. */
  *settled(): Generator<readonly [what: string, amount: Pico]> {
    yield ['balance', this.balance]
    yield ['paid in', this.paidIn]
    for (const key of this.#keys.values()) {
      for (const [name, { settled }] of key.named()) yield [spendName(key.id, name), settled]
    }
  }

  /** Every stored sum over running calls. */
  *running(): Generator<readonly [what: string, amount: Pico]> {
    yield ['held', this.#own.lifetime.held]
    yield ['ceilings', this.#own.ceilings]
    for (const key of this.#keys.values()) {
      if (key !== this.#own) {
        yield [`ceilings of key ${key.id}`, key.ceilings]
        yield [`calls of key ${key.id}`, BigInt(key.running)]
      }
      for (const [name, { held }] of key.named()) yield [`held, ${spendName(key.id, name)}`, held]
    }
  }

  /** The sums of {@link running}, from the calls themselves. */
  recomputeRunning(): Map<string, Pico> {
    const sums = new Map<string, Pico>()
    for (const { key, held } of this.#calls.values()) {
      addRunning(sums, key.id, held && { ...held, day: held.granted.day })
    }
    return sums
  }

  /**
   * The limit with the longest wait answers, so that no rate limit refuses a request that comes after this wait.
   * Decision: when the requests of the day are used up, `rate` still shows the limit per minute, with none remaining until
   * midnight.
   */
  #refusal(
    key: KeyBook,
    limits: KeyLimits,
    shared: SharedLimits & { readonly perDay: number | undefined },
    now: number,
    time: number,
  ): Admission | undefined {
    const keyMs = key.log.waitMs(time, limits.rpm ?? Infinity)
    const sharedMs = this.#own.log.waitMs(time, shared.rpm)
    const minuteMs = Math.max(keyMs, sharedMs)
    const { perDay = Infinity } = shared
    const dayMs = this.#admissionsOn(now) >= perDay ? DAY_MS - (now % DAY_MS) : 0
    const rate = this.#rate(key, limits, shared, time)
    if (dayMs > minuteMs) {
      const spent = { ...rate, remaining: 0, resetMs: dayMs }
      return { ok: false, why: 'day', of: 'tier', retryAfterMs: dayMs, rate: spent }
    }
    if (minuteMs > 0) {
      const of = sharedMs > keyMs ? shared.rpmOf : 'key'
      return { ok: false, why: 'rpm', of, retryAfterMs: minuteMs, rate }
    }
    const isFull = key.running >= (limits.concurrency ?? Infinity)
    if (!isFull && this.#calls.size < shared.concurrency) return undefined
    const of = isFull ? 'key' : shared.concurrencyOf
    return { ok: false, why: 'concurrency', of, retryAfterMs: RETRY_MS, rate }
  }

  /** The log with fewer requests remaining; with equally many, the one with the lower limit. */
  #rate(
    key: KeyBook,
    { rpm = Infinity }: KeyLimits,
    shared: SharedLimits,
    time: number,
  ): RateStatus {
    const own = key.log.rate(time, rpm)
    if (shared.rpm === Infinity) return own
    const all = this.#own.log.rate(time, shared.rpm)
    const fewer = all.remaining - own.remaining || all.limit - own.limit
    return fewer < 0 ? all : own
  }

  #admissionsOn(now: number): number {
    return this.#admissionsDay === this.#clock.day(now) ? this.#admissions : 0
  }

  /** Takes the admission of a call out of the logs. */
  #uncount(call: RunningCall): void {
    if (call.slot === undefined) return
    call.key.log.remove(call.slot)
    this.#own.log.remove(call.slot)
    if (!this.paid && this.#admissionsDay === this.#clock.day(call.at)) this.#admissions--
    call.slot = undefined
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

  /**
   * Whether the call has to wait until calls that run have ended. It never waits where nothing else holds money, however
   * little is left.
   */
  #waitsFor(
    { expected, ceiling, exposure }: HoldRequest,
    caps: readonly CappedSpend[],
  ): HeldBy | undefined {
    if (ceiling === 0n) return undefined
    const { lifetime, ceilings } = this.#own
    if (ceilings > 0n) {
      if (expected > this.balance - lifetime.held) return 'balance'
      const most = this.balance + exposed(exposure, this.paidIn)
      if (ceilings + ceiling > most) return 'balance_ceilings'
    }
    for (const { of, cap, spend } of caps) {
      if (of.ceilings === 0n) continue
      if (expected > cap.amount - spend.settled - spend.held) return 'cap'
      const most = cap.amount - spend.settled + exposed(exposure, cap.amount)
      if (of.ceilings + ceiling > most) return 'cap_ceilings'
    }
    return undefined
  }

  /** Adds to the money held; a negative amount gives back. */
  #add(key: KeyBook, day: string, amount: Pico): void {
    if (amount === 0n) return
    for (const part of [key, this.#own]) {
      for (const window of part.windows(day)) window.held += amount
    }
  }

  #release({ request, key, held }: RunningCall): void {
    this.#calls.delete(request)
    key.running--
    if (!held) return
    this.#add(key, held.granted.day, -held.amount)
    for (const part of [key, this.#own]) part.ceilings -= held.ceiling
  }
}
