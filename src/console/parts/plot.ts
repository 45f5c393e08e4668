/** Time series. Loaded by `import()` where one is drawn; the only file that knows the drawing library. */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { html } from '../html.ts'
import { preferences } from '../state.ts'

/** One series; null where nothing is known. */
export interface Series {
  readonly label: string
  readonly values: readonly (number | null)[]
  readonly hidden?: boolean
}

/** What a plot shows. */
export interface PlotProps {
  /** Starts of the steps, seconds since epoch. */
  readonly times: readonly number[]
  readonly series: readonly Series[]
  /** Bars stand on each other; lines do not. */
  readonly kind: 'bars' | 'lines'
  /** Writes a value of the axis and of the cursor. */
  readonly format: (value: number) => string
  readonly label: string
  /** The reader selected a span, in seconds since epoch. */
  readonly onSelect?: (from: number, to: number) => void
  readonly height?: number
}

/** A plot as wide as its place. The table beside it is its text alternative. */
export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const { theme } = preferences.value
  useEffect(() => {
    const element = box.current!
    const plot = new uPlot(optionsOf(props, element), dataOf(props), element)
    const sizes = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: props.height ?? 220 }),
    )
    sizes.observe(element)
    return () => {
      sizes.disconnect()
      plot.destroy()
    }
  }, [props.times, props.series, props.kind, theme])
  return html`<div
    class="plot"
    ref=${box}
    role="img"
    tabindex=${props.onSelect ? 0 : undefined}
    aria-label=${`${props.label}. The table has the same numbers.`}
  ></div>`
}

/** Sums from below when bars stand on each other; the first series is drawn last. */
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

function optionsOf(props: PlotProps, element: HTMLElement): uPlot.Options {
  const { series, kind, format, onSelect, height = 220 } = props
  const style = getComputedStyle(element)
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const order = kind === 'bars' ? series.toReversed() : series
  const place = (index: number) => (kind === 'bars' ? series.length - index : index + 1)
  const axis = {
    stroke: color('muted'),
    grid: { stroke: color('line'), width: 1 },
    ticks: { stroke: color('line'), width: 1, size: 4 },
    font: '12px system-ui, sans-serif',
  }
  return {
    width: Math.max(200, element.clientWidth),
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    legend: { show: false },
    cursor: { drag: { x: onSelect !== undefined, y: false, setScale: false } },
    scales: {
      x: { time: true },
      y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      axis,
      { ...axis, size: 64, values: (_plot, ticks) => ticks.map((tick) => format(tick)) },
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
      setSelect: [
        (plot) => {
          const { left, width } = plot.select
          if (width < 4 || !onSelect) return
          onSelect(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'))
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
        },
      ],
    },
  }
}
