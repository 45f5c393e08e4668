import type { Pico } from '../../money/money.ts'
import { QUANTITIES, type Quantity } from '../../server/admin/resources/usage.ts'
import { COUNTS, FIRST_BUCKETS, TOTAL_BUCKETS } from './tables.ts'

/** Metrics that can rank groups. */
export const METRICS = ['cost_usd', 'calls', ...QUANTITIES, 'errors', 'refused', 'blocked'] as const
export type Metric = (typeof METRICS)[number]

export interface UsageSums {
  calls: number
  cost: Pico
  estimated: number
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

/** Cells of the largest groups, and the sums of all others. */
export interface RankedCells {
  readonly cells: readonly UsageCell[]
  readonly other: readonly UsageCell[]
  readonly totals: UsageSums
}

/** Sums of circumstances: counts, then the buckets of both histograms. */
export const COUNTED = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]

export function merge(cells: Map<string, UsageCell>, cell: UsageCell): void {
  const name = [cell.start, ...cell.group].join('\n')
  const sums = cells.get(name)
  if (sums) addSums(sums, cell)
  else cells.set(name, cell)
}

export function addSums(sums: UsageSums, more: UsageSums): void {
  sums.calls += more.calls
  sums.cost += more.cost
  sums.estimated += more.estimated
  for (let i = 0; i < QUANTITIES.length; i++) {
    const count = more.quantities[i] ?? null
    if (count !== null) sums.quantities[i] = (sums.quantities[i] ?? 0) + count
  }
  const { counts } = more
  if (!counts) return
  if (!sums.counts) {
    sums.counts = [...counts]
    return
  }
  // Histograms that one of them lacks cannot be those of both.
  sums.counts.length = Math.min(sums.counts.length, counts.length)
  for (let i = 0; i < sums.counts.length; i++) sums.counts[i]! += counts[i]!
}

export function noSums(): UsageSums {
  return { calls: 0, cost: 0n, estimated: 0, quantities: [], counts: undefined }
}

/** One of the counts; undefined where there are none. */
export function countOf({ counts }: Pick<UsageSums, 'counts'>, name: string): number | undefined {
  return counts?.[COUNTED.indexOf(name)]
}

/** Separates the largest groups. Cells are ordered by time, and then by rank. */
export function ranked(
  all: readonly UsageCell[],
  { metric, top }: { readonly metric: Metric; readonly top: number },
): RankedCells {
  const byGroup = new Map<string, { readonly sums: UsageSums; readonly cells: UsageCell[] }>()
  for (const cell of all) {
    const name = cell.group.join('\n')
    let group = byGroup.get(name)
    if (!group) byGroup.set(name, (group = { sums: noSums(), cells: [] }))
    addSums(group.sums, cell)
    group.cells.push(cell)
  }
  const groups = [...byGroup.values()].toSorted((one, other) =>
    byMetric(other.sums, one.sums, metric),
  )
  const totals = noSums()
  for (const { sums } of groups) addSums(totals, sums)
  // The sort keeps the order of ranks within a span.
  const byStart = (one: UsageCell, next: UsageCell) => one.start - next.start
  const cells = groups.slice(0, top).flatMap((group) => group.cells)
  const others = new Map<number, UsageCell>()
  for (const cell of groups.slice(top).flatMap((group) => group.cells)) {
    let sums = others.get(cell.start)
    if (!sums) others.set(cell.start, (sums = { ...noSums(), start: cell.start, group: [] }))
    addSums(sums, cell)
  }
  const other = [...others.values()].toSorted(byStart)
  return { cells: cells.toSorted(byStart), other, totals }
}

/**
 * Sums without some of their cells, by span. A quantity of which nothing is left counts as not reported.
 * @param sums of all groups. @param cells of some of them
 */
export function restOf(
  sums: readonly SpanSums[],
  cells: readonly SpanSums[],
): readonly UsageCell[] {
  const bySpan = Map.groupBy(cells, ({ start }) => start)
  return sums
    .map((all) => {
      const part = noSums()
      for (const cell of bySpan.get(all.start) ?? []) addSums(part, cell)
      return { ...difference(all, part), start: all.start, group: [] }
    })
    .filter(({ calls, counts }) => calls > 0 || (counts?.[0] ?? 0) > 0)
    .toSorted((one, next) => one.start - next.start)
}

type SpanSums = Omit<UsageCell, 'group'>

function difference(all: UsageSums, part: UsageSums): UsageSums {
  return {
    calls: all.calls - part.calls,
    cost: all.cost - part.cost,
    estimated: all.estimated - part.estimated,
    quantities: all.quantities.map((count, i) => {
      const other = part.quantities[i] ?? null
      // Seconds have a fraction.
      return count === null || other === null ? count : Number((count - other).toFixed(6)) || null
    }),
    // Possibly without the histograms, which both must have.
    counts: all.counts
      ?.slice(0, part.counts?.length)
      .map((count, i) => count - (part.counts?.[i] ?? 0)),
  }
}

function byMetric(one: UsageSums, other: UsageSums, metric: Metric): number {
  if (metric === 'cost_usd') return one.cost < other.cost ? -1 : one.cost > other.cost ? 1 : 0
  return valueOf(one, metric) - valueOf(other, metric)
}

function valueOf(sums: UsageSums, metric: Metric): number {
  if (metric === 'calls') return sums.calls || (countOf(sums, 'calls') ?? 0)
  return countOf(sums, metric) ?? sums.quantities[QUANTITIES.indexOf(metric as Quantity)] ?? 0
}
