/** The replies of the scripts. */
import type { Cluster, Redis } from 'ioredis'
import type { Pico } from '../../money/money.ts'
import type { ScriptName } from './scripts.ts'

/** Strings; integers are strings too, and null is an absent value. */
export type ScriptReply = readonly (string | null)[]

/** A client with the scripts as methods, which take their keys and then their arguments. */
export type ScriptClient = (Redis | Cluster) &
  Record<ScriptName, (...args: string[]) => Promise<ScriptReply>>

/** An amount from Redis; an absent one is 0. */
export function toPico(text: string | null | undefined): Pico {
  return BigInt(text ?? 0)
}
