/** The calls that have not ended. */
import type { Call } from './pipeline.ts'

/**
 * The calls under way. A list, not a Set: the tables of a Set kept finished calls alive until a full garbage collection,
 * a quarter of a core at 300 streams.
 */
export class RunningCalls implements Iterable<Call> {
  readonly #calls: Call[] = []
  /** Calls since the start, those that run included. */
  total = 0

  get size(): number {
    return this.#calls.length
  }

  add(call: Call): void {
    this.total++
    call.runningIndex = this.#calls.push(call) - 1
  }

  /** Moves the last call to the place of the one that ended. */
  delete(call: Call): void {
    const last = this.#calls.pop()
    if (!last || last === call) return
    this.#calls[call.runningIndex] = last
    last.runningIndex = call.runningIndex
  }

  /** Iterates over a copy: calls may end meanwhile. */
  [Symbol.iterator](): Iterator<Call> {
    return [...this.#calls].values()
  }
}
