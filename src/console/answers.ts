/** Answers of the API, as far as the console reads them. Amounts are decimal text, see `amounts.ts`. */

import type { RequestDetails, RequestView } from '../server/admin/resources/request.ts'

/** Decimal text in USD. */
export type Usd = string

/** A call in a list. */
export type ShownCall = RequestView<Usd>

/** One call. */
export type ShownDetails = RequestDetails<Usd>

/** What a call asked and what its client got, where that is kept. */
export interface RequestContent {
  readonly id: string
  readonly decided: readonly {
    readonly mode: string
    readonly side: string
    readonly rule: string
    readonly outcome: string
  }[]
  readonly input: { readonly messages?: readonly { readonly content?: unknown }[] }
  readonly output: readonly {
    readonly choice: number
    readonly channel: string
    readonly text: string
  }[]
  readonly cut: boolean
}

/** A limit of a key or an account. */
export interface Limit {
  /** Such as `key.rpm`, `account.cap.month`. */
  readonly limit: string
  /** Of a cap, and of what is used and left of it: decimal text in USD. */
  readonly value: number | string | null
  readonly source: string
  readonly used: number | string | null
  readonly left: number | string | null
  readonly resets_at: string | null
}

/** What was spent, by window; UTC. */
interface Spend {
  readonly day: Usd
  readonly month: Usd
  readonly lifetime: Usd
}

/** A bound on spend. */
export interface SpendCap {
  readonly usd: Usd
  readonly scope: 'day' | 'month' | 'lifetime'
}

/** A key. */
export interface KeyRow {
  readonly id: string
  readonly account_id: string
  readonly name: string
  readonly start: string
  readonly disabled: boolean
  readonly created_at: string
  readonly expires_at: string | null
  readonly archived_at?: string | null
  readonly rpm_limit: number | null
  readonly concurrency_limit: number | null
  readonly spend_cap: SpendCap | null
  readonly models: readonly string[] | null
  readonly policy: Policy | null
  readonly tag?: string | null
  readonly note?: string | null
  readonly log_content?: boolean
  readonly previous_secret?: { readonly start: string; readonly until: string } | null
  readonly revision?: number | string
  readonly spend_usd: Usd
  readonly spend?: Spend
  readonly running?: number
  readonly last_used_at?: string | null
  /** Of one key. */
  readonly limits?: readonly Limit[]
  readonly warnings?: readonly string[]
}

/** A policy as it is stored. */
export interface Policy {
  readonly version: 1
  readonly scope?: string
  readonly deny?: readonly string[]
  readonly systemPrompt?: string
  readonly refusal?: string
  readonly escalate?: { readonly enabled: boolean; readonly message?: string }
  readonly maxOutputTokens?: number
  readonly bannedPatterns?: readonly string[]
  readonly guard?: {
    readonly input?: boolean
    readonly output?: boolean
    readonly model?: string
    readonly mode?: string
    readonly onError?: string
    readonly onBlock?: string
    readonly stream?: string
  }
}

/** An account. */
export interface AccountRow {
  readonly id: string
  readonly name: string
  readonly disabled?: boolean
  readonly archived_at?: string | null
  readonly created_at: string
  readonly balance_usd: Usd
  readonly available_usd: Usd
  readonly free_tier: boolean
  readonly spend?: Spend
  readonly running?: number
  readonly limits?: readonly Limit[]
  /** Ids, of one account. */
  readonly keys?: readonly string[]
  readonly key_count?: number
  readonly rpm_limit?: number | null
  readonly concurrency_limit?: number | null
  readonly spend_cap?: SpendCap | null
  readonly alert_below_usd?: Usd | null
  readonly note?: string | null
  readonly revision?: number | string
}

/** A row of the ledger. */
export interface LedgerRow {
  readonly seq: number
  readonly kind: string
  readonly at: string
  readonly amount_usd: Usd
  readonly reference?: string
  readonly request_id?: string
  readonly key_id?: string
  readonly note?: string | null
  readonly reason?: string | null
  readonly usage?: { readonly model: string; readonly endpoint: string } | null
}

/** Whether what was indexed is what the ledger says. */
export interface Agreement {
  readonly agrees: boolean | null
  readonly as_of?: string | null
  readonly cost_usd?: Usd
}
