/** Shares the event loop among the bodies that are being read: other requests are served between their pieces. */

/** How long the bodies of all requests are looked at in one turn of the event loop, in ms, but for the piece that passes it. */
const TURN_MS = 5
/** Bodies that go on in each turn. A piece of 64 KiB takes well below a millisecond. */
const GOING_ON = 8

/** Counts the work of one turn after another. */
class Turns {
  #spentMs = 0
  #isTimed = false
  readonly #waiting: (() => void)[] = []

  /** Counts work that was done. @returns a promise when the body has to wait for a later turn */
  spend(ms: number): Promise<void> | undefined {
    this.#spentMs += ms
    if (!this.#isTimed) this.#time()
    if (this.#spentMs < TURN_MS) return undefined
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  #time(): void {
    this.#isTimed = true
    setImmediate(() => {
      this.#isTimed = false
      this.#spentMs = 0
      for (const goOn of this.#waiting.splice(0, GOING_ON)) goOn()
      if (this.#waiting.length > 0) this.#time()
    })
  }
}

/** Of this process, which has one event loop. */
export const turns = new Turns()
