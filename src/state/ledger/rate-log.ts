/** The admissions of the last minute. */
import type { RateStatus, RateUse } from './ledger.ts'
import { MINUTE_MS } from './windows.ts'

/** Admissions per minute up to which a log is exact; above, a list of times would cost too much memory. */
const EXACT_ENTRIES = 6000
/** Sixty whole seconds and the current one: with sixty buckets, part of the oldest second would not be counted. */
const BUCKETS = 61

/** A sliding log of the last minute: exact for limits up to EXACT_ENTRIES, with a resolution of one second above. */
export class RateLog {
  #entries: Ring | Buckets = new Ring()

  /** Time until a request would be admitted; 0 when it would be now. */
  waitMs(now: number, limit: number): number {
    return this.#entries.waitMs(now, limit)
  }

  rate(now: number, limit: number): RateStatus {
    const { count, resetMs } = this.used(now)
    return { limit, remaining: Math.max(0, limit - count), resetMs }
  }

  used(now: number): RateUse {
    return { count: this.#entries.count(now), resetMs: this.#entries.resetMs(now) }
  }

  push(now: number, limit: number): void {
    const exact = limit <= EXACT_ENTRIES
    // The new form has room for all entries: a request was admitted, so the log holds fewer than `limit`.
    if (exact !== this.#entries instanceof Ring) {
      const entries = exact ? new Ring() : new Buckets()
      for (const time of this.#entries.times(now)) entries.push(time)
      this.#entries = entries
    }
    this.#entries.push(now)
  }

  remove(time: number): void {
    this.#entries.remove(time)
  }
}

/** Exact times in a ring buffer, which grows to the largest number of admissions within a minute. */
class Ring {
  /** The length is a power of two, so that a mask wraps positions. */
  #times = new Float64Array(16)
  #end = 0
  #size = 0

  count(now: number): number {
    while (this.#size > 0 && now - this.#times[this.#at(this.#size)]! >= MINUTE_MS) this.#size--
    return this.#size
  }

  waitMs(now: number, limit: number): number {
    return this.count(now) < limit ? 0 : this.#times[this.#at(limit)]! + MINUTE_MS - now
  }

  resetMs(now: number): number {
    return this.count(now) === 0 ? 0 : this.#times[this.#at(1)]! + MINUTE_MS - now
  }

  push(time: number): void {
    if (this.#size === this.#times.length) {
      const times = new Float64Array(2 * this.#size)
      times.set([...this.times(-Infinity)])
      this.#times = times
      this.#end = this.#size
    }
    this.#times[this.#end] = time
    this.#end = this.#at(0, 1)
    this.#size++
  }

  remove(time: number): void {
    let n = 1
    while (n <= this.#size && this.#times[this.#at(n)]! > time) n++
    if (n > this.#size || this.#times[this.#at(n)] !== time) return
    for (; n > 1; n--) this.#times[this.#at(n)] = this.#times[this.#at(n - 1)]!
    this.#end = this.#at(1)
    this.#size--
  }

  *times(now: number): Generator<number> {
    for (let n = this.count(now); n >= 1; n--) yield this.#times[this.#at(n)]!
  }

  /** Index of the n-th newest entry, or of an entry that many places `after` it. */
  #at(n: number, after = 0): number {
    return (this.#end - n + after) & (this.#times.length - 1)
  }
}

/** Counts per second. Never admits more than a Ring would, and may refuse for up to a second longer. */
class Buckets {
  readonly #counts = new Uint32Array(BUCKETS)
  #total = 0
  #second = 0

  count(now: number): number {
    const second = Math.floor(now / 1000)
    for (let s = Math.max(this.#second + 1, second - BUCKETS + 1); s <= second; s++) {
      this.#total -= this.#counts[s % BUCKETS]!
      this.#counts[s % BUCKETS] = 0
    }
    this.#second = Math.max(this.#second, second)
    return this.#total
  }

  waitMs(now: number, limit: number): number {
    let left = this.count(now)
    if (left < limit) return 0
    let second = this.#second - BUCKETS + 1
    while ((left -= this.#counts[second % BUCKETS]!) >= limit) second++
    return leavesAt(second) - now
  }

  resetMs(now: number): number {
    if (this.count(now) === 0) return 0
    let second = this.#second
    while (this.#counts[second % BUCKETS] === 0) second--
    return leavesAt(second) - now
  }

  push(time: number): void {
    this.count(time)
    this.#counts[Math.floor(time / 1000) % BUCKETS]!++
    this.#total++
  }

  remove(time: number): void {
    const second = Math.floor(time / 1000)
    if (second <= this.#second - BUCKETS || this.#counts[second % BUCKETS] === 0) return
    this.#counts[second % BUCKETS]!--
    this.#total--
  }

  *times(now: number): Generator<number> {
    this.count(now)
    for (let second = this.#second - BUCKETS + 1; second <= this.#second; second++) {
      const time = Math.min(now, second * 1000 + 999)
      for (let n = this.#counts[second % BUCKETS]!; n > 0; n--) yield time
    }
  }
}

/** Moment when every entry of a second is at least a minute old. */
function leavesAt(second: number): number {
  return (second + BUCKETS) * 1000
}
