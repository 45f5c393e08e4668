/** The record of a call as far as it is known, shared by logs, metrics, usage, sinks and watchers. */
import { formatPico, type Bill } from '../money/money.ts'
import type { EndedCall, Side, Usage } from '../plugin.ts'
import { QUANTITIES, type Quantity } from '../server/admin/resources/usage.ts'

/** A value without its unknown members. */
type Known<T> = T extends null
  ? never
  : T extends readonly (infer Item)[]
    ? readonly Known<Item>[]
    : T extends object
      ? { readonly [Name in keyof T as null extends T[Name] ? never : Name]: Known<T[Name]> } & {
          readonly [Name in keyof T as null extends T[Name] ? Name : never]?:
            | Known<T[Name]>
            | undefined
        }
      : T

/** Members that every call has from its arrival on. */
type Arrived = 'id' | 'at' | 'method' | 'endpoint'

/**
 * An {@link EndedCall} whose members are absent while they are unknown. A running call has no outcome; one that only the ledger
 * has has neither status nor times.
 */
export type KnownCall = Pick<EndedCall, Arrived> & {
  readonly [Name in Exclude<keyof EndedCall, Arrived>]?: Known<EndedCall[Name]> | undefined
} & {
  /** It is set where the policy wants an event about the block, for sinks. */
  readonly escalated?: { readonly mode: string; readonly outcome: string } | undefined
}

export type ExchangeRequest = NonNullable<KnownCall['request']>

export type ExchangeResponse = NonNullable<KnownCall['response']>

/** What links a call to a trace of its client. */
export type TraceLink = NonNullable<EndedCall['trace']>

/** Treatment of the texts of one side that violate a rule. Side `all` and no rule: a call that violates none. */
export type DecidedRule = NonNullable<EndedCall['decided']>[number]

export interface Attempt {
  readonly deployment: string
  readonly ms: number
  readonly result: string
  /** HTTP status of the vendor, where a failure had one. */
  readonly status?: number | undefined
  /** Message of the vendor about the failure; see `vendorMessage`. */
  readonly message?: string | undefined
}

/** A model that was passed over in place of the asked one, and why. */
export interface SkippedModel {
  readonly model: string
  readonly skipped: string
}

/** One request to a remote guard or to a search engine, for a call. */
export interface Question {
  readonly to: 'guard' | 'search'
  readonly name: string
  readonly side?: Side
  /** Start, in ms since the arrival of the call. */
  readonly from: number
  readonly ms: number
  /** `passed` or `blocked` for a guard, `ok` for an engine, or why there was no answer. */
  readonly result: string
  readonly rules: readonly string[]
}

/** The limit that refused a call: one of key, team, account or free tier, such as `key.cap.day`, or the account's money. */
export type LimitName = `${'key' | 'team' | 'account' | 'tier'}.${string}` | 'balance' | 'held'

/** Quantities of a call by their names in records, and the members of a vendor's usage that they come from. */
export const QUANTITY_MEMBERS = {
  prompt_tokens: 'promptTokens',
  cached_tokens: 'cachedTokens',
  cache_write_tokens: 'cacheWriteTokens',
  completion_tokens: 'completionTokens',
  reasoning_tokens: 'reasoningTokens',
  images: 'images',
  pages: 'pages',
  seconds: 'seconds',
  characters: 'characters',
  searches: 'searches',
  search_units: 'searchUnits',
} as const satisfies Record<Quantity, keyof Usage>

/** Consumption of the model, and of searches by the gateway. undefined where nothing was reported. */
export function quantitiesOf(
  usage: Usage | undefined,
  searches: number | undefined,
): KnownCall['usage'] {
  if (!usage) return searches === undefined ? undefined : { searches }
  const quantities: Partial<Record<Quantity, number>> = {}
  for (const name of QUANTITIES) {
    const count = usage[QUANTITY_MEMBERS[name]]
    if (count !== undefined) quantities[name] = count
  }
  if (searches !== undefined) quantities.searches = (quantities.searches ?? 0) + searches
  return quantities
}

export function costDetails({ details }: Bill): KnownCall['cost_details'] {
  if (details.length === 0) return undefined
  return Object.fromEntries(details.map(({ member, amount }) => [member, formatPico(amount)]))
}

/** The record of a call with null for unknown members. */
export function endedCall(call: KnownCall): EndedCall {
  const { escalated: _, ...known } = call
  const { guard, attempts, questions } = known
  return {
    ...filled(NOT_KNOWN, known),
    day: call.day ?? call.at.slice(0, 10),
    times: filled(NOT_KNOWN.times, call.times),
    usage: filled(NOT_KNOWN.usage, call.usage),
    guard: guard ? filled(NO_GUARD, guard) : null,
    attempts: attempts?.map((one) => ('skipped' in one ? one : filled(NO_ATTEMPT, one))) ?? [],
    questions: questions?.map((one) => filled(NO_QUESTION, one)) ?? [],
  } as unknown as EndedCall
}

const NO_GUARD = { outcome: '', rules: [], policy: null }
const NO_ATTEMPT = { deployment: '', ms: 0, result: '', status: null, message: null }
const NO_QUESTION = { to: '', name: '', side: null, at_ms: 0, ms: 0, result: '', rules: [] }
const NOT_KNOWN = {
  id: '',
  at: '',
  day: '',
  method: '',
  endpoint: '',
  account_id: null,
  team_id: null,
  key_id: null,
  model: null,
  deployment: null,
  status: null,
  code: null,
  limited_by: null,
  outcome: null,
  stream: null,
  times: { admit_ms: null, guard_ms: null, first_ms: null, settled_ms: null, total_ms: null },
  usage: Object.fromEntries(QUANTITIES.map((name) => [name, null])),
  estimated: null,
  cost_usd: null,
  cost_details: null,
  vendor_cost_usd: null,
  rate: null,
  limits: null,
  guard: null,
  decided: null,
  tag: null,
  user: null,
  gateway: null,
  origin: 'api',
  session: null,
  agent: null,
  attempts: [],
  cache: null,
  cache_age: null,
  masked: null,
  restored: null,
  altered: null,
  asked_model: null,
  fallback: null,
  questions: [],
  retry: null,
  error: null,
  trace: null,
  request: null,
  response: null,
  content: null,
} satisfies { readonly [Name in keyof EndedCall]: unknown }

/** @param unknown members with their values for unknown */
function filled<Whole extends object>(unknown: Whole, members: object | undefined): Whole {
  const whole = { ...unknown } as Record<string, unknown>
  for (const [name, value] of Object.entries(members ?? {})) {
    if (value !== undefined) whole[name] = value
  }
  return whole as Whole
}

/** The line in which a call is sent to threads and stored: JSON that begins with its id. */
export function lineOf(call: KnownCall): string {
  return JSON.stringify(call)
}

export function callIn(line: string): KnownCall {
  return JSON.parse(line) as KnownCall
}

/** The calls of lines that are separated by line feeds. */
export function callsIn(lines: string): KnownCall[] {
  return lines.split('\n').map(callIn)
}

/** The line of a call without members that only sinks get. @param line the original one */
export function keptLine(line: string, call: KnownCall = callIn(line)): string {
  const { request, response, guard, escalated, ...kept } = call
  if (!request && !response && !guard?.policy && !escalated) return line
  return lineOf({ ...kept, guard: guard && { ...guard, policy: undefined } })
}

// Labels of a call in usage and log: its purpose and its end user. They are the client's own words, and nothing else depends on
// them.

/** Purpose and end user of a call. */
export interface CallLabels {
  readonly tag?: string
  readonly user?: string
}

const AGENTS: readonly (readonly [RegExp, string])[] = [
  [/^claude-(cli|code)/i, 'claude-code'],
  [/^codex/i, 'codex'],
  [/^opencode/i, 'opencode'],
  [/^openai\/python/i, 'openai-python'],
  [/^openai\/js/i, 'openai-node'],
  [/^anthropic\/python/i, 'anthropic-python'],
  [/^anthropic\/js/i, 'anthropic-node'],
  [/^ai(-sdk)?\//i, 'ai-sdk'],
  [/langchain/i, 'langchain'],
  [/^python-requests|^python-httpx/i, 'python'],
  [/^(node|undici)/i, 'node'],
  [/^curl\//i, 'curl'],
  [/^mozilla\//i, 'browser'],
]

/** The library of a client by its user agent: one name of a fixed list. */
export function agentOf(userAgent: string | undefined): string | undefined {
  if (!userAgent) return undefined
  return AGENTS.find(([pattern]) => pattern.test(userAgent))?.[1] ?? 'other'
}
