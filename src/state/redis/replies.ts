/** Translates the scripts' replies, and limits, into the types of the ledger port. */
import type { Cluster, Redis } from 'ioredis'
import type { Pico } from '../../money/money.ts'
import {
  type Admission,
  type CapScope,
  type HeldBy,
  type HoldResult,
  type KeyLimits,
  type LimitOwner,
  type RateStatus,
  type Settled,
} from '../ledger/ledger.ts'
import { RETRY_MS, windowEnd } from '../ledger/book.ts'
import type { ScriptName } from './scripts.ts'

/** Strings; integers are strings too, and null is an absent value. */
export type ScriptReply = readonly (string | null)[]

/** A client with the scripts as methods, which take their keys and then their arguments. */
export type ScriptClient = (Redis | Cluster) &
  Record<ScriptName, (...args: string[]) => Promise<ScriptReply>>

export function toAdmission([why, ...rest]: ScriptReply): Admission {
  switch (why) {
    case 'ok': {
      const [at = 0, lease = 0, paid, ...rate] = rest.map(Number)
      return { ok: true, at, lease, paid: paid === 1, rate: toRate(rate) }
    }
    case 'rpm':
    case 'day':
    case 'concurrency': {
      const [of, ...numbers] = rest
      const [retryAfterMs = 0, ...rate] = numbers.map(Number)
      return { ok: false, why, of: of as LimitOwner, retryAfterMs, rate: toRate(rate) }
    }
    case 'disabled':
    case 'expired':
      return { ok: false, why, of: rest[0] as 'key' | 'account' }
    default:
      return { ok: false, why: 'stale' }
  }
}

function toRate([limit = 0, remaining = 0, resetMs = 0]: readonly number[]): RateStatus {
  return { limit, remaining, resetMs }
}

/** The reply of the script `hold`, unless it is `range`. */
export function toHoldResult([why, first, second, third]: ScriptReply): HoldResult {
  switch (why) {
    case 'ok':
      return { ok: true, day: first!, billed: second === '1', tight: third === '1' }
    case 'held':
      return { ok: false, why, by: first as HeldBy, retryAfterMs: RETRY_MS }
    case 'cap':
      return {
        ok: false,
        why,
        of: third as 'key' | 'account',
        ...windowEnd(first as CapScope, Number(second)),
      }
    default:
      return { ok: false, why: why as 'tier' | 'credits' | 'lost' }
  }
}

/** The reply of the scripts `settle`, `topUp` and `adjust`, unless it is `range`. */
export function toSettled([state, cost, balance]: ScriptReply): Settled {
  return { state: state as Settled['state'], cost: toPico(cost), balance: toPico(balance) }
}

/** Limits as a book stores them; {@link toLimits} reads them. */
export function toLimitsText(limits: KeyLimits, revision: number): string {
  const { disabled, expiresAt = '', rpm = '', concurrency = '', cap } = limits
  const members = [revision, disabled ? 1 : 0, expiresAt, rpm, concurrency]
  return [...members, cap?.scope ?? '', cap?.amount ?? ''].join('|')
}

/** Reads the text of {@link toLimitsText}. */
export function toLimits(text: string): { limits: KeyLimits; revision: number } {
  const [revision, disabled, expiresAt, rpm, concurrency, scope, amount] = text.split('|')
  const limits: KeyLimits = {
    disabled: disabled === '1',
    ...(expiresAt && { expiresAt: Number(expiresAt) }),
    ...(rpm && { rpm: Number(rpm) }),
    ...(concurrency && { concurrency: Number(concurrency) }),
    ...(scope && { cap: { scope: scope as CapScope, amount: toPico(amount) } }),
  }
  return { limits, revision: Number(revision) }
}

/** An amount from Redis; an absent one is 0. */
export function toPico(text: string | null | undefined): Pico {
  return BigInt(text ?? 0)
}
