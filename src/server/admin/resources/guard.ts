import type { Figure } from './overview.ts'
import type { EndedCall } from '../../../plugin/ended-call.ts'

type Decided = NonNullable<EndedCall['decided']>[number]

/** Calls of which one decision was made; the rule is empty where none was violated. */
type CountedDecision = Decided & { readonly calls: number }

export type CircuitState = 'closed' | 'half-open' | 'open'

/** How a guard works, since the start of the process. */
export interface GuardState {
  readonly circuits: readonly { readonly origin: string; readonly state: CircuitState }[]
  readonly errors: readonly {
    readonly kind: string
    readonly on_error: string
    readonly count: number
  }[]
  /** Latency of remote guards; the shares are bounds. */
  readonly latency: readonly {
    readonly side: string
    readonly calls: number
    readonly mean_ms: number
    readonly p50_ms: number
    readonly p95_ms: number
  }[]
}

export interface GuardAnswer {
  readonly range: { readonly from: string; readonly to: string }
  readonly decisions: readonly (CountedDecision & { readonly day: string })[]
  /** The same without the day, the most frequent first, and the query of the list of these calls. */
  readonly rules: readonly (CountedDecision & Pick<Figure, 'where'>)[]
  readonly keys: readonly (CountedDecision & {
    readonly account_id: string
    readonly key_id: string
    readonly key_name: string | null
    readonly where: Figure['where']
  })[]
  readonly guards: readonly (GuardState & {
    readonly guard: string
    readonly plugin: string
    readonly execution: string
    readonly mode: string | undefined
  })[]
}
