/** Violations by day: monitored ones beside those that were blocked. */
import { useMemo } from 'preact/hooks'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { LazyPlot } from '../parts/lazy-plot.ts'
import type { Series } from '../parts/plot.ts'

/** One rule, the effect of its violations, and their number on each day. */
interface Violations {
  readonly label: string
  readonly values: readonly number[]
}

/** The number of series of their own; the eighth has the others. */
const MOST_SERIES = 7

/** The class of a rule's colour. @param place the index among all rules */
export function swatchOf(place: number): string {
  return `swatch s${Math.min(MOST_SERIES, place) + 1}`
}

/** Stacked bars. The table below is the legend. */
export function GuardPlot({
  rules,
  days,
}: {
  readonly rules: readonly Violations[]
  readonly days: readonly string[]
}) {
  const key = JSON.stringify([rules, days])
  const times = useMemo(() => days.map((day) => Date.parse(day) / 1000), [key])
  const series = useMemo(() => seriesOf(rules, days), [key])
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

function seriesOf(rules: readonly Violations[], days: readonly string[]): Series[] {
  const shown = rules.slice(0, MOST_SERIES)
  const others = rules.slice(MOST_SERIES)
  if (others.length === 0) return [...shown]
  const values = days.map((_, day) => others.reduce((sum, one) => sum + one.values[day]!, 0))
  return [...shown, { label: 'Other', values }]
}
