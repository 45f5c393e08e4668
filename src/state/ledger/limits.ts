/** What bounds the calls of an account beside its balance: caps with their spend, limits over all keys, the exposure. */
import type { Pico } from '../../money/money.ts'
import { windowOf, type KeyBook, type WindowSpend } from './clock.ts'
import type { Exposure, FreeTierLimits, KeyLimits, LimitOwner } from './ledger.ts'

/** Retry-After of a refusal that ends as soon as another call does. */
export const RETRY_MS = 1000

/** A call is `tight` while less than so many of its ceilings are left of the balance or the cap. */
export const TIGHT_CEILINGS = 32n

/** A cap with the spend that it bounds. */
export interface CappedSpend {
  readonly of: KeyBook
  readonly cap: NonNullable<KeyLimits['cap']>
  readonly spend: WindowSpend
}

/** The cap of a key or an account, if it has one. */
export function cappedSpend(of: KeyBook, day: string): CappedSpend[] {
  const cap = of.limits?.cap
  return cap ? [{ of, cap, spend: of.window(windowOf(cap.scope, day)) }] : []
}

/** Limits over all keys of an account; Infinity for none. */
export interface SharedLimits {
  readonly rpm: number
  readonly rpmOf: LimitOwner
  readonly concurrency: number
  readonly concurrencyOf: LimitOwner
}

/** The limits of an account, or those of the free tier where they are lower. */
export function sharedLimits(
  { rpm = Infinity, concurrency = Infinity }: Partial<KeyLimits> = {},
  tier: FreeTierLimits | undefined,
): SharedLimits {
  const tierRpm = tier?.rpm ?? Infinity
  const tierCalls = tier?.concurrency ?? Infinity
  return {
    rpm: Math.min(rpm, tierRpm),
    rpmOf: rpm <= tierRpm ? 'account' : 'tier',
    concurrency: Math.min(concurrency, tierCalls),
    concurrencyOf: concurrency <= tierCalls ? 'account' : 'tier',
  }
}

/** The smaller of the two amounts of an exposure. The share is a double, and so is its product. */
export function exposed({ share, most }: Exposure, of: Pico): Pico {
  const part = BigInt(Math.floor(share * Number(of)))
  return part < most ? part : most
}
