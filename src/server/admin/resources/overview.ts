import type { Usd } from '../../../money/amounts.ts'
import type { AlertAnswer, Looked } from './alert.ts'
import type { LogCounts, Outbox } from './gateway.ts'
import type { HealthState } from './model.ts'
import type { RequestView } from './request.ts'
import type { UsageSpan, UsageTotals } from './usage.ts'

/** `GET /overview`. Members about usage are null without an index of usage. */
export interface Overview {
  readonly as_of: string
  readonly today: UsageTotals | null
  readonly yesterday: UsageTotals | null
  readonly hours: readonly UsageSpan[]
  readonly models: readonly {
    readonly model: string | null
    readonly calls: number
    readonly cost_usd: Usd
  }[]
  readonly refused: readonly {
    readonly limit: string
    readonly refused: number
    readonly keys: readonly {
      readonly key_id: string
      readonly key_name: string | null
      readonly refused: number
    }[]
  }[]
  readonly usage: {
    readonly agrees: boolean | null
    readonly as_of: string
    readonly differences: number
    readonly indexed: number
  } | null
  readonly running: { readonly count: number; readonly calls: readonly RequestView[] }
  readonly deployments: readonly {
    readonly deployment: string
    readonly model: string
    readonly state: HealthState
    readonly since: string | null
    readonly rests_until: string | null
    readonly last_failure: string | null
  }[]
  readonly alerts: readonly AlertAnswer[]
  readonly looked: Looked
  readonly books: Outbox
  readonly log: LogCounts | null
}

export interface Found {
  readonly kind: 'account' | 'key' | 'model'
  readonly id: string
  readonly name: string
  /** The state of an account or key; models have none. */
  readonly state?: 'active' | 'disabled' | 'archived'
  /** How the secret of a key begins. */
  readonly start?: string
}
