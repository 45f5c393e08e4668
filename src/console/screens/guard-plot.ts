/** Violations by day: monitored ones beside those that were blocked. */
import { useMemo } from 'preact/hooks'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { LazyPlot } from '../parts/lazy-plot.ts'
import type { Series } from '../parts/plot.ts'

/** Calls of one day that violated one rule. */
interface Violations {
  /** Empty for calls that violated none. */
  readonly rule: string
  readonly side: string
  readonly outcome: string
  readonly day: string
  readonly calls: number
}

/** The eighth has the others. */
const MOST_SERIES = 7

/** Bars that stand on each other. The table below is the same by rule. */
export function GuardPlot({
  data,
  days,
}: {
  readonly data: readonly Violations[]
  readonly days: readonly string[]
}) {
  const times = useMemo(() => days.map((day) => Date.parse(day) / 1000), [data])
  const series = useMemo(() => seriesOf(data, days), [data])
  return html`<section class="panel"><div class="panel-body">
    <${LazyPlot}
      times=${times}
      series=${series}
      kind="bars"
      format=${count}
      formatAxis=${(values: readonly number[]) => values.map((value) => (Number.isInteger(value) ? count(value) : ''))}
      formatTime=${(seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10)}
      label="Calls by day that violated a rule, UTC; the table below has them by rule"
    />
  </div></section>`
}

function seriesOf(data: readonly Violations[], days: readonly string[]): Series[] {
  const sum = (cells: readonly Violations[]) => cells.reduce((all, { calls }) => all + calls, 0)
  const byDay = (cells: readonly Violations[]) =>
    days.map((day) => sum(cells.filter((cell) => cell.day === day)))
  const violations = data.filter(({ rule }) => rule !== '')
  const groups = [
    ...Map.groupBy(violations, ({ rule, side, outcome }) => `${rule}, ${side}, ${outcome}`),
  ].toSorted(([, one], [, next]) => sum(next) - sum(one))
  const shown = groups
    .slice(0, MOST_SERIES)
    .map(([label, cells]) => ({ label, values: byDay(cells) }))
  const others = groups.slice(MOST_SERIES).flatMap(([, cells]) => cells)
  return others.length > 0 ? [...shown, { label: 'Other', values: byDay(others) }] : shown
}
