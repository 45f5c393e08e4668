/** Usage: sums of calls, their proof, balances and statements. */
import { usdJson, type Pico, type Usd } from '../../../money/amounts.ts'
import { second } from './settings.ts'

/** Filters of usage as options of commands, with names of their values. */
export const USAGE_FILTERS = {
  account: { value: 'ids', help: 'only these accounts, separated by commas' },
  team: { value: 'ids', help: 'only these teams' },
  key: { value: 'ids', help: 'only these keys' },
  model: { value: 'ids', help: 'only these models' },
  tag: { value: 'tags', help: 'only these tags' },
  user: { value: 'names', help: 'only these end users' },
  deployment: { value: 'ids', help: 'only these deployments' },
  endpoint: { value: 'paths', help: 'only these endpoints' },
  outcome: { value: 'outcomes', help: 'completed, refused, cancelled, failed' },
} as const

export type Rollup = 'hour' | 'day' | 'month'

/** Quantities of calls, in the order of records. */
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
export type Quantity = (typeof QUANTITIES)[number]

/** Sums of calls. Null: no vendor reported the quantity, or a group has none. */
export interface UsageSums extends Readonly<Record<Quantity, number | null>> {
  readonly calls: number | null
  readonly cost_usd: Usd | null
  readonly estimated: number | null
  readonly errors: number | null
  readonly refused: number | null
  readonly blocked: number | null
}

/** Sums, and figures that cannot be added up. */
export interface UsageTotals extends UsageSums {
  /** What promotional credit has paid of the cost. */
  readonly promotional_usd: Usd | null
  /** Refunds of calls, on their own day. */
  readonly refunded_usd: Usd | null
  /** What vendors are paid, and what is earned of those calls; with the right `money` alone. */
  readonly vendor_cost_usd?: Usd | null
  readonly margin_usd?: Usd | null
  readonly vendor_unknown_calls?: number | null
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly first_part_p50_ms: number | null
  readonly first_part_p95_ms: number | null
}

export interface UsageSpan extends UsageTotals {
  readonly start: string
}

export interface UsageCell extends UsageSpan {
  readonly group: Readonly<Record<string, string | null>>
}

export interface Agreement {
  /** It is null while entries wait to be read. */
  readonly agrees: boolean | null
  readonly as_of: string
  readonly differences: readonly {
    readonly account_id: string
    readonly key_id: string | null
    readonly indexed_usd: Usd
    readonly ledger_usd: Usd
  }[]
}

export interface UsageAnswer {
  readonly data: readonly UsageCell[]
  readonly other: readonly UsageSpan[]
  readonly totals: UsageTotals
  readonly rollup: Rollup
  readonly range: { readonly from: string; readonly to: string }
  /** The zone in which days and months are dates; `mixed` where each account has its own. */
  readonly time_zone: string
  readonly partial: { readonly from: string | null }
  /** Share from 0 to 1. */
  readonly indexed: number
  /** `cost_usd` is the cost of the answer by the sums of the ledger. */
  readonly ledger: Agreement & { readonly cost_usd: Usd | null }
  /** Names of the keys in it, by id. */
  readonly key_names?: Readonly<Record<string, string | null>>
}

export interface BalancePoint {
  readonly at: number
  readonly balance: Pico
  /** Sum of bookings in the span. */
  readonly booked: Pico
}

export const balanceView = ({ at, balance, booked }: BalancePoint) => ({
  at: second(at),
  balance_usd: usdJson(balance),
  booked_usd: usdJson(booked),
})

export interface Balances {
  readonly data: readonly ReturnType<typeof balanceView>[]
  readonly ledger: Agreement
}
