import { usdJson, type Pico, type Usd } from '../../../money/amounts.ts'

export type { Usd } from '../../../money/amounts.ts'

export interface Limit {
  /** Name such as `key.rpm`, `account.cap.month`, `tier.day`. */
  readonly limit: string
  /** Number of requests or calls; for a cap, decimal text of USD. */
  readonly value: number | string
  /** Owner of the setting. */
  readonly source: 'key' | 'account' | 'default' | 'tier'
  readonly used: number | Usd
  readonly left: number | Usd
  /** Moment when the use is reset, ISO 8601; null for a limit without reset. */
  readonly resets_at: string | null
}

/** Spend, and number of running calls. */
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
