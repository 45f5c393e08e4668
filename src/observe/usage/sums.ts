import type { Pico } from '../../money/money.ts'
import { QUANTITIES } from '../../server/admin/resources/usage.ts'
import { AMOUNTS, COUNTS, FIRST_BUCKETS, TOTAL_BUCKETS } from './tables.ts'

/** Metrics that can rank groups. */
export const METRICS = [
  'cost_usd',
  'calls',
  ...QUANTITIES,
  'errors',
  'refused',
  'blocked',
  'margin_usd',
] as const
export type Metric = (typeof METRICS)[number]

export interface UsageSums {
  calls: number
  cost: Pico
  estimated: number
  /** Calls of which it is known what their vendors are paid. */
  knownCalls: number
  /** Amounts in the order of {@link AMOUNTS}. */
  readonly amounts: Pico[]
  /** Values in the order of {@link QUANTITIES}; null for a quantity that was never reported. */
  readonly quantities: (number | null)[]
  /** Circumstances in the order of {@link COUNTED}, possibly without the histograms; undefined where a group has none. */
  counts: number[] | undefined
}

export interface UsageCell extends UsageSums {
  /** ms since epoch */
  readonly start: number
  /** Values of the groups of the question, '' for "none". */
  readonly group: readonly string[]
}

/** Sums of circumstances: counts, then the buckets of both histograms. */
export const COUNTED = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]

export function noSums(): UsageSums {
  const amounts = AMOUNTS.map(() => 0n)
  return {
    calls: 0,
    cost: 0n,
    estimated: 0,
    knownCalls: 0,
    amounts,
    quantities: [],
    counts: undefined,
  }
}

export function amountIn({ amounts }: Pick<UsageSums, 'amounts'>, name: (typeof AMOUNTS)[number]) {
  return amounts[AMOUNTS.indexOf(name)]!
}

/** What is earned of calls of which it is known what their vendors are paid. */
export function marginOf(sums: Pick<UsageSums, 'amounts'>): Pico {
  const cost = amountIn(sums, 'known_cost') - amountIn(sums, 'known_refunded')
  return cost - amountIn(sums, 'vendor')
}

/** One of the counts; undefined where there are none. */
export function countOf({ counts }: Pick<UsageSums, 'counts'>, name: string): number | undefined {
  return counts?.[COUNTED.indexOf(name)]
}
