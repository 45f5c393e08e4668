/** A run of the bench as a drawing: bars of what a request and a streamed event cost, by system and setting. */
import { show } from './table.ts'
import type { Measured, Run, Spread, System } from './judge.ts'

/** What is drawn, one panel each; less is better in all but one. */
const PANELS = [
  { figure: 'json.cpuMicros', title: 'Processor time of a request, µs' },
  { figure: 'json.perSecond', title: 'Requests per second (more is better)' },
  { figure: 'paced.cpuMicros', title: 'Processor time of an event, 300 streams, µs' },
  { figure: 'latency.p50Ms', title: 'Time to an answer, 8 clients, ms' },
] as const

const WIDTH = 760
const PANEL = { width: 348, top: 64, left: 22, label: 84, value: 52 }
const BAR = 11
const LINE = 2 * BAR + 10
const STYLE = `
svg { color-scheme: light dark }
.paper { fill: #fff } text { fill: #1d252c } .name { font-weight: 600 } .quiet { fill: #5a6570 }
.pinned { fill: #2f6f9f } .shared { fill: #9cc3de } .spread { stroke: #1d252c; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
.paper { fill: #12171c } text { fill: #e6ebf0 } .quiet { fill: #a4afba }
.pinned { fill: #5fa3d3 } .shared { fill: #2d5470 } .spread { stroke: #e6ebf0 }
}
`

/** One bar. */
interface Bar {
  readonly spread: Spread
  readonly pinned: boolean
}

/** Bars of one system, under one name. */
interface Line {
  readonly name: string
  readonly bars: readonly Bar[]
}

/** The drawing as a file of its own, which suits a light and a dark page. */
export function chartOf(run: Run): string {
  const lines = PANELS.map(({ figure }) => linesOf(run.settings, figure))
  const rows = Math.max(...lines.map((some) => some.length))
  const panelHeight = 34 + rows * LINE
  const height = PANEL.top + 2 * panelHeight + 34
  const panels = PANELS.map(({ title }, i) => {
    const x = PANEL.left + (i % 2) * (PANEL.width + PANEL.left)
    const y = PANEL.top + Math.floor(i / 2) * panelHeight
    return panel(title, lines[i]!, x, y)
  })
  const told = PANELS.map(({ title }, i) => `${title}: ${inWords(lines[i]!)}.`).join(' ')
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img" aria-labelledby="t d">
<title id="t">What the gateway costs beside a minimal proxy</title>
<desc id="d">${escaped(told)}</desc>
<style>${STYLE}</style>
<rect class="paper" width="${WIDTH}" height="${height}"/>
${text(PANEL.left, 26, `Sluicegate ${run.version}, state in a file, in memory and in Redis, beside a minimal proxy`, 'name')}
${legend(run)}
${panels.join('\n')}
${text(PANEL.left, height - 14, `${run.date}, ${run.machine}, Node.js ${run.node}, median and quartiles of ${run.rounds} rounds`, 'quiet')}
</svg>
`
}

function legend({ settings }: Run): string {
  const kinds = [
    ['pinned', 'the system on one processor core'],
    ['shared', 'two cores shared with load and vendor'],
  ] as const
  return kinds
    .filter(([kind]) => settings.some(({ pinned }) => pinned === (kind === 'pinned')))
    .map(([kind, meaning], i) => {
      const x = PANEL.left + i * 240
      return `<rect class="${kind}" x="${x}" y="38" width="${BAR}" height="${BAR}"/>${text(x + BAR + 6, 47.5, meaning, 'quiet')}`
    })
    .join('\n')
}

/** Of each system a line with a bar of each way to run it. */
function linesOf(settings: readonly Measured[], figure: string): Line[] {
  const defaults = settings.filter(({ state }) => state === 'file')
  const line = (name: string, some: readonly Measured[], system: System) => ({
    name,
    bars: some
      .map(({ rows, pinned }) => ({
        pinned,
        spread: rows.find((row) => row.figure === figure)?.[system] ?? NOTHING,
      }))
      .filter(({ spread }) => spread.median !== null),
  })
  const states = [...new Set(settings.map(({ state }) => state))]
  return [
    line('proxy', defaults.length > 0 ? defaults : settings.slice(0, 1), 'bare'),
    ...states.map((state) =>
      line(
        state === 'file' ? 'file, default' : state === 'redis' ? 'Redis' : state,
        settings.filter((one) => one.state === state),
        'gateway',
      ),
    ),
  ]
}

const NOTHING: Spread = { median: null, from: null, to: null }

function panel(title: string, lines: readonly Line[], x: number, y: number): string {
  const most = Math.max(...lines.flatMap(({ bars }) => bars.map(({ spread }) => spread.to!)))
  const from = x + PANEL.label
  const scale = (PANEL.width - PANEL.label - PANEL.value) / most
  const drawn = lines.map(({ name, bars }, i) => {
    const top = y + 26 + i * LINE
    const each = bars.map(({ spread, pinned }, j) => {
      const at = top + j * (BAR + 1)
      const middle = at + BAR / 2
      const [length, low, high] = [spread.median!, spread.from!, spread.to!].map(
        (value) => value * scale,
      ) as [number, number, number]
      return `<rect class="${pinned ? 'pinned' : 'shared'}" x="${from}" y="${at}" width="${round(length)}" height="${BAR}"/><path class="spread" d="M${round(from + low)} ${middle}H${round(from + high)}"/>${text(round(from + high + 5), at + BAR - 1.5, show(spread.median))}`
    })
    return `${text(x, top + (bars.length > 1 ? BAR + 5 : BAR - 1), name)}\n${each.join('\n')}`
  })
  return `<g>\n${text(x, y + 14, title, 'name')}\n${drawn.join('\n')}\n</g>`
}

function inWords(lines: readonly Line[]): string {
  return lines
    .flatMap(({ name, bars }) =>
      bars.map(
        ({ spread, pinned }) => `${name} ${show(spread.median)}${pinned ? '' : ' on shared cores'}`,
      ),
    )
    .join(', ')
}

function text(x: number, y: number, said: string, kind?: string): string {
  return `<text${kind ? ` class="${kind}"` : ''} x="${x}" y="${y}">${escaped(said)}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function escaped(said: string): string {
  return said.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
