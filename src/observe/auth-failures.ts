/** Requests without a valid key: counted, and logged within bounds. */
import { logEvent, type EventLog } from './events.ts'
import { LineLimit } from './access-log.ts'

export type AuthFailure = 'none' | 'malformed' | 'unknown' | 'disabled' | 'expired'

const MOST_LINES = 100

interface AuthMetrics {
  unauthenticated(reason: AuthFailure): void
}

export class AuthFailures {
  readonly #log: EventLog
  readonly #metrics: AuthMetrics
  readonly #lines: LineLimit

  constructor(metrics: AuthMetrics, log: EventLog) {
    this.#metrics = metrics
    this.#log = log
    this.#lines = new LineLimit((count) => {
      log.info(`${count} more requests without a valid key in a minute`)
    }, MOST_LINES)
  }

  /** @param start the beginning of a key of the gateway's own form, as lists of keys show it */
  failed(requestId: string, reason: AuthFailure, start?: string): void {
    this.#metrics.unauthenticated(reason)
    if (!this.#lines.admits('', performance.now())) return
    logEvent(this.#log, 'info', {
      event: 'auth.failed',
      message: `${requestId}: no valid key: ${reason}${start === undefined ? '' : ` (${start}…)`}`,
      members: { requestId, why: reason, start },
    })
  }

  tick(): void {
    this.#lines.tick(performance.now())
  }
}
