/** Translates the scripts' replies, and limits, into the types of the ledger port. */
import type { Cluster, Redis } from 'ioredis'
import type { Pico } from '../../money/money.ts'
import type { CapScope, KeyLimits } from '../ledger/ledger.ts'
import type { ScriptName } from './scripts.ts'

/** Strings; integers are strings too, and null is an absent value. */
export type ScriptReply = readonly (string | null)[]

/** A client with the scripts as methods, which take their keys and then their arguments. */
export type ScriptClient = (Redis | Cluster) &
  Record<ScriptName, (...args: string[]) => Promise<ScriptReply>>

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
