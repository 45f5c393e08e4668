/** When a worker that has ended is started again. */

/** A worker that lives for less has ended early. */
const EARLY_MS = 10_000
/** So many early ends, one after the other, and it is of no use to go on. */
const MOST_EARLY = 5
const FIRST_MS = 250
const LONGEST_MS = 30_000

/** Counts what happens to one worker and those that replace it. */
export class Restarts {
  #early = 0
  #refused = 0

  /**
   * The worker has ended.
   * @param livedMs since its start
   * @returns ms to wait before the next start; undefined where it has ended early again and again
   */
  ended(livedMs: number): number | undefined {
    this.#early = livedMs < EARLY_MS ? this.#early + 1 : 0
    if (this.#early === MOST_EARLY) return undefined
    return this.#early === 0 ? 0 : FIRST_MS * 2 ** (this.#early - 1)
  }

  /** It could not start, and said why: a configuration or a store may be mended meanwhile. @returns ms to wait */
  refused(): number {
    return Math.min(2 * FIRST_MS * 2 ** this.#refused++, LONGEST_MS)
  }

  /** It serves. */
  started(): void {
    this.#refused = 0
  }
}
