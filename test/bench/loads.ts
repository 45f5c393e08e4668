/** What the systems are asked in the bench, and what is printed of it. */
import type { Bound, Row } from './judge.ts'
import type { Job } from './load.ts'

/** A job; what it leaves out is usual. */
export type GivenJob = Partial<Job> & Pick<Job, 'kind'>

/** One load, taken by each system in turn. */
export interface Load {
  readonly name: string
  readonly job: GivenJob
  readonly turns: number
  /** Turns before those that count, for compilers, and the calls of each: a short burst, if there are none. */
  readonly warm?: { readonly turns: number; readonly calls?: number }
  /**
   * Whether each turn has new processes: loads of starts do, and those of memory, because the free room of a used heap
   * would hide what streams take.
   */
  readonly isFresh?: boolean
  /** The vendor without anything between takes a turn too. */
  readonly withDirect?: boolean
  /** Key of the gateway whose policy is compared with none, instead of systems. */
  readonly policy?: 'literals' | 'patterns'
  readonly rows: readonly Row[]
}

export interface Extent {
  readonly isQuick: boolean
  readonly isAll: boolean
  /** Turns of each load with a gate to the floor. */
  readonly turns: number
}

const BURST_MS = 500
const JSON_JOB = { kind: 'closed', answer: 'json-4k', lanes: 32, ms: BURST_MS } as const
const FAST = { kind: 'closed', answer: 'sse-fast-200', lanes: 16, ms: BURST_MS } as const
const COALESCED = { ...FAST, answer: 'sse-coalesced-200' }
/** The streams go on when all are open, and last a little longer than a burst. */
const PACED = { kind: 'streams', lanes: 300, answer: 'sse-paced-12-50-300', ms: BURST_MS } as const
const LATENCY = { kind: 'open', answer: 'json-4k', lanes: 8, everyMs: 5, ms: 600 } as const
const LONE = { ...LATENCY, lanes: 1, ms: 2000 }
const FIRST = { kind: 'open', answer: 'sse-fast-20', lanes: 4, everyMs: 10, ms: 800 } as const
/** Never fewer streams: what grows once, with the first of them, would count as theirs. Slow ones, which leave time to open them all. */
const MANY = {
  kind: 'streams',
  lanes: 4000,
  answer: 'sse-paced-100-2000',
  ms: 3000,
  isCut: true,
} as const

export function loadsOf({ isQuick, isAll, turns }: Extent): Load[] {
  const gated = gatedLoads(turns, !isQuick)
  // The first start compiles, as after an installation; those that count find it done.
  const start = {
    name: 'start',
    // Memory is read when what only the start needed has been given back.
    job: { kind: 'check', ms: 4000 },
    isFresh: true,
    warm: { turns: 1 },
  } as const
  const startRows = [
    row('start, compiled before: s to an answer', 'startSeconds', { gate: 0.8, target: 0.6 }),
    row('  idle MB', 'idleMb', { gate: 150, target: 130 }),
  ]
  const loads = [{ ...start, turns: isQuick ? 1 : 3, rows: startRows }, ...gated]
  if (isQuick) return loads
  return [...loads, ...furtherLoads(turns), ...(isAll ? sizes(turns) : []), ...policies()]
}

function row(label: string, figure: string, bound?: Bound, how: '/' | '-' = '/'): Row {
  return { label, figure, how, ...(bound && { bound }) }
}

function toFloor(gate: number, target?: number): Bound {
  return { against: 'floor', gate, ...(target !== undefined && { target }) }
}

function gatedLoads(turns: number, withDirect: boolean): Load[] {
  const gap = row('  gap p99 ms', 'gapP99Ms', { against: 'direct', gate: 6 }, '-')
  return [
    {
      name: 'json',
      job: JSON_JOB,
      warm: { turns: 6, calls: 5000 },
      turns,
      withDirect,
      rows: [
        row('JSON 2 -> 4 KB, 32 clients: CPU us a call', 'cpuMicros', toFloor(1.7, 1.4)),
        row('  calls a second', 'perSecond'),
      ],
    },
    {
      name: 'fast',
      job: FAST,
      warm: { turns: 4, calls: 500 },
      turns,
      rows: [
        row('SSE fast, 16 clients: CPU us an event', 'eventMicros', toFloor(1.2, 1)),
        row('  events a second', 'eventsPerSecond'),
      ],
    },
    {
      name: 'paced',
      job: PACED,
      warm: { turns: 2 },
      turns,
      withDirect,
      rows: [row('SSE paced, 300 streams: CPU us an event', 'cpuMicros', toFloor(1.2, 1.1)), gap],
    },
  ]
}

function furtherLoads(turns: number): Load[] {
  return [
    {
      name: 'memory',
      job: MANY,
      isFresh: true,
      turns: 1,
      rows: [row('memory: KB an open stream', 'kbPerStream'), row('  open streams a GB', 'perGb')],
    },
    {
      name: 'coalesced',
      job: COALESCED,
      warm: { turns: 2, calls: 500 },
      turns,
      rows: [row('SSE coalesced, 16 clients: CPU us an event', 'eventMicros')],
    },
    {
      name: 'latency',
      job: LATENCY,
      turns: 5,
      rows: [row('JSON, 8 clients every 5 ms: p50 ms', 'p50Ms'), row('  p99 ms', 'p99Ms')],
    },
    {
      name: 'lone',
      job: LONE,
      turns: 5,
      // The floor waits for the disk too.
      rows: [row('a lone call: p50 ms', 'p50Ms', toFloor(0.6), '-')],
    },
    {
      name: 'first',
      job: FIRST,
      turns: 5,
      rows: [row('first event: p50 ms', 'firstP50Ms'), row('  p99 ms', 'firstP99Ms')],
    },
  ]
}

function sizes(turns: number): Load[] {
  return ['1', '64'].map((kilobytes) => ({
    name: `json ${kilobytes}`,
    job: { ...JSON_JOB, answer: `json-${kilobytes}k` },
    warm: { turns: 1, calls: 2000 },
    turns,
    rows: [row(`JSON 2 -> ${kilobytes} KB, 32 clients: CPU us a call`, 'cpuMicros')],
  }))
}

/** Loads with a policy. They have many turns, because what a policy adds is less than a call varies by between turns. */
function policies(): Load[] {
  const policy = 'literals'
  const large = { ...JSON_JOB, requestBytes: 102_400 }
  const plain = (gate: number): Bound => ({ against: 'plain', gate })
  return [
    {
      name: 'policy json',
      policy,
      job: JSON_JOB,
      warm: { turns: 4, calls: 2000 },
      turns: 20,
      rows: [row('8 literals: calls a second', 'perSecond')],
    },
    {
      name: 'policy events',
      policy,
      job: FAST,
      warm: { turns: 2, calls: 500 },
      turns: 20,
      rows: [row('8 literals, fast: CPU us an event', 'eventMicros', plain(2.5), '-')],
    },
    {
      name: 'policy first',
      policy,
      job: FIRST,
      turns: 4,
      rows: [row('8 literals, first event: p95 ms', 'firstP95Ms', undefined, '-')],
    },
    {
      name: 'policy large',
      job: large,
      warm: { turns: 1, calls: 500 },
      turns: 10,
      policy: 'patterns',
      rows: [row('32 patterns, 100 KB: CPU us a call', 'cpuMicros', plain(3000), '-')],
    },
  ]
}
