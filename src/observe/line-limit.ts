/** Keeps a flood of equal lines out of a log, and says how many were left out. */

/** Lines of a subject per window, unless the owner wants fewer. */
const LINE_LIMIT = 10
const WINDOW_MS = 60_000
/** Subjects of one window that are told apart; further ones share what is left. */
const SUBJECT_LIMIT = 100
const OTHERS = 'other messages'

/** Lines of one subject since its window began. */
interface Window {
  readonly since: number
  count: number
}

/** So many lines a minute for each subject. The owner calls {@link LineLimit.tick} from time to time. */
export class LineLimit {
  readonly #windows = new Map<string, Window>()
  readonly #onLeftOut: (count: number, subject: string) => void

  readonly #limit: number

  /** @param onLeftOut told at the end of a window in which lines were left out. @param limit lines of a subject per minute */
  constructor(onLeftOut: (count: number, subject: string) => void, limit = LINE_LIMIT) {
    this.#onLeftOut = onLeftOut
    this.#limit = limit
  }

  /** Whether one more line may be written. @param subject what its lines have in common. @param now steady ms */
  admits(subject: string, now: number): boolean {
    this.tick(now)
    const known = this.#windows.has(subject) || this.#windows.size < SUBJECT_LIMIT
    const key = known ? subject : OTHERS
    const window = this.#windows.get(key) ?? { since: now, count: 0 }
    this.#windows.set(key, window)
    return ++window.count <= this.#limit
  }

  /** Ends the windows that are over. @param now steady ms */
  tick(now: number): void {
    for (const [subject, { since, count }] of this.#windows) {
      // Older windows come first.
      if (now - since < WINDOW_MS) return
      this.#windows.delete(subject)
      if (count > this.#limit) this.#onLeftOut(count - this.#limit, subject)
    }
  }
}
