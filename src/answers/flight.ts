/** Equal calls that run at the same time: the first one asks, the others wait for its answer. */
import type { StoredAnswer } from './cache.ts'

/** What a waiting call is told: the answer, or that it is the first one now. */
type Told = (answer: StoredAnswer | undefined) => void

/** The calls of one name: one that asks, and those that wait. */
export class Flight {
  #waiting: Told[] = []
  readonly #over: () => void

  /** @param over called when nobody asks or waits any more */
  constructor(over: () => void) {
    this.#over = over
  }

  /** Waits for the call that asks. @returns ends the waiting */
  wait(told: Told): () => void {
    this.#waiting.push(told)
    return () => {
      this.#waiting = this.#waiting.filter((one) => one !== told)
    }
  }

  /** The call that asks has ended. Without an answer one of the others asks. */
  end(answer: StoredAnswer | undefined): void {
    const told = this.#waiting
    if (answer) {
      this.#waiting = []
      this.#over()
      for (const tell of told) tell(answer)
      return
    }
    const next = told.shift()
    if (next) next(undefined)
    else this.#over()
  }
}
