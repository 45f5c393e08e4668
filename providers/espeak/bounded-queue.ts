/** So many at once; others wait their turn, first come first served. */

/** For each that may be served at once, how many may wait. */
const WAITING_PER_PLACE = 16

export class BoundedQueue {
  readonly #places: number
  readonly #waiting = new Set<() => void>()
  #inside = 0

  constructor(places: number) {
    this.#places = places
  }

  /**
   * Waits for a place.
   * @returns what gives it back; idempotent
   * @throws the reason of the signal, or what `full` makes when too many wait already
   */
  async enter(signal: AbortSignal, full: () => Error): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#inside < this.#places) this.#inside++
    else {
      if (this.#waiting.size >= this.#places * WAITING_PER_PLACE) throw full()
      await this.#turn(signal)
    }
    let inside = true
    return () => {
      if (!inside) return
      inside = false
      this.#leave()
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const mine = () => {
        signal.removeEventListener('abort', giveUp)
        resolve()
      }
      const giveUp = () => {
        this.#waiting.delete(mine)
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.add(mine)
    })
  }

  /** The place goes to the next in line. */
  #leave(): void {
    const [next] = this.#waiting
    if (!next) this.#inside--
    else {
      this.#waiting.delete(next)
      next()
    }
  }
}
