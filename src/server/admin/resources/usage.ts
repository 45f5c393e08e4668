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

export interface UsageAnswer {
  readonly data: readonly UsageCell[]
  readonly other: readonly UsageSpan[]
  readonly totals: UsageTotals
  readonly rollup: Rollup
  readonly range: { readonly from: string; readonly to: string }
  readonly partial: { readonly from: string | null }
  /** Share from 0 to 1. */
  readonly indexed: number
  /** `cost_usd` is the cost of the answer by the sums of the ledger. */
  readonly ledger: Agreement & { readonly cost_usd: Usd | null }
  /** Names of the keys in it, by id. */
  readonly key_names?: Readonly<Record<string, string | null>>
}

export interface Booking {
  readonly seq: number
  readonly at: number
  readonly kind: string
  readonly amount: Pico
  readonly reference: string
  readonly note: string | null
}

export interface SpentOn {
  readonly name: string
  readonly calls: number
  readonly cost: Pico
}

/** An account's money between two moments, which are the beginnings of days. */
export interface Statement {
  readonly opening: Pico
  readonly bookings: readonly Booking[]
  readonly models: readonly SpentOn[]
  readonly tags: readonly SpentOn[]
  readonly spent: Pico
  readonly closing: Pico
}

export function statementView(
  account: { readonly id: string; readonly name: string },
  month: { readonly name: string; readonly from: number; readonly to: number },
  { opening, bookings, models, tags, spent, closing }: Statement,
) {
  const spentOn = (of: readonly SpentOn[]) =>
    of.map(({ name, calls, cost }) => ({ name: name || null, calls, cost_usd: usdJson(cost) }))
  return {
    account_id: account.id,
    name: account.name,
    month: month.name,
    from: second(month.from),
    to: second(month.to),
    opening_usd: usdJson(opening),
    bookings: bookings.map(({ seq, at, kind, amount, reference, note }) => ({
      seq,
      at: second(at),
      kind,
      amount_usd: usdJson(amount),
      reference,
      note,
    })),
    models: spentOn(models),
    tags: spentOn(tags),
    spent_usd: usdJson(spent),
    closing_usd: usdJson(closing),
  }
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

export interface StatementAnswer {
  readonly data: ReturnType<typeof statementView>
  readonly ledger: Agreement
}

export interface Balances {
  readonly data: readonly ReturnType<typeof balanceView>[]
  readonly ledger: Agreement
}
