import { UpstreamFailure, brokenAnswer } from '../../../errors/errors.ts'
import type { AbortScope, Timeout } from '../../../lifetime/scope.ts'
import type { Call, ProviderAnswer } from '../../pipeline.ts'

/** What an answer may be like. */
interface Limits {
  /** ms that a read may go on without new content. */
  readonly idleMs: number
  /** Most characters and bytes of content. */
  readonly most: number
}

/**
 * Aborts an attempt whose answer brings nothing new while it is waited for, however many keep-alives arrive, or that brings
 * too much. It looks four times a second, so parts cost nothing.
 */
export class StallWatch {
  /** Whether a read waits for the answer. While none does, the client is slow and not the vendor. */
  waiting = true
  readonly #received: () => number
  readonly #limits: Limits
  readonly #attempt: AbortScope
  readonly #timeout: Timeout
  #before = -1
  #since = 0

  constructor(
    call: Call,
    attempt: AbortScope,
    received: NonNullable<ProviderAnswer['received']>,
    limits: Limits,
  ) {
    this.#attempt = attempt
    this.#received = received
    this.#limits = limits
    this.#timeout = call.timeout(0, this.#look.bind(this))
  }

  clear(): void {
    this.#timeout.clear()
  }

  #look(now: number): void {
    const received = this.#received()
    if (received > this.#limits.most) return this.#attempt.abort(tooMuch())
    if (!this.waiting || received !== this.#before) {
      this.#before = received
      this.#since = now
    } else if (now - this.#since >= this.#limits.idleMs) {
      return this.#attempt.abort(stalled())
    }
    this.#timeout.restart()
  }
}

/** An answer of a plugin is too large. */
export function tooMuch(): UpstreamFailure {
  return brokenAnswer('The model provider sent an answer that is too large.')
}

function stalled(): UpstreamFailure {
  return new UpstreamFailure('timeout', 'The model provider stopped in the middle of its answer.')
}
