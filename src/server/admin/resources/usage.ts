/** Usage: sums of calls, their proof, balances and statements. */
import type { Usd } from '../../../money/amounts.ts'

/** Filters of usage that commands have, with what their values are called. */
export const USAGE_FILTERS = {
  account: { value: 'ids', help: 'only these accounts, separated by commas' },
  key: { value: 'ids', help: 'only these keys' },
  model: { value: 'ids', help: 'only these models' },
  tag: { value: 'tags', help: 'only these tags' },
  user: { value: 'names', help: 'only these end users' },
  deployment: { value: 'ids', help: 'only these deployments' },
  endpoint: { value: 'paths', help: 'only these endpoints' },
  outcome: { value: 'outcomes', help: 'completed, refused, cancelled, failed' },
} as const

/** The length of a span of time. */
export type Rollup = 'hour' | 'day' | 'month'

/** What calls consume, in the order of records. */
export const QUANTITIES = [
  'prompt_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'images',
  'pages',
  'seconds',
  'characters',
  'searches',
  'search_units',
] as const
/** One of {@link QUANTITIES}. */
export type Quantity = (typeof QUANTITIES)[number]

/** Sums of calls. Null: no vendor reported it, or a group has none. */
export interface UsageSums extends Readonly<Record<Quantity, number | null>> {
  readonly calls: number | null
  readonly cost_usd: Usd | null
  readonly estimated: number | null
  readonly errors: number | null
  readonly refused: number | null
  readonly blocked: number | null
}

/** Sums with what cannot be added up. */
export interface UsageTotals extends UsageSums {
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly first_part_p50_ms: number | null
  readonly first_part_p95_ms: number | null
}

/** Sums of one span of time. */
export interface UsageSpan extends UsageTotals {
  readonly start: string
}

/** Sums of one group in one span of time. */
export interface UsageCell extends UsageSpan {
  readonly group: Readonly<Record<string, string | null>>
}

/** What a comparison with the ledger says. */
export interface Agreement {
  /** Null while entries wait to be read. */
  readonly agrees: boolean | null
  readonly as_of: string
  readonly differences: readonly {
    readonly account_id: string
    readonly key_id: string | null
    readonly indexed_usd: Usd
    readonly ledger_usd: Usd
  }[]
}

/** `GET /usage` */
export interface UsageAnswer {
  readonly data: readonly UsageCell[]
  readonly other: readonly UsageSpan[]
  readonly totals: UsageTotals
  readonly rollup: Rollup
  readonly range: { readonly from: string; readonly to: string }
  readonly partial: { readonly from: string | null }
  /** From 0 to 1. */
  readonly indexed: number
  /** `cost_usd` is the cost of the answer by the sums of the ledger. */
  readonly ledger: Agreement & { readonly cost_usd: Usd | null }
  /** Of the keys in it, by id. */
  readonly key_names?: Readonly<Record<string, string | null>>
}

/** `GET /accounts/:id/balance` */
export interface Balances {
  readonly data: readonly {
    /** The end of an hour or a day. */
    readonly at: string
    readonly balance_usd: Usd
    readonly booked_usd: Usd
  }[]
  readonly rollup: Rollup
  readonly ledger: Agreement
}

/** What was spent on a model, or under a tag. */
export interface SpentOn {
  readonly name: string | null
  readonly calls: number
  readonly cost_usd: Usd
}

/** `GET /accounts/:id/statement` */
export interface Statement {
  readonly data: {
    readonly account_id: string
    readonly name: string
    readonly month: string
    readonly from: string
    readonly to: string
    readonly opening_usd: Usd
    readonly bookings: readonly {
      readonly seq: number
      readonly at: string
      readonly kind: string
      readonly amount_usd: Usd
      readonly reference: string
      readonly note: string | null
    }[]
    readonly models: readonly SpentOn[]
    readonly tags: readonly SpentOn[]
    readonly spent_usd: Usd
    readonly closing_usd: Usd
  }
  readonly ledger: Agreement
}
