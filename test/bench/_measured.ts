/** Figures of a bench that nobody has run. */
import { judge, type Run, type Setting, type Turn } from './judge.ts'

/** Three turns of every figure that is drawn or printed; the gateway takes `times` as long as the proxy. */
export function turnsOf(times: number, perSecond = 20_000): Turn[] {
  return [0.9, 1, 1.2].map((sway) => ({
    direct: { 'json.perSecond': perSecond, 'paced.gapP99Ms': 50 },
    bare: figures(sway, perSecond / 2),
    gateway: {
      ...figures(sway * times, perSecond / 2 / times),
      'added.gapP99Ms': 2 * sway,
      'check.idleMb': 180,
      'check.startSeconds': 0.55,
      'memory.perGb': 14_000,
      'guard.share': 0.91,
      'guard.eventMicros': 1.8,
    },
  }))
}

function figures(size: number, perSecond: number) {
  return {
    'json.cpuMicros': 50 * size,
    'json.perSecond': perSecond,
    'latency.p50Ms': 0.5 * size,
    'latency.p99Ms': 2 * size,
    'lone.p50Ms': 0.3 * size,
    'first.firstP50Ms': 1.2 * size,
    'fast.eventMicros': 4 * size,
    'paced.cpuMicros': 40 * size,
    'paced.gapP99Ms': 52 * size,
  }
}

const CHECKED = { answers: 1000, events: 50_000 }

/** A run over all settings. */
export function runOf(times: Readonly<Record<string, number>> = {}): Run {
  const settings = [true, false].flatMap((pinned) =>
    (['file', 'memory', 'redis'] as const).map((state): Setting => ({ state, pinned })),
  )
  return {
    version: '1.2.3 (abcdef0)',
    date: '2026-01-31',
    machine: 'A Processor <fast> & cool, 2 cores, 24 GB, Linux 6.1',
    node: '24.0.0',
    rounds: 3,
    settings: settings.map((one) => judge(one, turnsOf(times[one.state] ?? 2), CHECKED)),
  }
}
