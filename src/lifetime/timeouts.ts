/** Restartable timeouts driven by one shared timer. */
import { removeUnordered } from './scope.ts'

/** A function that will be called unless the timeout is restarted or cleared in time. */
export interface Timeout {
  /**
   * Starts the delay again, counted from the last tick. Cheap enough for every event of a stream. Called while the timeout
   * fires, it makes it fire once more.
   */
  restart(): void
  clear(): void
}

/** The timeouts of one owner, which calls {@link Timeouts.tick} at regular intervals. */
export class Timeouts {
  readonly #timeouts: ManagedTimeout[] = []

  /** @param onTimeout called once, at the first tick after `delayMs`; receives the time of the tick (ms since epoch) */
  set(delayMs: number, onTimeout: (now: number) => void): Timeout {
    const timeout = new ManagedTimeout(this.#timeouts, delayMs, onTimeout)
    this.#timeouts.push(timeout)
    return timeout
  }

  /** @param now ms since epoch */
  tick(now: number): void {
    // A copy: a timeout that fires may clear others.
    for (const timeout of this.#timeouts.toReversed()) timeout.tick(now)
  }
}

class ManagedTimeout implements Timeout {
  readonly #siblings: ManagedTimeout[]
  readonly #delayMs: number
  readonly #onTimeout: (now: number) => void
  /** Time of the last tick, ms since epoch. */
  #now = Date.now()
  /** When it fires; Infinity after it fired or was cleared. */
  #at: number

  constructor(siblings: ManagedTimeout[], delayMs: number, onTimeout: (now: number) => void) {
    this.#siblings = siblings
    this.#delayMs = delayMs
    this.#onTimeout = onTimeout
    this.#at = this.#now + delayMs
  }

  restart(): void {
    this.#at = this.#now + this.#delayMs
  }

  clear(): void {
    this.#at = Infinity
    removeUnordered(this.#siblings, this)
  }

  tick(now: number): void {
    this.#now = now
    if (this.#at > now) return
    this.#at = Infinity
    this.#onTimeout(now)
    if (this.#at === Infinity) this.clear()
  }
}
