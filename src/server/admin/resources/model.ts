import * as v from 'valibot'
import type { Usd } from '../../../money/amounts.ts'
import { flag, momentOrNull, text, whole } from './settings.ts'

/** `POST /deployments/:id/cooldown`: for how many seconds a deployment is disabled. */
export const cooldown = v.strictObject({ seconds: whole(1, 86_400, ' of seconds') })

const ids = v.optional(v.array(v.string('a text'), 'a list of models'), [])
/** `POST /models/import`: which prices are imported. */
export const modelImport = v.strictObject({
  from: text(1000),
  text: v.optional(v.string('the text of a price list')),
  only: ids,
  accept: ids,
  write: v.optional(flag, false),
})

/** A name that clients ask for and that is not served. */
export interface UnservedAnswer {
  readonly name: string
  readonly reason: 'no_price' | 'unknown' | 'ambiguous' | 'disabled' | 'gone'
  /** How often. */
  readonly asked: number
  /** The last accounts that have asked. */
  readonly accounts: readonly string[]
  readonly first_at: string
  readonly last_at: string
  /** A command or a setting that changes it. */
  readonly remedy: string
}

/** Prices by name of the unit, USD as decimal text. */
export type Pricing = Readonly<Record<string, unknown>>

/** Origin of a price, and the day of its last comparison with it. */
export interface PriceSource {
  readonly from: string
  readonly checked_at?: string | undefined
}

/**
 * `healthy`: calls go to the deployment. `cooldown`: calls avoid it while the model has another one. `probing`: the cooldown is
 * over, and one call at a time tests whether the deployment has recovered.
 */
export type HealthState = 'healthy' | 'cooldown' | 'probing'

export interface HealthReport {
  readonly state: HealthState
  /** When the deployment last became healthy or unhealthy; absent if it has been healthy since the start. */
  readonly since?: number
  /** Number of failures in a row. */
  readonly failures: number
  /** End of the cooldown; only present in state `cooldown`. */
  readonly cooldownUntil?: number
  /** It is set where an operator has disabled the deployment for the cooldown. */
  readonly takenOut?: true
  readonly lastFailure?: string
  /** The vendor's message about it, without secrets and quotations. */
  readonly lastMessage?: string
  readonly latencyMs?: number
  /** Number of calls that the deployment is working on. */
  readonly inFlight: number
  /** When a call last got its whole answer; ms since epoch. */
  readonly succeededAt?: number
  /** Whether a call was answered since the start, or an operator has put it back. */
  readonly isProven: boolean
}

/** Where requests of a model go. */
interface DeploymentPlace {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly weight: number
  readonly priority: number
}

export function deploymentView(
  { id, provider, model, weight, priority }: DeploymentPlace,
  health: HealthReport,
) {
  return {
    id,
    provider,
    model,
    weight,
    priority,
    health: {
      state: health.state,
      since: momentOrNull(health.since),
      failures: health.failures,
      last_failure: health.lastFailure ?? null,
      vendor_message: health.lastMessage ?? null,
      rests_until: momentOrNull(health.cooldownUntil),
      taken_out: health.takenOut ?? false,
      latency_ms: health.latencyMs === undefined ? null : Math.round(health.latencyMs),
      in_flight: health.inFlight,
      last_success: momentOrNull(health.succeededAt),
    },
  }
}

export type Deployment = ReturnType<typeof deploymentView>

type Failures = Readonly<Record<string, number>>

export interface ModelAnswer {
  readonly id: string
  readonly name: string | null
  readonly aliases: readonly string[]
  readonly modality: string
  readonly free_tier: boolean
  readonly pricing: Pricing
  readonly price_version: string
  readonly price_source: PriceSource
  readonly next_price_change: {
    readonly from: string
    readonly pricing: Pricing
    readonly price_version: string
  } | null
  readonly capabilities: readonly string[] | null
  /** Tokens. */
  readonly context_length: number | null
  /** Tokens. */
  readonly max_output_tokens: number | null
  /** Seconds since epoch. */
  readonly created: number | null
  readonly deprecated_on: string | null
  /** The entry that it comes from, such as `openai/*`. */
  readonly wildcard: string | null
  /** It is null without the index of usage. */
  readonly last_24h: {
    readonly calls: number
    readonly cost_usd: Usd
    readonly failures: Failures
  } | null
  readonly deployments: readonly (Deployment & { readonly failures_24h: Failures | null })[]
}

/** A price of a model that differs from the previous one. Prices of tiers have names such as `prompt@272001`. */
export interface PriceMove {
  readonly model: string
  /** It is absent where the whole model is meant. */
  readonly price?: string
  readonly from: string
  readonly to: string
  /** Difference such as `+20 %` or `×20`; empty without a price to compare with. */
  readonly move: string
}

/** A move that has to be accepted before it is imported. */
export interface HeldMove extends PriceMove {
  readonly reason: string
  /** Argument that accepts it: `<id>` or `<id>:<price>`. */
  readonly accept: string
}

/** A price list that was read. */
interface PriceListRead {
  readonly name: string
  readonly rows: number
  readonly models: number
  /** Rows that were not taken, by reason. */
  readonly left_out: Readonly<Record<string, number>>
  /** Prices in units that this gateway does not have, by unit. */
  readonly not_mapped: Readonly<Record<string, number>>
}

export interface PriceComparison {
  readonly sources: readonly PriceListRead[]
  readonly added: readonly string[]
  readonly changed: readonly PriceMove[]
  readonly removed: readonly string[]
  readonly held: readonly HeldMove[]
  readonly same: number
  readonly disagreements: readonly PriceMove[]
  readonly own_prices: readonly PriceMove[]
  /** Whether the gateway may write its price list. */
  readonly writable: boolean
  readonly written: boolean
}
