import type { Usd } from '../../../money/amounts.ts'
import type { AlertAnswer, Looked, Subject } from './alert.ts'
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
  /** Vendors that are set up, beside the mock and what runs on this machine: how many models, and where each comes from. */
  readonly setup: {
    readonly vendors: readonly {
      readonly name: string
      readonly models: number
      readonly from: string
    }[]
  }
  /** What needs an operator, the greatest harm first. */
  readonly incidents: readonly Incident[]
  /** How many there are; the answer has at most 100. */
  readonly incidents_total: number
  readonly alerts: readonly AlertAnswer[]
  readonly looked: Looked
  readonly books: Outbox
  readonly log: LogCounts | null
}

/** A number, and the list of what it counts: `where` is the query of the list, with the span as it was counted. */
export interface Figure {
  readonly value: number
  /** All calls of the same span, where they are counted. */
  readonly of?: number
  readonly list: 'requests'
  readonly where: Readonly<Record<string, string | readonly string[]>>
}

/** Clients get errors, some calls fail or take a detour, or it will be so unless something is done. */
export type Harm = 'errors' | 'degraded' | 'soon'

/** What mends an incident. */
export type IncidentAct =
  | 'new_key'
  | 'show_where'
  | 'cool_down'
  | 'test'
  | 'model'
  | 'top_up'
  | 'raise'
  | 'extend'
  | 'account'
  | 'payment'
  | 'entry'
  | 'guard'
  | 'alerts'
  | 'gateways'

/** A deployment of a model that fails. */
export interface IncidentPart {
  readonly deployment: string
  /** The words of the vendor or of the network. */
  readonly cause: string | null
  /** The class of the failure. */
  readonly class: string | null
  readonly calls: number
  readonly act: IncidentAct
}

export interface Incident {
  readonly id: string
  /** A kind of alert. */
  readonly kind: string
  readonly harm: Harm
  /** What it is about; an account has its balance. */
  readonly object: Subject & { readonly usd?: Usd }
  readonly cause: string | null
  readonly class: string | null
  readonly since: string
  readonly last_success: string | null
  /** The calls that it hit since the beginning of the hour before this one; null where none is known. */
  readonly calls: Figure | null
  readonly parts: readonly IncidentPart[]
  readonly act: IncidentAct
  /** A page of the manual. */
  readonly page: string
}

export interface Found {
  readonly kind: 'account' | 'key' | 'model' | 'team' | 'deployment' | 'vendor' | 'user'
  readonly id: string
  readonly name: string
  /** The account of a key. */
  readonly account?: string
  /** The state of an account or key; models have none. */
  readonly state?: 'active' | 'disabled' | 'archived' | 'expired'
  /** How the secret of a key begins. */
  readonly start?: string
}
