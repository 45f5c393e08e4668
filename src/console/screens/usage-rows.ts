/** The answer about usage as rows of a table and steps of a plot. Pure; amounts are added up as decimals. */
import type { Rollup, UsageAnswer } from '../answers.ts'
import { addAmounts, shortId } from '../format.ts'
import type * as usage from '../../server/admin/resources/usage.ts'
import type { Read } from '../amounts.ts'

export type Metric = keyof UsageSums

export interface UsageRow {
  /** The values of the groups; undefined for the row with all groups that are not shown by themselves. */
  readonly group: readonly (string | null)[] | undefined
  readonly name: string
  readonly sums: UsageSums
  readonly values: readonly (number | null)[]
}

interface UsageTable {
  readonly rows: readonly UsageRow[]
  /** Starts of the steps, seconds since epoch. */
  readonly times: readonly number[]
}

const COUNTS = [
  'calls',
  'prompt_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'images',
  'pages',
  'seconds',
  'characters',
  'searches',
  'search_units',
  'estimated',
  'errors',
  'refused',
  'blocked',
] as const satisfies readonly Metric[]
const HOUR_MS = 3_600_000

/** One row for each group, the first by the metric first; groups that are not kept apart are the last row. */
export function usageTable(answer: UsageAnswer, metric: Metric): UsageTable {
  const starts = startsOf(answer.range, answer.rollup)
  const groups = Map.groupBy(answer.data, ({ group }) => JSON.stringify(Object.values(group)))
  const nameOf = namesOf(answer)
  const rows = [...groups].map(([key, cells]): UsageRow => {
    const group: (string | null)[] = JSON.parse(key)
    return { group, name: nameOf(group), ...summed(cells, starts, metric) }
  })
  rows.sort((one, next) => amountOf(next.sums, metric) - amountOf(one.sums, metric))
  const others = answer.other
  if (others.length > 0) {
    rows.push({ group: undefined, name: 'Other', ...summed(others, starts, metric) })
  }
  return { rows, times: starts.map((start) => start / 1000) }
}

/** The value of a metric as a number: for order and drawings. */
export function amountOf(sums: UsageSums, metric: Metric): number {
  return Number(sums[metric] ?? 0)
}

/** Names of groups: keys by their names, with the end of the id where several are equal. */
function namesOf({ data, key_names: names = {} }: UsageAnswer) {
  const keyAt = Object.keys(data[0]?.group ?? {}).indexOf('key')
  const ids = Map.groupBy(Object.keys(names), (id) => names[id])
  const written = (value: string | null, place: number) => {
    if (value === null) return '(none)'
    const name = place === keyAt ? names[value] : undefined
    if (!name) return shortId(value, 24)
    return ids.get(name)!.length > 1 ? `${name} …${value.slice(-4)}` : name
  }
  return (group: readonly (string | null)[]) =>
    group.length === 0 ? 'All calls' : group.map(written).join(' · ')
}

export function sumOf(cells: readonly UsageSums[]): UsageSums {
  const costs = cells.flatMap(({ cost_usd }) => cost_usd ?? [])
  const counts = COUNTS.map((name) => {
    const numbers = cells.flatMap((cell) => cell[name] ?? [])
    return [name, numbers.length === 0 ? null : numbers.reduce((sum, one) => sum + one, 0)] as const
  })
  return {
    ...(Object.fromEntries(counts) as Record<(typeof COUNTS)[number], number | null>),
    cost_usd: costs.length === 0 ? null : addAmounts(costs),
  }
}

function summed(
  cells: readonly (UsageSums & { readonly start: string })[],
  starts: readonly number[],
  metric: Metric,
) {
  const byStart = new Map(cells.map((cell) => [dateOf(cell.start), cell]))
  const values = starts.map((start) => {
    const cell = byStart.get(start)
    if (!cell) return 0
    return cell[metric] === null ? null : amountOf(cell, metric)
  })
  return { sums: sumOf(cells), values }
}

/** A date, or an hour, as the moment in UTC that the same clock shows: days of a time zone are steps of 24 hours then. */
function dateOf(start: string): number {
  return Date.parse(`${start.slice(0, 19)}Z`)
}

/** Every step of a range, also those without calls, ms since epoch. */
function startsOf({ from, to }: UsageAnswer['range'], rollup: Rollup): number[] {
  const end = dateOf(to)
  const starts: number[] = []
  for (let at = dateOf(from); at < end; at = next(at, rollup)) starts.push(at)
  return starts
}

export function next(at: number, rollup: Rollup): number {
  if (rollup === 'hour') return at + HOUR_MS
  if (rollup === 'day') return at + 24 * HOUR_MS
  const day = new Date(at)
  return Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1)
}

type UsageSums = Read<usage.UsageSums>
