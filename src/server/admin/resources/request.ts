/** Calls, and what is kept of their contents. */
import type { Usd } from '../../../money/amounts.ts'
import type { EndedCall } from '../../../plugin/ended-call.ts'

/** Members that only sinks are told, or that one call alone shows. */
type Hidden = 'limits' | 'decided' | 'trace' | 'request' | 'response' | 'content'
/** Members that a running call has in part, and amounts, which are JSON numbers here. */
type Changed = 'status' | 'outcome' | 'times' | 'guard' | 'cost_usd' | 'cost_details'

/** A call in a list. */
export interface RequestView extends Omit<EndedCall, Hidden | Changed> {
  /** null until it is sent. */
  readonly status: number | null
  /** null while the call runs. */
  readonly outcome: EndedCall['outcome'] | null
  readonly times: { readonly [Name in keyof EndedCall['times']]: number | null }
  readonly guard: Omit<NonNullable<EndedCall['guard']>, 'policy'> | null
  readonly cost_usd: Usd | null
  readonly cost_details: Readonly<Record<string, Usd>> | null
  /** null where it is not known. */
  readonly key_name?: string | null
  readonly running: boolean
}

/** A limit that was in force for a call: its rate as it was answered, with what was used of it, or another. */
export interface LimitInForce {
  readonly limit: string
  /** Caps are text, as in the settings of a key. */
  readonly value: number | string
  readonly used: number | null
  readonly left: number | null
}

/** One call. */
export interface RequestDetails extends RequestView {
  readonly limits: readonly LimitInForce[] | null
  /** The row of the ledger that says what was charged; absent while the call runs. */
  readonly ledger?: { readonly seq: number; readonly cost_usd: Usd } | null
  readonly content?: 'kept' | 'not kept'
  /** Only the ledger knows of the call. */
  readonly log?: 'missing'
}

/** What a call asked and what its client got, where that is kept. */
export interface RequestContent {
  readonly id: string
  readonly account_id: string
  readonly key_id: string
  readonly user: string | null
  readonly endpoint: string
  readonly model: string | null
  readonly decided: NonNullable<EndedCall['decided']>
  /** The body of the request. */
  readonly input: { readonly messages?: readonly { readonly content?: unknown }[] }
  readonly output: readonly {
    readonly choice: number
    readonly channel: string
    readonly text: string
  }[]
  readonly cut: boolean
}

/** A call as the holder of its key sees it: nothing of vendors, addresses or content. */
export interface HolderCall extends Pick<
  RequestView,
  'id' | 'at' | 'endpoint' | 'model' | 'status' | 'code' | 'outcome' | 'usage' | 'cost_usd' | 'tag'
> {
  readonly stream: boolean
  readonly times: Pick<RequestView['times'], 'first_ms' | 'total_ms'>
}
