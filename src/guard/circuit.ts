/** Spares calls the wait for a guard that keeps failing, without letting one account switch it off for others. */
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import type { CircuitState } from '../observe/guard-metrics.ts'

const WINDOW_MS = 30_000
const MIN_CALLS = 10
const ERROR_SHARE = 0.5
/** As many accounts have to see the guard fail, or all that asked where these are fewer. */
const MIN_ACCOUNTS = 3
const OPEN_MS = 10_000
/** The window is counted in buckets, so that it needs no list of calls. */
const BUCKETS = 10
const BUCKET_MS = WINDOW_MS / BUCKETS

/** Invalid answers of one account within the window after which its calls are not made. */
const MAX_INVALID = 5
/** Accounts whose invalid answers are counted. */
const MAX_COUNTED = 10_000

/**
 * How a call of a guard ended: `ok`, also where the text was at fault; `down`, the guard was not reached, took too long
 * or said that it fails; `invalid`, what it said is no verdict, which the text may have caused.
 */
export type CallEnd = 'ok' | 'down' | 'invalid'

interface Bucket {
  readonly index: number
  calls: number
  errors: number
  readonly accounts: Set<string>
  readonly failing: Set<string>
}

/** Invalid answers to one account. */
interface Invalid {
  /** When they came, the latest ones. */
  readonly at: number[]
  closedUntil: number
}

/**
 * The circuit of one guard and origin. It opens for all when within half a minute at least half of at least ten calls
 * found the guard `down`, and at least three accounts did, or all that asked; ten seconds later one call probes the
 * guard, and decides. It opens for one account, for ten seconds, after five `invalid` answers to it within half a
 * minute. Times are ms of a monotonic clock.
 */
export class CircuitBreaker {
  #buckets: Bucket[] = []
  /** Undefined while it is closed. */
  #openUntil: number | undefined
  #probing = false
  readonly #invalid = new LRUCache<string, Invalid>(atMost(MAX_COUNTED))

  /** What holds for all accounts; `half-open` while a call probes. */
  get state(): CircuitState {
    if (this.#openUntil === undefined) return 'closed'
    return this.#probing ? 'half-open' : 'open'
  }

  /** Whether a call may be made. If so, the caller reports how it ended. */
  admit(account: string, now: number): boolean {
    if (now < (this.#invalid.get(account)?.closedUntil ?? 0)) return false
    if (this.#openUntil === undefined) return true
    if (this.#probing || now < this.#openUntil) return false
    this.#probing = true
    return true
  }

  /** A call has ended. */
  ended(account: string, end: CallEnd, now: number): void {
    if (end === 'invalid') this.#countInvalid(account, now)
    const failed = end === 'down'
    if (this.#openUntil !== undefined) return this.#probed(!failed, now)
    const bucket = this.#bucketAt(now)
    bucket.calls++
    bucket.accounts.add(account)
    if (failed) {
      bucket.errors++
      bucket.failing.add(account)
    }
    const calls = sum(this.#buckets, 'calls')
    if (calls < MIN_CALLS || sum(this.#buckets, 'errors') < calls * ERROR_SHARE) return
    const asking = union(this.#buckets, 'accounts')
    if (union(this.#buckets, 'failing') < Math.min(MIN_ACCOUNTS, asking)) return
    this.#openUntil = now + OPEN_MS
    this.#buckets = []
  }

  /** A call was aborted before the guard answered, for example because the client left. */
  abandoned(): void {
    this.#probing = false
  }

  #bucketAt(now: number): Bucket {
    const index = Math.floor(now / BUCKET_MS)
    this.#buckets = this.#buckets.filter((one) => one.index > index - BUCKETS)
    let bucket = this.#buckets.at(-1)
    if (bucket?.index !== index) {
      bucket = { index, calls: 0, errors: 0, accounts: new Set(), failing: new Set() }
      this.#buckets.push(bucket)
    }
    return bucket
  }

  #countInvalid(account: string, now: number): void {
    const known = this.#invalid.get(account) ?? { at: [], closedUntil: 0 }
    this.#invalid.set(account, known)
    known.at.push(now)
    if (known.at.length < MAX_INVALID) return
    if (now - known.at.shift()! > WINDOW_MS) return
    known.closedUntil = now + OPEN_MS
    known.at.length = 0
  }

  #probed(ok: boolean, now: number): void {
    // Calls that began before the circuit opened prove nothing.
    if (!this.#probing) return
    this.#probing = false
    this.#openUntil = ok ? undefined : now + OPEN_MS
  }
}

function sum(buckets: readonly Bucket[], member: 'calls' | 'errors'): number {
  return buckets.reduce((total, bucket) => total + bucket[member], 0)
}

function union(buckets: readonly Bucket[], member: 'accounts' | 'failing'): number {
  return new Set(buckets.flatMap((bucket) => [...bucket[member]])).size
}
