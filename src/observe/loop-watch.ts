/** Notices when the process is kept busy, so that all calls wait, and says which plugin was called last. */
import { LineLimit } from './line-limit.ts'

const WARN_MS = 200
const WINDOW_MS = 60_000

/** Watches the delay of a regular timer. */
export class LoopWatch {
  /** Name of the configured plugin that was called last. */
  entered: string | undefined = undefined
  readonly #intervalMs: number
  readonly #warn: (message: string) => void
  /** One line a minute for each plugin. */
  readonly #lines = new LineLimit(() => {}, 1)
  #tickedAt: number | undefined
  #largestMs = 0
  #since = 0

  /** @param intervalMs of the timer that calls {@link LoopWatch.tick} */
  constructor(intervalMs: number, warn: (message: string) => void) {
    this.#intervalMs = intervalMs
    this.#warn = warn
  }

  /** The largest delay of the last minute or less. */
  get lagSeconds(): number {
    return this.#largestMs / 1000
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
