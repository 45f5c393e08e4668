/** Posts blocks that policies want escalated to the operator's address: with retries, and a bounded queue. */
import { ofetch } from 'ofetch'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Escalation } from '../plugin.ts'

interface EscalationEvent extends Escalation {
  readonly event: 'guard.escalation'
  /** ISO 8601 */
  readonly at: string
}

type Target = { readonly url: string; readonly headers: Readonly<Record<string, string>> }

const MAX_WAITING = 1000
const TIMEOUT_MS = 5000
/** Delays before the second, third and last try. */
const DELAYS_MS = [1000, 5000, 25_000]

/** Posts events one after the other, each up to four times. */
export class Escalations {
  readonly #target: Target
  readonly #report: (message: string) => void
  readonly #queue: EscalationEvent[] = []
  readonly #closing = new AbortController()
  readonly #over = new AbortController()
  #posting: Promise<void> | undefined

  /** @param report called for lost events, with no part of the target but its host */
  constructor(target: Target, report: (message: string) => void) {
    this.#target = target
    this.#report = report
  }

  add(event: EscalationEvent): void {
    if (this.#queue.length >= MAX_WAITING) {
      return this.#report(`the escalation of ${event.request_id} is lost: too many are waiting`)
    }
    this.#queue.push(event)
    this.#posting ??= this.#postAll().finally(() => (this.#posting = undefined))
  }

  /** Gives up retries. Events that were not tried yet have the time of one try, all together. */
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
    for (const delay of [0, ...DELAYS_MS]) {
      try {
        if (delay > 0) await sleep(delay, undefined, { signal, ref: false })
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
