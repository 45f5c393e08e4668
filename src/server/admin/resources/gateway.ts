import type { AlertAnswer } from './alert.ts'
import { second } from './settings.ts'

/** Settlements that are not confirmed yet, and the age of the oldest. */
export interface Outbox {
  readonly ok: boolean
  readonly outbox: number
  readonly oldest_ms: number
  /** The cause while it is not ok, and since when, as ISO 8601. */
  readonly why?: string
  readonly since?: string
}

export interface LogCounts {
  readonly rows: number
  readonly dropped: Readonly<Record<string, number>>
}

/** What every screen of the console says of the gateway. */
export interface Condition {
  readonly state: string
  readonly ledger: Outbox
  readonly alerts: readonly Pick<AlertAnswer, 'kind' | 'message'>[]
}

export interface Status extends Condition {
  readonly version: string
  readonly node: string
  readonly started_at: string
  readonly uptime_seconds: number
  readonly memory_bytes: number
  readonly running: number
  readonly calls: readonly object[]
}

/** Report of a gateway about itself. Times are ms since epoch. */
export interface Instance {
  readonly id: string
  readonly version: string
  readonly node: string
  readonly startedAt: number
  /** Number of the worker, where several serve one address. */
  readonly worker?: number
  /** Number of running calls. */
  readonly running: number
  readonly lag?: number
  readonly log?: LogCounts
  readonly ledger: Pick<Outbox, 'ok' | 'outbox'>
  /** The managed configuration that it serves, and why it does not serve a later one; the id of its key for secrets. */
  readonly managed?: {
    readonly revision: number
    readonly error: string | null
    readonly kid?: string
  }
}

/** One of the gateways that share a state. @param own whether it is the answering one */
export function gatewayView(instance: Instance, own: boolean) {
  const {
    id,
    worker = null,
    version,
    node,
    startedAt,
    running,
    lag,
    log,
    ledger,
    managed,
  } = instance
  return {
    id,
    own,
    worker,
    version,
    node,
    started_at: second(startedAt),
    running,
    ledger,
    usage_lag_rows: lag ?? null,
    log: log ?? null,
    managed: managed ? { kid: null, ...managed } : null,
  }
}

export type GatewayAnswer = ReturnType<typeof gatewayView>

/** A value of the configuration; a secret is `set` or `not set`. */
export interface SettingAnswer {
  readonly path: string
  readonly value: unknown
  readonly secret: boolean
  readonly origin: { readonly from: string; readonly file?: string; readonly name?: string }
}
