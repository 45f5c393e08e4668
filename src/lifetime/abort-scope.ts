/** A part of a call that can be ended alone: one attempt at an upstream, one search, one wait. */
import { removeUnordered } from './lists.ts'

/** What a deployment has instead of its provider's limits, in seconds; see `providers.<name>` of the configuration. */
export interface DeploymentLimits {
  readonly timeout?: number | undefined
  readonly firstPartTimeout?: number | undefined
  readonly idleTimeout?: number | undefined
}

const BRANCH = Symbol('branch')

/** A signal that belongs to a branch knows it. */
interface Signal extends AbortSignal {
  [BRANCH]?: AbortScope
}

/**
 * An AbortController that keeps the gateway's own listeners itself: one on an EventTarget costs as much as five promises,
 * and every request to an upstream has one. To everybody else its signal is a signal.
 */
export class AbortScope extends AbortController {
  /** A class of abort reasons that do not concern it. */
  readonly survives: (new () => Error) | undefined
  /** Requests with its signal have these limits instead of their host's. */
  limits: DeploymentLimits | undefined = undefined
  readonly #listeners: (() => void)[] = []

  constructor(outlives?: new () => Error) {
    super()
    this.survives = outlives
    const signal: Signal = this.signal
    signal[BRANCH] = this
  }

  override abort(reason?: unknown): void {
    super.abort(reason)
    for (const listener of this.#listeners.splice(0)) listener()
  }

  /** @param listener called once, when the branch is aborted; must not throw */
  on(listener: () => void): void {
    this.#listeners.push(listener)
  }

  off(listener: () => void): void {
    removeUnordered(this.#listeners, listener)
  }
}

/** The branch a signal belongs to, if any. */
export function abortScopeOf(signal: AbortSignal): AbortScope | undefined {
  return (signal as Signal)[BRANCH]
}

/** @param listener called once, when the signal is aborted; must not throw */
export function onAbort(signal: AbortSignal, listener: () => void): void {
  const branch = abortScopeOf(signal)
  if (branch) branch.on(listener)
  else signal.addEventListener('abort', listener)
}

export function offAbort(signal: AbortSignal, listener: () => void): void {
  const branch = abortScopeOf(signal)
  if (branch) branch.off(listener)
  else signal.removeEventListener('abort', listener)
}
