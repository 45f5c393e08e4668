/**
 * Time, and the windows in which a ledger counts: spans of a fixed length, which the first call opens, and sets of local dates.
 * A window has a name: `YYYYMMDD` of a day, or of the Monday of a week, `YYYYMM` of a month, the start of a span in ms, or `-`.
 */

export type Window = 'minute' | '5h' | 'day' | 'week' | 'month' | 'lifetime'

export const DAY_MS = 86_400_000
export const MINUTE_MS = 60_000

/** Lengths of the windows that are no dates. */
const SPANS_MS: Readonly<Partial<Record<Window, number>>> = {
  minute: MINUTE_MS,
  '5h': 300 * MINUTE_MS,
}

/** The local time of a zone: minutes east of UTC, and those that hold from a moment on, ms since epoch. Absent for UTC. */
export interface ZoneRule {
  readonly offset: number
  readonly until: number
  readonly next: number
}

/** Minutes east of UTC. */
export function offsetAt(now: number, zone: ZoneRule | undefined): number {
  if (!zone) return 0
  return now < zone.until ? zone.offset : zone.next
}

/** A moment, with the local date that the clock shows. */
export interface Moment {
  /** ms since epoch */
  readonly now: number
  /** Minutes east of UTC. */
  readonly offset: number
  /** Days since epoch of the local date. */
  readonly days: number
  /** The local date, `YYYYMMDD`. */
  readonly day: string
}

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

  /** Local date of a moment, `YYYYMMDD`. */
  day(now: number, zone?: ZoneRule): string {
    return this.moment(now, zone).day
  }

  moment(now: number, zone?: ZoneRule): Moment {
    const offset = offsetAt(now, zone)
    const days = Math.floor((now + offset * MINUTE_MS) / DAY_MS)
    if (days !== this.#dayNumber) {
      this.#dayNumber = days
      this.#dayName = dayOf(days * DAY_MS)
    }
    return { now, offset, days, day: this.#dayName }
  }
}

/** UTC day of a moment, ms since epoch, as `YYYYMMDD`. */
export function dayOf(moment: number): string {
  return new Date(moment).toISOString().slice(0, 10).replaceAll('-', '')
}

/** The window of a sum that is always kept: `lifetime`, the day itself, or its month `YYYYMM`. @param day `YYYYMMDD` */
export function windowOf(window: Window | undefined, day: string): string {
  if (window === 'lifetime') return window
  return window === 'day' ? day : day.slice(0, 6)
}

/**
 * The name of the window in which a call counts that is held now.
 * @param counted the name of the window that is counted at present; empty where none is
 */
export function currentWindow(
  window: Window | undefined,
  counted: string,
  { now, days, day }: Moment,
): string {
  if (window === undefined || window === 'lifetime') return '-'
  const span = SPANS_MS[window]
  if (span !== undefined) {
    return counted !== '' && now < Number(counted) + span ? counted : String(now)
  }
  const name = window === 'week' ? dayOf(mondayOf(days) * DAY_MS) : windowOf(window, day)
  return counted !== '' && Number(counted) > Number(name) ? counted : name
}

/**
 * When the present window ends, ms since epoch, by the present time of the zone: to compare windows.
 * @param name the name of a span
 */
export function roughEnd(
  window: Window | undefined,
  name: string,
  { offset, days, day }: Moment,
): number {
  if (window === undefined || window === 'lifetime') return Infinity
  const span = SPANS_MS[window]
  if (span !== undefined) return Number(name) + span
  return nextDays(window, days, day) * DAY_MS - offset * MINUTE_MS
}

/** Days since epoch of the first date after a window. */
function nextDays(window: Window, days: number, day: string): number {
  if (window === 'day') return days + 1
  if (window === 'week') return mondayOf(days) + 7
  return Date.UTC(Number(day.slice(0, 4)), Number(day.slice(4, 6)), 1) / DAY_MS
}

/** 1 January 1970 was a Thursday. */
function mondayOf(days: number): number {
  return days - ((((days + 3) % 7) + 7) % 7)
}

/** First and last moment of a window, ms since epoch. @param firstMoment the first moment of a local date, `YYYY-MM-DD` */
export function boundsOf(
  window: Window | undefined,
  name: string,
  firstMoment: (date: string) => number,
): { readonly startsAt?: number; readonly resetsAt?: number } {
  if (window === undefined || window === 'lifetime' || name === '') return {}
  const span = SPANS_MS[window]
  if (span !== undefined) return { startsAt: Number(name), resetsAt: Number(name) + span }
  const day = name.length === 6 ? `${name}01` : name
  const days = daysOf(day)
  const dateOf = (of: number) => new Date(of * DAY_MS).toISOString().slice(0, 10)
  return {
    startsAt: firstMoment(dateOf(days)),
    resetsAt: firstMoment(dateOf(nextDays(window, days, day))),
  }
}

/** Days since epoch of a date. @param day `YYYYMMDD` */
function daysOf(day: string): number {
  const [year, month, date] = [day.slice(0, 4), day.slice(4, 6), day.slice(6)].map(Number)
  return Date.UTC(year!, month! - 1, date) / DAY_MS
}
