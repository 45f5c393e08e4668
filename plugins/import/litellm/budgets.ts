/** Budgets as spend caps. */
import { readDecimal, roundDown, writeDecimal } from '../shared/decimal.ts'
import { isUnset, textOf } from '../shared/values.ts'

/** The cap for a budget, or why there is none, and what else is to be said. */
export type Budget = { readonly remark?: string } & (
  | { readonly cap: { readonly usd: string; readonly scope: string } }
  | { readonly column: string; readonly problem: string }
  | { readonly none: true }
)

/** Calendar windows by durations that are as long. */
const SCOPES: Readonly<Record<string, string>> = {
  '1d': 'day',
  '24h': 'day',
  '30d': 'month',
  '1mo': 'month',
}
/** Fractional digits of amounts. */
const DIGITS = 12
/** The most that a cap can be, USD. */
const HIGHEST = readDecimal('4000000')!

/**
 * Reads a budget. One for all time becomes what is left of it, because the ledger begins at zero and has real charges only.
 * @param given `max_budget`, `budget_duration` and `spend`, as they are
 */
export function readBudget(given: {
  readonly most: unknown
  readonly duration: unknown
  readonly spend: unknown
}): Budget {
  if (isUnset(given.most)) return { none: true }
  const most = readDecimal(textOf(given.most) ?? '')
  if (most === undefined) return { column: 'max_budget', problem: 'not an amount of USD' }
  const duration = isUnset(given.duration) ? undefined : textOf(given.duration)
  const scope = duration === undefined ? 'lifetime' : SCOPES[duration]
  if (scope === undefined) {
    const problem = 'caps here are for a day, a month or a lifetime'
    return { column: 'budget_duration', problem }
  }
  const spent = duration === undefined ? (readDecimal(textOf(given.spend) ?? '0') ?? most) : 0n
  const left = roundDown(most > spent ? most - spent : 0n, DIGITS)
  if (left === 0n) return { column: 'max_budget', problem: 'nothing is left of it' }
  if (left > HIGHEST) return { column: 'max_budget', problem: 'more than a cap can be here' }
  const cap = { usd: writeDecimal(left, DIGITS)!, scope }
  if (scope === 'lifetime') return { cap }
  return { cap, remark: `a cap by the ${scope} in UTC; the running one starts anew` }
}
