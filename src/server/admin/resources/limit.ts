/** Limits and what is used of them, in answers about keys, accounts and calls. */
import { usdJson, type Pico, type Usd } from '../../../money/amounts.ts'

export type { Usd } from '../../../money/amounts.ts'

/** One limit. */
export interface Limit {
  /** Such as `key.rpm`, `account.cap.month`, `tier.day`. */
  readonly limit: string
  /** A number of requests or calls; of a cap decimal text of USD. */
  readonly value: number | string
  /** Whose setting it is. */
  readonly source: 'key' | 'account' | 'default' | 'tier'
  readonly used: number | Usd
  readonly left: number | Usd
  /** When what is used counts no more, ISO 8601; null for one that does not start anew. */
  readonly resets_at: string | null
}

/** What was spent, and calls that run. */
export interface Spent {
  readonly day: Pico
  readonly month: Pico
  readonly lifetime: Pico
  readonly inFlight: number
}

/** Settled spend by window, UTC. */
export function spendView({ day, month, lifetime }: Spent) {
  return { day: usdJson(day), month: usdJson(month), lifetime: usdJson(lifetime) }
}
