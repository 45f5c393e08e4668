/** Waiters allowed for each slot. */
const WAITING_PER_SLOT = 16

/** Limits how many tasks run at once. Further tasks wait in order of arrival, up to a bound. */
export class BoundedQueue {
  readonly #slots: number
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /**
   * Waits for a slot.
   * @param full makes the error for a full queue
   * @returns releases the slot; may be called more than once
   * @throws the signal's reason, or the error of `full`
   */
  async enter(signal: AbortSignal, full: () => Error): Promise<() => void> {
    signal.throwIfAborted()
    if (this.#running < this.#slots) this.#running++
    else {
      if (this.#waiting.size >= this.#slots * WAITING_PER_SLOT) throw full()
      await this.#wait(signal)
    }
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#release()
    }
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const proceed = () => {
        signal.removeEventListener('abort', giveUp)
        resolve()
      }
      const giveUp = () => {
        this.#waiting.delete(proceed)
        reject(signal.reason)
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.add(proceed)
    })
  }

  /** Hands the slot to the next waiter. */
  #release(): void {
    const [next] = this.#waiting
    if (!next) this.#running--
    else {
      this.#waiting.delete(next)
      next()
    }
  }
}
