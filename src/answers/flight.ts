/** Equal calls that run at the same time: the first one asks, the others wait for its answer. */
import type { Usage } from '../plugin.ts'

/** An answer in normal form, below the guards. */
export interface StoredAnswer {
  readonly v: 1
  /** ms since epoch */
  readonly at: number
  /** Seconds. */
  readonly ttl: number
  readonly deployment: string
  readonly usage: Usage
  /** It is made by the endpoint. */
  readonly parts: unknown
}

/** What a waiting call is told: the answer, or that it is the first one now. */
type Told = (answer: StoredAnswer | undefined) => void

/** The calls of one name: one that asks, and those that wait. */
export class Flight {
  #waiting: Told[] = []
  #answer: StoredAnswer | undefined
  readonly #over: () => void

  /** @param over called when no call asks or waits any more, and an answer can be found */
  constructor(over: () => void) {
    this.#over = over
  }

  /** Waits for the call that asks. @returns ends the waiting */
  wait(told: Told): () => void {
    if (this.#answer) told(this.#answer)
    else this.#waiting.push(told)
    return () => {
      this.#waiting = this.#waiting.filter((one) => one !== told)
    }
  }

  /** The call that asks has an answer. @param stored resolves when the storage has it; until then others get it here */
  end(answer: StoredAnswer, stored: Promise<void>): void {
    const told = this.#waiting
    this.#waiting = []
    this.#answer = answer
    void stored.then(this.#over)
    for (const tell of told) tell(answer)
  }

  /** The call that asks has no answer: one of the others asks. */
  pass(): void {
    const next = this.#waiting.shift()
    if (next) next(undefined)
    else this.#over()
  }
}
