/** Time series. Loaded by `import()` where one is drawn (`LazyPlot`); the only file that knows the drawing library. */
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { html } from '../html.ts'
import { preferences } from '../state.ts'

export interface Series {
  readonly label: string
  readonly values: readonly (number | null)[]
  readonly hidden?: boolean
}

export interface PlotProps {
  /** Starts of the steps, seconds since epoch. */
  readonly times: readonly number[]
  /** The series, at most eight, the last one for all others. */
  readonly series: readonly Series[]
  readonly kind: 'bars' | 'lines'
  readonly format: (value: number) => string
  readonly formatAxis: (values: readonly number[]) => string[]
  readonly formatTime: (seconds: number) => string
  /** The text for a screen reader: it also says where the same numbers stand as text. */
  readonly label: string
  /** Moments that are marked, seconds since epoch. */
  readonly marks?: readonly number[]
  /** It is called when the reader selects a span, in seconds since epoch; the second is the start of the last step. */
  readonly onSelect?: (first: number, last: number) => void
  readonly height?: number
}

const HEIGHT = 240
const DAY_SECONDS = 86_400
const AXIS_LETTER = 7
/** Ticks of days: a part of a day means nothing there. */
const TICK_DAYS = [1, 2, 3, 4, 7, 14, 28, 56]

/** A plot as wide as its place. The table beside it is its text alternative. */
export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const drawn = useRef<uPlot>(undefined!)
  const latest = useRef(props)
  latest.current = props
  const [cursor, setCursor] = useState<number | null>(null)
  const [anchor, setAnchor] = useState<number | null>(null)
  const { theme } = preferences.value
  useEffect(loadStyle, [])
  useEffect(() => {
    const element = box.current!
    const plot = new uPlot(optionsOf(latest, element, setCursor), dataOf(props), element)
    drawn.current = plot
    const height = props.height ?? HEIGHT
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }))
    sizes.observe(element)
    return () => {
      sizes.disconnect()
      plot.destroy()
    }
  }, [props.times, props.series, props.marks, props.kind, theme])
  const onKeyDown = (event: KeyboardEvent) => {
    const { times, onSelect } = props
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      const from = cursor ?? (step > 0 ? -1 : times.length)
      const to = Math.min(times.length - 1, Math.max(0, from + step))
      const start = event.shiftKey ? (anchor ?? cursor ?? to) : null
      setAnchor(start)
      setCursor(to)
      mark(drawn.current, times, to, start)
    } else if (event.key === 'Enter' && cursor !== null && onSelect) {
      event.preventDefault()
      const [first, last] = [cursor, anchor ?? cursor].toSorted((one, next) => one - next)
      onSelect(times[first!]!, times[last!]!)
    }
  }
  return html`<div class="plot-frame">
    <div
      class="plot"
      ref=${box}
      role="group"
      tabindex="0"
      aria-label=${props.label}
      onKeyDown=${onKeyDown}
    ></div>
    <${Readout} props=${props} at=${cursor ?? (props.kind === 'lines' ? props.times.length - 1 : null)} from=${anchor} />
  </div>`
}

function Readout({
  props: { times, series, format, formatTime, onSelect },
  at,
  from,
}: {
  readonly props: PlotProps
  readonly at: number | null
  readonly from: number | null
}) {
  if (at === null || times[at] === undefined) {
    const hint =
      'Drag over the plot, or focus it and use the arrows, Shift and Enter, to choose days.'
    return onSelect && html`<p class="plot-readout muted">${hint}</p>`
  }
  const span = from === null || from === at ? [at] : [from, at].toSorted((one, next) => one - next)
  return html`<p class="plot-readout" aria-live="polite">
    <b>${span.map((index) => formatTime(times[index]!)).join(' to ')}</b>
    ${series.map((one, index) => {
      const value = one.values[at]
      if (one.hidden || value === null || value === undefined) return null
      return html`<span key=${one.label}>
        <i class=${`swatch s${index + 1}`} aria-hidden="true"></i> ${one.label} ${format(value)}
      </span>`
    })}
  </p>`
}

/** The library's own style sheet: without it a plot has no cursor and no selection. */
function loadStyle(): void {
  const href = new URL('../vendor/uplot.css', import.meta.url).href
  if (document.querySelector(`link[href="${href}"]`)) return
  document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href }))
}

function mark(plot: uPlot, times: readonly number[], index: number, anchor: number | null): void {
  const left = (at: number) => plot.valToPos(times[at]!, 'x')
  const step = times.length > 1 ? left(1) - left(0) : 0
  plot.setCursor({ left: left(index) + step / 2, top: 0 }, false)
  const [first, last] = [
    left(Math.min(index, anchor ?? index)),
    left(Math.max(index, anchor ?? index)),
  ]
  const { height } = plot.over.getBoundingClientRect()
  plot.setSelect({ left: first, width: last - first + step, top: 0, height }, false)
}

/** Sums from below when bars are stacked; the first series is drawn last. */
function dataOf({ times, series, kind }: PlotProps): uPlot.AlignedData {
  const shown = series.map(({ values, hidden }) => (hidden ? values.map(() => null) : values))
  if (kind === 'lines') return [[...times], ...shown.map((values) => [...values])]
  const sums = times.map(() => 0)
  const stacked = shown.map((values) =>
    values.map((value, index) => {
      sums[index]! += value ?? 0
      return value === null ? null : sums[index]!
    }),
  )
  return [[...times], ...stacked.toReversed()]
}

function optionsOf(
  latest: { readonly current: PlotProps },
  element: HTMLElement,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const { times, series, kind, formatAxis, onSelect, height = HEIGHT } = latest.current
  const color = colorsOf(element)
  const order = kind === 'bars' ? series.toReversed() : series
  const place = (index: number) => (kind === 'bars' ? series.length - index : index + 1)
  const axis = {
    stroke: color('muted'),
    grid: { stroke: color('line'), width: 1 },
    ticks: { stroke: color('line'), width: 1, size: 4 },
    font: '12px system-ui, sans-serif',
  }
  // A step that has no name has no line either: counts are whole.
  const named: uPlot.Axis.Filter = (_plot, steps) => {
    const names = formatAxis(steps)
    return steps.map((value, index) => (names[index] === '' ? null : value))
  }
  const step = times.length > 1 ? times.at(-1)! - times.at(-2)! : DAY_SECONDS
  return {
    width: Math.max(200, element.clientWidth),
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: onSelect !== undefined, y: false, setScale: false },
    },
    scales: {
      x: { time: true, range: (_plot, low, high) => [low, kind === 'bars' ? high + step : high] },
      y: { range: (_plot, low, high) => [Math.min(0, low) * 1.08, high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 32,
        values: (_plot, ticks) => ticks.map(tickName),
        ...(step === DAY_SECONDS && { incrs: TICK_DAYS.map((days) => days * DAY_SECONDS) }),
      },
      {
        ...axis,
        grid: { ...axis.grid, filter: named },
        ticks: { ...axis.ticks, filter: named },
        size: (_plot, names) =>
          16 + AXIS_LETTER * Math.max(2, ...(names ?? []).map((name) => name.length)),
        values: (_plot, ticks) => formatAxis(ticks),
      },
    ],
    series: [
      {},
      ...order.map((one, index) => {
        const stroke = color(`series-${Math.min(8, place(index))}`)
        return {
          label: one.label,
          stroke,
          width: 1.5,
          points: { show: false },
          ...(kind === 'bars' && {
            fill: stroke,
            width: 0,
            paths: uPlot.paths.bars!({ size: [0.7, 48], align: 1 }),
          }),
        }
      }),
    ],
    hooks: {
      draw: [(plot) => drawMarks(plot, latest.current.marks ?? [], color('ok'))],
      setCursor: [
        (plot) => {
          const left = plot.cursor.left ?? -1
          onCursor(left < 0 ? null : stepAt(times, plot.posToVal(left, 'x')))
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          const { onSelect: select } = latest.current
          if (width < 4 || !select) return
          const [first, last] = [left, left + width].map((at) =>
            stepAt(times, plot.posToVal(at, 'x')),
          )
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
          select(times[first!]!, times[last!]!)
        },
      ],
    },
  }
}

function drawMarks(plot: uPlot, marks: readonly number[], color: string): void {
  const { ctx, bbox } = plot
  const size = 5 * devicePixelRatio
  const foot = bbox.top + bbox.height
  ctx.fillStyle = color
  for (const mark of marks) {
    const x = plot.valToPos(mark, 'x', true)
    ctx.beginPath()
    ctx.moveTo(x - size, foot)
    ctx.lineTo(x + size, foot)
    ctx.lineTo(x, foot - 1.6 * size)
    ctx.fill()
  }
}

function stepAt(times: readonly number[], seconds: number): number {
  return Math.max(
    0,
    times.findLastIndex((start) => start <= seconds),
  )
}

/** Colours as the canvas understands them: the theme's names stand for two colours each. */
function colorsOf(element: HTMLElement): (name: string) => string {
  return (name) => {
    element.style.color = `var(--${name})`
    const { color } = getComputedStyle(element)
    element.style.color = ''
    return color
  }
}

/** `15:00`; at midnight the day, on its first day the year. */
function tickName(seconds: number): string {
  const [day, time] = new Date(seconds * 1000).toISOString().split('T') as [string, string]
  if (!time.startsWith('00:00')) return time.slice(0, 5)
  return day.endsWith('-01-01') ? day.slice(0, 4) : day.slice(5)
}
