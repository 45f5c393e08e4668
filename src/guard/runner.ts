/** One guard at work for one call: what it may say, how it is asked, and how long it may take (guard design, 3.12, 4). */
import { UpstreamFailure } from '../errors/errors.ts'
import type { Guard, GuardContext, Origin, RuleRef, Side, TextItem } from '../plugin.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'
import type { VerdictCache } from './verdict-cache.ts'
import {
  GuardFault,
  checkVerdict,
  ignoreRejection,
  isTextFault,
  isPromise,
  toFault,
  type RuleFilter,
  type BlockVerdict,
} from './verdicts.ts'

/** Longer than this at a stretch a local guard may not work. */
const LOCAL_LIMIT_MS = 250

/** What is told of guards while they work. */
export interface GuardObserver {
  /** @param seconds how long it took to answer */
  asked(guard: string, side: Side, seconds: number): void
}

/** How many scopes and patterns come before those that a guard knows. */
export interface RuleOffsets {
  readonly scopes: number
  readonly bannedPatterns: number
}

export interface GuardRunnerInit {
  /** The instance's name. */
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly admits: RuleFilter
  /** Where in the effective policy the first of its scopes and patterns stand; at the beginning if absent. */
  readonly offsets?: RuleOffsets
  readonly circuit: CircuitBreaker
  readonly passes: VerdictCache
  readonly observer: GuardObserver
  /** How long one question to a remote guard may take, ms. */
  readonly limitsMs: Readonly<Record<Side, number>>
  /** Aborted when nobody wants the answer any more. */
  readonly signal: AbortSignal
  readonly contextOf: (signal: AbortSignal, deadline: number) => GuardContext
}

export class GuardRunner {
  readonly name: string
  readonly guard: Guard
  readonly origin: Origin
  readonly admits: RuleFilter
  readonly #offsets: RuleOffsets
  readonly #circuit: CircuitBreaker
  readonly #passes: VerdictCache
  readonly #observer: GuardObserver
  readonly #limitsMs: GuardRunnerInit['limitsMs']
  readonly #signal: AbortSignal
  readonly #contextOf: GuardRunnerInit['contextOf']
  #context: GuardContext | undefined

  constructor(init: GuardRunnerInit) {
    this.name = init.name
    this.guard = init.guard
    this.origin = init.origin
    this.admits = init.admits
    this.#offsets = init.offsets ?? { scopes: 0, bannedPatterns: 0 }
    this.#circuit = init.circuit
    this.#passes = init.passes
    this.#observer = init.observer
    this.#limitsMs = init.limitsMs
    this.#signal = init.signal
    this.#contextOf = init.contextOf
  }

  get local(): boolean {
    return this.guard.execution === 'local'
  }

  /** What a local guard is told. */
  get context(): GuardContext {
    return (this.#context ??= this.#contextOf(this.#signal, Infinity))
  }

  /** Whether the guard agreed to the same a while ago. */
  hasPassed(unit: TextItem): boolean {
    return this.#passes.has(this.#passes.keyOf(this.name, this.context, unit))
  }

  passed(unit: TextItem): void {
    this.#passes.add(this.#passes.keyOf(this.name, this.context, unit))
  }

  /** {@link checkVerdict}, and the rule named by its place in the effective policy. */
  blockIn(verdict: unknown, length: number): BlockVerdict | undefined {
    const block = checkVerdict(verdict, length, this.admits)
    const place = block && /^(scope:|bannedPatterns\[)(\d+)(.*)$/.exec(block.rule)
    if (!place) return block
    const [, before, index, after] = place
    const { scopes, bannedPatterns } = this.#offsets
    const offset = before === 'scope:' ? scopes : bannedPatterns
    return { ...block, rule: `${before}${Number(index) + offset}${after}` as RuleRef }
  }

  /** Waits for what a local guard says of an input. @throws GuardFault `timeout` */
  async inTime<T>(side: Side, answer: T | PromiseLike<T>): Promise<T> {
    if (!isPromise(answer)) return answer
    const { signal, clear } = this.#until(side)
    try {
      return await unlessAborted(signal, Promise.resolve(answer))
    } finally {
      clear()
    }
  }

  /**
   * Lets a local guard work.
   * @throws GuardFault `slow` when it took too long, and what {@link toFault} makes of what it throws
   */
  work<T>(run: (context: GuardContext) => T): T {
    const started = performance.now()
    const answer = caught(() => run(this.context))
    if (performance.now() - started > LOCAL_LIMIT_MS) {
      ignoreRejection(answer)
      throw new GuardFault('slow', 'the guard worked for too long')
    }
    if (answer instanceof GuardFault) throw answer
    return answer
  }

  /**
   * Asks a remote guard. A transport failure is tried once more while there is time, unless the guard follows a lane
   * itself and has heard of the text already.
   * @throws GuardFault `circuit` at once while it keeps failing, `timeout`, and what {@link toFault} makes of what it throws
   */
  async ask<T>(
    side: Side,
    run: (context: GuardContext) => T | Promise<T>,
    again = true,
  ): Promise<T> {
    const started = performance.now()
    if (!this.#circuit.admit(started)) throw new GuardFault('circuit', 'the guard fails too often')
    const { signal, timer, clear } = this.#until(side)
    const context = this.#contextOf(signal, Date.now() + this.#limitsMs[side])
    try {
      const answer = await twice(() => unlessAborted(signal, run(context)), signal, again)
      this.#circuit.ended(true, performance.now())
      return answer
    } catch (error) {
      const fault = toFault(timer.aborted ? timer.reason : error)
      if (this.#signal.aborted) this.#circuit.abandoned()
      else this.#circuit.ended(isTextFault(fault), performance.now())
      throw fault
    } finally {
      clear()
      this.#observer.asked(this.name, side, (performance.now() - started) / 1000)
    }
  }

  /** Signals that are aborted when a guard has taken too long: `signal` also when nobody wants its answer any more. */
  #until(side: Side): { signal: AbortSignal; timer: AbortSignal; clear: () => void } {
    const timer = new AbortController()
    const timeout = setTimeout(
      () => timer.abort(new GuardFault('timeout', 'the guard did not answer in time')),
      this.#limitsMs[side],
    )
    const signal = AbortSignal.any([this.#signal, timer.signal])
    return { signal, timer: timer.signal, clear: () => clearTimeout(timeout) }
  }
}

function caught<T>(run: () => T): T | GuardFault {
  try {
    return run()
  } catch (error) {
    return toFault(error)
  }
}

async function twice<T>(run: () => Promise<T>, signal: AbortSignal, again: boolean): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (!again || signal.aborted || !isTransportFailure(error)) throw error
    return run()
  }
}

/** Nothing came back at all: statuses are answers. */
function isTransportFailure(error: unknown): boolean {
  if (UpstreamFailure.is(error)) return error.failure === 'upstream_error' && error.cause != null
  return (
    error instanceof Error &&
    (error.name === 'FetchError' || error.name === 'TypeError') &&
    (error as { status?: number }).status === undefined &&
    error.cause !== undefined
  )
}

/** A guard may ignore the signal; nobody waits for it after that. */
function unlessAborted<T>(signal: AbortSignal, answer: T | Promise<T>): Promise<T> {
  if (!(answer instanceof Promise)) return Promise.resolve(answer)
  if (signal.aborted) return Promise.reject(signal.reason)
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    answer
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', abort))
      .catch(() => {})
  })
}
