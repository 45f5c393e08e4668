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
  type Lease,
  type FreeTierLimits,
  type LimitOwner,
  type CounterView,
  type RefusedLimit,
  TIER,
  teamKey,
  type Booking,
} from './ledger.ts'
import {
  addToCounter,
  exposed,
  isReached,
  isTerminal,
  KeyBook,
  lastOf,
  nearestTokens,
  newCounter,
  refusedBy,
  standingOf,
  waitsAt,
  type Counter,
  type Standing,
} from './key-book.ts'
import { endsFreeTier } from './bookings.ts'
import type { RateLog } from './rate-log.ts'
import { addRunning, addTo, counterName, ownersOf, spendName } from './sums.ts'
import { appliesTo, counterEntry, countersIn, kindOf, type Counts } from './limit-list.ts'
import { currentWindow, windowOf, type Clock, type Moment, type ZoneRule } from './windows.ts'

/** Retry-After of a refusal that ends as soon as another call does. */
export const RETRY_MS = 1000

/** A call is `tight` while fewer than this many of its ceilings are left of the balance or the cap. */
export const TIGHT_CEILINGS = 32n

/** The lower one of two limits over all keys, and whose it is. */
function lower(account = Infinity, tier = Infinity): { of: LimitOwner; limit: number } {
  return account <= tier ? { of: 'account', limit: account } : { of: 'tier', limit: tier }
}

// Checks of requests to a ledger.

export function checkHold({ expected, ceiling }: Pick<HoldRequest, 'expected' | 'ceiling'>): void {
  checkAmount('a hold', expected, 0n)
  checkAmount('the ceiling of a hold', ceiling, 0n)
  if (ceiling >= expected) return
  const amounts = `${formatPico(ceiling)} USD is below ${formatPico(expected)} USD`
  throw new RangeError(`the ceiling of a hold has to be at least what is expected: ${amounts}`)
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
  readonly team: KeyBook | undefined
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
  readonly reserved: readonly Reserved[]
}

/** A part of a counter that a running call has. */
interface Reserved {
  readonly counter: Counter
  readonly window: string
  readonly isMoney: boolean
  expected: bigint
  readonly ceiling: bigint
}

const NOTHING_RESERVED: readonly Reserved[] = []

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
  /** What is counted of the account while it is unpaid. */
  readonly #tier = new KeyBook(TIER)
  readonly #keys = new Map<string, KeyBook>([
    [ACCOUNT, this.#own],
    [TIER, this.#tier],
  ])
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
    const team = entry.team === undefined ? undefined : this.key(teamKey(entry.team))
    if (team && (entry.teamRevision ?? 0) < team.revision) return STALE
    if (limits.disabled) return { ok: false, why: 'disabled', of: 'key' }
    if (limits.expiresAt !== undefined && now >= limits.expiresAt) return EXPIRED
    if (team?.limits?.disabled) return { ok: false, why: 'disabled', of: 'team' }
    if (this.#own.limits?.disabled) return { ok: false, why: 'disabled', of: 'account' }
    const tier = this.paid ? undefined : entry.freeTier
    const logs = this.#logs(key, team, tier)
    const running = this.#calls.get(entry.request)
    if (running) {
      const rate = nearestOf(logs, time)
      const lease = now + running.expiresAt - time
      return { ok: true, at: running.at, lease, paid: this.paid, rate }
    }
    const refusal = this.#refusal(logs, key, team, tier, time)
    if (refusal) return refusal
    for (const { log, limit } of logs) log.push(time, limit)
    key.running++
    if (team) team.running++
    const expiresAt = time + LEASE_MS
    const { request } = entry
    const call = { request, key, team, at: now, slot: time, expiresAt, held: undefined }
    this.#calls.set(request, call)
    if (expiresAt < this.#sweepAt) this.#sweepAt = expiresAt
    const rate = nearestOf(logs, time)
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
    if (!before) return this.#decide(call, request, now)
    if (!request.replaces) return before.granted
    this.#move(call, before, -1n)
    const result = this.#decide(call, request, now)
    if (!result.ok) this.#move(call, before, 1n)
    return result
  }

  /** Decides about a hold as if the call had none, and takes it. */
  #decide(call: RunningCall, request: HoldRequest, now: number): HoldResult {
    if (!this.paid && !request.free) return NOT_FREE
    const moment = this.#clock.moment(now, request.zone)
    const { key, team } = call
    const standings = this.#standings(request, key, team, moment)
    const reached = standings.filter(isReached)
    const terminal = lastOf(reached.filter(isTerminal))
    if (terminal) return { ok: false, why: 'limit', limit: refusedBy(terminal), at: now }
    if (this.paid && this.#spendable <= 0n) return NO_CREDITS
    const spent = lastOf(reached)
    if (spent) return { ok: false, why: 'limit', limit: refusedBy(spent), at: now }
    const waits = this.#waitsFor(request, standings)
    if (waits) return { ok: false, why: 'held', ...waits, retryAfterMs: RETRY_MS }
    return this.#grant(call, request, standings, moment)
  }

  #grant(
    call: RunningCall,
    { expected, ceiling }: HoldRequest,
    standings: readonly Standing[],
    { day, now }: Moment,
  ): HoldGranted {
    const reserved: Reserved[] = []
    const entries: string[] = []
    for (const { owner, one, current, expected: amount, ceiling: most } of standings) {
      const { counter } = one
      if (!counter) continue
      if (counter.window !== current) Object.assign(counter, { ...newCounter(), window: current })
      counter.held += amount
      counter.ceilings += most
      const isMoney = one.unit === 'usd'
      reserved.push({ counter, window: current, isMoney, expected: amount, ceiling: most })
      entries.push(counterEntry({ of: owner, id: one.limit.id, window: current }))
    }
    const { paid } = this
    if (paid) this.#add(call, day, expected)
    if (paid) for (const part of this.#parts(call)) part.ceilings += ceiling
    const near = TIGHT_CEILINGS * ceiling
    const isNear = () =>
      this.#spendable - this.#own.lifetime.held < near ||
      standings.some(
        ({ one, value, used, held }) => one.unit === 'usd' && value - used - held - expected < near,
      )
    const tokens = nearestTokens(standings, now)
    const granted: HoldGranted = {
      ok: true,
      day,
      billed: paid,
      tight: paid && ceiling > 0n && isNear(),
      ...(entries.length > 0 && { counted: entries.join(',') }),
      ...(tokens && { tokens }),
    }
    const amounts = paid ? { amount: expected, ceiling } : { amount: 0n, ceiling: 0n }
    const parts = reserved.length > 0 ? reserved : NOTHING_RESERVED
    call.held = { ...amounts, granted, reserved: parts }
    return granted
  }

  /** See {@link Ledger.raise}. */
  raise({ request, from, to }: Raise): void {
    const call = this.#calls.get(request)
    const held = call?.held
    if (!held || held.amount !== from || to <= from || to > held.ceiling) return
    this.#add(call, held.granted.day, to - from)
    for (const part of held.reserved) {
      if (!part.isMoney) continue
      if (part.counter.window === part.window) part.counter.held += to - from
      part.expected += to - from
    }
    held.amount = to
  }

  /**
   * Ends the call if it still runs.
   * @returns the day of the call's own hold, which was charged; undefined when the call no longer holds anything
   */
  end(request: RequestId): string | undefined {
    const call = this.#calls.get(request)
    if (call) this.#release(call)
    return call?.held?.granted.day
  }

  /** Moves a cost from the balance to the spend of a key, its team and the account; a negative cost moves back. */
  move({ key, team }: Pick<Lease, 'key' | 'team'>, day: string, cost: Pico): void {
    if (cost === 0n) return
    this.balance -= cost
    for (const id of ownersOf(key, team)) {
      for (const window of this.key(id).windows(day)) window.settled += cost
    }
  }

  /** Counts a call in the counters that its hold has named. @param counted the counters that its hold has named */
  count(lease: Pick<Lease, 'key' | 'team'>, counted: string | undefined, counts: Counts): void {
    for (const { of, id, window } of countersIn(counted)) {
      const counter = this.#counter(this.#ownerOf(of, lease), id)
      if (counter) addToCounter(counter, window, counts[kindOf(id).unit])
    }
  }

  /** Takes over what is stored of a counter, where that is of no earlier window. */
  fillCounter(owner: string, id: string, window: string, settled: bigint): void {
    const counter = this.#counter(this.key(owner), id)
    if (counter) addToCounter(counter, window, settled)
  }

  /** What a reset takes off now; undefined for a limit that there is none of. */
  resettable(owner: string, id: string, zone?: ZoneRule) {
    const moment = this.#clock.moment(this.#clock.now(), zone)
    const view = this.#views(this.key(owner), moment).find(({ limit }) => limit.id === id)
    return view && { counted: view.used, window: view.current }
  }

  settledIn(owner: string, id: string, window: string): bigint {
    const counter = this.#counter(this.key(owner), id)
    return counter?.window === window ? counter.settled : 0n
  }

  addReset(owner: string, id: string, window: string, amount: bigint): void {
    const one = this.key(owner).counted.find(({ limit }) => limit.id === id)
    if (!one) return
    const former = one.reset?.window === window ? one.reset.amount : 0n
    one.reset = { window, amount: former + amount }
  }

  counters(owner: string, zone?: ZoneRule): CounterView[] {
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    return this.#views(this.key(owner), this.#clock.moment(now, zone))
  }

  /** Forgets every settled sum, to be loaded again; running calls stay. */
  clearSums(): void {
    Object.assign(this, { balance: 0n, paid: false, paidIn: 0n })
    for (const key of this.#keys.values()) {
      for (const [, window] of key.named()) window.settled = 0n
      for (const one of key.counted) {
        if (one.counter) one.counter.settled = 0n
        one.reset = undefined
      }
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

  /** Adds a booked amount to the balance. */
  book(booking: Pick<Booking, 'kind' | 'unlock'>, amount: Pico): void {
    this.balance += amount
    this.paid ||= endsFreeTier(booking)
    if (booking.kind === 'top-up') this.paidIn += amount
  }

  /** Sets a key's limits, unless the stored ones have a higher revision. @throws RangeError for a limit below 1 */
  limit(id: string, limits: KeyLimits, revision: number): void {
    checkLimits(limits)
    const key = this.key(id)
    if (revision < key.revision) return
    key.limits = limits
    key.revision = revision
    key.count(limits.counted)
  }

  /** The balance with the credit limit. */
  get #spendable(): Pico {
    return this.balance + (this.#own.limits?.credit ?? 0n)
  }

  state(): AccountBalance {
    this.#sweep(this.#clock.steady(this.#clock.now()))
    const available = this.balance - this.#own.lifetime.held
    return { balance: this.balance, available, paid: this.paid }
  }

  spent(id: string, zone?: ZoneRule): KeySpend {
    const now = this.#clock.now()
    this.#sweep(this.#clock.steady(now))
    const key = this.#keys.get(id)
    if (!key) return NOTHING_SPENT
    const [lifetime, day, month] = key.windows(this.#clock.day(now, zone))
    const settled = { lifetime: lifetime.settled, day: day.settled, month: month.settled }
    return { ...settled, inFlight: key === this.#own ? this.#calls.size : key.running }
  }

  rates(id: string): RatesUsed {
    const now = this.#clock.now()
    const time = this.#clock.steady(now)
    const key = this.#keys.get(id)?.log.used(time) ?? NO_RATES_USED.key
    return { key, account: this.#own.log.used(time) }
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
    for (const [name, { held, ceilings }] of this.#named()) {
      yield [`held, ${name}`, held]
      yield [`ceilings, ${name}`, ceilings]
    }
  }

  *#named(): Generator<readonly [name: string, counter: Counter]> {
    for (const { id, counted } of this.#keys.values()) {
      for (const { limit, counter } of counted) {
        if (counter) yield [counterName(id, limit.id, counter.window), counter]
      }
    }
  }

  /** Every counter with a window, under the name that `verify` gives to its rows. */
  *counted(): Generator<readonly [owner: string, id: string, window: string, settled: bigint]> {
    for (const { id, counted } of this.#keys.values()) {
      for (const { limit, counter } of counted) {
        if (counter && counter.window !== '') yield [id, limit.id, counter.window, counter.settled]
      }
    }
  }

  /** The sums of {@link running}, recomputed from the calls. */
  recomputeRunning(): Map<string, Pico> {
    const sums = new Map<string, Pico>()
    const names = new Map([...this.#named()].map(([name, counter]) => [counter, name]))
    for (const { key, team, held } of this.#calls.values()) {
      const ids = { key: key.id, team: team?.id.slice(teamKey('').length) }
      addRunning(sums, ids, held && { ...held, day: held.granted.day })
      for (const { counter, window, expected, ceiling } of held?.reserved ?? []) {
        if (counter.window !== window) continue
        const name = names.get(counter)
        if (name === undefined) continue
        addTo(sums, `held, ${name}`, expected)
        addTo(sums, `ceilings, ${name}`, ceiling)
      }
    }
    return sums
  }

  /** The logs in which an admission counts, with their limits: of key, team, and account or free tier. */
  #logs(key: KeyBook, team: KeyBook | undefined, tier: FreeTierLimits | undefined): RateLimit[] {
    const logs: RateLimit[] = [{ log: key.log, limit: key.limits?.rpm ?? Infinity, of: 'key' }]
    const ofTeam = team?.limits?.rpm
    if (team && ofTeam !== undefined) logs.push({ log: team.log, limit: ofTeam, of: 'team' })
    const shared = lower(this.#own.limits?.rpm, tier?.rpm)
    if (shared.limit !== Infinity) logs.push({ log: this.#own.log, ...shared })
    return logs
  }

  /** Answers with the limit that has the longest wait, so that no rate limit refuses a request after this wait. */
  #refusal(
    logs: readonly RateLimit[],
    key: KeyBook,
    team: KeyBook | undefined,
    tier: FreeTierLimits | undefined,
    time: number,
  ): Admission | undefined {
    let longest: RateLimit | undefined
    let ms = 0
    for (const one of logs) {
      const waitMs = one.log.waitMs(time, one.limit)
      if (waitMs > ms) [longest, ms] = [one, waitMs]
    }
    const rate = nearestOf(logs, time)
    if (longest) {
      const { of, limit } = longest
      return { ok: false, why: 'rpm', of, value: limit, retryAfterMs: ms, rate }
    }
    const shared = lower(this.#own.limits?.concurrency, tier?.concurrency)
    const running: [LimitOwner, number, number][] = [
      ['key', key.running, key.limits?.concurrency ?? Infinity],
      ['team', team?.running ?? 0, team?.limits?.concurrency ?? Infinity],
      [shared.of, this.#calls.size, shared.limit],
    ]
    const full = running.find(([, calls, most]) => calls >= most)
    if (!full) return undefined
    const [of, , value] = full
    return { ok: false, why: 'concurrency', of, value, retryAfterMs: RETRY_MS, rate }
  }

  /** Removes the admission of a call from the logs. */
  #uncount(call: RunningCall): void {
    if (call.slot === undefined) return
    for (const part of this.#parts(call)) part.log.remove(call.slot)
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

  /** Every counted limit that applies to a call, in the order of key, team, account and free tier. */
  #standings(
    request: HoldRequest,
    key: KeyBook,
    team: KeyBook | undefined,
    moment: Moment,
  ): Standing[] {
    const standings: Standing[] = []
    const add = (owner: LimitOwner, of: KeyBook) => {
      for (const one of of.counted) {
        // Nothing is charged on the free tier, so limits of money stand still there.
        if (!this.paid && one.unit === 'usd') continue
        if (!appliesTo(one.limit, request.model)) continue
        standings.push(standingOf(owner, of, one, request, moment))
      }
    }
    add('key', key)
    if (team) add('team', team)
    add('account', this.#own)
    if (!this.paid && request.tierPerDay !== undefined) {
      const value = BigInt(request.tierPerDay)
      if (this.#tier.counted[0]?.limit.value !== value) {
        this.#tier.count([{ id: 'requests.day', value }])
      }
      add('tier', this.#tier)
    }
    return standings
  }

  /** Whether the call has to wait until running calls have ended. It never waits where nothing else is reserved, however little is left. */
  #waitsFor(
    { expected, ceiling, exposure }: HoldRequest,
    standings: readonly Standing[],
  ): { readonly by: HeldBy; readonly limit?: RefusedLimit } | undefined {
    const waiting = standings.flatMap((standing) => {
      const by = waitsAt(standing, exposure)
      return by ? [{ by, standing }] : []
    })
    // A call never waits inside for one of those that run at once, so that is told first.
    const full = waiting.find(({ by }) => by === 'concurrency')
    if (full) return { by: full.by, limit: refusedBy(full.standing) }
    const { lifetime, ceilings } = this.#own
    if (this.paid && ceiling > 0n && ceilings > 0n) {
      if (expected > this.#spendable - lifetime.held) return { by: 'balance' }
      const most = this.#spendable + exposed(exposure, this.paidIn)
      if (ceilings + ceiling > most) return { by: 'balance_ceilings' }
    }
    const last = lastOf(waiting.map(({ standing }) => standing))
    const one = waiting.find(({ standing }) => standing === last)
    return one && { by: one.by, limit: refusedBy(one.standing) }
  }

  #parts({ key, team }: RunningCall): readonly KeyBook[] {
    return team ? [key, team, this.#own] : [key, this.#own]
  }

  #ownerOf(of: LimitOwner, { key, team }: Pick<Lease, 'key' | 'team'>): KeyBook {
    if (of === 'tier') return this.#tier
    if (of === 'account') return this.#own
    return this.key(of === 'team' ? teamKey(team ?? '') : key)
  }

  #counter(of: KeyBook, id: string): Counter | undefined {
    if (of === this.#tier && of.counted.length === 0) of.count([{ id, value: 0n }])
    return of.counterOf(id)
  }

  #views(of: KeyBook, moment: Moment): CounterView[] {
    return of.counted.map(({ limit, window, counter, reset }) => {
      const spend = counter ?? of.window(windowOf(window, moment.day))
      const isSpan = window === 'minute' || window === '5h'
      const present = currentWindow(window, counter?.window ?? '', moment)
      const isOpen = !counter || counter.window === present
      const current = isSpan && !isOpen ? '' : present
      const resetAmount = reset?.window === current ? reset.amount : 0n
      const [settled, held] = isOpen ? [spend.settled, spend.held] : [0n, 0n]
      return { limit, current, used: settled - resetAmount, held, reset: resetAmount }
    })
  }

  #add(call: RunningCall, day: string, amount: Pico): void {
    if (amount === 0n) return
    for (const part of this.#parts(call)) {
      for (const window of part.windows(day)) window.held += amount
    }
  }

  #release(call: RunningCall): void {
    const { request, key, team, held } = call
    this.#calls.delete(request)
    key.running--
    if (team) team.running--
    if (held) this.#move(call, held, -1n)
  }

  /** Adds a hold to what is held, or takes it off. */
  #move(call: RunningCall, held: Held, sign: 1n | -1n): void {
    this.#add(call, held.granted.day, sign * held.amount)
    for (const part of this.#parts(call)) part.ceilings += sign * held.ceiling
    for (const { counter, window, expected, ceiling } of held.reserved) {
      if (counter.window !== window) continue
      counter.held += sign * expected
      counter.ceilings += sign * ceiling
    }
  }
}

interface RateLimit {
  readonly log: RateLog
  readonly limit: number
  readonly of: LimitOwner
}

/** The log with the fewest requests remaining; with equally many, the one with the lowest limit. */
function nearestOf(logs: readonly RateLimit[], time: number): RateStatus {
  let nearest: RateStatus | undefined
  for (const { log, limit } of logs) {
    const rate = log.rate(time, limit)
    const fewer = nearest && (rate.remaining - nearest.remaining || rate.limit - nearest.limit)
    if (fewer === undefined || fewer < 0) nearest = rate
  }
  return nearest!
}
