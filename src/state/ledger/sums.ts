/** Sums that `verify` compares: as they are stored, and as rows and running calls add up. */
import type { Pico } from '../../money/money.ts'
import {
  ACCOUNT,
  teamKey,
  TIER,
  type Discrepancy,
  type LedgerRow,
  type LimitOwner,
  type UsageRow,
} from './ledger.ts'
import { countersIn, countsOf, kindOf } from './limit-list.ts'
import { DAY_MS, dayOf, windowOf } from './windows.ts'

/** What a row, or the sum of several of a kind, key and day, adds to the sums of its account. */
interface Costing {
  readonly kind: LedgerRow['kind']
  readonly key?: string | null | undefined
  readonly team?: string | null | undefined
  readonly day?: string | null | undefined
  readonly cost: Pico
}

const SCOPES = ['lifetime', 'day', 'month'] as const

/** Name of the spend of a key, or of {@link ACCOUNT}, in a window. */
export function spendName(key: string, window: string): string {
  const owner = key.startsWith('@team:') ? `team ${key.slice(6)}` : `key ${key}`
  return `spend of ${key === ACCOUNT ? 'the account' : owner}, ${window}`
}

/** Days, and months, before the present one whose spend is kept for calls that are booked late. */
const KEPT_BEFORE = 3

/** The first windows of spend that are kept: a day `YYYYMMDD`, a month `YYYYMM`. Reports have all of them. @param now ms since epoch */
export function firstKept(now: number): readonly [day: string, month: string] {
  const date = new Date(now)
  const month = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - KEPT_BEFORE)
  return [dayOf(now - KEPT_BEFORE * DAY_MS), windowOf('month', dayOf(month))]
}

/** The sums without spend of windows that are not kept. @param sums the sums by names of {@link spendName}, which end with the window */
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

/** Adds the cost of a row. @param row the row with the charged `day`, if there is one */
export function addCost(sums: Map<string, Pico>, { kind, key, team, day, cost }: Costing): void {
  addTo(sums, 'balance', -cost)
  if (kind === 'top-up') addTo(sums, 'paid in', -cost)
  if (key && day) addSpend(sums, ownersOf(key, team), day, cost)
}

/** The ids under which the spend of a call is kept. */
export function ownersOf(key: string, team?: string | null): readonly string[] {
  return team ? [key, teamKey(team), ACCOUNT] : [key, ACCOUNT]
}

/** Adds a running call. @param held its money, if it holds any */
export function addRunning(
  sums: Map<string, Pico>,
  { key, team }: { readonly key: string; readonly team?: string | undefined },
  held?: { readonly amount: Pico; readonly ceiling: Pico; readonly day: string },
): void {
  const own = team ? [key, teamKey(team)] : [key]
  for (const id of own) addTo(sums, `calls of key ${id}`, 1n)
  if (!held) return
  addTo(sums, 'held', held.amount)
  addTo(sums, 'ceilings', held.ceiling)
  for (const id of own) addTo(sums, `ceilings of key ${id}`, held.ceiling)
  addSpend(sums, [...own, ACCOUNT], held.day, held.amount, 'held, ')
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

/** Adds an amount to the three windows of a day, for each owner. @param prefix the prefix of the sums' names */
function addSpend(
  sums: Map<string, Pico>,
  owners: readonly string[],
  day: string,
  amount: Pico,
  prefix = '',
): void {
  for (const id of owners) {
    for (const scope of SCOPES) addTo(sums, prefix + spendName(id, windowOf(scope, day)), amount)
  }
}

/** Name of what is counted for a limit in a window. @param owner a key id */
export function counterName(owner: string, id: string, window: string): string {
  return `${id} of ${owner} in ${window}, counted`
}

/** The key id of the owner of a counter in which a call counts. */
export function counterOwner(
  of: LimitOwner,
  { key, team }: { readonly key: string; readonly team?: string | null | undefined },
): string {
  if (of === 'tier') return TIER
  if (of === 'account') return ACCOUNT
  return of === 'team' ? teamKey(team ?? '') : key
}

export interface StoredCounter {
  readonly owner: string
  readonly id: string
  readonly window: string
  readonly settled: bigint
  /** The last row before the limit was set. */
  readonly since: number
}

/** Rows of an account from which on a later verification begins where they were verified. */
const REMEMBERED_ROWS = 1000

/** The sums of the rows of an account up to one, with which everything stored was right: a later verification goes on from there. */
export interface Verified {
  readonly seq: number
  /** The number of these rows. */
  readonly rows: number
  readonly sums: ReadonlyMap<string, Pico>
  readonly counters: CounterSums['all']
}

/** The result of a verification of one account. */
export interface Verification {
  readonly differences: readonly Discrepancy[]
  /** What a later verification goes on from. An account of few rows, and one with differences, has none. */
  readonly verified?: Verified
}

export function verification(
  differences: readonly Discrepancy[],
  verified: Verified,
): Verification {
  const isKept = differences.length === 0 && verified.rows >= REMEMBERED_ROWS
  return isKept ? { differences, verified } : { differences }
}

/** Counters, and what the rows say that are named in them. Windows of which rows may be folded are left out. */
export class CounterSums {
  readonly #counters: ReadonlyMap<string, StoredCounter>
  readonly #sums = new Map<string, bigint>()

  /**
   * @param folded the last day of which rows are folded, `YYYYMMDD`; empty where none are
   * @param before what the rows say that are before those which are added. A counter that it does not have began later
   */
  constructor(stored: readonly StoredCounter[], folded: string, before?: CounterSums['all']) {
    const whole = stored.filter(({ window }) => folded === '' || firstDay(window) > folded)
    this.#counters = new Map(
      whole.map((one) => [counterName(one.owner, one.id, one.window), one] as const),
    )
    for (const [name, { since }] of this.#counters) {
      const earlier = before?.get(name)
      if (earlier?.since === since) this.#sums.set(name, earlier.sum)
    }
  }

  /** Every counter that is not left out, as plain values. */
  get all(): ReadonlyMap<string, { readonly since: number; readonly sum: bigint }> {
    const counters = [...this.#counters]
    return new Map(
      counters.map(([name, { since }]) => [name, { since, sum: this.#sums.get(name) ?? 0n }]),
    )
  }

  add(row: {
    readonly seq: number
    readonly key: string
    readonly team?: string | null | undefined
    readonly cost: Pico
    readonly usage: UsageRow
  }): void {
    if (this.#counters.size === 0 || row.usage.counted === undefined) return
    const counts = countsOf(row.cost, row.usage)
    for (const { of, id, window } of countersIn(row.usage.counted)) {
      const name = counterName(counterOwner(of, row), id, window)
      const counter = this.#counters.get(name)
      if (counter && row.seq > counter.since) addTo(this.#sums, name, counts[kindOf(id).unit])
    }
  }

  /** It is undefined for a counter that is left out. @param name {@link counterName} */
  sumOf(name: string): bigint | undefined {
    return this.#counters.has(name) ? (this.#sums.get(name) ?? 0n) : undefined
  }

  differences(account: string): Discrepancy[] {
    const stored = [...this.#counters].map(([name, { settled }]) => [name, settled] as const)
    return compareSums(account, stored, this.#sums)
  }
}

/** Rows have the date of their account's zone, which is behind UTC by so much at most. */
const MOST_BEHIND_MS = 12 * 60 * 60 * 1000

/** The first date that a row of a window may have, `YYYYMMDD`; empty for one without a beginning. */
function firstDay(window: string): string {
  if (window === '-') return ''
  if (window.length > 8) return dayOf(Number(window) - MOST_BEHIND_MS)
  return window.length === 6 ? `${window}01` : window
}
