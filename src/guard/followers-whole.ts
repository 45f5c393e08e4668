/** Guards that look at a text once it is complete, and let others have their turn meanwhile. */
import type { Follower, Stop } from './follower.ts'
import { inTurns, type Steps } from './stretch.ts'
import { toFault } from './verdicts.ts'
import type { Origin } from './watch.ts'

/** Said to whom nobody listens. */
const LEFT = new Error('nobody waits for this guard')

/** {@link inTurns} for a guard that may be left meanwhile: the promise is broken then. */
export function turnsOf<T>(steps: Steps<T>, hasLeft: () => boolean): T | Promise<T> {
  return inTurns(steps, () => {
    if (hasLeft()) throw LEFT
  })
}

/** Waits for a text to be complete. */
export abstract class AtEnd implements Follower {
  readonly name: string
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  waiting = false
  readonly #changed: () => void
  #left = false

  constructor(name: string, origin: Origin, changed: () => void) {
    this.name = name
    this.origin = origin
    this.#changed = changed
  }

  abstract push(text: string): void
  abstract end(): void

  leave(): void {
    this.#left = true
    this.waiting = false
  }

  /** Does the work in turns with others, and takes down what came of it. */
  protected look<T>(steps: Steps<T>, found: (value: T) => void): void {
    const result = turnsOf(steps, () => this.#left)
    if (!(result instanceof Promise)) return found(result)
    this.waiting = true
    result
      .then(found, (error: unknown) => {
        this.stop = { fault: toFault(error) }
      })
      .finally(() => {
        if (this.#left) return
        this.waiting = false
        this.#changed()
      })
  }
}

/** So many characters a plugin looks at in one step. */
const SLICE = 256

/** A local plugin: it says the same however a text is cut, so it may be told of it little by little. */
export class BySlices extends AtEnd {
  readonly #follower: Follower
  #text = ''

  constructor(follower: Follower, changed: () => void) {
    super(follower.name, follower.origin, changed)
    this.#follower = follower
  }

  push(text: string): void {
    this.#text += text
  }

  end(): void {
    this.look(this.#steps(), () => {
      this.safe = this.#follower.safe
      this.stop = this.#follower.stop
    })
  }

  *#steps(): Steps<void> {
    const follower = this.#follower
    for (let at = 0; at < this.#text.length && !follower.stop; at += SLICE) {
      follower.push(this.#text.slice(at, at + SLICE))
      yield
    }
    if (!follower.stop) follower.end()
  }
}
