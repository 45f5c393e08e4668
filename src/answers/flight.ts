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

/** The listener of a waiting call: it gets the answer, or undefined where its call is the first one now. */
type Listener = (answer: StoredAnswer | undefined) => void

/** The calls of one name: one that asks, and those that wait. */
export class Flight {
  #waiting: Listener[] = []
  #answer: StoredAnswer | undefined
  readonly #over: () => void

  /** @param over called when no call asks or waits any more, and an answer can be found */
  constructor(over: () => void) {
    this.#over = over
  }

  /** Waits for the call that asks. @returns ends the waiting */
  wait(listener: Listener): () => void {
    if (this.#answer) listener(this.#answer)
    else this.#waiting.push(listener)
    return () => {
      this.#waiting = this.#waiting.filter((one) => one !== listener)
    }
  }

  /** The call that asks has an answer. @param stored resolves when the storage has it; until then others get it here */
  end(answer: StoredAnswer, stored: Promise<void>): void {
    const waiting = this.#waiting
    this.#waiting = []
    this.#answer = answer
    void stored.then(this.#over)
    for (const listener of waiting) listener(answer)
  }

  /** The call that asks has no answer: one of the others asks. */
  pass(): void {
    const next = this.#waiting.shift()
    if (next) next(undefined)
    else this.#over()
  }
}
