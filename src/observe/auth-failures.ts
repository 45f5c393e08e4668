/** Requests without a valid key, and wrong proofs of operators and members: logged within bounds. */
import { logEvent, type EventLog } from './events.ts'
import { LineLimit } from './access-log.ts'

export type AuthFailure = 'none' | 'malformed' | 'unknown' | 'disabled' | 'expired'

interface Failed {
  /** What was to be opened: the API for clients, that of operators, or the page of members. */
  readonly scope: 'api' | 'admin' | 'me'
  readonly requestId?: string
  readonly why: AuthFailure
  /** The beginning of a key of the gateway's own form, as lists of keys show it. */
  readonly start?: string | undefined
  /** What the log may show of the client's address. */
  readonly address: string | undefined
}

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
      log.info(`${count} more requests without a valid key or token in a minute`)
    }, MOST_LINES)
  }

  failed({ scope, requestId, why, start, address }: Failed): void {
    if (scope === 'api') this.#metrics.unauthenticated(why)
    if (!this.#lines.admits(scope, performance.now())) return
    const what = scope === 'api' ? 'no valid key' : `no valid sign-in at /${scope}`
    const shown = start === undefined ? '' : ` (${start}…)`
    const from = address === undefined ? '' : ` from ${address}`
    logEvent(this.#log, 'info', {
      event: 'auth.failed',
      message: `${requestId === undefined ? '' : `${requestId}: `}${what}: ${why}${shown}${from}`,
      members: { scope, requestId, why, start, address },
    })
  }

  tick(): void {
    this.#lines.tick(performance.now())
  }
}
