/** Looks on while an answer goes by, and changes nothing of it (guard design, 3.11). */
import type { Step } from '../plugin.ts'
import type { Screen } from './screen.ts'

const IGNORE = (): void => {}

/** Parts go through as they are; what guards say of them is written down by the screen. */
export class Monitor<Part> implements Step<Part, Part> {
  readonly #screen: Screen<Part>
  readonly #mostHeld: number
  readonly #finished: (incomplete: boolean) => void
  #over = false
  #ended = false

  /**
   * @param mostHeld characters that may wait for guards; beyond, nobody looks on
   * @param finished told once: everything was seen, or not
   */
  constructor(screen: Screen<Part>, mostHeld: number, finished: (incomplete: boolean) => void) {
    this.#screen = screen
    this.#mostHeld = mostHeld
    this.#finished = finished
    // Bound, not made (see `Screen`).
    screen.changed = this.#hear.bind(this)
  }

  push(part: Part, emit: (part: Part) => void): void {
    emit(part)
    if (this.#over) return
    this.#try(() => this.#screen.gather(part, IGNORE))
  }

  batchEnd(): void {
    this.#try(() => this.#screen.batchEnd(IGNORE))
    if (this.#screen.done) this.#finish(false)
    else if (this.#screen.held > this.#mostHeld) this.#finish(true)
  }

  end(): void {
    this.#ended = true
    this.#try(() => this.#screen.end(IGNORE))
    this.#check()
  }

  fail(error: unknown): unknown {
    this.#finish(true)
    return error
  }

  /** The call is over. If its answer did not come to an end, nobody needs to know about it. */
  brokenOff(): void {
    if (!this.#ended) this.#finish(true)
  }

  #hear(): void {
    this.#try(() => this.#screen.update(IGNORE))
    this.#check()
  }

  #try(run: () => void): void {
    if (this.#over) return
    try {
      run()
    } catch {
      this.#finish(true)
    }
  }

  #check(): void {
    if (this.#screen.done || (this.#ended && !this.#screen.waiting)) this.#finish(false)
  }

  #finish(incomplete: boolean): void {
    if (this.#over) return
    this.#over = true
    this.#screen.leave()
    this.#finished(incomplete)
  }
}
