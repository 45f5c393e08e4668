/** A random walk of calls, beside a model of the rules: an engine and the model have to answer alike. */
import { isDeepStrictEqual, inspect } from 'node:util'
import {
  ACCOUNT,
  LEASE_MS,
  TIER,
  teamKey,
  type Admission,
  type AdmissionRequest,
  type CounterView,
  type HeldBy,
  type HoldGranted,
  type HoldRequest,
  type HoldResult,
  type KeyLimits,
  type Lease,
  type Ledger,
  type LedgerRow,
  type LimitOwner,
  type Raise,
  type RateStatus,
  type RefusedLimit,
  type Reset,
  type ResetDone,
  type Settled,
  type Settlement,
  type UsageRow,
  type Booking,
} from '../../src/state/ledger/ledger.ts'
import { creditAfter, NO_CREDIT, promotionalPart } from '../../src/state/ledger/blocks.ts'
import { NotFound } from '../../src/errors/errors.ts'
import { countersIn, countsOf, kindOf, type Counts } from '../../src/state/ledger/limit-list.ts'
import type { CountedLimit, Unit } from '../../src/state/ledger/ledger.ts'
import { counterOwner } from '../../src/state/ledger/sums.ts'
import {
  DAY_MS,
  MINUTE_MS,
  dayOf,
  offsetAt,
  type Window,
  type ZoneRule,
} from '../../src/state/ledger/windows.ts'
import { MAX_AMOUNT, parsePico, type Pico } from '../../src/money/money.ts'
import { holdOf, NO_EXPOSURE } from '../state/_hold.ts'
import type { TestClock } from './ledger.ts'

/** Windows of the sums that are always kept. */
type CapScope = 'lifetime' | 'day' | 'month'

const FREE_TIER = { rpm: 6, concurrency: 3 }
const TEAM = teamKey('one')
const MODELS = ['m/a', 'm/b', 'n/a,b;c|d%']
const PATTERNS: Readonly<Record<string, readonly string[]>> = {
  'cap.day.00000001': ['m/*'],
  'cap.5h.00000002': ['m/a', 'n/a,b;c|d%'],
  'tokens.minute.00000001': ['m/*'],
  'rpm.00000003': ['m/b'],
  'concurrency.00000001': ['m/*'],
}
const COUNTED = [
  'cap.lifetime',
  'cap.day',
  'cap.month',
  'cap.week',
  'cap.5h',
  'requests.day',
  'requests.week',
  'requests.5h',
  'requests.month',
  'tokens.minute',
  'tokens.5h',
  'tokens.day',
  'tokens.lifetime',
  ...Object.keys(PATTERNS),
]

interface ModelCall {
  readonly request: string
  readonly key: string
  readonly team?: string | undefined
  readonly at: number
  expiresAt: number
  held?: {
    amount: Pico
    readonly ceiling: Pico
    readonly granted: HoldGranted
    reserved: Reserved[]
  }
}

interface ModelRow {
  readonly kind: LedgerRow['kind']
  readonly request: string
  readonly key?: string
  readonly team?: string | undefined
  readonly cost: Pico
  readonly day?: string
  readonly counted?: string | undefined
  readonly counts?: Counts
}

/** Promotional or expiring credit; `amount` is all that was booked. */
interface ModelBlock {
  readonly name: string
  readonly amount: Pico
  left: Pico
  used: Pico
  expired: Pico
  cut: Pico
  readonly ends: number
}

class ModelKey {
  limits: KeyLimits | undefined
  revision = -Infinity
  entries: number[] = []
  readonly counters = new Map<string, ModelCounter>()
  readonly resets = new Map<string, { window: string; amount: bigint }>()
}

/** The window of a counter, and the number of rows before its limit was set. */
interface ModelCounter {
  window: string
  readonly since: number
}

interface Reserved {
  readonly owner: string
  readonly id: string
  readonly window: string
  readonly unit: Unit
  expected: bigint
  readonly ceiling: bigint
}

/** A limit as it stands for a call, computed from rows and calls. */
interface ModelStanding {
  readonly of: LimitOwner
  readonly owner: string
  readonly limit: CountedLimit
  readonly current: string
  readonly value: bigint
  readonly settled: bigint
  readonly reset: bigint
  readonly held: bigint
  readonly ceilings: bigint
  readonly end: number
}

const SPANS: Readonly<Record<string, number>> = { minute: MINUTE_MS, '5h': 300 * MINUTE_MS }

/** The rules in their simplest form, to be checked by reading: every sum is computed from rows and calls. */
export class Model {
  paid = false
  /** Limits and admissions over all keys of the account, counted like those of a key. */
  readonly own = new ModelKey()
  readonly tier = new ModelKey()
  readonly keys = new Map(['k1', 'k2', 'k3', TEAM].map((id) => [id, new ModelKey()]))
  calls: ModelCall[] = []
  readonly rows: ModelRow[] = []
  readonly blocks: ModelBlock[] = []
  plainUsed = 0n
  readonly zone: ZoneRule | undefined
  readonly resetReferences = new Map<string, { owner: string; id: string; done: ResetDone }>()

  constructor(zone: ZoneRule | undefined) {
    this.zone = zone
  }

  get balance(): Pico {
    return -sum(this.rows)
  }

  /** The balance with the credit limit. */
  get spendable(): Pico {
    return this.balance + (this.own.limits?.credit ?? 0n)
  }

  get held(): Pico {
    return this.calls.reduce((total, call) => total + (call.held?.amount ?? 0n), 0n)
  }

  /** A key, a team, ACCOUNT or TIER, as all methods that take a key. */
  of(key: string): ModelKey {
    if (key === TIER) return this.tier
    return key === ACCOUNT ? this.own : this.keys.get(key)!
  }

  running(key: string): number {
    return this.calls.filter((call) => isOf(call, key)).length
  }

  day(now: number): string {
    return dayOf(now + offsetAt(now, this.zone) * MINUTE_MS)
  }

  spend(key: string, scope: CapScope, day: string): Pico {
    return sum(this.rows.filter((row) => isOf(row, key) && inWindow(row.day, scope, day)))
  }

  committed(key: string, scope: CapScope, day: string): Pico {
    const held = this.calls
      .filter((call) => isOf(call, key) && inWindow(call.held?.granted.day, scope, day))
      .reduce((total, call) => total + call.held!.amount, 0n)
    return this.spend(key, scope, day) + held
  }

  sweep(now: number): void {
    for (const { request, key, expiresAt, held } of this.calls) {
      if (expiresAt <= now && held) this.rows.push({ kind: 'orphan', request, key, cost: 0n })
    }
    this.calls = this.calls.filter((call) => call.expiresAt > now)
  }

  enter(entry: AdmissionRequest, now: number): Admission {
    const { request, key: id, team, revision, accountRevision = 0, freeTier } = entry
    this.sweep(now)
    const key = this.keys.get(id)!
    const ofTeam = team === undefined ? undefined : this.keys.get(teamKey(team))!
    const { limits } = key
    if (!limits || revision < key.revision) return { ok: false, why: 'stale' }
    if (accountRevision < this.own.revision) return { ok: false, why: 'stale' }
    if (ofTeam && (entry.teamRevision ?? 0) < ofTeam.revision) return { ok: false, why: 'stale' }
    if (limits.disabled) return { ok: false, why: 'disabled', of: 'key' }
    if (now >= (limits.expiresAt ?? Infinity)) return { ok: false, why: 'expired', of: 'key' }
    if (ofTeam?.limits?.disabled) return { ok: false, why: 'disabled', of: 'team' }
    if (this.own.limits?.disabled) return { ok: false, why: 'disabled', of: 'account' }
    const shared: [LimitOwner, Partial<KeyLimits>][] = [['account', this.own.limits ?? {}]]
    if (!this.paid) shared.push(['tier', freeTier])
    const lowest = (member: 'rpm' | 'concurrency') =>
      shared
        .map(([of, limits]) => ({ of, limit: limits[member] ?? Infinity }))
        .reduce((a, b) => (b.limit < a.limit ? b : a))
    const logs = [{ entries: key.entries, limit: limits.rpm!, of: 'key' as LimitOwner }]
    const teamRpm = ofTeam?.limits?.rpm
    if (ofTeam && teamRpm) logs.push({ entries: ofTeam.entries, limit: teamRpm, of: 'team' })
    const all = lowest('rpm')
    if (all.limit !== Infinity) logs.push({ ...all, entries: this.own.entries })
    const rate = () => {
      const rates = logs.map((log) => rateOf(log.entries, log.limit, now))
      return rates.sort((a, b) => a.remaining - b.remaining || a.limit - b.limit)[0]!
    }
    const known = this.calls.find((call) => call.request === request)
    if (known) return { ok: true, at: now, lease: now, paid: this.paid, rate: rate() }
    const waits = logs.map((log) => ({ ...log, ms: waitOf(log.entries, log.limit, now) }))
    const longest = waits.reduce((a, b) => (b.ms > a.ms ? b : a))
    if (longest.ms > 0) {
      const { of, limit: value, ms } = longest
      return { ok: false, why: 'rpm', of, value, retryAfterMs: ms, rate: rate() }
    }
    const most = lowest('concurrency')
    const full = [
      { of: 'key' as LimitOwner, calls: this.running(id), limit: limits.concurrency! },
      {
        of: 'team' as LimitOwner,
        calls: team === undefined ? 0 : this.running(teamKey(team)),
        limit: ofTeam?.limits?.concurrency ?? Infinity,
      },
      { ...most, calls: this.calls.length },
    ].find(({ calls, limit }) => calls >= limit)
    if (full) {
      const { of, limit: value } = full
      return { ok: false, why: 'concurrency', of, value, retryAfterMs: 1000, rate: rate() }
    }
    for (const log of logs) log.entries.push(now)
    this.calls.push({ request, key: id, team, at: now, expiresAt: now + LEASE_MS })
    return { ok: true, at: now, lease: now + LEASE_MS, paid: this.paid, rate: rate() }
  }

  /** Sum of the ceilings of the running calls of a key, or of all. */
  ceilings(key = ACCOUNT): Pico {
    const calls = this.calls.filter((call) => isOf(call, key))
    return calls.reduce((total, { held }) => total + (held?.ceiling ?? 0n), 0n)
  }

  /** What is counted for a limit in its present window. */
  standing(of: LimitOwner, owner: string, limit: CountedLimit, now: number): ModelStanding {
    const { window } = kindOf(limit.id)
    const counter = this.of(owner).counters.get(limit.id)
    const day = this.day(now)
    const current = currentOf(window, counter?.window ?? '', now, day)
    const kept = !counter && owner !== TIER
    const scope = window as CapScope
    const settled = kept
      ? this.spend(owner, scope, day)
      : counter?.window === current
        ? this.counted(owner, limit.id, current, counter.since)
        : 0n
    const reserved = this.calls.flatMap(({ held }) => held?.reserved ?? [])
    const own = reserved.filter(
      (one) => one.owner === owner && one.id === limit.id && one.window === current,
    )
    const [held, ceilings] = kept
      ? [this.committed(owner, scope, day) - settled, this.ceilings(owner)]
      : [total(own.map((one) => one.expected)), total(own.map((one) => one.ceiling))]
    const reset = this.of(owner).resets.get(limit.id)
    const { raised } = limit
    return {
      of,
      owner,
      limit,
      current,
      value: raised && now < raised.until ? raised.value : limit.value,
      settled,
      reset: reset?.window === current ? reset.amount : 0n,
      held,
      ceilings,
      end: endOf(window, current, now, day, offsetAt(now, this.zone)),
    }
  }

  /** What the rows say that are named in a counter. */
  counted(owner: string, id: string, window: string, since: number): bigint {
    const named = this.rows
      .slice(since)
      .flatMap((row) =>
        [...countersIn(row.counted)].flatMap((entry) =>
          entry.id === id &&
          entry.window === window &&
          counterOwner(entry.of, row as never) === owner
            ? [row.counts![kindOf(id).unit]]
            : [],
        ),
      )
    return total(named)
  }

  hold(request: HoldRequest, now: number): HoldResult {
    const { key: id, team, expected, ceiling, free, model, tokens, exposure } = request
    const call = this.calls.find((call) => call.request === request.request)
    if (!call) return { ok: false, why: 'lost' }
    if (call.held) return call.held.granted
    if (!this.paid && !free) return { ok: false, why: 'tier' }
    const owners: [LimitOwner, string][] = [['key', id]]
    if (team !== undefined) owners.push(['team', teamKey(team)])
    owners.push(['account', ACCOUNT])
    const all = owners.flatMap(([of, owner]) =>
      (this.of(owner).limits?.counted ?? []).map((limit) => ({ of, owner, limit })),
    )
    if (!this.paid && request.tierPerDay !== undefined) {
      const limit = { id: 'requests.day', value: BigInt(request.tierPerDay) }
      all.push({ of: 'tier', owner: TIER, limit })
    }
    const standings = all
      .filter(({ limit }) => this.paid || kindOf(limit.id).unit !== 'usd')
      .filter(({ limit: { models } }) => !models || models.some((one) => means(one, model)))
      .map(({ of, owner, limit }) => this.standing(of, owner, limit, now))
    const left = (one: ModelStanding) => one.value - (one.settled - one.reset)
    const unitOf = (one: ModelStanding) => kindOf(one.limit.id).unit
    const wanted = (one: ModelStanding): [bigint, bigint] => {
      if (unitOf(one) === 'usd') return [expected, ceiling]
      return unitOf(one) === 'tokens' ? [BigInt(tokens.expected), BigInt(tokens.ceiling)] : [1n, 1n]
    }
    // (a) of L7, in the order of L8.
    const reached = standings.filter(
      (one) => left(one) - (unitOf(one) === 'requests' ? one.held : 0n) <= 0n,
    )
    const isTerminal = (one: ModelStanding) =>
      unitOf(one) === 'usd' ||
      (unitOf(one) === 'tokens' && kindOf(one.limit.id).window === 'lifetime')
    const terminal = latest(reached.filter(isTerminal))
    if (terminal) return { ok: false, why: 'limit', limit: refused(terminal), at: now }
    if (this.paid && this.spendable <= 0n) return { ok: false, why: 'credits' }
    const spent = latest(reached)
    if (spent) return { ok: false, why: 'limit', limit: refused(spent), at: now }
    // (b)
    const share = (of: bigint) => BigInt(Math.floor(exposure.share * Number(of)))
    const risk = (of: bigint) => (share(of) < exposure.most ? share(of) : exposure.most)
    const waits = (one: ModelStanding): HeldBy | undefined => {
      const [h, m] = wanted(one)
      if (m === 0n || one.ceilings === 0n || unitOf(one) === 'requests') return undefined
      if (unitOf(one) === 'concurrent') return one.held + 1n > one.value ? 'concurrency' : undefined
      if (h > left(one) - one.held) return 'cap'
      const more = unitOf(one) === 'usd' ? risk(one.value) : share(one.value)
      return one.ceilings + m > left(one) + more ? 'cap_ceilings' : undefined
    }
    const held = (by: HeldBy, one?: ModelStanding): HoldResult => ({
      ok: false,
      why: 'held',
      by,
      ...(one && { limit: refused(one) }),
      retryAfterMs: 1000,
    })
    const full = standings.find((one) => waits(one) === 'concurrency')
    if (full) return held('concurrency', full)
    if (this.paid && ceiling > 0n && this.ceilings() > 0n) {
      if (expected > this.spendable - this.held) return held('balance')
      const paidIn = -sum(this.rows.filter(({ kind }) => kind === 'top-up'))
      if (this.ceilings() + ceiling > this.spendable + risk(paidIn)) return held('balance_ceilings')
    }
    const waiting = latest(standings.filter((one) => waits(one)))
    if (waiting) return held(waits(waiting)!, waiting)
    return this.grant(call, request, standings, wanted, now)
  }

  grant(
    call: ModelCall,
    { expected, ceiling }: HoldRequest,
    standings: readonly ModelStanding[],
    wanted: (one: ModelStanding) => [bigint, bigint],
    now: number,
  ): HoldGranted {
    const own = standings.filter(
      ({ owner, limit }) => owner === TIER || this.of(owner).counters.has(limit.id),
    )
    const lefts = standings
      .filter(({ limit }) => kindOf(limit.id).unit === 'usd')
      .map((one) => one.value - (one.settled - one.reset) - one.held)
    const near = [this.spendable - this.held, ...lefts]
    const tight = this.paid && ceiling > 0n && near.some((one) => one - expected < 32n * ceiling)
    const letters = { key: 'k', team: 't', account: 'a', tier: 'f' } as const
    const reserved = own.map((one): Reserved => {
      const { owner, limit, current: window } = one
      const former = this.of(owner).counters.get(limit.id)
      this.of(owner).counters.set(limit.id, { window, since: former?.since ?? 0 })
      const [amount, most] = wanted(one)
      const { unit } = kindOf(limit.id)
      return { owner, id: limit.id, window, unit, expected: amount, ceiling: most }
    })
    const counted = own.map(({ of, limit, current }) => `${letters[of]}:${limit.id}@${current}`)
    const rates = own
      .filter(({ limit }) => limit.id === 'tokens.minute')
      .map((one) => {
        const left = one.value - (one.settled - one.reset) - one.held - wanted(one)[0]
        const remaining = left > 0n ? Number(left) : 0
        return { limit: Number(one.value), remaining, resetMs: one.end - now }
      })
      .sort((a, b) => a.remaining - b.remaining)
    const granted: HoldGranted = {
      ok: true,
      day: this.day(now),
      billed: this.paid,
      tight,
      ...(counted.length > 0 && { counted: counted.join(',') }),
      ...(rates[0] && { tokens: rates[0] }),
    }
    const money = this.paid ? { amount: expected, ceiling } : { amount: 0n, ceiling: 0n }
    call.held = { ...money, granted, reserved }
    return granted
  }

  raise({ request, from, to }: Raise): void {
    const held = this.calls.find((call) => call.request === request)?.held
    if (held?.amount !== from || to <= from || to > held.ceiling) return
    held.amount = to
    for (const one of held.reserved) if (one.unit === 'usd') one.expected += to - from
  }

  settle({ request, key, team, day, cost, usage }: Settlement): Settled {
    const held = this.calls.find((call) => call.request === request)?.held
    const { counted } = usage
    const settled = this.#book({
      kind: 'usage',
      request,
      key,
      team,
      cost,
      day: held?.granted.day ?? day,
      counted,
      counts: countsOf(cost, usage),
    })
    if (settled.state !== 'charged') return settled
    this.leave(request)
    for (const { of, id, window } of countersIn(counted)) {
      const owner = this.of(counterOwner(of, { key, team }))
      const counter = owner.counters.get(id)
      if (!counter) continue
      if (counter.window === '' || Number(window) > Number(counter.window)) counter.window = window
    }
    return settled
  }

  /** Limits that are gone, or new, begin anew. */
  limit(id: string, limits: KeyLimits, revision: number): void {
    const key = this.of(id)
    if (revision < key.revision) return
    const former = new Set(key.limits?.counted?.map((one) => one.id))
    Object.assign(key, { limits, revision })
    const present = new Set(limits.counted?.map((one) => one.id))
    const ends = (one: string) => !former.has(one) || !present.has(one)
    for (const one of [...key.counters.keys()].filter(ends)) key.counters.delete(one)
    for (const one of [...key.resets.keys()].filter(ends)) key.resets.delete(one)
    for (const { held } of this.calls) {
      if (held) held.reserved = held.reserved.filter((one) => one.owner !== id || !ends(one.id))
    }
    for (const one of present) {
      if (KEPT.has(one) || key.counters.has(one)) continue
      key.counters.set(one, { window: '', since: this.rows.length })
    }
  }

  reset({ owner, limit: id, reference }: Reset, now: number): ResetDone | 'none' | 'taken' {
    const known = this.resetReferences.get(reference)
    if (known?.owner === owner && known.id === id) return { ...known.done, duplicate: true }
    const limit = this.of(owner).limits?.counted?.find((one) => one.id === id)
    if (known) return 'taken'
    if (!limit) return 'none'
    const { current, settled, reset } = this.standing('key', owner, limit, now)
    const window = this.shown(owner, id, current)
    const counted = window === '' ? 0n : settled - reset
    if (counted > 0n) this.of(owner).resets.set(id, { window, amount: settled })
    const done = { counted, window, duplicate: false }
    this.resetReferences.set(reference, { owner, id, done })
    return done
  }

  views(owner: string, now: number): CounterView[] {
    return (this.of(owner).limits?.counted ?? []).map((limit) => {
      const { current, settled, reset, held } = this.standing('key', owner, limit, now)
      const shown = this.shown(owner, limit.id, current)
      return { limit, current: shown, used: settled - reset, held, reset }
    })
  }

  /** A span that is not open has no window. */
  shown(owner: string, id: string, current: string): string {
    const isSpan = (kindOf(id).window ?? '') in SPANS
    return isSpan && this.of(owner).counters.get(id)?.window !== current ? '' : current
  }

  /** @param at the admission, whose entries in the logs are taken back */
  leave(request: string, at?: number): void {
    const call = this.calls.find((call) => call.request === request)
    if (call && at !== undefined) this.#uncount(call, at)
    this.calls = this.calls.filter((call) => call.request !== request)
  }

  #uncount({ key, team }: ModelCall, at: number): void {
    const logs = [this.of(key).entries, this.own.entries]
    if (team !== undefined) logs.push(this.of(teamKey(team)).entries)
    for (const entries of logs) if (entries.includes(at)) entries.splice(entries.indexOf(at), 1)
  }

  book(booking: Booking): Settled | 'no block' {
    const { kind, reference, amount, unlock, takesFrom, expiresAt } = booking
    const known = this.rows.some((row) => row.kind === kind && row.request === reference)
    if (known) return this.#book({ kind, request: reference, cost: 0n })
    const block = this.blocks.find(
      ({ name, left }) => name === (takesFrom ?? reference) && left > 0n,
    )
    if (kind === 'expire') {
      const left = block?.left ?? 0n
      if (block) [block.expired, block.left] = [left, 0n]
      return this.#book({ kind, request: reference, cost: left })
    }
    if (takesFrom !== undefined) {
      if (!block) return 'no block'
      const cut = block.left < -amount ? block.left : -amount
      block.cut += cut
      block.left -= cut
    }
    this.paid ||= kind === 'top-up' || unlock === true
    if (kind === 'promo' || expiresAt !== undefined) {
      const name = `${kind}:${reference}`
      const none = { used: 0n, expired: 0n, cut: 0n }
      this.blocks.push({ name, amount, left: amount, ...none, ends: expiresAt ?? Infinity })
      // A sort is stable: of equal ones the oldest is used first.
      const rank = ({ name: of }: ModelBlock) => (of.startsWith('promo:') ? 0 : 1)
      this.blocks.sort((a, b) => (a.ends === b.ends ? rank(a) - rank(b) : a.ends - b.ends))
    }
    return this.#book({ kind, request: reference, cost: -amount })
  }

  /** Takes a cost from the blocks in their order, and from plain credit. */
  #use(cost: Pico): void {
    let rest = cost
    for (const block of this.blocks) {
      const part = block.left < rest ? block.left : rest
      block.used += part
      block.left -= part
      rest -= part
    }
    this.plainUsed += rest
  }

  /** What is left of blocks, and of plain credit as its own rows add up. */
  credit() {
    const open = this.blocks.filter(({ left }) => left > 0n)
    const blocks = open.map(({ name, left, ends }) => ({
      name,
      left,
      ...(ends !== Infinity && { expiresAt: ends }),
    }))
    const ofBlocks = this.blocks.reduce((all, one) => all + one.amount - one.expired - one.cut, 0n)
    const booked = -sum(this.rows.filter(({ kind }) => kind !== 'usage'))
    return { plain: booked - ofBlocks - this.plainUsed, blocks }
  }

  #book(row: ModelRow): Settled {
    const same = this.rows.find(({ kind, request }) => kind === row.kind && request === row.request)
    if (!same) this.rows.push(row)
    if (!same && row.kind === 'usage') this.#use(row.cost)
    return {
      state: same ? 'duplicate' : 'charged',
      cost: (same ?? row).cost,
      balance: this.balance,
    }
  }
}

const KEPT: ReadonlySet<string> = new Set(['cap.lifetime', 'cap.day', 'cap.month'])

function means(pattern: string, model: string): boolean {
  return pattern === model || pattern === `${model.split('/')[0]}/*`
}

function total(amounts: readonly bigint[]): bigint {
  return amounts.reduce((all, one) => all + one, 0n)
}

function currentOf(window: Window | undefined, counted: string, now: number, day: string): string {
  if (window === undefined || window === 'lifetime') return '-'
  const span = SPANS[window]
  if (span !== undefined) {
    return counted !== '' && now < Number(counted) + span ? counted : String(now)
  }
  const name = window === 'month' ? day.slice(0, 6) : window === 'day' ? day : dayOf(mondayOf(day))
  return counted !== '' && Number(counted) > Number(name) ? counted : name
}

function dateOf(day: string): Date {
  return new Date(`${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}T00:00:00Z`)
}

function mondayOf(day: string): number {
  const date = dateOf(day)
  return date.getTime() - ((date.getUTCDay() + 6) % 7) * DAY_MS
}

/** When a window ends, by the present time of the zone. */
function endOf(
  window: Window | undefined,
  name: string,
  now: number,
  day: string,
  offset: number,
): number {
  if (window === undefined || window === 'lifetime') return Infinity
  const span = SPANS[window]
  if (span !== undefined) return Number(name) + span
  const date = dateOf(day)
  const ends = {
    day: date.getTime() + DAY_MS,
    week: mondayOf(day) + 7 * DAY_MS,
    month: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1),
  }
  return ends[window as 'day'] - offset * MINUTE_MS
}

function latest(standings: readonly ModelStanding[]): ModelStanding | undefined {
  return standings.reduce<ModelStanding | undefined>(
    (last, one) => (last && last.end >= one.end ? last : one),
    undefined,
  )
}

function refused(one: ModelStanding): RefusedLimit {
  const { of, limit, current, value, settled, reset, held } = one
  const { unit, window } = kindOf(limit.id)
  const isMoney = unit === 'usd' || unit === 'tokens'
  const isRaised = limit.raised && value === limit.raised.value
  return {
    of,
    name: limit.id,
    unit,
    ...(window && { window }),
    value,
    used: settled - reset + (isMoney ? 0n : held),
    ...(limit.models && { models: limit.models }),
    ...(isRaised && { raisedUntil: limit.raised!.until }),
    current,
  }
}

/** Whether a call or a row is of a key; each of a key is of its account. */
function isOf(
  one: { readonly key?: string; readonly team?: string | undefined },
  key: string,
): boolean {
  if (key.startsWith('@team:')) return one.team !== undefined && teamKey(one.team) === key
  return key === ACCOUNT ? one.key !== undefined : one.key === key
}

/** A cap of a key or of an account. */
interface Cap {
  readonly amount: Pico
  readonly scope: CapScope
}

/** The first cap of an owner that reads its spend. */
function capOf(limits: KeyLimits | undefined): Cap | undefined {
  const limit = limits?.counted?.find(({ id, raised }) => KEPT.has(id) && !raised)
  return limit && { amount: limit.value, scope: kindOf(limit.id).window as CapScope }
}

/** How far costs may pass what is left: by `most`, which grows with what calls cost above their ceilings. */
interface Bound {
  most: Pico
  /** The ceilings of the calls that ran when the bound was set, by request. */
  readonly ceilings: Map<string, Pico>
}

function exceed(bound: Bound, request: string, cost: Pico): void {
  const excess = cost - (bound.ceilings.get(request) ?? 0n)
  if (excess > 0n) bound.most += excess
}

/** A call of the walk, with everything that its gateway would remember. */
interface WalkCall extends Lease {
  readonly at: number
  day: string
  counted?: string | undefined
  state: 'entered' | 'held' | 'over'
}

/** An amount that one booking can have. */
function bounded(amount: Pico): Pico {
  return amount < MAX_AMOUNT ? amount : MAX_AMOUNT
}

/** Sends random calls to the engine and to the model, which have to answer alike. */
export class Walk {
  readonly #ledger: Ledger
  readonly #clock: TestClock
  readonly #seed: number
  readonly #random: () => number
  #models = new Map<string, Model>()
  #calls: WalkCall[] = []
  /** The bound of the overrun of each account. */
  #bounds = new Map<string, Bound>()
  /** The bound of the overrun of each cap, by account and key, as it was when a call was admitted last. */
  #capBounds = new Map<string, Bound & { readonly cap: Cap; readonly day: string }>()
  readonly #trail: unknown[][] = []
  /** Whether single amounts are as large as they may be, so that sums leave 64 bits. */
  #wide = false
  #step = 0

  constructor(ledger: Ledger, clock: TestClock, seed: number) {
    this.#ledger = ledger
    this.#clock = clock
    this.#seed = seed
    this.#random = randomOf(seed)
  }

  async go(steps: number): Promise<void> {
    while (this.#step < steps) {
      await this.#begin()
      const end = Math.min(steps, this.#step + 1000)
      for (; this.#step < end; this.#step++) await this.#move()
      await this.#audit()
    }
  }

  /** Opens new accounts, which keeps the model small enough to compute every sum at each step. */
  async #begin(): Promise<void> {
    const accounts = [`a${this.#step}`, `b${this.#step}`]
    this.#wide = this.#chance(0.5)
    this.#calls = []
    this.#models = new Map(accounts.map((account) => [account, new Model(this.#zone())]))
    // Before the first admission, every charge is overrun.
    this.#bounds = new Map(accounts.map((account) => [account, { most: 0n, ceilings: new Map() }]))
    this.#capBounds.clear()
    for (const account of accounts) {
      for (const key of ['k1', 'k2']) await this.#limit(account, key)
      if (this.#wide && this.#chance(0.5)) await this.#enrich(account)
    }
  }

  /** UTC, or a zone whose time changes in the days of the walk. */
  #zone(): ZoneRule | undefined {
    if (this.#chance(0.4)) return undefined
    const offset = this.#pick([-660, -300, 0, 60, 345, 630, 840])
    const until = this.#clock.now() + Math.floor(this.#random() * 3 * DAY_MS)
    return { offset, until, next: offset + this.#pick([60, -60, 30]) }
  }

  /** Takes the balance beyond 64 bits. */
  async #enrich(account: string): Promise<void> {
    for (let i = 0; i < 4; i++) {
      const topUp = {
        kind: 'top-up' as const,
        account,
        amount: MAX_AMOUNT - BigInt(i),
        reference: `endowment_${i}`,
      }
      const expected = this.#model(account).book(topUp)
      this.#same('topUp', topUp, await this.#ledger.book(topUp), expected)
    }
  }

  async #move(): Promise<void> {
    const account = this.#pick([...this.#models.keys()])
    await this.#sweep()
    const roll = this.#random()
    if (roll < 0.28) await this.#enter(account)
    else if (roll < 0.45) await this.#hold()
    else if (roll < 0.49) await this.#raise()
    else if (roll < 0.64) await this.#settle(account)
    else if (roll < 0.66) await this.#waive()
    else if (roll < 0.71) await this.#leave()
    else if (roll < 0.75) await this.#renew()
    else if (roll < 0.78) await this.#topUp(account)
    else if (roll < 0.79) await this.#adjust(account)
    else if (roll < 0.8) await this.#reset(account)
    else if (roll < 0.815) await this.#bookOther(account)
    else if (roll < 0.83) await this.#limit(account, this.#pick(['k1', 'k2', 'k3', TEAM, ACCOUNT]))
    else if (roll < 0.96) await this.#wait()
    else await this.#look(account)
  }

  async #enter(account: string): Promise<void> {
    const key = this.#pick(['k1', 'k1', 'k2', 'k3'])
    const model = this.#model(account)
    const known = Math.max(1, model.keys.get(key)!.revision)
    const revision = known + this.#pick([0, 0, 0, 0, 0, 0, 0, 0, 1, -1])
    const running = model.calls.filter((call) => call.key === key)
    const again = running.length > 0 && this.#chance(0.03)
    const request = again ? this.#pick(running).request : `req_${this.#step}`
    const accountRevision = Math.max(0, model.own.revision + this.#pick([0, 0, 0, 0, 0, 0, 1, -1]))
    const team = again
      ? running.find((call) => call.request === request)!.team
      : this.#pick([undefined, 'one', 'one'])
    const ofTeam = Math.max(0, model.of(TEAM).revision + this.#pick([0, 0, 0, 0, 0, 0, 1, -1]))
    const entry: AdmissionRequest = {
      request,
      account,
      key,
      revision,
      accountRevision,
      ...(team !== undefined && { team, teamRevision: ofTeam }),
      freeTier: FREE_TIER,
    }
    const before = this.#chance(0.1) ? await this.#state(account) : undefined
    const entered = await this.#ask(entry)
    // Neither a repetition nor a refusal changes anything.
    if (before && (again || !entered.ok))
      this.#same('state', account, await this.#state(account), before)
    if (entered.ok || !('retryAfterMs' in entered) || entered.why === 'concurrency') return
    if (this.#chance(0.3)) await this.#retry(entry, entered.retryAfterMs)
  }

  /** The rate admits after Retry-After, and not a millisecond earlier. */
  async #retry(entry: AdmissionRequest, retryAfterMs: number): Promise<void> {
    await this.#clock.advance(retryAfterMs - 1)
    const early = await this.#ask({ ...entry, request: `${entry.request}_early` })
    if (!early.ok && early.why === 'expired') return
    this.#claim(rateRefuses(early), 'admitted before Retry-After')
    await this.#clock.advance(1)
    const late = await this.#ask({ ...entry, request: `${entry.request}_late` })
    this.#claim(!rateRefuses(late), 'refused after Retry-After')
  }

  async #ask(entry: AdmissionRequest): Promise<Admission> {
    const { account, key, team, request } = entry
    const model = this.#model(account)
    const again = model.calls.some((call) => call.request === request)
    const expected = model.enter(entry, this.#clock.now())
    const entered = await this.#ledger.enter(entry)
    // For a repeated call, an engine may answer with another time.
    const blank = again && entered.ok ? { at: 0, lease: 0 } : {}
    this.#same('enter', entry, { ...entered, ...blank }, { ...expected, ...blank })
    if (!entered.ok || again) return entered
    const { at } = entered
    this.#calls.push({ account, key, team, request, at, day: dayOf(at), state: 'entered' })
    for (const part of [key, ...(team === undefined ? [] : [teamKey(team)]), ACCOUNT]) {
      const { entries, limits } = model.of(part)
      const { rpm = Infinity, concurrency = Infinity } = limits ?? {}
      this.#claim(recent(entries, at).length <= rpm, `more admissions in a minute than ${rpm}`)
      this.#claim(model.running(part) <= concurrency, `more running calls than ${concurrency}`)
    }
    return entered
  }

  async #hold(): Promise<void> {
    const call = this.#some((call) =>
      this.#runs(call) ? call.state === 'entered' || this.#chance(0.1) : this.#chance(0.01),
    )
    if (!call) return
    const { account, key, team, request, at } = call
    const model = this.#model(account)
    const before = this.#chance(0.1) ? await this.#state(account) : undefined
    const first = !model.calls.some((known) => known.request === request && known.held)
    const { spendable } = model
    const left = spendable > model.held ? spendable - model.held : 1n
    const all = spendable > 0n ? spendable : 1n
    const amount = bounded(this.#pick([0n, this.#amount(), left, all]))
    const ceiling = bounded(amount + this.#pick([0n, this.#amount(), left]))
    const exposure = this.#pick([
      NO_EXPOSURE,
      { share: 0.25, most: parsePico('10') },
      { share: this.#random(), most: this.#amount() },
    ])
    const figures = holdOf(amount, ceiling, exposure)
    const some = Math.floor(this.#random() * 60)
    const hold: HoldRequest = {
      request,
      account,
      key,
      team,
      at,
      ...figures,
      free: this.#chance(0.5),
      model: this.#pick(MODELS),
      tokens: { expected: some, ceiling: some + Math.floor(this.#random() * 60) },
      zone: model.zone,
      tierPerDay: 8,
    }
    const alone = { account: model.ceilings() === 0n, key: model.ceilings(key) === 0n }
    const expected = model.hold(hold, this.#clock.now())
    const held = await this.#ledger.hold(hold)
    // A repeated answer may lack the rate, and limits that are gone.
    const same = (one: HoldResult) =>
      one.ok && !first ? { ...one, tokens: undefined, counted: undefined } : one
    this.#same('hold', hold, same(held), same(expected))
    if (held.ok) {
      Object.assign(call, { day: held.day, counted: held.counted, state: 'held' })
      // A call without a ceiling is admitted whatever runs: its cost is beyond every bound.
      if (first && held.billed && ceiling > 0n) this.#bind(hold, held.day, alone)
      return
    }
    if (before) this.#same('state', account, await this.#state(account), before)
    if (held.why === 'credits') {
      const { balance } = await this.#ledger.account(account)
      const { credit = 0n } = model.own.limits ?? {}
      this.#claim(balance + credit <= 0n, 'refused for credits with money left')
    }
    call.state = 'over'
    if (held.why === 'held' || this.#chance(0.8)) await this.#end(call)
  }

  async #settle(account: string): Promise<void> {
    const call = this.#chance(0.02)
      ? this.#stranger(account)
      : this.#some((call) => call.state === 'held' || this.#chance(0.02))
    if (!call) return
    const { state: _, at: __, counted: ___, ...what } = call
    // The day of the hold is charged, even if the caller sends another.
    if (this.#runs(call) && call.state === 'held') what.day = this.#pick([what.day, '20200101'])
    const { spendable: left } = this.#model(call.account)
    const some = this.#pick([0n, this.#amount(), this.#amount()])
    const cost = bounded(left > 0n && this.#chance(0.05) ? left : some)
    const settlement: Settlement = { ...what, cost, usage: this.#usage(call) }
    const expected = this.#model(call.account).settle(settlement)
    this.#same('settle', settlement, await this.#ledger.settle(settlement), expected)
    if (this.#chance(0.2)) {
      const again = await this.#ledger.settle(settlement)
      this.#same('settle again', settlement, again, { ...expected, state: 'duplicate' })
    }
    this.#checkOverrun(call, expected, cost)
  }

  /**
   * Waives a settlement while it is on its way. It is booked with 0; if the engine has booked it by then, that stands and is
   * counted.
   */
  async #waive(): Promise<void> {
    const call = this.#some((call) => call.state === 'held' && this.#runs(call))
    if (!call) return
    const { state: _, at: __, counted: ___, ...what } = call
    const { account, key, team, request } = call
    const settlement: Settlement = { ...what, cost: this.#amount(), usage: this.#usage(call) }
    const { conflicts } = this.#ledger
    this.#note('settle and waive', settlement)
    const [settled, waived] = await Promise.all([
      this.#ledger.settle(settlement),
      this.#ledger.waive({ account, key, team, request }),
    ])
    while (this.#ledger.health().outbox > 0) await new Promise((resolve) => setImmediate(resolve))
    const rows = (await collect(this.#ledger.usage(account))).filter(
      (row) => row.kind === 'usage' && row.request === request,
    )
    const [{ cost, usage }] = rows as [LedgerRow]
    const stands = cost > 0n
    this.#same('rows', request, [rows.length, waived.cost], [1, 0n])
    this.#same('waived row', request, cost, stands ? settlement.cost : 0n)
    const { outcome } = settlement.usage
    this.#same('outcome', request, usage?.outcome, stands ? outcome : 'failed')
    this.#same('conflicts', request, this.#ledger.conflicts - conflicts, stands ? 1 : 0)
    // A cost that was confirmed is the cost that is booked.
    if (settled.state !== 'deferred') this.#same('confirmed', request, settled.cost, cost)
    const again = await this.#ledger.waive({ account, key, team, request })
    this.#same('waive again', request, again.state, 'duplicate')
    const booked = { ...settlement, cost, usage: usage! }
    this.#checkOverrun(call, this.#model(account).settle(booked), cost)
  }

  #usage({ at, team, counted }: WalkCall): UsageRow {
    const tokens = () => Math.floor(this.#random() * 60)
    const usage = { promptTokens: tokens(), completionTokens: tokens() }
    const lines = [
      { source: 'model', usage },
      { source: 'guard', usage: { promptTokens: 5 } },
    ]
    return {
      at,
      endpoint: 'chat',
      model: 'vendor/model',
      outcome: this.#chance(0.2) ? 'failed' : 'completed',
      lines,
      ...(team !== undefined && { team }),
      ...(counted !== undefined && { counted }),
    }
  }

  async #reset(account: string): Promise<void> {
    const model = this.#model(account)
    const owner = this.#pick(['k1', 'k2', TEAM, ACCOUNT])
    const known = model.of(owner).limits?.counted ?? []
    const limit = known.length > 0 && this.#chance(0.95) ? this.#pick(known).id : 'cap.week'
    const reference = `reset_${Math.floor(this.#random() * 30)}`
    const reset: Reset = { account, owner, limit, reference, reason: 'a try', zone: model.zone }
    this.#capBounds.delete(`${account} ${owner}`)
    const expected = model.reset(reset, this.#clock.now())
    const done = await this.#ledger.reset(reset).catch((error: Error) => error.constructor.name)
    const names = { none: 'NotFound', taken: 'ReferenceTaken' }
    this.#same('reset', reset, done, typeof expected === 'string' ? names[expected] : expected)
  }

  #checkOverrun(call: WalkCall, expected: Settled, cost: Pico): void {
    call.state = 'over'
    const bound = this.#bounds.get(call.account)!
    if (expected.state === 'charged') exceed(bound, call.request, cost)
    const { credit = 0n } = this.#model(call.account).own.limits ?? {}
    this.#claim(
      -expected.balance - credit <= bound.most,
      `balance overrun by more than ${bound.most}`,
    )
    for (const part of [call.key, ACCOUNT]) {
      const ofCap = this.#capBounds.get(`${call.account} ${part}`)
      if (!ofCap) continue
      const { cap, day } = ofCap
      if (expected.state === 'charged') exceed(ofCap, call.request, cost)
      const spent = this.#model(call.account).spend(part, cap.scope, day)
      this.#claim(spent - cap.amount <= ofCap.most, `cap overrun by more than ${ofCap.most}`)
    }
  }

  /** Starts the bounds of the overrun anew, with the call that was just admitted. */
  #bind(hold: HoldRequest, day: string, alone: { account: boolean; key: boolean }): void {
    const { account, key, request, exposure } = hold
    const model = this.#model(account)
    const risk = (of: Pico) => {
      const part = BigInt(Math.floor(exposure.share * Number(of)))
      return part < exposure.most ? part : exposure.most
    }
    const ceilings = new Map(model.calls.map((call) => [call.request, call.held?.ceiling ?? 0n]))
    const paidIn = -sum(model.rows.filter(({ kind }) => kind === 'top-up'))
    const bind = (lone: boolean, of: Pico): Bound =>
      // A lone call may cost what it likes; calls beside others are bound by their ceilings.
      lone
        ? { most: 0n, ceilings: new Map([...ceilings, [request, 0n]]) }
        : { most: risk(of), ceilings: new Map(ceilings) }
    this.#bounds.set(account, bind(alone.account, paidIn))
    for (const [of, lone] of [
      [key, alone.key],
      [ACCOUNT, alone.account],
    ] as const) {
      const cap = capOf(model.of(of).limits)
      // A reset lets through again what was spent.
      if (cap && model.of(of).resets.size === 0)
        this.#capBounds.set(`${account} ${of}`, { ...bind(lone, cap.amount), cap, day })
    }
  }

  async #raise(): Promise<void> {
    const call = this.#some(({ state }) => state === 'held' || this.#chance(0.05))
    if (!call) return
    const { account, key, team, request } = call
    const model = this.#model(account)
    const held = model.calls.find((known) => known.request === request)?.held
    const { amount = 0n, ceiling = 0n } = held ?? {}
    const from = this.#chance(0.9) ? amount : this.#amount()
    const more = from + this.#amount()
    const to = this.#pick([ceiling, more < ceiling ? more : ceiling, more])
    const raise: Raise = { account, key, team, request, from, to }
    this.#note('raise', raise)
    model.raise(raise)
    await this.#ledger.raise(raise)
    if (this.#chance(0.1)) await this.#ledger.raise(raise)
  }

  /** A call that the ledger has never admitted. */
  #stranger(account: string): WalkCall {
    const at = this.#clock.now()
    const request = `req_stranger_${this.#step}`
    return { account, key: 'k1', request, at, day: dayOf(at), state: 'over' }
  }

  async #leave(): Promise<void> {
    const call = this.#some((call) => call.state !== 'held' || this.#chance(0.2))
    if (call) await this.#end(call)
  }

  async #end(call: WalkCall): Promise<void> {
    const { account, key, team, request } = call
    const slot = call.state === 'entered' && this.#chance(0.5) ? { slot: call.at } : {}
    this.#note('leave', { ...call, ...slot })
    this.#model(account).leave(request, slot.slot)
    await this.#ledger.leave({ account, key, team, request, ...slot })
    call.state = 'over'
  }

  async #renew(): Promise<void> {
    const calls = this.#calls.slice(-25).filter(() => this.#chance(0.3))
    this.#note('renew', calls)
    for (const { account, request } of calls) {
      const call = this.#model(account).calls.find((call) => call.request === request)
      if (call) call.expiresAt = this.#clock.now() + LEASE_MS
    }
    await this.#ledger.renew(
      calls.map(({ account, key, team, request }) => ({ account, key, team, request })),
    )
  }

  async #topUp(account: string): Promise<void> {
    const model = this.#model(account)
    // Some accounts stay unpaid for a while.
    if (!model.paid && this.#chance(0.85)) return
    const amount = bounded(this.#amount() + (this.#chance(0.1) ? parsePico('20000') : 0n))
    const topUp = {
      kind: 'top-up' as const,
      account,
      amount,
      reference: `invoice_${Math.floor(this.#random() * 40)}`,
    }
    const expected = model.book(topUp)
    this.#same('topUp', topUp, await this.#ledger.book(topUp), expected)
    this.#claim((await this.#ledger.account(account)).paid, 'a top-up did not end the free tier')
  }

  async #adjust(account: string): Promise<void> {
    const amount = this.#amount() * this.#pick([1n, -1n])
    const reference = `ticket_${Math.floor(this.#random() * 10)}`
    const adjustment = { kind: 'adjust' as const, account, amount, reference, note: 'a correction' }
    const expected = this.#model(account).book(adjustment)
    this.#same('adjust', adjustment, await this.#ledger.book(adjustment), expected)
    // What calls that run may cost has been admitted by the balance before.
    if (amount < 0n && typeof expected === 'object' && expected.state === 'charged') {
      this.#bounds.get(account)!.most -= amount
    }
  }

  /** Promotional and expiring credit, its end, corrections that take from it, and refunds. */
  async #bookOther(account: string): Promise<void> {
    const model = this.#model(account)
    const kind = this.#pick(['promo', 'promo', 'top-up', 'expire', 'adjust', 'refund'] as const)
    if (kind === 'top-up' && !model.paid) return
    const name = this.#pick(['promo:p1', ...model.blocks.map((block) => block.name)])
    const ends = this.#clock.now() + this.#pick([1, 2, 3]) * DAY_MS
    const expires = kind === 'top-up' || (kind === 'promo' && this.#chance(0.6))
    const booking: Booking = {
      account,
      kind,
      amount: bounded(this.#amount() + 1n) * (kind === 'adjust' ? -1n : 1n),
      reference: kind === 'expire' ? name : `p${Math.floor(this.#random() * 60)}`,
      ...(kind === 'adjust' && { takesFrom: name }),
      ...(expires && { expiresAt: ends - (ends % DAY_MS) }),
      ...(kind === 'promo' && this.#chance(0.1) && { unlock: true }),
    }
    const expected = model.book(booking)
    const booked = await this.#ledger.book(booking).catch((error: unknown) => {
      if (error instanceof NotFound) return 'no block'
      throw error
    })
    this.#same('book', booking, booked, expected)
    if (typeof expected === 'object' && expected.state === 'charged' && expected.cost > 0n) {
      this.#bounds.get(account)!.most += expected.cost
    }
  }

  /** Some limits of different names, in any order. */
  #counted(): CountedLimit[] {
    const names = COUNTED.filter(() => this.#chance(this.#pick([0.05, 0.25])))
    return names
      .toSorted(() => this.#random() - 0.5)
      .map((id) => {
        const { unit } = kindOf(id)
        const some = (most: number) => BigInt(1 + Math.floor(this.#random() * most))
        const value =
          unit === 'usd'
            ? this.#amount() * 5n
            : some({ tokens: 400, requests: 6, concurrent: 3 }[unit])
        const raised = this.#chance(0.1) && {
          raised: {
            value: value * 2n,
            until: this.#clock.now() + Math.floor(this.#random() * DAY_MS),
          },
        }
        const models = PATTERNS[id]
        return { id, value, ...(models && { models }), ...raised }
      })
  }

  async #limit(account: string, id: string): Promise<void> {
    const expiresAt = this.#clock.now() + Math.floor(this.#random() * 200_000)
    const isKey = id !== ACCOUNT && id !== TEAM
    const counted = this.#counted()
    const limits: KeyLimits = {
      disabled: this.#chance(isKey ? 0.1 : 0.04),
      ...((isKey || this.#chance(0.5)) && {
        rpm: 1 + Math.floor(this.#random() * 12),
        concurrency: 1 + Math.floor(this.#random() * 6),
      }),
      ...(isKey && this.#chance(0.15) ? { expiresAt } : {}),
      ...(counted.length > 0 && { counted }),
      ...(id === ACCOUNT && this.#chance(0.5) && { credit: this.#amount() }),
    }
    const key = this.#model(account).of(id)
    const revision = Math.max(1, key.revision + this.#pick([-1, 0, 1, 2, 2, 2]))
    this.#note('limits', { account, id, limits, revision })
    const { credit: before = 0n } = this.#model(account).own.limits ?? {}
    this.#model(account).limit(id, limits, revision)
    const { credit = 0n } = this.#model(account).own.limits ?? {}
    // Calls that run were admitted under a higher credit limit, too.
    if (credit < before) this.#bounds.get(account)!.most += before - credit
    // Calls that run were admitted under another cap.
    this.#capBounds.delete(`${account} ${id}`)
    await this.#ledger.limits(account, id, limits, revision)
  }

  async #wait(): Promise<void> {
    const now = this.#clock.now()
    const roll = this.#random()
    let ms = Math.floor(this.#random() * 1500)
    if (roll > 0.7) ms = Math.floor(this.#random() * 20_000)
    if (roll > 0.9) ms = Math.floor(this.#random() * 90_000)
    const calls = [...this.#models.values()].flatMap((model) => model.calls)
    const early = this.#pick([0, 1])
    if (roll > 0.93 && calls.length > 0) ms = this.#pick(calls).expiresAt - now - early
    if (roll > 0.96) ms = this.#pick([5, 24]) * 3_600_000
    if (roll > 0.97) ms = nextDay(now) - now - early
    if (roll > 0.995) ms = nextMonth(now) - now - early
    this.#note('wait', ms)
    await this.#clock.advance(Math.max(0, ms))
  }

  /** The engine's sums equal those of the model. */
  async #look(account: string): Promise<void> {
    const model = this.#model(account)
    const { balance, held, paid } = model
    const now = this.#clock.now()
    const day = model.day(now)
    const keys = [...model.keys.keys(), ACCOUNT].map((key) => ({
      lifetime: model.spend(key, 'lifetime', day),
      day: model.spend(key, 'day', day),
      month: model.spend(key, 'month', day),
      inFlight: model.running(key),
    }))
    const counters = [...model.keys.keys(), ACCOUNT].map((key) => model.views(key, now))
    const expected = { account: { balance, available: balance - held, paid }, keys, counters }
    this.#same('look', account, await this.#state(account), expected)
    this.#same('credit', account, await this.#ledger.credit(account), model.credit())
    for (const block of model.blocks) {
      const { name, amount, used, expired, cut, left } = block
      this.#same('block', name, used + expired + cut + left, amount)
    }
  }

  /** Compares the rows with those of the model and with the sums, and runs the engine's own verification. */
  async #audit(): Promise<void> {
    await this.#sweep()
    for (const [account, model] of this.#models) {
      const rows = await collect(this.#ledger.usage(account))
      this.#claim(
        rows.every(({ seq }, i) => i === 0 || seq < rows[i - 1]!.seq),
        'rows out of order',
      )
      this.#same('money rows', account, plain(rows.toReversed()), plain(model.rows))
      this.#same('orphans', account, orphans(rows), orphans(model.rows))
      const { balance } = await this.#ledger.account(account)
      this.#same('balance of the rows', account, balance, -sum(rows))
      this.#auditParts(account, rows.toReversed())
      const from = Math.floor(this.#random() * rows.length)
      const page = await collect(this.#ledger.usage(account, rows[from]?.seq))
      this.#same('page', account, page, rows.slice(from + 1))
      this.#same('verify', account, await this.#ledger.verify(account), [])
    }
  }

  /** What promotional credit has paid of each call: no more than its cost, and in all what was used of its blocks. */
  #auditParts(account: string, rows: readonly LedgerRow[]): void {
    let [credit, promotional] = [NO_CREDIT, 0n]
    for (const row of rows) {
      const part = row.kind === 'usage' ? promotionalPart(credit, row.cost) : 0n
      this.#claim(part >= 0n && (part === 0n || part <= row.cost), 'a part above the cost')
      promotional += part
      credit = creditAfter(credit, row)
    }
    const given = this.#model(account).blocks.filter(({ name }) => name.startsWith('promo:'))
    const used = given.reduce((sum, block) => sum + block.used, 0n)
    this.#same('parts of rows', account, promotional, used)
  }

  /** Has the engine release expired leases, which it does at the next admission at the latest. */
  async #sweep(): Promise<void> {
    for (const [account, { calls }] of this.#models) {
      if (!calls.some((call) => call.expiresAt <= this.#clock.now())) continue
      await this.#ask({ request: 'req_0', account, key: 'k1', revision: 0, freeTier: FREE_TIER })
    }
  }

  #model(account: string): Model {
    return this.#models.get(account)!
  }

  async #state(account: string): Promise<unknown> {
    const owners = ['k1', 'k2', 'k3', TEAM, ACCOUNT]
    const { zone } = this.#model(account)
    const keys = await Promise.all(owners.map((key) => this.#ledger.key(account, key, zone)))
    const counters = await Promise.all(
      owners.map((owner) => this.#ledger.counters(account, owner, zone)),
    )
    return { account: await this.#ledger.account(account), keys, counters }
  }

  #runs({ account, request }: WalkCall): boolean {
    return this.#model(account).calls.some((call) => call.request === request)
  }

  #some(wanted: (call: WalkCall) => boolean): WalkCall | undefined {
    const calls = this.#calls.slice(-25).filter(wanted)
    return calls.length === 0 ? undefined : this.#pick(calls)
  }

  #pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.#random() * items.length)]!
  }

  #chance(probability: number): boolean {
    return this.#random() < probability
  }

  /**
   * An amount from 1 pico-dollar to 100 USD, or to the most of one booking, evenly distributed over the orders of
   * magnitude.
   */
  #amount(): Pico {
    return bounded(BigInt(Math.floor(10 ** (this.#random() * (this.#wide ? 19 : 14)))))
  }

  #same(what: string, input: unknown, actual: unknown, expected: unknown): void {
    this.#note(what, input)
    if (isDeepStrictEqual(actual, expected)) return
    const show = (one: unknown) => inspect(one, { depth: 6 })
    this.#fail(`${what} answered ${show(actual)}\nexpected ${show(expected)}`)
  }

  #claim(holds: boolean, broken: string): void {
    if (!holds) this.#fail(broken)
  }

  #note(what: string, input: unknown): void {
    this.#trail.push([this.#step, this.#clock.now(), what, input])
    if (this.#trail.length > 40) this.#trail.shift()
  }

  #fail(what: string): never {
    const trail = this.#trail.map((line) => inspect(line, { breakLength: Infinity })).join('\n')
    throw new Error(`seed ${this.#seed}, step ${this.#step}: ${what}\nlast calls:\n${trail}`)
  }
}

function rateRefuses(entered: Admission): boolean {
  return !entered.ok && entered.why === 'rpm'
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

function recent(entries: readonly number[], now: number): number[] {
  return entries.filter((at) => now - at < MINUTE_MS)
}

function rateOf(entries: readonly number[], limit: number, now: number): RateStatus {
  const minute = recent(entries, now)
  const resetMs = minute.length === 0 ? 0 : minute.at(-1)! + MINUTE_MS - now
  return { limit, remaining: Math.max(0, limit - minute.length), resetMs }
}

function waitOf(entries: readonly number[], limit: number, now: number): number {
  const nth = recent(entries, now).at(-limit)
  return nth === undefined ? 0 : nth + MINUTE_MS - now
}

function sum(rows: readonly { readonly cost: Pico }[]): Pico {
  return rows.reduce((total, row) => total + row.cost, 0n)
}

/** Rows without orphans, whose place among the others depends on the engine. */
function plain(rows: readonly (LedgerRow | ModelRow)[]): unknown[] {
  const booked = rows.filter((row) => row.kind !== 'orphan')
  return booked.map(({ kind, request, key, cost }) => ({ kind, request, key, cost }))
}

function orphans(rows: readonly (LedgerRow | ModelRow)[]): string[] {
  const orphaned = rows.filter((row) => row.kind === 'orphan')
  return orphaned.map((row) => row.request).sort()
}

function inWindow(rowDay: string | undefined, scope: CapScope, day: string): boolean {
  const digits = { lifetime: 0, month: 6, day: 8 }[scope]
  return rowDay?.slice(0, digits) === day.slice(0, digits)
}

function nextDay(time: number): number {
  return (Math.floor(time / DAY_MS) + 1) * DAY_MS
}

function nextMonth(time: number): number {
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

/** Marsaglia's xorshift with 32 bits, a seeded random generator. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    state >>>= 0
    return state / 2 ** 32
  }
}
