import { InvalidRequest } from '../../errors/errors.ts'
import { usdJson, type Pico } from '../../money/money.ts'
import {
  QUANTITIES,
  type Agreement,
  type Quantity,
  type UsageAnswer as UsageBody,
  type UsageTotals,
} from '../../server/admin/resources/usage.ts'
import { second } from '../../server/admin/resources/settings.ts'
import { firstMoment, momentIn } from '../../state/ledger/zone.ts'
import { MIXED } from './parse.ts'
import type { Proven } from './work.ts'
import type { TooLarge, UsageAnswer, UsageQuery } from './query.ts'
import { amountIn, countOf, marginOf, type UsageCell, type UsageSums } from './sums.ts'
import { BOUNDS, FIRST_BUCKETS, startOf, TOTAL_BUCKETS, unitOf } from './tables.ts'

/** The body of an answer. @param withMargin whether what vendors are paid may be seen. @throws InvalidRequest for a question that reads too much */
export function usageBody(
  query: UsageQuery,
  { result, checked, since }: Proven<UsageAnswer | TooLarge>,
  zone: string,
  withMargin: boolean,
): UsageBody {
  const answer = withinBounds(result)
  const { from, to, cells, other, totals, settled } = answer
  const view = (sums: UsageSums) => sumsView(sums, settled, withMargin)
  return {
    data: cells.map((cell) => ({
      start: startText(query, zone, cell.start),
      group: groupView(query, cell),
      ...view(cell),
    })),
    other: other.map((cell) => ({ start: startText(query, zone, cell.start), ...view(cell) })),
    totals: view(totals),
    rollup: query.rollup,
    range: { from: startText(query, zone, from), to: startText(query, zone, to) },
    time_zone: zone,
    partial: { from: isPartial(query, answer, since) ? second(since!) : null },
    indexed: Math.floor(checked.indexed * 1000) / 1000,
    ledger: ledgerView(query, answer, checked),
  }
}

/** The table of an answer: its columns, then its lines. @throws InvalidRequest as {@link usageBody} */
export function usageTable(
  query: UsageQuery,
  { result }: Proven<UsageAnswer | TooLarge>,
  zone: string,
  withMargin: boolean,
): { readonly columns: readonly string[]; readonly rows: readonly object[] } {
  const { cells, other, totals, settled } = withinBounds(result)
  const rowOf = (cell: UsageCell, group: object) => ({
    start: startText(query, zone, cell.start),
    ...group,
    ...sumsView(cell, settled, withMargin),
  })
  const others = query.group[0] === undefined ? {} : { [query.group[0]]: '(other)' }
  return {
    columns: ['start', ...query.group, ...Object.keys(sumsView(totals, settled, withMargin))],
    rows: [
      ...cells.map((cell) => rowOf(cell, groupView(query, cell))),
      ...other.map((cell) => rowOf(cell, others)),
    ],
  }
}

/** The first moment of a date with the offset of its zone; that of an hour in UTC. @param at a moment, which stands for its date in UTC */
function startText({ rollup }: UsageQuery, zone: string, at: number): string {
  if (rollup === 'hour' || zone === 'UTC' || zone === MIXED) return second(at)
  return momentIn(zone, firstMoment(zone, new Date(at).toISOString().slice(0, 10)))
}

/** Result of a comparison, without an amount: whether all sums agree with the ledger, and since when that is known. */
export function agreementView({
  agrees,
  asOf,
  differences,
}: Proven<unknown>['checked']): Agreement {
  return {
    agrees: agrees ?? null,
    as_of: second(asOf),
    differences: differences.map(({ account, key, indexed, ledger }) => ({
      account_id: account,
      key_id: key ?? null,
      indexed_usd: usdJson(indexed),
      ledger_usd: usdJson(ledger),
    })),
  }
}

/** Whether calls of the answer ended before their circumstances were recorded. */
function isPartial({ rollup }: UsageQuery, { cells, other }: UsageAnswer, since?: number): boolean {
  if (since === undefined) return false
  const first = startOf(rollup, unitOf(rollup, since))
  return [...cells, ...other].some(({ start }) => start < first)
}

function withinBounds(result: UsageAnswer | TooLarge): UsageAnswer {
  if (!('fits' in result)) return result
  const message = `This range has too many rows for one answer. Ask for ${result.fits}.`
  throw new InvalidRequest('range_too_large', message)
}

function groupView({ group }: UsageQuery, cell: UsageCell): Record<string, string | null> {
  return Object.fromEntries(group.map((name, i) => [name, cell.group[i] || null]))
}

/** Sums as JSON. @param settled whether sums of the ledger are in them. @param withMargin whether margins are shown, as in {@link usageBody} */
export function sumsView(sums: UsageSums, settled: boolean, withMargin = false): UsageTotals {
  const { calls, cost, quantities, estimated, knownCalls } = sums
  const usd = (amount: Pico) => (settled ? usdJson(amount) : null)
  const count = (name: string) => countOf(sums, name) ?? null
  return {
    calls: settled ? calls : count('calls'),
    cost_usd: usd(cost),
    ...(Object.fromEntries(QUANTITIES.map((name, i) => [name, quantities[i] ?? null])) as Record<
      Quantity,
      number | null
    >),
    estimated: settled ? estimated : null,
    errors: count('errors'),
    refused: count('refused'),
    blocked: count('blocked'),
    p50_ms: percentile(sums, TOTAL_BUCKETS, 0.5),
    p95_ms: percentile(sums, TOTAL_BUCKETS, 0.95),
    first_part_p50_ms: percentile(sums, FIRST_BUCKETS, 0.5),
    first_part_p95_ms: percentile(sums, FIRST_BUCKETS, 0.95),
    promotional_usd: usd(amountIn(sums, 'promotional')),
    refunded_usd: usd(amountIn(sums, 'refunded')),
    ...(withMargin && {
      vendor_cost_usd: usd(amountIn(sums, 'vendor')),
      margin_usd: usd(marginOf(sums)),
      vendor_unknown_calls: settled ? calls - knownCalls : null,
    }),
  }
}

/** Approximate percentile, read off the bounds of a histogram. */
function percentile(sums: UsageSums, buckets: readonly string[], share: number): number | null {
  const sizes = buckets.map((name) => countOf(sums, name) ?? 0)
  const wanted = share * sizes.reduce((sum, size) => sum + size, 0)
  if (wanted === 0) return null
  let below = 0
  for (const [i, size] of sizes.entries()) {
    if (below + size >= wanted) {
      const [least, most] = [BOUNDS[i - 1] ?? 0, BOUNDS[i] ?? BOUNDS.at(-1)!]
      return Math.round(least + ((wanted - below) / size) * (most - least))
    }
    below += size
  }
  return BOUNDS.at(-1)!
}

/** Sets `cost_usd` to the cost of the answer by the sums of the ledger: the excess of the index is subtracted. */
function ledgerView(
  { filters }: UsageQuery,
  { totals, settled }: UsageAnswer,
  checked: Proven<unknown>['checked'],
) {
  const ofKeys = checked.differences.filter(
    ({ key }) => key !== undefined && (!filters.key || filters.key.includes(key)),
  )
  const missing = ofKeys.reduce((sum, { ledger, indexed }) => sum + ledger - indexed, 0n)
  const { agrees, as_of, differences } = agreementView(checked)
  return {
    agrees,
    as_of,
    cost_usd: settled ? usdJson(totals.cost + missing) : null,
    differences,
  }
}
