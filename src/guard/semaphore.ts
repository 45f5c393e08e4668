/** So many at once, and among those who wait every owner in turn. */

interface Waiting {
  readonly enter: () => void
}

export class FairSemaphore {
  readonly #limit: number
  #inside = 0
  /** Owners in the order of their turn, each with those who wait. */
  readonly #queues = new Map<string, Waiting[]>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Waits for a place.
   * @returns what gives the place back, once
   * @throws the signal's reason when it is aborted while waiting
   */
  async enter(owner: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#inside < this.#limit) this.#inside++
    else await this.#wait(owner, signal)
    let left = false
    return () => {
      if (left) return
      left = true
      this.#next()
    }
  }

  #wait(owner: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(owner) ?? []
      this.#queues.set(owner, queue)
      const waiting: Waiting = {
        enter() {
          signal.removeEventListener('abort', giveUp)
          resolve()
        },
      }
      const giveUp = () => {
        queue.splice(queue.indexOf(waiting), 1)
        if (queue.length === 0) this.#queues.delete(owner)
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      queue.push(waiting)
    })
  }

  /** Hands a place on. */
  #next(): void {
    for (const [owner, queue] of this.#queues) {
      const waiting = queue.shift()!
      this.#queues.delete(owner)
      if (queue.length > 0) this.#queues.set(owner, queue)
      return waiting.enter()
    }
    this.#inside--
  }
}
