/** Bounds how many tasks run at once; owners that wait take turns. */

interface Waiting {
  readonly enter: () => void
}

export class FairSemaphore {
  readonly #limit: number
  #running = 0
  /** Owners in the order of their turn, each with its waiting tasks. */
  readonly #queues = new Map<string, Waiting[]>()

  constructor(limit: number) {
    this.#limit = limit
  }

  /**
   * Waits until a task may run.
   * @returns gives the place back; further calls do nothing
   * @throws the signal's reason when it is aborted before that
   */
  async enter(owner: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#running < this.#limit) this.#running++
    else await this.#wait(owner, signal)
    let released = false
    return () => {
      if (released) return
      released = true
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

  /** Hands a place on. The owner moves to the end of the line. */
  #next(): void {
    for (const [owner, queue] of this.#queues) {
      const waiting = queue.shift()!
      this.#queues.delete(owner)
      if (queue.length > 0) this.#queues.set(owner, queue)
      return waiting.enter()
    }
    this.#running--
  }
}
