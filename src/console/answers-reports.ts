/** Answers of the API about many calls: usage, overview, alerts. Amounts are decimal text, see `amounts.ts`. */
import type { ShownCall, Usd } from './answers.ts'

/** Sums of calls. Null: no vendor reported it, or a group has none. */
export interface UsageSums {
  readonly calls: number | null
  readonly cost_usd: Usd | null
  readonly prompt_tokens: number | null
  readonly cached_tokens: number | null
  readonly cache_write_tokens: number | null
  readonly completion_tokens: number | null
  readonly reasoning_tokens: number | null
  readonly images: number | null
  readonly pages: number | null
  readonly seconds: number | null
  readonly characters: number | null
  readonly searches: number | null
  readonly search_units: number | null
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

/** Sums of one group in one span of time. */
export interface UsageCell extends UsageTotals {
  readonly start: string
  readonly group: Readonly<Record<string, string | null>>
}

/** What a comparison with the ledger said. */
export interface Comparison {
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

/** `GET /admin/usage`. */
export interface UsageAnswer {
  /** Of the keys in it, by id. */
  readonly key_names?: Readonly<Record<string, string | null>>
  readonly data: readonly UsageCell[]
  readonly other: readonly Omit<UsageCell, 'group'>[]
  readonly totals: UsageTotals
  readonly rollup: Rollup
  readonly range: { readonly from: string; readonly to: string }
  readonly partial: { readonly from: string | null }
  /** From 0 to 1. */
  readonly indexed: number
  readonly ledger: Comparison & { readonly cost_usd: Usd | null }
}

/** The length of a span of time. */
export type Rollup = 'hour' | 'day' | 'month'

/** Where a deployment stands. */
export type HealthState = 'healthy' | 'probing' | 'cooldown'

/** Something that an operator should know about. */
export interface Alert {
  readonly id: string
  readonly kind: string
  /** What it is about: an account, a key, a deployment. */
  readonly object?: string | null
  readonly message?: string | null
  readonly since?: string | null
  readonly ended_at?: string | null
  readonly muted_until?: string | null
}

/** `GET /admin/overview`. Members about usage are null without an index of usage. */
export interface Overview {
  readonly as_of: string
  readonly today: UsageTotals | null
  readonly yesterday: UsageTotals | null
  readonly hours: readonly (UsageTotals & { readonly start: string })[]
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
  readonly running: { readonly count: number; readonly calls: readonly ShownCall[] }
  readonly deployments: readonly {
    readonly deployment: string
    readonly model: string
    readonly state: HealthState
    readonly since: string | null
    readonly rests_until: string | null
    readonly last_failure: string | null
    readonly vendor_message?: string | null
  }[]
  readonly alerts: readonly Alert[]
  readonly books: { readonly ok: boolean; readonly outbox: number; readonly oldest_ms: number }
  readonly log: {
    readonly rows: number
    readonly dropped: Readonly<Record<string, number>>
  } | null
}

/** Names of units of a price list, USD as decimal text. Members that are no price are left out. */
export type Pricing = Readonly<Record<string, unknown>>

/** Where a price is from, and when it was last compared with that. */
export interface PriceSource {
  readonly from: string
  readonly checked_at?: string
}

/** A deployment of a model. */
export interface Deployment {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly weight: number
  readonly priority: number
  /** Failed requests to the vendor, by class. */
  readonly failures_24h?: Readonly<Record<string, number>> | null
  readonly health: {
    readonly state: HealthState
    readonly since: string | null
    readonly failures: number
    readonly last_failure: string | null
    readonly vendor_message?: string | null
    readonly rests_until: string | null
    readonly latency_ms: number | null
    readonly in_flight: number
  }
}

/** A model of the catalog. */
export interface ModelRow {
  readonly id: string
  readonly aliases: readonly string[]
  readonly modality: string
  readonly free_tier: boolean
  readonly pricing: Pricing
  readonly price_version: string
  readonly price_source: PriceSource | null
  readonly next_price_change: { readonly from: string; readonly pricing: Pricing } | null
  readonly capabilities: readonly string[] | null
  readonly context_length?: number | null
  /** Null without the index of usage. */
  readonly last_24h?: {
    readonly calls: number
    readonly cost_usd: Usd
    readonly failures: Readonly<Record<string, number>>
  } | null
  readonly deployments: readonly Deployment[]
}
