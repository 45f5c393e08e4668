/** Notices when the process is kept busy, so that all calls wait, and names the plugin that was called last. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { LineLimit } from './access-log.ts'

const WARN_MS = 200
const RESOLUTION_MS = 20
const WINDOW_MS = 60_000

/** Measures the delay of a regular timer. */
export class LoopWatch {
  /** Name of the configured plugin that was called last. */
  entered: string | undefined = undefined
  readonly #intervalMs: number
  readonly #warn: (message: string) => void
  /** One line a minute for each plugin. */
  readonly #lines = new LineLimit(() => {}, 1)
  #tickedAt: number | undefined
  #largestMs = 0
  #delays: ReturnType<typeof monitorEventLoopDelay> | undefined
  #since = 0

  /** @param intervalMs interval of the timer that calls {@link LoopWatch.tick} */
  constructor(intervalMs: number, warn: (message: string) => void) {
    this.#intervalMs = intervalMs
    this.#warn = warn
  }

  /** The largest delay of the last minute or less. */
  get lagSeconds(): number {
    return this.#largestMs / 1000
  }

  /** Delays of the event loop, in seconds: `p50` and `p99` since the last call, `max` of a minute. The first call begins to measure. */
  takeStats(): ReadonlyMap<string, number> {
    const stats = new Map([['max', this.lagSeconds]])
    if (this.#delays === undefined) {
      this.#delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
      this.#delays.enable()
      return stats
    }
    for (const percent of [50, 99]) {
      // A measured delay includes the interval of the timer.
      const ms = this.#delays.percentile(percent) / 1e6 - RESOLUTION_MS
      stats.set(`p${percent}`, Math.max(0, ms) / 1000)
    }
    this.#delays.reset()
    return stats
  }

  close(): void {
    this.#delays?.disable()
  }

  /** @param now steady ms */
  tick(now: number): void {
    const lagMs = Math.max(0, now - (this.#tickedAt ?? now - this.#intervalMs) - this.#intervalMs)
    this.#tickedAt = now
    if (now - this.#since >= WINDOW_MS) [this.#since, this.#largestMs] = [now, 0]
    this.#largestMs = Math.max(this.#largestMs, lagMs)
    if (lagMs <= WARN_MS || this.entered === undefined) return
    if (!this.#lines.admits(this.entered, now)) return
    const ms = Math.round(lagMs)
    this.#warn(`all calls waited for ${ms} ms; the plugin that was called last: ${this.entered}`)
  }
}
