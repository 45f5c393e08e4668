/** Guards that let others have their turn while they look at something long: a whole text, or a long piece of one. */
import type { Origin } from '../plugin.ts'
import type { Follower, Stop } from './scan-session.ts'
import { inTurns, type Steps } from '../patterns/time-slice.ts'
import { toFault } from './verdicts.ts'

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
/** Shorter pieces of a text that grows are looked at without a step. */
const LONG = 1 << 14

/** A local plugin says the same however a text is cut, so it may be told of it little by little. */
function* toldOf(follower: Follower, text: string): Steps<void> {
  for (let at = 0; at < text.length && !follower.stop; at += SLICE) {
    follower.push(text.slice(at, at + SLICE))
    yield
  }
}

/** A local plugin that looks at a text once it is complete. */
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
    yield* toldOf(this.#follower, this.#text)
    if (!this.#follower.stop) this.#follower.end()
  }
}

/** A local plugin that looks at a text as it grows: at once, but for long pieces. */
export class AsItGrows implements Follower {
  readonly name: string
  readonly origin: Origin
  safe = 0
  stop: Stop | undefined = undefined
  waiting = false
  readonly #follower: Follower
  readonly #changed: () => void
  /** What came while it was waiting. */
  #later = ''
  #ended = false
  #left = false

  constructor(follower: Follower, changed: () => void) {
    this.name = follower.name
    this.origin = follower.origin
    this.#follower = follower
    this.#changed = changed
    this.#take()
  }

  get looking(): boolean {
    return this.waiting
  }

  push(text: string): void {
    if (this.waiting) this.#later += text
    else if (text.length > LONG) this.#look(text)
    else {
      this.#follower.push(text)
      this.#take()
    }
  }

  end(): void {
    this.#ended = true
    if (this.waiting) return
    this.#follower.end()
    this.#take()
  }

  leave(): void {
    this.#left = true
    this.waiting = false
    this.#follower.leave()
  }

  #look(text: string): void {
    const result = turnsOf(toldOf(this.#follower, text), () => this.#left)
    if (!(result instanceof Promise)) return this.#take()
    this.waiting = true
    void this.#wait(result)
  }

  async #wait(result: Promise<void>): Promise<void> {
    try {
      await result
      while (this.#later !== '' && !this.#follower.stop) await this.#more()
      if (this.#ended && !this.#follower.stop) this.#follower.end()
      this.#take()
    } catch (error) {
      this.stop = { fault: toFault(error) }
    }
    if (this.#left) return
    this.waiting = false
    this.#changed()
  }

  /** Looks at what came meanwhile. */
  #more(): void | Promise<void> {
    const text = this.#later
    this.#later = ''
    return turnsOf(toldOf(this.#follower, text), () => this.#left)
  }

  #take(): void {
    this.safe = this.#follower.safe
    this.stop = this.#follower.stop
  }
}
