/** Things to be done unless they are put off. One timer drives all of them, so one more costs next to nothing. */
import { removeUnordered } from './lists.ts'

/** Something that will be done unless it is put off. */
export interface Timeout {
  /** Starts anew, from the last tick on, so that it may be said for every event of a stream. In its ring: once more. */
  restart(): void
  clear(): void
}

/** The alarms of one owner. */
export class Timeouts {
  /** Few at a time. */
  readonly #alarms: ManagedTimeout[] = []

  /** Rings once, at the first tick after `delayMs`, or as much before where it was put off. */
  set(delayMs: number, ring: (now: number) => void): Timeout {
    const alarm = new ManagedTimeout(this.#alarms, delayMs, ring)
    this.#alarms.push(alarm)
    return alarm
  }

  tick(now: number): void {
    // A copy: one that rings may take others off.
    for (const alarm of this.#alarms.toReversed()) alarm.tick(now)
  }
}

class ManagedTimeout implements Timeout {
  readonly #alarms: ManagedTimeout[]
  readonly #delayMs: number
  readonly #ring: (now: number) => void
  /** At the last tick. */
  #now = Date.now()
  #at: number

  constructor(alarms: ManagedTimeout[], delayMs: number, ring: (now: number) => void) {
    this.#alarms = alarms
    this.#delayMs = delayMs
    this.#ring = ring
    this.#at = this.#now + delayMs
  }

  restart(): void {
    this.#at = this.#now + this.#delayMs
  }

  clear(): void {
    this.#at = Infinity
    removeUnordered(this.#alarms, this)
  }

  tick(now: number): void {
    this.#now = now
    if (this.#at > now) return
    this.#at = Infinity
    this.#ring(now)
    if (this.#at === Infinity) this.clear()
  }
}
