/** Gateways: how they run, and what they are set to. */
import type { AlertAnswer } from './alert.ts'

/** Settlements that are not confirmed yet, and the age of the oldest. */
export interface Outbox {
  readonly ok: boolean
  readonly outbox: number
  readonly oldest_ms: number
}

/** Rows of the request log since the start: stored, and dropped by reason. */
export interface LogCounts {
  readonly rows: number
  readonly dropped: Readonly<Record<string, number>>
}

/** `GET /status` */
export interface Status {
  readonly version: string
  readonly node: string
  readonly started_at: string
  readonly uptime_seconds: number
  readonly state: string
  readonly ledger: Outbox
  readonly memory_bytes: number
  readonly alerts: readonly Pick<AlertAnswer, 'kind' | 'message'>[]
  readonly running: number
  readonly calls: readonly object[]
}

/** One of the gateways that share a state. */
export interface GatewayAnswer {
  readonly id: string
  /** Whether it is the one that answers. */
  readonly own: boolean
  readonly worker: number | null
  readonly version: string
  readonly node: string
  readonly started_at: string
  readonly running: number
  readonly ledger: Pick<Outbox, 'ok' | 'outbox'>
  readonly usage_lag_rows: number | null
  readonly log: LogCounts | null
}

/** A value of the configuration; a secret is `set` or `not set`. */
export interface SettingAnswer {
  readonly path: string
  readonly value: unknown
  readonly secret: boolean
  readonly origin: { readonly from: string; readonly file?: string; readonly name?: string }
}
