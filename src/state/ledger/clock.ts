/** Time, the windows in which spend is counted (lifetime, UTC day, UTC month), and sums over these windows. */
import type { Pico } from '../../money/money.ts'
import type { CapScope, Discrepancy } from './ledger.ts'

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

const SCOPES = ['lifetime', 'day', 'month'] as const

/** @returns `lifetime`, the day itself, or its month `YYYYMM`. @param day UTC, `YYYYMMDD` */
export function windowOf(scope: CapScope, day: string): string {
  if (scope === 'lifetime') return scope
  return scope === 'day' ? day : day.slice(0, 6)
}

/** A scope with the end of its window, ms since epoch; `lifetime` has no end. @param now ms since epoch */
export function windowEnd(
  scope: CapScope,
  now: number,
): { readonly scope: CapScope; readonly resetsAt?: number } {
  if (scope === 'lifetime') return { scope }
  if (scope === 'day') return { scope, resetsAt: now - (now % DAY_MS) + DAY_MS }
  const date = new Date(now)
  return { scope, resetsAt: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) }
}

/** The name of a key's spend in a window, as `verify` reports it. */
export function spendName(key: string, window: string): string {
  return `spend of key ${key}, ${window}`
}

/** Adds an amount to one of several sums, by its name. */
export function addTo(sums: Map<string, Pico>, name: string, amount: Pico): void {
  sums.set(name, (sums.get(name) ?? 0n) + amount)
}

/** Adds an amount to a key's three windows of a day. @param prefix of the sums' names, such as `held, ` */
export function addSpend(
  sums: Map<string, Pico>,
  key: string,
  day: string,
  amount: Pico,
  prefix = '',
): void {
  for (const scope of SCOPES) addTo(sums, prefix + spendName(key, windowOf(scope, day)), amount)
}

/** Stored sums of an account that differ from recomputed ones; an absent recomputed sum is 0. */
export function compareSums(
  account: string,
  stored: Iterable<readonly [what: string, amount: Pico]>,
  recomputed: ReadonlyMap<string, Pico>,
): Discrepancy[] {
  return [...stored].flatMap(([what, amount]) => {
    const sum = recomputed.get(what) ?? 0n
    return amount === sum ? [] : [{ account, what, stored: amount, recomputed: sum }]
  })
}
