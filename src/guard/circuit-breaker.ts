/** Spares everybody the wait for a guard that keeps failing (guard design, 3.12). */
import type { CircuitState } from '../observe/guard-metrics.ts'

const WINDOW_MS = 30_000
const LEAST_CALLS = 10
const ERROR_SHARE = 0.5
const OPEN_MS = 10_000
/** The window in steps, so that it needs no list of calls. */
const STEPS = 10
const STEP_MS = WINDOW_MS / STEPS

interface Bucket {
  step: number
  calls: number
  errors: number
}

/**
 * Opens when at least half of at least ten calls within half a minute failed; ten seconds later one call may try, and
 * decides. Times are ms of a steady clock.
 */
export class CircuitBreaker {
  #buckets: Bucket[] = []
  #openUntil = 0
  #open = false
  #probing = false

  /** `half-open` while one call tries. */
  get state(): CircuitState {
    if (!this.#open) return 'closed'
    return this.#probing ? 'half-open' : 'open'
  }

  /** Whether a call may be made. Whoever may has to tell how it ended. */
  admit(now: number): boolean {
    if (!this.#open) return true
    if (this.#probing || now < this.#openUntil) return false
    this.#probing = true
    return true
  }

  /** A call has ended. */
  ended(ok: boolean, now: number): void {
    if (this.#open) return this.#probed(ok, now)
    const step = Math.floor(now / STEP_MS)
    this.#buckets = this.#buckets.filter((one) => one.step > step - STEPS)
    let bucket = this.#buckets.at(-1)
    if (bucket?.step !== step) this.#buckets.push((bucket = { step, calls: 0, errors: 0 }))
    bucket.calls++
    if (!ok) bucket.errors++
    const calls = sum(this.#buckets, 'calls')
    if (calls < LEAST_CALLS || sum(this.#buckets, 'errors') < calls * ERROR_SHARE) return
    this.#open = true
    this.#openUntil = now + OPEN_MS
    this.#buckets = []
  }

  /** A call was given up before it could tell anything, such as one whose client left. */
  abandoned(): void {
    this.#probing = false
  }

  #probed(ok: boolean, now: number): void {
    // Calls from before it opened tell nothing new.
    if (!this.#probing) return
    this.#probing = false
    if (ok) this.#open = false
    else this.#openUntil = now + OPEN_MS
  }
}

function sum(buckets: readonly Bucket[], member: 'calls' | 'errors'): number {
  return buckets.reduce((total, bucket) => total + bucket[member], 0)
}
