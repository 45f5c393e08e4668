/** What the systems are asked in the bench, and what is printed of it. */
import type { Row } from './judge.ts'
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
  /** In new processes every time: of starts, and of memory, because the free room of a used heap would hide what streams take. */
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
const LARGE = { ...JSON_JOB, requestBytes: 102_400 }
const FIRST = { kind: 'open', answer: 'sse-fast-20', lanes: 4, everyMs: 10, ms: 800 } as const
const LATENCY = { kind: 'open', answer: 'json-4k', lanes: 8, everyMs: 5, ms: 600 } as const

export function loadsOf({ isQuick, isAll, turns }: Extent): Load[] {
  const loads = [start(isQuick ? 1 : 3)]
  if (!isQuick) loads.push(memory())
  loads.push(json(turns, !isQuick), fast(turns), paced(turns, !isQuick))
  if (isQuick) return loads
  loads.push(coalesced(turns), latency(), lone(), first(), ...policies())
  if (isAll) loads.push(sized(turns, '1k'), sized(turns, '64k'))
  return loads
}

/** The first start compiles, as after an installation; those that count find it done. */
function start(turns: number): Load {
  return {
    name: 'start',
    job: { kind: 'check' },
    isFresh: true,
    warm: { turns: 1 },
    turns,
    rows: [
      {
        label: 'start, compiled before: s to an answer',
        figure: 'startSeconds',
        bound: { gate: 0.8, target: 0.6 },
      },
      { label: '  idle MB', figure: 'idleMb', bound: { gate: 150, target: 130 } },
    ],
  }
}

/** Never fewer streams: what grows once, with the first of them, would count as theirs. */
function memory(): Load {
  return {
    name: 'memory',
    job: { kind: 'streams', lanes: 4000, answer: 'sse-paced-1000-500', ms: 1500, isLast: true },
    isFresh: true,
    turns: 1,
    rows: [
      { label: 'memory: KB an open stream', figure: 'kbPerStream' },
      { label: '  open streams a GB', figure: 'perGb' },
    ],
  }
}

function json(turns: number, withDirect: boolean): Load {
  return {
    name: 'json',
    job: JSON_JOB,
    warm: { turns: 6, calls: 5000 },
    turns,
    withDirect,
    rows: [
      {
        label: 'JSON 2 -> 4 KB, 32 clients: CPU us a call',
        figure: 'cpuMicros',
        bound: { against: 'floor', gate: 1.7, target: 1.4 },
      },
      { label: '  calls a second', figure: 'perSecond' },
    ],
  }
}

function sized(turns: number, size: '1k' | '64k'): Load {
  const label = `JSON 2 -> ${size.slice(0, -1)} KB: CPU us a call`
  const job = { ...JSON_JOB, answer: `json-${size}` }
  return {
    name: `json-${size}`,
    job,
    warm: { turns: 1, calls: 2000 },
    turns,
    rows: [{ label, figure: 'cpuMicros' }],
  }
}

function fast(turns: number): Load {
  return {
    name: 'fast',
    job: FAST,
    warm: { turns: 4, calls: 500 },
    turns,
    rows: [
      {
        label: 'SSE fast, 16 clients: CPU us an event',
        figure: 'eventMicros',
        bound: { against: 'floor', gate: 1.2, target: 1 },
      },
      { label: '  events a second', figure: 'eventsPerSecond' },
    ],
  }
}

function coalesced(turns: number): Load {
  const label = 'SSE coalesced, 16 clients: CPU us an event'
  const job = { ...FAST, answer: 'sse-coalesced-200' }
  return {
    name: 'coalesced',
    job,
    warm: { turns: 2, calls: 500 },
    turns,
    rows: [{ label, figure: 'eventMicros' }],
  }
}

/** The streams go on when all are open, and last a little longer than a burst. */
function paced(turns: number, withDirect: boolean): Load {
  return {
    name: 'paced',
    job: { kind: 'streams', lanes: 300, answer: 'sse-paced-12-50-300', ms: BURST_MS },
    warm: { turns: 2 },
    turns,
    withDirect,
    rows: [
      {
        label: 'SSE paced, 300 streams: CPU us an event',
        figure: 'cpuMicros',
        bound: { against: 'floor', gate: 1.2, target: 1.1 },
      },
      {
        label: '  gap p99 ms',
        figure: 'gapP99Ms',
        how: '-',
        bound: { against: 'direct', gate: 6 },
      },
    ],
  }
}

function latency(): Load {
  return {
    name: 'latency',
    job: LATENCY,
    turns: 5,
    rows: [
      { label: 'JSON, 8 clients every 5 ms: p50 ms', figure: 'p50Ms' },
      { label: '  p99 ms', figure: 'p99Ms' },
    ],
  }
}

/** The floor has its sync of the disk too. */
function lone(): Load {
  return {
    name: 'lone',
    job: { ...LATENCY, lanes: 1, ms: 2000 },
    turns: 5,
    rows: [
      {
        label: 'a lone call: p50 ms',
        figure: 'p50Ms',
        how: '-',
        bound: { against: 'floor', gate: 0.6 },
      },
    ],
  }
}

function first(): Load {
  return {
    name: 'first',
    job: FIRST,
    turns: 5,
    rows: [
      { label: 'first event: p50 ms', figure: 'firstP50Ms' },
      { label: '  p99 ms', figure: 'firstP99Ms' },
    ],
  }
}

/** In many turns: what a policy adds is less than a call varies by between turns. */
function policies(): Load[] {
  const policy = 'literals'
  return [
    {
      name: 'policy json',
      policy,
      job: JSON_JOB,
      warm: { turns: 4, calls: 2000 },
      turns: 20,
      rows: [{ label: '8 literals: calls a second', figure: 'perSecond' }],
    },
    {
      name: 'policy events',
      policy,
      job: FAST,
      warm: { turns: 2, calls: 500 },
      turns: 20,
      rows: [
        {
          label: '8 literals, fast: CPU us an event',
          figure: 'eventMicros',
          how: '-',
          bound: { against: 'plain', gate: 2.5 },
        },
      ],
    },
    {
      name: 'policy first',
      policy,
      job: FIRST,
      turns: 4,
      rows: [{ label: '8 literals, first event: p95 ms', figure: 'firstP95Ms', how: '-' }],
    },
    {
      name: 'policy large',
      policy: 'patterns',
      job: LARGE,
      warm: { turns: 1, calls: 500 },
      turns: 10,
      rows: [
        {
          label: '32 patterns, 100 KB: CPU us a call',
          figure: 'cpuMicros',
          how: '-',
          bound: { against: 'plain', gate: 3000 },
        },
      ],
    },
  ]
}
