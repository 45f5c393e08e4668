/** Resources of a call and their release; parts of a call that can be aborted alone; restartable timeouts. */

type Finalizer = () => unknown

/** Receives the error of a callback. An error of the report itself is dropped. */
type Report = (error: unknown) => void

/**
 * The resources of one call. Finalizers run in reverse order, each exactly once. One that throws is reported and does not stop
 * the others. A finalizer that is added after the end runs at once, so an acquisition that was under way when the client left
 * is still released.
 */
export class Scope {
  #finalizers: Finalizer[] | undefined = []
  readonly #report: Report

  /** @param report receives errors of finalizers */
  constructor(report: Report) {
    this.#report = report
  }

  /** @param finalizer may return a promise; the next finalizer waits for it */
  defer(finalizer: Finalizer): void {
    if (this.#finalizers) this.#finalizers.push(finalizer)
    else void this.#run(finalizer)
  }

  /** Runs all finalizers; later calls do nothing. Returns a promise only while a finalizer needs time. */
  close(): void | Promise<void> {
    const finalizers = this.#finalizers
    if (!finalizers) return undefined
    this.#finalizers = undefined
    return this.#unwind(finalizers)
  }

  #unwind(finalizers: Finalizer[]): void | Promise<void> {
    for (let next = finalizers.pop(); next; next = finalizers.pop()) {
      const pending = this.#run(next)
      if (pending) return pending.then(() => this.#unwind(finalizers))
    }
  }

  #run(finalizer: Finalizer): Promise<unknown> | undefined {
    try {
      const result = finalizer()
      if (result instanceof Promise) return result.catch((error) => tell(this.#report, error))
    } catch (error) {
      tell(this.#report, error)
    }
    return undefined
  }
}

function tell(report: Report, error: unknown): void {
  try {
    report(error)
  } catch {
    // A log that cannot be written must not keep anything from being released.
  }
}

/** Abort controllers for parts of a call: one attempt at a deployment, one search, one wait. */

/** Time limits of a deployment, in seconds. They replace those of its provider; see `docs/configuration.md#providers`. */
export interface DeploymentLimits {
  readonly timeout?: number | undefined
  readonly firstPartTimeout?: number | undefined
  readonly idleTimeout?: number | undefined
}

/** Counts answers of plugins that come too late. */
export interface LateAnswers {
  /** Name of the configured instance. */
  readonly instance: string
  readonly metrics: { answeredLate(instance: string): void }
}

export interface SentRequest {
  readonly method: string
  readonly url: string
  /** 0 before the head of the answer. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The beginning of the body of an answer with an error status, as the vendor sent it. */
  readonly errorBody: string | undefined
  /** Whether a proxy has not opened the way to the vendor yet. */
  readonly waitsForProxy: boolean
  /** Reports the proxy for a limit of time that has passed. @returns the failure; undefined once the vendor is reached */
  proxyTimeout(): Error | undefined
}

const SCOPE = Symbol('abort scope')

interface ScopeSignal extends AbortSignal {
  [SCOPE]?: AbortScope
}

/**
 * An AbortController with a list of listeners of its own, which cost less than listeners of an EventTarget (figures in the
 * README of this folder). Its signal is an ordinary AbortSignal for all other code.
 */
export class AbortScope extends AbortController {
  /** Class of abort reasons that do not end the scope, although they end the call. */
  readonly survives: (new () => Error) | undefined
  /** Requests with the signal of this scope use these limits instead of those of their host. */
  limits: DeploymentLimits | undefined = undefined
  /** Headers that name the trace of the client; requests with the signal of this scope have them. */
  traceHeaders: Readonly<Record<string, string>> | undefined = undefined
  /** Counts late answers of a plugin. */
  late: LateAnswers | undefined = undefined
  sent: SentRequest | undefined = undefined
  /** Whether requests that are not of {@link sent} have its signal. */
  usesHttp = false
  /** When the first request with the signal of this scope had a connection; 0 before. */
  begunAt = 0
  readonly #listeners: (() => void)[] = []
  readonly #report: Report

  /** @param report receives errors of listeners @param survives a class of abort reasons that do not end the scope */
  constructor(report: Report, survives?: new () => Error) {
    super()
    this.#report = report
    this.survives = survives
    const signal: ScopeSignal = this.signal
    signal[SCOPE] = this
  }

  /** Aborts the signal, then calls the listeners. Only the first call has an effect. One that throws does not stop the others. */
  override abort(reason?: unknown): void {
    super.abort(reason)
    for (const listener of this.#listeners.splice(0)) {
      try {
        listener()
      } catch (error) {
        tell(this.#report, error)
      }
    }
  }

  /** @param listener called once, after the signal was aborted */
  on(listener: () => void): void {
    this.#listeners.push(listener)
  }

  off(listener: () => void): void {
    removeUnordered(this.#listeners, listener)
  }
}

/** The scope of a signal; undefined for any other signal, also for one derived from it. */
export function abortScopeOf(signal: AbortSignal): AbortScope | undefined {
  return (signal as ScopeSignal)[SCOPE]
}

/**
 * Adds a listener to the scope of a signal, or to the signal itself where it has none.
 * @param listener called once, when the signal is aborted
 */
export function onAbort(signal: AbortSignal, listener: () => void): void {
  const scope = abortScopeOf(signal)
  if (scope) scope.on(listener)
  else signal.addEventListener('abort', listener, { once: true })
}

/** Removes a listener that {@link onAbort} added. */
export function offAbort(signal: AbortSignal, listener: () => void): void {
  const scope = abortScopeOf(signal)
  if (scope) scope.off(listener)
  else signal.removeEventListener('abort', listener)
}

/** The answer of a plugin, which may ignore its signal and is not waited for after an abort. @throws the reason of the signal */
export function unlessAborted<T>(signal: AbortSignal, answer: T | PromiseLike<T>): Promise<T> {
  if (!isThenable(answer)) return Promise.resolve(answer)
  return new Promise<T>((resolve, reject) => {
    const abort = () => {
      reject(signal.reason)
      dropLate(answer, signal)
    }
    if (signal.aborted) return abort()
    onAbort(signal, abort)
    const answered = () => offAbort(signal, abort)
    answer.then(
      (value) => (answered(), resolve(value)),
      (error) => (answered(), reject(error)),
    )
  })
}

/**
 * Drops the answer of a plugin after its signal was aborted, and counts it with {@link AbortScope.late}. An answer that comes
 * at once is the plugin's reaction to the signal.
 */
export function dropLate(answer: PromiseLike<unknown>, signal: AbortSignal): void {
  const late = abortScopeOf(signal)?.late
  let isLate = false
  setImmediate(() => {
    isLate = true
  })
  const drop = () => {
    if (isLate) late?.metrics.answeredLate(late.instance)
  }
  answer.then(drop, drop)
}

function isThenable<T>(answer: T | PromiseLike<T>): answer is PromiseLike<T> {
  return typeof (answer as { then?: unknown } | null | undefined)?.then === 'function'
}

/** Waits at most `ms` for a promise. @throws the error that `late` makes */
export async function inTime<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const timeUp = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeUp.reject(late()), ms)
  try {
    return await Promise.race([promise, timeUp.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Removes an item from a list, if it is there. The last item takes its place. */
export function removeUnordered<T>(list: T[], item: T): void {
  const at = list.lastIndexOf(item)
  if (at < 0) return
  list[at] = list.at(-1)!
  list.pop()
}

/** A function that will be called unless the timeout is restarted or cleared in time. */
export interface Timeout {
  /**
   * Starts the delay again, counted from the last tick. Cheap enough for every event of a stream. Called while the timeout
   * fires, it makes it fire once more.
   */
  restart(): void
  clear(): void
}

/** The timeouts of one owner, which calls {@link Timeouts.tick} at regular intervals. */
export class Timeouts {
  readonly #timeouts: ManagedTimeout[] = []
  readonly #report: Report

  /** @param report receives errors of timeouts */
  constructor(report: Report) {
    this.#report = report
  }

  /** @param onTimeout called once, at the first tick after `delayMs`; receives the time of the tick (steady ms) */
  set(delayMs: number, onTimeout: (now: number) => void): Timeout {
    const timeout = new ManagedTimeout(this.#timeouts, delayMs, onTimeout)
    this.#timeouts.push(timeout)
    return timeout
  }

  /** A timeout that throws does not stop the others. @param now steady ms, of `performance.now()` */
  tick(now: number): void {
    // A copy: a timeout that fires may clear others.
    for (const timeout of this.#timeouts.toReversed()) {
      try {
        timeout.tick(now)
      } catch (error) {
        tell(this.#report, error)
      }
    }
  }
}

class ManagedTimeout implements Timeout {
  readonly #siblings: ManagedTimeout[]
  readonly #delayMs: number
  readonly #onTimeout: (now: number) => void
  /** Time of the last tick, steady ms. */
  #now = performance.now()
  /** When it fires; Infinity after it fired or was cleared. */
  #at: number

  constructor(siblings: ManagedTimeout[], delayMs: number, onTimeout: (now: number) => void) {
    this.#siblings = siblings
    this.#delayMs = delayMs
    this.#onTimeout = onTimeout
    this.#at = this.#now + delayMs
  }

  restart(): void {
    this.#at = this.#now + this.#delayMs
  }

  clear(): void {
    this.#at = Infinity
    removeUnordered(this.#siblings, this)
  }

  tick(now: number): void {
    this.#now = now
    if (this.#at > now) return
    this.#at = Infinity
    try {
      this.#onTimeout(now)
    } finally {
      if (this.#at === Infinity) this.clear()
    }
  }
}

/** ms since epoch by the clock at the start of the process: a clock that is set while it runs changes nothing. */
export function steadyNow(): number {
  return performance.timeOrigin + performance.now()
}

/**
 * A value of plain objects and lists that nothing can change any more: input of plugins, and values that calls share. Bytes
 * stay as they are.
 */
export function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) deepFrozen(value[i])
  else if (isPlain(value)) for (const name in value) deepFrozen(value[name])
  else return value
  return Object.freeze(value)
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
