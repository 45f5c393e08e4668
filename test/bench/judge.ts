/** What was measured, row by row, beside what has to hold. */

export const STATES = ['file', 'memory', 'redis'] as const
/** Where the gateway keeps its state. */
export type State = (typeof STATES)[number]

export const SYSTEMS = ['direct', 'bare', 'gateway'] as const
/** What answers: the upstream itself, the minimal proxy, the gateway. */
export type System = (typeof SYSTEMS)[number]

/** Names with their units. What cannot be measured here is NaN. */
export type Figures = Record<string, number>
/** Figures by system, named `step.figure`: those of one group of steps, taken one system right after the other. */
export type Turn = Record<System, Figures>

/** How the systems run. */
export interface Setting {
  readonly state: State
  /** The system on a core of its own, everything else on another. */
  readonly pinned: boolean
}

/** So many answers with so many text events were read to their end, and each was whole and right. */
export interface Checked {
  readonly answers: number
  readonly events: number
}

/** Median and quartiles; null where nothing was measured. */
export interface Spread {
  readonly median: number | null
  readonly from: number | null
  readonly to: number | null
}

/**
 * How a figure is judged: the gateway's divided by bare's (`/`), less bare's (`-`) or alone (``); 1 if more is better, -1 if
 * less is; the gate, which must hold, and the target.
 */
type Bound = readonly [how: '/' | '-' | '', sign: 1 | -1, gate: number, target: number]

/** What a bound says of a figure. */
interface Judged {
  readonly how: Bound[0]
  readonly compared: Spread
  readonly gate: number
  readonly verdict: 'pass' | 'FAIL' | 'unknown'
  readonly target: number
  readonly reached: boolean
}

/** One figure of all systems. */
export interface Row extends Readonly<Record<System, Spread>> {
  readonly label: string
  readonly figure: string
  readonly judged: Judged | null
}

/** What was measured of one setting. */
export interface Measured extends Setting {
  readonly rows: readonly Row[]
  /** The load or the upstream may have been what limited requests per second: these do not count then, those of CPU do. */
  readonly limited: boolean
  readonly checked: Checked
}

/** One run of the bench, as `--json` prints it. */
export interface Run {
  readonly version: string
  /** YYYY-MM-DD. */
  readonly date: string
  readonly machine: string
  readonly node: string
  readonly rounds: number
  readonly settings: readonly Measured[]
}

/** Bounds of docs/explain/numbers.md. With state in memory the ledger's share of a request is not there. */
function rowsFor(
  state: State,
): readonly (readonly [label: string, figure: string, bound?: Bound])[] {
  const cpu: Bound = state === 'memory' ? ['/', -1, 2.2, 1.6] : ['/', -1, 2.5, 1.9]
  return [
    ['JSON 2 -> 4 KB, c=32: CPU us/request', 'json.cpuMicros', cpu],
    ['  requests/s', 'json.perSecond', ['/', 1, 0.4, 0.52]],
    ['latency, c=8: p50 ms', 'latency.p50Ms', ['/', -1, 3, 2]],
    ['  p90 ms', 'latency.p90Ms'],
    ['  p99 ms', 'latency.p99Ms', ['/', -1, 3, 2]],
    ['  longest ms', 'latency.maxMs'],
    ['lone request: p50 ms', 'lone.p50Ms', ['-', -1, 0.9, 0.6]],
    ['JSON 100 -> 4 KB, c=32: CPU us/request', 'large.cpuMicros'],
    ['  requests/s', 'large.perSecond'],
    ['SSE fast, c=16: CPU us/event', 'fast.eventMicros', ['/', -1, 1.2, 1]],
    ['  events/s', 'fast.eventsPerSecond'],
    ['  coalesced: events/s', 'coalesced.eventsPerSecond'],
    ['SSE, c=4: first event, p50 ms', 'first.firstP50Ms'],
    ['  p99 ms', 'first.firstP99Ms'],
    ['SSE paced, 300 streams: CPU us/event', 'paced.cpuMicros', ['/', -1, 1.3, 1.13]],
    ['  gap between chunks, p99 ms', 'paced.gapP99Ms'],
    ['  added to direct', 'added.gapP99Ms', ['', -1, 6, 3]],
    ['guard, 8 literals: share of requests/s', 'guard.share', ['', 1, 0.85, 0.9]],
    ['  us/event', 'guard.eventMicros', ['', -1, 2.5, 2]],
    ['  first word, p95 ms', 'guard.firstMs', ['', -1, 5, 1]],
    ['  32 patterns: ms/request of 100 KB', 'guard.largeMs', ['', -1, 3, 1.5]],
    ['start, compiled before: s to an answer', 'check.startSeconds', ['', -1, 1.2, 0.6]],
    ['memory: idle MB', 'check.idleMb', ['', -1, 200, 150]],
    ['  peak MB', 'end.peakMb'],
    ['  KB/open stream', 'memory.kbPerStream'],
    ['  open streams per GB', 'memory.perGb', ['', 1, 12_000, 15_000]],
  ]
}

/** Everything that was measured in these turns, row by row. */
export function judge(setting: Setting, turns: readonly Turn[], checked: Checked): Measured {
  const taken = (figure: string) =>
    turns.some((turn) => SYSTEMS.some((system) => Object.hasOwn(turn[system], figure)))
  const rows = rowsFor(setting.state)
    .filter(([, figure]) => taken(figure))
    .map(([label, figure, bound]): Row => {
      const of = (system: System) => spread(turns.map((turn) => turn[system][figure]))
      const systems = { direct: of('direct'), bare: of('bare'), gateway: of('gateway') }
      return { label, figure, ...systems, judged: bound ? judged(turns, figure, bound) : null }
    })
  const { direct, gateway } = rows.find(({ figure }) => figure === 'json.perSecond')!
  return {
    ...setting,
    rows,
    limited: direct.median! < 2 * gateway.median!,
    checked,
  }
}

/** Median and quartiles of the turns that have the figure. */
export function spread(values: readonly (number | undefined)[]): Spread {
  const sorted = values.filter(Number.isFinite).toSorted((a, b) => a! - b!) as number[]
  if (sorted.length === 0) return { median: null, from: null, to: null }
  const at = (share: number) => {
    const index = (sorted.length - 1) * share
    return (sorted[Math.floor(index)]! + sorted[Math.ceil(index)]!) / 2
  }
  return { median: at(0.5), from: at(0.25), to: at(0.75) }
}

function judged(turns: readonly Turn[], figure: string, bound: Bound): Judged {
  const [how, sign, gate, target] = bound
  const compared = spread(
    turns.map(({ bare, gateway }) => {
      const [ours = NaN, theirs = NaN] = [gateway[figure], bare[figure]]
      return how === '/' ? ours / theirs : how === '-' ? ours - theirs : ours
    }),
  )
  const { median } = compared
  const within = (limit: number) => median !== null && sign * (median - limit) >= 0
  const verdict = median === null ? 'unknown' : within(gate) ? 'pass' : 'FAIL'
  return { how, compared, gate, verdict, target, reached: within(target) }
}
