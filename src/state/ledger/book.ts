/**
 * One account in memory, as admission needs it: balance, spend, limits, leases and holds. Rows and receipts are not here:
 * the engine stores them, and keeps one book per account as a mirror of their sums.
 */
import { type Pico, checkAmount, formatPico } from '../../money/money.ts'
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
  type Exposure,
  type FreeTierLimits,
  type LimitOwner,
  type Discrepancy,
  type LedgerRow,
  type CapScope,
  type RateUse,
} from './ledger.ts'

// Time, and the windows in which the ledger counts: admissions by the last minute; spend by lifetime, UTC day and UTC month.

export const DAY_MS = 86_400_000

/**
 * An engine's clock. The operator can set calendar time back. Steady time then goes on from its last value, so that rate
 * logs and leases neither freeze nor forget.
 */
export class Clock {
  readonly #now: () => number
  #last = -Infinity
  #setBackMs = 0
  #dayNumber = NaN
  #dayName = ''

  constructor(now: () => number = () => Date.now()) {
    this.#now = now
  }

  /** Calendar time, ms since epoch. */
  now(): number {
    const now = this.#now()
    if (now < this.#last) this.#setBackMs += this.#last - now
    this.#last = now
    return now
  }

  /** The steady time of a moment that `now` has just returned. */
  steady(now: number): number {
    return now + this.#setBackMs
  }

  /** UTC day of a moment, `YYYYMMDD`. */
  day(now: number): string {
    const number = Math.floor(now / DAY_MS)
    if (number !== this.#dayNumber) {
      this.#dayNumber = number
      this.#dayName = dayOf(now)
    }
    return this.#dayName
  }
}

/** UTC day of a moment, ms since epoch, as `YYYYMMDD`. */
export function dayOf(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10).replaceAll('-', '')
}

/** @returns `lifetime`, the day itself, or its month `YYYYMM`. @param day UTC, `YYYYMMDD` */
export function windowOf(scope: CapScope, day: string): string {
  if (scope === 'lifetime') return scope
  return scope === 'day' ? day : day.slice(0, 6)
}

/** A scope with the end of its window, ms since epoch; `lifetime` has no end. @param now ms since epoch */
export function windowEnd(
  scope: CapScope,
  now: number,
): { readonly scope: CapScope; readonly resetsAt?: number } {
  if (scope === 'lifetime') return { scope }
  if (scope === 'day') return { scope, resetsAt: now - (now % DAY_MS) + DAY_MS }
  const date = new Date(now)
  return { scope, resetsAt: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) }
}

const MINUTE_MS = 60_000
/** Admissions per minute up to which a log is exact; above, a list of times would cost too much memory. */
const EXACT_ENTRIES = 6000
/** Sixty whole seconds and the current one: with sixty buckets, part of the oldest second would not be counted. */
const BUCKETS = 61

/** A sliding log of the last minute: exact for limits up to EXACT_ENTRIES, with a resolution of one second above. */
class RateLog {
  #entries: Ring | Buckets = new Ring()

  /** Time until a request would be admitted; 0 when it would be now. */
  waitMs(now: number, limit: number): number {
    return this.#entries.waitMs(now, limit)
  }

  rate(now: number, limit: number): RateStatus {
    const { count, resetMs } = this.used(now)
    return { limit, remaining: Math.max(0, limit - count), resetMs }
  }

  used(now: number): RateUse {
    return { count: this.#entries.count(now), resetMs: this.#entries.resetMs(now) }
  }

  push(now: number, limit: number): void {
    const exact = limit <= EXACT_ENTRIES
    // The new form has room for all entries: a request was admitted, so the log holds fewer than `limit`.
    if (exact !== this.#entries instanceof Ring) {
      const entries = exact ? new Ring() : new Buckets()
      for (const time of this.#entries.times(now)) entries.push(time)
      this.#entries = entries
    }
    this.#entries.push(now)
  }

  remove(time: number): void {
    this.#entries.remove(time)
  }
}

/** Exact times in a ring buffer, which grows to the largest number of admissions within a minute. */
class Ring {
  /** The length is a power of two, so that a mask wraps positions. */
  #times = new Float64Array(16)
  #end = 0
  #size = 0

  count(now: number): number {
    while (this.#size > 0 && now - this.#times[this.#at(this.#size)]! >= MINUTE_MS) this.#size--
    return this.#size
  }

  waitMs(now: number, limit: number): number {
    return this.count(now) < limit ? 0 : this.#times[this.#at(limit)]! + MINUTE_MS - now
  }

  resetMs(now: number): number {
    return this.count(now) === 0 ? 0 : this.#times[this.#at(1)]! + MINUTE_MS - now
  }

  push(time: number): void {
    if (this.#size === this.#times.length) {
      const times = new Float64Array(2 * this.#size)
      times.set([...this.times(-Infinity)])
      this.#times = times
      this.#end = this.#size
    }
    this.#times[this.#end] = time
    this.#end = this.#at(0, 1)
    this.#size++
  }

  remove(time: number): void {
    let n = 1
    while (n <= this.#size && this.#times[this.#at(n)]! > time) n++
    if (n > this.#size || this.#times[this.#at(n)] !== time) return
    for (; n > 1; n--) this.#times[this.#at(n)] = this.#times[this.#at(n - 1)]!
    this.#end = this.#at(1)
    this.#size--
  }

  *times(now: number): Generator<number> {
    for (let n = this.count(now); n >= 1; n--) yield this.#times[this.#at(n)]!
  }

  /** Index of the n-th newest entry, or of an entry that many places `after` it. */
  #at(n: number, after = 0): number {
    return (this.#end - n + after) & (this.#times.length - 1)
  }
}

/** Counts per second. Never admits more than a Ring would, and may refuse for up to a second longer. */
class Buckets {
  readonly #counts = new Uint32Array(BUCKETS)
  #total = 0
  #second = 0

  count(now: number): number {
    const second = Math.floor(now / 1000)
    for (let s = Math.max(this.#second + 1, second - BUCKETS + 1); s <= second; s++) {
      this.#total -= this.#counts[s % BUCKETS]!
      this.#counts[s % BUCKETS] = 0
    }
    this.#second = Math.max(this.#second, second)
    return this.#total
  }

  waitMs(now: number, limit: number): number {
    let left = this.count(now)
    if (left < limit) return 0
    let second = this.#second - BUCKETS + 1
    while ((left -= this.#counts[second % BUCKETS]!) >= limit) second++
    return leavesAt(second) - now
  }

  resetMs(now: number): number {
    if (this.count(now) === 0) return 0
    let second = this.#second
    while (this.#counts[second % BUCKETS] === 0) second--
    return leavesAt(second) - now
  }

  push(time: number): void {
    this.count(time)
    this.#counts[Math.floor(time / 1000) % BUCKETS]!++
    this.#total++
  }

  remove(time: number): void {
    const second = Math.floor(time / 1000)
    if (second <= this.#second - BUCKETS || this.#counts[second % BUCKETS] === 0) return
    this.#counts[second % BUCKETS]!--
    this.#total--
  }

  *times(now: number): Generator<number> {
    this.count(now)
    for (let second = this.#second - BUCKETS + 1; second <= this.#second; second++) {
      const time = Math.min(now, second * 1000 + 999)
      for (let n = this.#counts[second % BUCKETS]!; n > 0; n--) yield time
    }
  }
}

/** Moment when every entry of a second is at least a minute old. */
function leavesAt(second: number): number {
  return (second + BUCKETS) * 1000
}

/** Days, and months, for which a key's spend is kept. A cap needs one of each, late settlements a few more. */
const KEPT_WINDOWS = 40

/** A key's spend in one window; `held` belongs to running calls. */
interface WindowSpend {
  settled: Pico
  held: Pico
}

/** A key's part of an account book: its limits, its admissions and its spend. */
class KeyBook {
  readonly id: string
  limits: KeyLimits | undefined = undefined
  revision = -Infinity
  running = 0
  /** Sum of the ceilings of its running calls, over all windows. */
  ceilings: Pico = 0n
  readonly log = new RateLog()
  readonly lifetime: WindowSpend = { settled: 0n, held: 0n }
  readonly #days = new Map<string, WindowSpend>()
  readonly #months = new Map<string, WindowSpend>()

  constructor(id: string) {
    this.id = id
  }

  window(name: string): WindowSpend {
    if (name === 'lifetime') return this.lifetime
    const windows = name.length === 6 ? this.#months : this.#days
    const existing = windows.get(name)
    if (existing) return existing
    const spend = { settled: 0n, held: 0n }
    windows.set(name, spend)
    // Drops the earliest window, not the oldest entry: a dropped window can then never come back and count from zero.
    if (windows.size > KEPT_WINDOWS) windows.delete([...windows.keys()].sort()[0]!)
    return spend
  }

  /** The lifetime, day and month windows of a day. */
  windows(day: string): readonly [lifetime: WindowSpend, day: WindowSpend, month: WindowSpend] {
    return [this.lifetime, this.window(day), this.window(windowOf('month', day))]
  }

  *named(): Generator<readonly [name: string, spend: WindowSpend]> {
    yield ['lifetime', this.lifetime]
    yield* this.#days
    yield* this.#months
  }
}

// Bounds on the calls of an account beside its balance: caps with their spend, limits over all keys, the exposure.

/** Retry-After of a refusal that ends as soon as another call does. */
export const RETRY_MS = 1000

/** A call is `tight` while fewer than this many of its ceilings are left of the balance or the cap. */
export const TIGHT_CEILINGS = 32n

interface CappedSpend {
  readonly of: KeyBook
  readonly cap: NonNullable<KeyLimits['cap']>
  readonly spend: WindowSpend
}

function cappedSpend(of: KeyBook, day: string): CappedSpend[] {
  const cap = of.limits?.cap
  return cap ? [{ of, cap, spend: of.window(windowOf(cap.scope, day)) }] : []
}

interface SharedLimits {
  readonly rpm: number
  readonly rpmOf: LimitOwner
  readonly concurrency: number
  readonly concurrencyOf: LimitOwner
}

function sharedLimits(
  { rpm = Infinity, concurrency = Infinity }: Partial<KeyLimits> = {},
  tier: FreeTierLimits | undefined,
): SharedLimits {
  const tierRpm = tier?.rpm ?? Infinity
  const tierCalls = tier?.concurrency ?? Infinity
  return {
    rpm: Math.min(rpm, tierRpm),
    rpmOf: rpm <= tierRpm ? 'account' : 'tier',
    concurrency: Math.min(concurrency, tierCalls),
    concurrencyOf: concurrency <= tierCalls ? 'account' : 'tier',
  }
}

/** The smaller of the two amounts of an exposure. The share is a double, and so is its product. */
function exposed({ share, most }: Exposure, of: Pico): Pico {
  const part = BigInt(Math.floor(share * Number(of)))
  return part < most ? part : most
}

// Checks of requests to a ledger.

export function checkHold({ expected, ceiling }: Pick<HoldRequest, 'expected' | 'ceiling'>): void {
  checkAmount('a hold', expected, 0n)
  checkAmount('the ceiling of a hold', ceiling, 0n)
  if (ceiling >= expected) return
  const amounts = `${formatPico(ceiling)} USD is below ${formatPico(expected)} USD`
  throw new RangeError(`the ceiling of a hold has to be at least what is expected: ${amounts}`)
}

/** @throws RangeError for an adjustment of 0, or of more than MAX_AMOUNT either way */
export function checkAdjustment(amount: Pico): void {
  if (amount === 0n) throw new RangeError('an adjustment has to be above or below 0')
  if (amount < 0n) checkAmount('an adjustment without its sign', -amount)
  else checkAmount('an adjustment', amount)
}

/** @throws RangeError for a rate or concurrency that is not a whole number of at least 1; absent ones pass */
export function checkLimits({ rpm, concurrency }: KeyLimits): void {
  for (const [name, value] of Object.entries({ rpm, concurrency })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) continue
    throw new RangeError(`${name} has to be a whole number of at least 1, not ${value}`)
  }
}

export const NOTHING_SPENT: KeySpend = { lifetime: 0n, day: 0n, month: 0n, inFlight: 0 }

export const NO_RATES_USED: RatesUsed = {
  key: { count: 0, resetMs: 0 },
  account: { count: 0, resetMs: 0 },
  today: 0,
}

/** What a row, or the sum of several of a kind, key and day, adds to the sums of its account. */
interface Costing {
  readonly kind: LedgerRow['kind']
  readonly key?: string | null | undefined
  readonly day?: string | null | undefined
  readonly cost: Pico
}

const SCOPES = ['lifetime', 'day', 'month'] as const

/** Name of the spend of a key, or of {@link ACCOUNT}, in a window. */
export function spendName(key: string, window: string): string {
  return `spend of ${key === ACCOUNT ? 'the account' : `key ${key}`}, ${window}`
}

/** Days, and months, before the present one whose spend is kept for calls that are booked late. */
const KEPT_BEFORE = 3

/** The first windows of spend that are kept: a day `YYYYMMDD`, a month `YYYYMM`. Reports have all of them. @param now ms since epoch */
export function firstKept(now: number): readonly [day: string, month: string] {
  const date = new Date(now)
  const month = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - KEPT_BEFORE)
  return [dayOf(now - KEPT_BEFORE * DAY_MS), windowOf('month', dayOf(month))]
}

/** The sums without spend of windows that are not kept. @param sums by names of {@link spendName}, which end with the window */
export function withoutDropped(
  sums: ReadonlyMap<string, Pico>,
  [day, month]: readonly [day: string, month: string],
): Map<string, Pico> {
  const isKept = (what: string) => {
    const window = what.slice(what.lastIndexOf(' ') + 1)
    return !/^\d+$/.test(window) || window >= (window.length === month.length ? month : day)
  }
  return new Map([...sums].filter(([what]) => isKept(what)))
}

export function addTo(sums: Map<string, Pico>, name: string, amount: Pico): void {
  sums.set(name, (sums.get(name) ?? 0n) + amount)
}

/** Adds the cost of a row. @param row with the charged `day`, if there is one */
export function addCost(sums: Map<string, Pico>, { kind, key, day, cost }: Costing): void {
  addTo(sums, 'balance', -cost)
  if (kind === 'top-up') addTo(sums, 'paid in', -cost)
  if (key && day) addSpend(sums, key, day, cost)
}

/** Adds a running call. @param held its money, if it holds any */
export function addRunning(
  sums: Map<string, Pico>,
  key: string,
  held?: { readonly amount: Pico; readonly ceiling: Pico; readonly day: string },
): void {
  addTo(sums, `calls of key ${key}`, 1n)
  if (!held) return
  addTo(sums, 'held', held.amount)
  addTo(sums, 'ceilings', held.ceiling)
  addTo(sums, `ceilings of key ${key}`, held.ceiling)
  addSpend(sums, key, held.day, held.amount, 'held, ')
}

/** Stored sums of an account that differ from recomputed ones; an absent recomputed sum is 0. */
export function compareSums(
  account: string,
  stored: Iterable<readonly [what: string, amount: Pico]>,
  recomputed: ReadonlyMap<string, Pico>,
): Discrepancy[] {
  return [...stored].flatMap(([what, amount]) => {
    const sum = recomputed.get(what) ?? 0n
    return amount === sum ? [] : [{ account, what, stored: amount, recomputed: sum }]
  })
}

/** Adds an amount to the three windows of a day, for a key and its account. @param prefix of the sums' names */
function addSpend(
  sums: Map<string, Pico>,
  key: string,
  day: string,
  amount: Pico,
  prefix = '',
): void {
  for (const id of [key, ACCOUNT]) {
    for (const scope of SCOPES) addTo(sums, prefix + spendName(id, windowOf(scope, day)), amount)
  }
}

/** Answer for an unknown account or key, and for a lower revision. */
export const STALE: Admission = { ok: false, why: 'stale' }
const EXPIRED: Admission = { ok: false, why: 'expired', of: 'key' }
export const LOST: HoldResult = { ok: false, why: 'lost' }
const NOT_FREE: HoldResult = { ok: false, why: 'tier' }
const NO_CREDITS: HoldResult = { ok: false, why: 'credits' }

interface RunningCall {
  readonly request: RequestId
  readonly key: KeyBook
  /** Calendar time of the admission. */
  readonly at: number
  /** Steady time of its entry in the rate logs; undefined once that entry was removed. */
  slot: number | undefined
  /** Steady time. */
  expiresAt: number
  held: Held | undefined
}

interface Held {
  amount: Pico
  readonly ceiling: Pico
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
  /** Sum of all top-ups. */
  paidIn: Pico = 0n
  /** Limits, spend, ceilings and admissions over all keys. */
  readonly #own = new KeyBook(ACCOUNT)
  /** Admissions on one day, while the account was unpaid. */
  #admissions = 0
  #admissionsDay = ''
  readonly #keys = new Map<string, KeyBook>([[ACCOUNT, this.#own]])
  /** Running calls in the order in which their leases expire. */
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

  /** See {@link Ledger.enter}. A request that already has a lease gets the same answer again. */
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
    const running = this.#calls.get(entry.request)
    if (running) {
      const rate = this.#rate(key, limits, shared, time)
      const lease = now + running.expiresAt - time
      return { ok: true, at: running.at, lease, paid: this.paid, rate }
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

  /** See {@link Ledger.hold}. A call that already holds money gets the same answer again. @throws RangeError as {@link checkHold} */
  hold(request: HoldRequest): HoldResult {
    checkHold(request)
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const call = this.#calls.get(request.request)
    if (!call) return LOST
    const before = call.held
    if (!before) return this.#grant(call, request, now)
    if (!request.replaces) return before.granted
    this.#move(call, before, -1n)
    const result = this.#grant(call, request, now)
    if (!result.ok) this.#move(call, before, 1n)
    return result
  }

  /** Decides about a hold as if the call had none, and takes it. */
  #grant(call: RunningCall, request: HoldRequest, now: number): HoldResult {
    const { expected, ceiling, free } = request
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
    if (by) return { ok: false, why: 'held', by, retryAfterMs: RETRY_MS }
    const { lifetime } = this.#own
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

  /** See {@link Ledger.raise}. */
  raise({ request, from, to }: Raise): void {
    const call = this.#calls.get(request)
    const held = call?.held
    if (!held || held.amount !== from || to <= from || to > held.ceiling) return
    this.#add(call.key, held.granted.day, to - from)
    held.amount = to
  }

  /**
   * Moves the cost from the balance to the key's windows, and ends the call if it still runs. Not idempotent: the engine checks
   * receipts.
   * @returns the day of the call's own hold, which was charged; undefined when the call no longer holds anything
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

  /** Forgets every settled sum, to be loaded again; running calls stay. */
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

  /** Adds to the balance and ends the free tier. */
  credit(amount: Pico): void {
    this.balance += amount
    this.paid = true
    this.paidIn += amount
  }

  /** Adds a correction, which may be negative, to the balance. */
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

  spent(id: string): KeySpend {
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const key = this.#keys.get(id)
    if (!key) return NOTHING_SPENT
    const [lifetime, day, month] = key.windows(this.#clock.day(now))
    const settled = { lifetime: lifetime.settled, day: day.settled, month: month.settled }
    return { ...settled, inFlight: key === this.#own ? this.#calls.size : key.running }
  }

  rates(id: string): RatesUsed {
    const now = this.#clock.now()
    const time = this.#clock.steady(now)
    const key = this.#keys.get(id)?.log.used(time) ?? NO_RATES_USED.key
    return { key, account: this.#own.log.used(time), today: this.#admissionsOn(now) }
  }

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

  /** The sums of {@link running}, recomputed from the calls. */
  recomputeRunning(): Map<string, Pico> {
    const sums = new Map<string, Pico>()
    for (const { key, held } of this.#calls.values()) {
      addRunning(sums, key.id, held && { ...held, day: held.granted.day })
    }
    return sums
  }

  /**
   * Answers with the limit that has the longest wait, so that no rate limit refuses a request after this wait.
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

  /** Removes the admission of a call from the logs. */
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

  /** Whether the call has to wait until running calls have ended. It never waits where nothing else holds money, however little is left. */
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

  #add(key: KeyBook, day: string, amount: Pico): void {
    if (amount === 0n) return
    for (const part of [key, this.#own]) {
      for (const window of part.windows(day)) window.held += amount
    }
  }

  #release({ request, key, held }: RunningCall): void {
    this.#calls.delete(request)
    key.running--
    if (held) this.#move({ key }, held, -1n)
  }

  /** Adds a hold to what is held, or takes it off. */
  #move({ key }: Pick<RunningCall, 'key'>, held: Held, sign: 1n | -1n): void {
    this.#add(key, held.granted.day, sign * held.amount)
    for (const part of [key, this.#own]) part.ceilings += sign * held.ceiling
  }
}
