/** Sums of an account by name, as `verify` compares them: those that are stored with those of its rows and running calls. */
import type { Pico } from '../../money/money.ts'
import { windowOf } from './clock.ts'
import {
  ACCOUNT,
  type Discrepancy,
  type KeySpend,
  type LedgerRow,
  type RatesUsed,
} from './ledger.ts'

/** The spend of an unknown key. */
export const NOTHING_SPENT: KeySpend = { lifetime: 0n, day: 0n, month: 0n, inFlight: 0 }

/** What an unknown key has used of its rates. */
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

/** The name of the spend of a key, or of {@link ACCOUNT}, in a window. */
export function spendName(key: string, window: string): string {
  return `spend of ${key === ACCOUNT ? 'the account' : `key ${key}`}, ${window}`
}

/** Adds an amount to one of several sums, by its name. */
export function addTo(sums: Map<string, Pico>, name: string, amount: Pico): void {
  sums.set(name, (sums.get(name) ?? 0n) + amount)
}

/** Adds the cost of a row. @param row `day` that was charged, if one was */
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

/** Adds an amount to the three windows of a day, of a key and of its account. @param prefix of the sums' names */
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
