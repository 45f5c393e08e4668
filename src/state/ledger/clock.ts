/** Time, as the engines of the ledger use it. */

export const DAY_MS = 86_400_000

/**
 * An engine's clock. The operator can set calendar time back. Steady time then goes on from its last value, so that rate
 * logs and leases neither freeze nor forget.
 */
export class Clock {
  readonly #now: () => number
  #last = -Infinity
  #setBackMs = 0
  #dayNumber = NaN
  #dayName = ''

  constructor(now: () => number = () => Date.now()) {
    this.#now = now
  }

  /** Calendar time, ms since epoch. */
  now(): number {
    const now = this.#now()
    if (now < this.#last) this.#setBackMs += this.#last - now
    this.#last = now
    return now
  }

  /** The steady time of a moment that `now` has just returned. */
  steady(now: number): number {
    return now + this.#setBackMs
  }

  /** UTC day of a moment, `YYYYMMDD`. */
  day(now: number): string {
    const number = Math.floor(now / DAY_MS)
    if (number !== this.#dayNumber) {
      this.#dayNumber = number
      this.#dayName = dayOf(now)
    }
    return this.#dayName
  }
}

/** UTC day of a moment, ms since epoch, as `YYYYMMDD`. */
export function dayOf(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10).replaceAll('-', '')
}
