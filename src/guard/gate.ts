/** Holds an answer back while guards still look at what went in (guard design, 1.1). */
import type { Batch, Flow, Source } from '../plugin.ts'

/** An answer whose first part waits for a verdict; the answer is asked for meanwhile. */
export class Gate<Part> implements Source<Part> {
  readonly #answer: Flow<Part>
  readonly #verdict: () => Promise<Flow<Part> | undefined>
  #open = false
  #instead: Flow<Part> | undefined

  /** @param verdict what goes out in place of the answer, or nothing */
  constructor(answer: Flow<Part>, verdict: () => Promise<Flow<Part> | undefined>) {
    this.#answer = answer
    this.#verdict = verdict
  }

  async next(): Promise<Batch<Part>> {
    if (this.#open) return (this.#instead ?? this.#answer).next()
    this.#open = true
    const first = this.#answer.next()
    // It may fail before anybody waits for it.
    first.catch(() => {})
    this.#instead = await this.#verdict()
    if (!this.#instead) return first
    await this.#answer.close()
    return this.#instead.next()
  }

  async close(): Promise<void> {
    await this.#answer.close()
  }
}
