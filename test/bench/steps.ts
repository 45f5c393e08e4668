/** What every process is asked in the bench, step by step, and figures that come of several. */
import type { Turn } from './judge.ts'
import type { Job } from './load.ts'

/** By name, in order. */
export type Steps = Record<string, Partial<Job> & Pick<Job, 'kind'>>
/** Steps that are taken so many times, once there were so many requests that do not count. */
export interface Group {
  readonly turns: number
  readonly warmRequests?: number
  /** Turns of the others are so long that V8 lets go of compiled code meanwhile: the steps are taken once before they count. */
  readonly rehearsed?: boolean
  readonly steps: Steps
}

/** Answers of every kind, read to the last byte, before anything is timed. */
export const CHECK: Group = { turns: 1, steps: { check: { kind: 'check' } } }

/**
 * In the order in which every process goes through them. The systems take turns at each group, so that what else happens
 * on the machine falls on all of them; figures are compared within a turn. `scale` is of durations.
 */
export function groupsOf(scale: number): Group[] {
  const { json, large, fast } = loads(scale)
  const coalesced = { ...fast, answer: 'sse-coalesced-200' }
  // Five seconds, of which a slow machine may need some until all streams are open.
  const paced = { kind: 'streams', lanes: 300, answer: 'sse-paced-100-50', ms: 60_000 } as const
  const latency = { ...json, kind: 'open', lanes: 8, everyMs: 5, ms: 600 * scale } as const
  const first = {
    ...latency,
    answer: 'sse-fast-20',
    lanes: 4,
    everyMs: 10,
    ms: 1200 * scale,
  } as const
  return [
    CHECK,
    // The first tenths of a second after a pause are slower than the rest.
    { turns: 5, warmRequests: 60_000 * scale, steps: { json: { ...json, ms: 2000 * scale } } },
    { turns: 3, steps: { latency } },
    { turns: 3, steps: { lone: { ...latency, lanes: 1, ms: 2000 * scale } } },
    { turns: 4, warmRequests: 500, steps: { large } },
    { turns: 3, warmRequests: 100, steps: { fast } },
    { turns: 3, warmRequests: 100, steps: { coalesced } },
    { turns: 3, steps: { first } },
    // At this pace other paths are hot than at full speed.
    { turns: Math.ceil(2 * scale), rehearsed: true, steps: { paced } },
  ]
}

function loads(scale: number) {
  const json = { kind: 'closed', answer: 'json-4k', lanes: 32, ms: 400 * scale } as const
  return {
    json,
    large: { ...json, requestBytes: 102_400 },
    fast: { ...json, answer: 'sse-fast-200', lanes: 16 },
  }
}

/** In a process of its own too: the same load with a key without a policy and with keys that have one. */
export function guardGroups(scale: number): Group[] {
  const { json, large, fast } = loads(scale)
  const first = { kind: 'open', answer: 'sse-fast-20', lanes: 4, everyMs: 10 } as const
  const words = { ...first, ms: 800 * scale }
  const check = { kind: 'check' } as const
  const checks = ['plain', 'guarded', 'ruled'].map((key) => [`${key}-check`, check])
  return [
    { turns: 1, steps: Object.fromEntries(checks) },
    {
      turns: 10,
      warmRequests: 30_000 * scale,
      steps: { 'plain-json': json, 'guarded-json': json },
    },
    { turns: 8, warmRequests: 1000 * scale, steps: { 'plain-fast': fast, 'guarded-fast': fast } },
    { turns: 4, warmRequests: 100, steps: { 'plain-first': words, 'guarded-first': words } },
    { turns: 4, warmRequests: 500, steps: { 'plain-large': large, 'ruled-large': large } },
  ]
}

/** What guards add, by the steps of {@link guardGroups}: NaN for what was not in this turn. */
export function addedByGuards({ gateway: figures }: Turn): Turn {
  const added = (guarded: string, plain: string) => figures[guarded]! - figures[plain]!
  const gateway = {
    'guard.share': figures['guarded-json.perSecond']! / figures['plain-json.perSecond']!,
    'guard.eventMicros': added('guarded-fast.eventMicros', 'plain-fast.eventMicros'),
    'guard.firstMs': added('guarded-first.firstP95Ms', 'plain-first.firstP95Ms'),
    'guard.largeMs': added('ruled-large.cpuMicros', 'plain-large.cpuMicros') / 1000,
  }
  return { direct: {}, bare: {}, gateway }
}

export function addedToDirect(turn: Turn): Turn {
  const figure = 'paced.gapP99Ms'
  for (const system of ['bare', 'gateway'] as const) {
    turn[system]['added.gapP99Ms'] = turn[system][figure]! - turn.direct[figure]!
  }
  return turn
}

/**
 * In a process of its own: one that has served requests has free room in its heap, which would hide the streams. Never fewer:
 * what grows once, with the first streams, would count as theirs.
 */
export function memoryGroups(): Group[] {
  const memory = { lanes: 4000, answer: 'sse-paced-1000-500', ms: 1500 } as const
  return [CHECK, { turns: 1, steps: { memory: { kind: 'streams', ...memory } } }]
}
