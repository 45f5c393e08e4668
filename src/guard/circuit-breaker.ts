/** Spares calls the wait for a guard that keeps failing. */
import type { CircuitState } from '../observe/guard-metrics.ts'

const WINDOW_MS = 30_000
const MIN_CALLS = 10
const ERROR_SHARE = 0.5
const OPEN_MS = 10_000
/** The window is counted in buckets, so that it needs no list of calls. */
const BUCKETS = 10
const BUCKET_MS = WINDOW_MS / BUCKETS

interface Bucket {
  readonly index: number
  calls: number
  errors: number
}

/**
 * Opens when at least half of at least ten calls within half a minute failed; ten seconds later one call probes the guard,
 * and decides. Times are ms of a monotonic clock.
 */
export class CircuitBreaker {
  #buckets: Bucket[] = []
  #openUntil = 0
  #open = false
  #probing = false

  /** `half-open` while a call probes. */
  get state(): CircuitState {
    if (!this.#open) return 'closed'
    return this.#probing ? 'half-open' : 'open'
  }

  /** Whether a call may be made. If so, the caller reports how it ended. */
  admit(now: number): boolean {
    if (!this.#open) return true
    if (this.#probing || now < this.#openUntil) return false
    this.#probing = true
    return true
  }

  /** A call has ended. */
  ended(ok: boolean, now: number): void {
    if (this.#open) return this.#probed(ok, now)
    const index = Math.floor(now / BUCKET_MS)
    this.#buckets = this.#buckets.filter((one) => one.index > index - BUCKETS)
    let bucket = this.#buckets.at(-1)
    if (bucket?.index !== index) this.#buckets.push((bucket = { index, calls: 0, errors: 0 }))
    bucket.calls++
    if (!ok) bucket.errors++
    const calls = sum(this.#buckets, 'calls')
    if (calls < MIN_CALLS || sum(this.#buckets, 'errors') < calls * ERROR_SHARE) return
    this.#open = true
    this.#openUntil = now + OPEN_MS
    this.#buckets = []
  }

  /** A call was aborted before the guard answered, for example because the client left. */
  abandoned(): void {
    this.#probing = false
  }

  #probed(ok: boolean, now: number): void {
    // Calls that began before the circuit opened prove nothing.
    if (!this.#probing) return
    this.#probing = false
    if (ok) this.#open = false
    else this.#openUntil = now + OPEN_MS
  }
}

function sum(buckets: readonly Bucket[], member: 'calls' | 'errors'): number {
  return buckets.reduce((total, bucket) => total + bucket[member], 0)
}
