/** When a worker that has ended is started again. */

/** A life shorter than this counts as an early end. */
const EARLY_MS = 10_000
/** Number of early ends in a row after which it is of no use to go on. */
const MOST_EARLY = 5
const FIRST_MS = 250
const LONGEST_MS = 30_000

/** Counts the ends of one worker and its replacements. */
export class Restarts {
  #early = 0
  #refused = 0

  /**
   * Counts an end.
   * @param livedMs since its start. @returns ms to wait before the next start; undefined where it has ended early repeatedly
   */
  ended(livedMs: number): number | undefined {
    this.#early = livedMs < EARLY_MS ? this.#early + 1 : 0
    if (this.#early === MOST_EARLY) return undefined
    return this.#early === 0 ? 0 : FIRST_MS * 2 ** (this.#early - 1)
  }

  /** Counts a refused start: a configuration or a store may be repaired meanwhile. @returns ms to wait */
  refused(): number {
    return Math.min(2 * FIRST_MS * 2 ** this.#refused++, LONGEST_MS)
  }

  started(): void {
    this.#refused = 0
  }
}
