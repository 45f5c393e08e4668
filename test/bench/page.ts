/** A run of the bench as the table of docs/explain/numbers.md. */
import { show } from './table.ts'
import type { Measured, Row, Run, Spread } from './judge.ts'

/** The rows of the page, in the words of the page. */
const ROWS = [
  ['processor time of a request, µs', 'json.cpuMicros'],
  ['requests per second, 32 clients', 'json.perSecond'],
  ['answer, 8 clients: p50, ms', 'latency.p50Ms'],
  ['answer, 8 clients: p99, ms', 'latency.p99Ms'],
  ['a lone request: p50, ms', 'lone.p50Ms'],
  ['first streamed event: p50, ms', 'first.firstP50Ms'],
  ['processor time of an event at full speed, µs', 'fast.eventMicros'],
  ['of an event at reading speed, 300 streams, µs', 'paced.cpuMicros'],
  ['gap between chunks: p99, ms', 'paced.gapP99Ms'],
  ['start to the first answer, s', 'check.startSeconds'],
  ['memory when idle, MB', 'check.idleMb'],
  ['open streams per GB', 'memory.perGb'],
] as const
/** Of the setting in which all share the cores, only these: there the load itself decides about the rest. */
const SHARED = new Set(['json.cpuMicros', 'json.perSecond'])
/** What guards add is the same with every state, and stands alone. */
const GUARDS = [
  ['requests per second with a policy of eight banned words', 'guard.share', percent],
  [
    'processor time it adds to an event',
    'guard.eventMicros',
    (value: number) => `${show(value)} µs`,
  ],
] as const
const BEGIN = '<!-- measured: node test/bench/publish.ts -->'
const END = '<!-- /measured -->'

/** The page with the figures of this run. @throws Error when it has no place for them */
export function withFigures(page: string, run: Run): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (from < 0 || to < from) throw new Error(`the page has no ${BEGIN} … ${END}`)
  return `${page.slice(0, from)}${BEGIN}\n\n${figuresOf(run)}\n\n${page.slice(to)}`
}

function figuresOf(run: Run): string {
  const { version, date, machine, node, rounds, settings } = run
  const image =
    '![Bars of what a request and a streamed event cost through the gateway, with each of its states, and through a minimal proxy](numbers.svg)'
  const head = `Sluicegate ${version} on ${date}: ${machine}, Node.js ${node}, ${rounds} ${rounds === 1 ? 'round' : 'rounds'}. Medians, with quartiles and the ratio to the minimal proxy of the same turn.`
  const tables = [true, false]
    .map((pinned) => settings.filter((one) => one.pinned === pinned))
    .filter((some) => some.length > 0)
    .map(tableOf)
  return ['## Measured', image, head, ...tables, ...guards(settings), ...limits(settings)].join(
    '\n\n',
  )
}

function tableOf(settings: readonly Measured[]): string {
  const first = settings[0]!
  const cores = first.pinned ? 'on one core' : 'on two cores, shared'
  const names = settings.map(({ state }) => (state === 'file' ? 'default' : `state \`${state}\``))
  const rows = ROWS.filter(([, figure]) => first.pinned || SHARED.has(figure))
  const lines = rows
    .filter(([, figure]) => settings.some((one) => isMeasured(rowOf(one, figure))))
    .map(([label, figure]) => [
      label,
      quartiles(rowOf(first, figure)!.bare),
      ...settings.map((one) => compared(rowOf(one, figure))),
    ])
  const head = [cores, 'proxy', ...names]
  const rule = head.map((_, i) => (i === 0 ? '---' : '--:'))
  // Without blanks, which would count as words of the page.
  return [head, rule, ...lines].map((cells) => `|${cells.join('|')}|`).join('\n')
}

function guards(settings: readonly Measured[]): string[] {
  const told = GUARDS.flatMap(([label, figure, written]) => {
    const median = settings.map((one) => rowOf(one, figure)?.gateway.median).find(Number.isFinite)
    return median == null ? [] : [`${label}: ${written(median)}`]
  })
  return told.length > 0 ? [`Of a key without one, ${told.join('; ')}.`] : []
}

function limits(settings: readonly Measured[]): string[] {
  const limited = settings.filter((one) => one.limited)
  if (limited.length === 0) return []
  const names = limited.map(({ state, pinned }) => `\`${state}\`${pinned ? '' : ', shared'}`)
  return [
    `Straight to the vendor was less than twice as fast as the gateway (${names.join('; ')}): there the load limits requests per second, and only processor time counts.`,
  ]
}

function rowOf({ rows }: Measured, figure: string): Row | undefined {
  return rows.find((row) => row.figure === figure)
}

function isMeasured(row: Row | undefined): boolean {
  return row !== undefined && row.gateway.median !== null
}

function compared(row: Row | undefined): string {
  if (!row) return ''
  const { median, from, to } = row.gateway
  const ratio = row.judged?.how === '/' ? `, ${show(row.judged.compared.median)}×` : ''
  return median === null ? '' : `${quartiles({ median, from, to })}${ratio}`
}

function quartiles({ median, from, to }: Spread): string {
  if (median === null) return ''
  const spread = from === to ? '' : ` (${show(from)}–${show(to)})`
  return `${show(median)}${spread}`
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
