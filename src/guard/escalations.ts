/** Tells the operator of blocks that policies want escalated: posted to an address, tried again, bounded. */
import { ofetch } from 'ofetch'
import { setTimeout as sleep } from 'node:timers/promises'

/** One block, without any text of it. */
export interface EscalationEvent {
  readonly event: 'guard.escalation'
  /** ISO 8601 */
  readonly at: string
  readonly request_id: string
  readonly account_id: string
  readonly key_id: string
  readonly endpoint: string
  readonly model: string
  readonly mode: string
  readonly outcome: string
  readonly rules: readonly string[]
}

export interface EscalationTarget {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

const MOST_WAITING = 1000
const TIMEOUT_MS = 5000
/** Waits before the second, third and last try. */
const WAITS_MS = [1000, 5000, 25_000]

/** Posts events one after the other, each up to four times. */
export class Escalations {
  readonly #target: EscalationTarget
  readonly #report: (message: string) => void
  readonly #waits: readonly number[]
  readonly #queue: EscalationEvent[] = []
  /** Nothing is tried again any more. */
  readonly #closing = new AbortController()
  /** Nothing is tried any more. */
  readonly #over = new AbortController()
  #posting: Promise<void> | undefined

  /** @param report told of events that were lost, without anything of the target but its host */
  constructor(
    target: EscalationTarget,
    report: (message: string) => void,
    waitsMs: readonly number[] = WAITS_MS,
  ) {
    this.#target = target
    this.#report = report
    this.#waits = waitsMs
  }

  add(event: EscalationEvent): void {
    if (this.#queue.length >= MOST_WAITING) {
      return this.#report(`the escalation of ${event.request_id} is lost: too many are waiting`)
    }
    this.#queue.push(event)
    this.#posting ??= this.#postAll().finally(() => (this.#posting = undefined))
  }

  /** Gives up what is waiting for another try. What has not been tried has as long as one try may take, all together. */
  async close(): Promise<void> {
    this.#closing.abort()
    const timer = setTimeout(() => this.#over.abort(), TIMEOUT_MS)
    await this.#posting
    clearTimeout(timer)
  }

  async #postAll(): Promise<void> {
    for (let event = this.#queue.shift(); event; event = this.#queue.shift()) {
      if (await this.#post(event)) continue
      const { host } = new URL(this.#target.url)
      this.#report(`the escalation of ${event.request_id} could not be posted to ${host}`)
    }
  }

  async #post(event: EscalationEvent): Promise<boolean> {
    const { signal } = this.#closing
    const { url, headers } = this.#target
    for (const wait of [0, ...this.#waits]) {
      try {
        if (wait > 0) await sleep(wait, undefined, { signal, ref: false })
        const inTime = AbortSignal.any([this.#over.signal, AbortSignal.timeout(TIMEOUT_MS)])
        await ofetch(url, { method: 'POST', headers, body: event, signal: inTime, retry: 0 })
        return true
      } catch {
        if (signal.aborted) return false
      }
    }
    return false
  }
}
