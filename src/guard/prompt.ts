/**
 * A screen whose guards answer at once. What is long may take a while to look at all the same, such as a tool call, or a
 * match that began far back: what was held meanwhile goes out with the next part, and the end waits for all of it.
 */
import type { Step } from '../plugin.ts'
import type { Screen } from './screen.ts'

export class Prompt<Part> implements Step<Part, Part> {
  readonly #screen: Screen<Part>
  /** A guard has answered since the last part. */
  #isNews = false
  /** What has to wait for a guard. */
  readonly #later: Part[] = []
  #ended = false

  constructor(screen: Screen<Part>) {
    this.#screen = screen
    screen.changed = this.#hear.bind(this)
  }

  get done(): boolean {
    return this.#screen.done
  }

  push(part: Part, emit: (part: Part) => void): void {
    // Mostly nobody has to wait.
    if (!this.#isNews && this.#later.length === 0 && !this.#screen.looking) {
      return this.#screen.gather(part, emit)
    }
    this.#later.push(part)
    this.#goOn(emit)
  }

  batchEnd(emit: (part: Part) => void): void {
    this.#screen.batchEnd(emit)
  }

  end(emit: (part: Part) => void): void | Promise<void> {
    if (this.#finish(emit)) return undefined
    return new Promise((resolve, reject) => {
      this.#screen.changed = () => {
        this.#isNews = true
        try {
          if (this.#finish(emit)) resolve()
        } catch (error) {
          reject(error)
        }
      }
    })
  }

  fail(error: unknown): unknown {
    return this.#screen.fail(error)
  }

  #hear(): void {
    this.#isNews = true
  }

  #goOn(emit: (part: Part) => void): void {
    const screen = this.#screen
    if (this.#isNews) {
      this.#isNews = false
      screen.update(emit)
    }
    while (this.#later.length > 0 && !screen.looking) screen.push(this.#later.shift()!, emit)
  }

  /** @returns whether there is nothing left to wait for */
  #finish(emit: (part: Part) => void): boolean {
    const screen = this.#screen
    this.#goOn(emit)
    if (!this.#ended && this.#later.length === 0) {
      this.#ended = true
      screen.end(emit)
    }
    return screen.done || (this.#ended && !screen.waiting)
  }
}
