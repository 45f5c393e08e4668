import { UpstreamFailure, brokenAnswer } from '../../../errors/errors.ts'
import type { AbortScope, Timeout } from '../../../lifetime/scope.ts'
import { conclude } from '../../../stream/flow.ts'
import type { Call, ProviderAnswer } from '../../pipeline.ts'

/**
 * ms of silence that end an answer that is complete: its vendor neither marks its end nor closes the connection. Half of the
 * idle limit where that is less, because the connection itself fails at the limit.
 */
const GRACE_MS = 5000

/** What an answer may be like. */
interface Limits {
  /** ms that a read may go on without new content. */
  readonly idleMs: number
  /** Most characters and bytes of content. */
  readonly most: number
}

/**
 * Aborts an attempt whose answer brings nothing new while it is waited for, however many keep-alives arrive, or that brings
 * too much. An answer that is complete is ended instead, and sooner. It looks four times a second, so parts cost nothing.
 */
export class StallWatch {
  /** Whether a read waits for the answer. While none does, the client is slow and not the vendor. */
  waiting = true
  /** The answer was ended in place of its vendor, whose connection is still open. */
  concluded = false
  readonly #answer: ProviderAnswer
  readonly #limits: Limits
  readonly #attempt: AbortScope
  readonly #timeout: Timeout
  #before = -1
  #complete = false
  #since = 0

  constructor(call: Call, attempt: AbortScope, answer: ProviderAnswer, limits: Limits) {
    this.#attempt = attempt
    this.#answer = answer
    this.#limits = limits
    this.#timeout = call.timeout(0, this.#look.bind(this))
  }

  clear(): void {
    this.#timeout.clear()
  }

  #look(now: number): void {
    const { idleMs, most } = this.#limits
    const received = this.#answer.received!()
    const complete = this.#answer.complete?.() ?? false
    if (received > most) return this.#attempt.abort(tooMuch())
    const concludes = complete && !this.concluded
    const silentMs = now - this.#since
    if (!this.waiting || received !== this.#before || complete !== this.#complete) {
      this.#before = received
      this.#complete = complete
      this.#since = now
    } else if (concludes && silentMs >= Math.min(GRACE_MS, idleMs / 2)) {
      this.concluded = true
      this.#since = now
      conclude(this.#answer.parts)
    } else if (silentMs >= idleMs) {
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
