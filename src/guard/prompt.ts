/**
 * A screen whose guards answer at once. What goes out whole, such as a tool call, may take a while to look at all the same:
 * it is there with the end of an answer, and the end waits for it.
 */
import type { Step } from '../plugin.ts'
import type { Screen } from './screen.ts'

export class Prompt<Part> implements Step<Part, Part> {
  readonly #screen: Screen<Part>

  constructor(screen: Screen<Part>) {
    this.#screen = screen
  }

  get done(): boolean {
    return this.#screen.done
  }

  push(part: Part, emit: (part: Part) => void): void {
    this.#screen.push(part, emit)
  }

  end(emit: (part: Part) => void): void | Promise<void> {
    const screen = this.#screen
    screen.end(emit)
    if (!isWaiting(screen)) return undefined
    return new Promise((resolve, reject) => {
      screen.changed = () => {
        try {
          screen.update(emit)
          if (!isWaiting(screen)) resolve()
        } catch (error) {
          reject(error)
        }
      }
    })
  }

  fail(error: unknown): unknown {
    return this.#screen.fail(error)
  }
}

function isWaiting<Part>(screen: Screen<Part>): boolean {
  return !screen.done && screen.waiting
}
