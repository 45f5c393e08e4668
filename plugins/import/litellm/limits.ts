/** Budgets and rates of LiteLLM as limits. */
import { readDecimal, roundDown, writeDecimal } from '../shared/decimal.ts'
import { isUnset, textOf } from '../shared/values.ts'

/** A limit of the admin API. */
export interface ImportedLimit {
  readonly unit: 'usd' | 'requests' | 'tokens' | 'concurrent'
  readonly window?: string
  readonly value: number | string
  readonly models?: readonly string[]
}

/** Settings of the admin API: the simple form where that says all, else a list. Of two equal kinds the lower limit is taken. */
export function settingsOf(limits: readonly ImportedLimit[]): Record<string, unknown> {
  const lowest = new Map<string, ImportedLimit>()
  for (const limit of limits) {
    const name = [limit.unit, limit.window, limit.models?.toSorted()].join(' ')
    const other = lowest.get(name)
    if (!other || isLower(limit, other)) lowest.set(name, limit)
  }
  const list = [...lowest.values()]
  const caps = list.filter(({ unit, models }) => unit === 'usd' && !models)
  const isSimple = list.every(
    ({ unit, window, models }) =>
      !models &&
      (unit === 'concurrent' ||
        (unit === 'requests' && window === 'minute') ||
        (unit === 'usd' && caps.length === 1 && ['day', 'month', 'lifetime'].includes(window!))),
  )
  if (!isSimple) return { limits: list }
  const settings: Record<string, unknown> = {}
  for (const { unit, window, value } of list) {
    if (unit === 'requests') settings.rpm_limit = value
    if (unit === 'concurrent') settings.concurrency_limit = value
    if (unit === 'usd') settings.spend_cap = { usd: value, scope: window }
  }
  return settings
}

function isLower({ value }: ImportedLimit, other: ImportedLimit): boolean {
  return readDecimal(String(value))! < readDecimal(String(other.value))!
}

/** The cap for a budget, or why there is none, and what else is to be said. */
type Budget = { readonly remark?: string } & (
  | { readonly cap: ImportedLimit }
  | { readonly column: string; readonly problem: string }
  | { readonly none: true }
)

/** Windows by durations that are as long. */
const WINDOWS: Readonly<Record<string, string>> = {
  '5h': '5h',
  '1d': 'day',
  '24h': 'day',
  '7d': 'week',
  '1w': 'week',
  '30d': 'month',
  '1mo': 'month',
}
/** Fractional digits of amounts. */
const DIGITS = 12

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
  const window = duration === undefined ? 'lifetime' : WINDOWS[duration]
  if (window === undefined) {
    const problem = 'caps here are for 5 hours, a day, a week, a month or a lifetime'
    return { column: 'budget_duration', problem }
  }
  const spent = duration === undefined ? (readDecimal(textOf(given.spend) ?? '0') ?? most) : 0n
  const left = roundDown(most > spent ? most - spent : 0n, DIGITS)
  if (left === 0n) return { column: 'max_budget', problem: 'nothing is left of it' }
  const cap = { unit: 'usd', window, value: writeDecimal(left, DIGITS)! } as const
  if (window === 'lifetime') return { cap }
  return { cap, remark: `a cap by the ${window} in UTC; the running one starts anew` }
}
