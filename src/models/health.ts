/** How one deployment has been doing: a circuit that opens after failures and lets one call at a time find out. */
import type { UpstreamFailure } from '../errors/errors.ts'
import type { FailureClass } from '../plugin.ts'

/**
 * `well` is asked, `resting` is not while anything else is there, `probing` has rested: one call at a time finds out how
 * it is.
 */
export type HealthState = 'well' | 'resting' | 'probing'

/** A deployment's health at one moment. Times are ms since epoch. */
export interface HealthReport {
  readonly state: HealthState
  /** When it became well, or ceased to be; absent as long as it has always been well. */
  readonly since?: number
  /** Failures in a row. */
  readonly failures: number
  /** Only while resting. */
  readonly restsUntil?: number
  /** The class of the last failure since it was last well. */
  readonly lastFailure?: FailureClass
  /** ms to the first part of an answer, a moving mean; absent before the first one. */
  readonly latencyMs?: number
  /** Calls it is answering. */
  readonly inFlight: number
}

/** What no time mends: somebody has to look after our key, our account there, or the catalog. */
const OPERATORS: ReadonlySet<FailureClass> = new Set([
  'upstream_auth',
  'upstream_balance',
  'not_found',
])
/** Failures in a row after which a deployment rests. */
const PATIENCE = 3
/** Of a rest, whatever the vendor says. */
const MAX_REST_MS = 300_000
/** Of a rest, in cooldowns. */
const MOST_COOLDOWNS = 10
/** Of one measurement in the moving mean. */
const SHARE = 0.2
/** A measurement that is older says nothing about now. */
const STALE_MS = 30_000
/** Differences below these are noise. */
const NOISE_MS = 50
const NOISE_CALLS = 8

/** Whether a failure is one for the operator, who has to be told. */
export function concernsOperator({ failure }: UpstreamFailure): boolean {
  return OPERATORS.has(failure)
}

/**
 * Each call begins, reports what became of it, and ends. An outcome counts only while the state in which its call began
 * lasts: what a burst of calls finds out is one finding, and late news changes nothing.
 */
export class Health {
  readonly #now: () => number
  #state: HealthState = 'well'
  /** Counts changes of state. */
  #epoch = 0
  #since: number | undefined
  #failures = 0
  /** In a row, without an answer that was complete in between. */
  #rests = 0
  #restsUntil = 0
  #lastFailure: FailureClass | undefined
  #inFlight = 0
  #latencyMs = 0
  #measuredAt = -Infinity

  constructor(now: () => number) {
    this.#now = now
  }

  /** Not a single failure since the last complete answer. */
  get flawless(): boolean {
    return this.#failures === 0 && this.#state === 'well'
  }

  /** ms since epoch; in the past unless it rests. */
  get restsUntil(): number {
    return this.#restsUntil
  }

  /** Whether it may be asked: it is well, or has rested and nobody is finding out yet. */
  isOpen(now?: number): boolean {
    if (this.#state === 'well') return true
    return this.#state === 'resting' && (now ?? this.#now()) >= this.#restsUntil
  }

  /** A call is about to ask; if it has rested, this one finds out. @returns what the other methods want to have back */
  begin(): number {
    this.#inFlight++
    if (this.#state === 'resting' && this.#now() >= this.#restsUntil) this.#become('probing')
    return this.#epoch
  }

  /** The first part is there. @returns whether it was not well before */
  answered(began: number, latencyMs: number): boolean {
    this.#latencyMs += (latencyMs - this.#latencyMs) * (this.#measuredAt < 0 ? 1 : SHARE)
    this.#measuredAt = this.#now()
    if (began !== this.#epoch || this.#state === 'well') return false
    this.#become('well')
    return true
  }

  /**
   * A failure that the deployment is to blame for.
   * @param cooldownMs for the first rest, doubled with each one after it, unless the vendor names a time
   * @returns the ms that it rests from now on, if that is news
   */
  failed(
    began: number,
    { failure, retryAfterMs = 0 }: UpstreamFailure,
    cooldownMs: number,
  ): number | undefined {
    if (this.#isStale(began)) return undefined
    this.#failures++
    this.#lastFailure = failure
    const patient = this.#failures < PATIENCE && !OPERATORS.has(failure) && retryAfterMs <= 0
    if (this.#state === 'well' && patient) return undefined
    if (this.#state === 'resting' && retryAfterMs <= 0) return undefined
    const restMs =
      retryAfterMs > 0
        ? Math.min(retryAfterMs, MAX_REST_MS)
        : cooldownMs * Math.min(2 ** this.#rests, MOST_COOLDOWNS)
    const until = this.#now() + restMs
    if (this.#state === 'resting') {
      // Asked all the same, for want of another.
      this.#restsUntil = Math.max(this.#restsUntil, until)
      return undefined
    }
    this.#rests++
    this.#restsUntil = until
    this.#become('resting')
    return restMs
  }

  /** The call is over. @param complete it was answered to the end */
  end(began: number, complete = false): void {
    this.#inFlight--
    if (this.#isStale(began)) return
    if (this.#state === 'probing') {
      // Nothing was found out: the next call may.
      this.#become('resting')
    } else if (complete) {
      this.#failures = 0
      this.#rests = 0
      this.#lastFailure = undefined
    }
  }

  /**
   * Whether it is at least twice as slow or as busy as the other one, beyond noise.
   * @param share calls it should have for each call that the other one has
   */
  isWorseThan(other: Health, share: number): boolean {
    const since = this.#now() - STALE_MS
    const comparable = this.#measuredAt > since && other.#measuredAt > since
    const [mine, theirs] = comparable ? [this.#latencyMs, other.#latencyMs] : [0, 0]
    const pressure = (mine + NOISE_MS) * (this.#inFlight / share + NOISE_CALLS)
    return pressure > 2 * (theirs + NOISE_MS) * (other.#inFlight + NOISE_CALLS)
  }

  report(): HealthReport {
    const resting = this.#state === 'resting' && this.#now() < this.#restsUntil
    return {
      state: this.#state === 'resting' && !resting ? 'probing' : this.#state,
      ...(this.#since === undefined ? {} : { since: this.#since }),
      failures: this.#failures,
      ...(resting ? { restsUntil: this.#restsUntil } : {}),
      ...(this.#lastFailure === undefined ? {} : { lastFailure: this.#lastFailure }),
      ...(this.#measuredAt < 0 ? {} : { latencyMs: this.#latencyMs }),
      inFlight: this.#inFlight,
    }
  }

  /** Being well begins with an answer: what became of that one still counts. */
  #isStale(began: number): boolean {
    return began < this.#epoch - (this.#state === 'well' ? 1 : 0)
  }

  #become(state: HealthState): void {
    if ((state === 'well') !== (this.#state === 'well')) this.#since = this.#now()
    this.#state = state
    this.#epoch++
  }
}
