/** How much of one turn of the event loop the bodies of all requests take together. */

/** How long the bodies of all requests are looked at in one turn of the event loop, in ms, but for the piece that passes it. */
const TURN_MS = 5

/**
 * Shares the event loop among the bodies that are being read: measures the work of one turn after another, and puts off what is
 * too much for it.
 */
export class Turns {
  #spentMs = 0
  #isTimed = false
  readonly #waiting: (() => void)[] = []

  /**
   * Does work in this turn or, when that was long enough, in a later one: first come, first served. The work must not throw.
   * @returns whether it is done
   */
  run(work: () => void): boolean {
    if (!this.#isTimed) this.#time()
    if (this.#spentMs >= TURN_MS || this.#waiting.length > 0) {
      this.#waiting.push(work)
      return false
    }
    this.#do(work)
    return true
  }

  #do(work: () => void): void {
    const began = performance.now()
    work()
    this.#spentMs += performance.now() - began
  }

  #time(): void {
    this.#isTimed = true
    setImmediate(() => {
      this.#isTimed = false
      this.#spentMs = 0
      while (this.#waiting.length > 0 && this.#spentMs < TURN_MS) this.#do(this.#waiting.shift()!)
      // What was done now belongs to the turn that begins.
      if (this.#spentMs > 0) this.#time()
    })
  }
}
