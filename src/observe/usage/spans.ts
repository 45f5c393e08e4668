/** The parts of a range of time, and their tables. */
import { startOf, unitOf, type Rollup } from './tables.ts'

export interface Range {
  /** ms since epoch */
  readonly from: number
  readonly to: number
}

export interface Span {
  readonly table: Rollup
  /** Units of that table, half-open. */
  readonly from: number
  readonly to: number
  /** The span of the answer that the whole part belongs to; absent where each unit is a span of its own. */
  readonly start?: number
}

/** The range in whole hours, or with days and months in whole days. */
export function widened({ from, to }: Range, rollup: Rollup): Range {
  const unit = rollup === 'hour' ? 'hour' : 'day'
  const end = unitOf(unit, to)
  return {
    from: startOf(unit, unitOf(unit, from)),
    to: startOf(unit, startOf(unit, end) < to ? end + 1 : end),
  }
}

/** The spans of an answer. Whole months are read from the table of months, where there is one, the rest from that of days. */
export function spansOf(
  rollup: Rollup,
  { from, to }: Range,
  tables: readonly Rollup[],
  now: number,
): Span[] {
  if (rollup !== 'month')
    return [{ table: rollup, from: unitOf(rollup, from), to: unitOf(rollup, to) }]
  const spans: Span[] = []
  for (let at = from; at < to;) {
    const start = startOf('month', unitOf('month', at))
    const end = Math.min(nextOf('month', at), to)
    const part = { from: at, to: end }
    const table = tables.includes('month') && isWhole('month', part, now) ? 'month' : 'day'
    spans.push({ ...unitsOf(table, part), start })
    at = end
  }
  return spans
}

/** A range in as few units as the tables allow. It begins and ends with an hour. */
export function coverOf({ from, to }: Range, tables: readonly Rollup[], now: number): Span[] {
  const spans: Span[] = []
  const largest = tables.toReversed()
  for (let at = from; at < to;) {
    const table =
      largest.find((one) => isWhole(one, { from: at, to: Math.min(nextOf(one, at), to) }, now)) ??
      'hour'
    const end = Math.min(nextOf(table, at), to)
    const last = spans.at(-1)
    const span = unitsOf(table, { from: at, to: end })
    if (last?.table === table && last.to === span.from)
      spans.splice(-1, 1, { ...last, to: span.to })
    else spans.push(span)
    at = end
  }
  return spans
}

/** Whether a unit lies wholly in the range; the future has no calls. */
function isWhole(unit: Rollup, { from, to }: Range, now: number): boolean {
  return from === startOf(unit, unitOf(unit, from)) && (to === nextOf(unit, from) || to > now)
}

function nextOf(unit: Rollup, at: number): number {
  return startOf(unit, unitOf(unit, at) + 1)
}

function unitsOf(table: Rollup, { from, to }: Range): Span {
  const last = unitOf(table, to - 1)
  return { table, from: unitOf(table, from), to: last + 1 }
}
