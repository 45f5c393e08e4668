import * as v from 'valibot'
import { formatPico, parsePico, usdJson, type Pico, type Usd } from '../../../money/amounts.ts'
import { modelsByName } from './settings.ts'

export type { Usd } from '../../../money/amounts.ts'

/** Most limits of one owner, and most patterns of one limit. */
const MOST_LIMITS = 16
const MOST_PATTERNS = 32

const UNIT = 'one of usd, requests, tokens, concurrent'
const WINDOW = 'one of minute, 5h, day, week, month, lifetime'
const VALUE = 'decimal text of USD above 0, or a whole number of at least 1'

/** A limit as it is set. */
const limitEntry = v.strictObject({
  unit: v.picklist(['usd', 'requests', 'tokens', 'concurrent'], UNIT),
  window: v.optional(v.picklist(['minute', '5h', 'day', 'week', 'month', 'lifetime'], WINDOW)),
  value: v.union([v.string(VALUE), v.number(VALUE)], VALUE),
  models: v.optional(
    v.pipe(
      modelsByName,
      v.minLength(1, 'a list with at least one model'),
      v.maxLength(MOST_PATTERNS, `at most ${MOST_PATTERNS} models`),
    ),
  ),
})

export const limitList = v.pipe(
  v.array(limitEntry, 'a list of limits'),
  v.maxLength(MOST_LIMITS, `at most ${MOST_LIMITS} limits`),
  v.readonly(),
)

export type LimitEntry = v.InferOutput<typeof limitEntry>

/** A higher value of a limit, by the name of the limit, until a moment, ms since epoch. */
type Raises = Readonly<Record<string, { readonly value: string | number; readonly until: number }>>

/** The members of a record that limit: the simple form, and further limits with their names. */
export interface LimitMembers {
  readonly rpm?: number | undefined
  readonly concurrency?: number | undefined
  readonly spendCap?:
    | { readonly usd: string; readonly scope: 'lifetime' | 'day' | 'month' }
    | undefined
  readonly limits?: readonly (LimitEntry & { readonly name?: string })[] | undefined
  readonly raises?: Raises | undefined
  /** When limits with a counter were set, ms since epoch, by their names. */
  readonly since?: Readonly<Record<string, number>> | undefined
}

/** All limits of a record with their names, those of the simple form first. */
export function limitsIn(record: LimitMembers): (LimitEntry & { readonly name?: string })[] {
  const { rpm, concurrency, spendCap, limits = [] } = record
  const list: (LimitEntry & { readonly name?: string })[] = []
  if (rpm !== undefined) {
    list.push({ unit: 'requests', window: 'minute', value: rpm, name: 'rpm' })
  }
  if (concurrency !== undefined) {
    list.push({ unit: 'concurrent', value: concurrency, name: 'concurrency' })
  }
  if (spendCap) {
    const { usd: value, scope: window } = spendCap
    list.push({ unit: 'usd', window, value, name: `cap.${window}` })
  }
  return [...list, ...limits]
}

/** The limits of a record for answers, with the raises that run; null where there are none. */
export function shownLimits(record: LimitMembers, now: number = Date.now()) {
  const list = limitsIn(record)
  if (list.length === 0) return null
  return list.map(({ name = '', ...entry }) => {
    const raise = record.raises?.[name]
    const raised = raise && { value: raise.value, until: new Date(raise.until).toISOString() }
    const value = entry.unit === 'usd' ? formatPico(parsePico(String(entry.value))) : entry.value
    return { ...entry, value, ...(raise && raise.until > now && { raised }) }
  })
}

/** `POST …/limits/:name/raise`: null ends a raise. */
export const raiseBody = v.strictObject({
  value: v.nullable(v.union([v.string(VALUE), v.number(VALUE)], VALUE)),
  until: v.nullish(v.string('a moment such as "2027-01-31T00:00:00Z"')),
  reason: v.nullish(
    v.pipe(v.string('a text'), v.maxLength(1000, 'a text of 1 to 1000 characters')),
  ),
})

/** `POST …/limits/:name/reset` */
export const resetBody = v.strictObject({
  reason: v.pipe(v.string('a text of 1 to 1000 characters'), v.minLength(1), v.maxLength(1000)),
  reference: v.nullish(
    v.pipe(v.string('a text of 1 to 200 characters'), v.minLength(1), v.maxLength(200)),
  ),
})

/** A limit with its use. */
export interface Limit {
  /** Name such as `key.rpm`, `account.cap.month`, `tier.day`. */
  readonly limit: string
  readonly unit: LimitEntry['unit']
  readonly window: LimitEntry['window'] | null
  readonly models?: readonly string[]
  /** The value in force: a number, or for an amount decimal text of USD. */
  readonly value: number | string
  /** Owner of the setting. */
  readonly source: 'key' | 'team' | 'account' | 'default' | 'tier'
  /** Counted since the window began, or since its reset. */
  readonly used: number | Usd
  /** Set aside for running calls. */
  readonly held: number | Usd
  readonly left: number | Usd
  /** Bounds of the window, ISO 8601; null for a limit without them. */
  readonly starts_at: string | null
  readonly resets_at: string | null
  /** From when it counts, where that is after the window began. */
  readonly since?: string
  readonly raised?: { readonly from: number | string; readonly until: string }
  /** What a reset has taken off in this window. */
  readonly reset?: number | Usd
}

/** What of its limits and its money refuses a key first. */
export interface Left extends Pick<Limit, 'unit' | 'value' | 'left' | 'resets_at'> {
  /** The name of the limit, or `balance`. */
  readonly limit: string
}

/** Spend, and number of running calls. */
export interface Spent {
  readonly day: Pico
  readonly month: Pico
  readonly lifetime: Pico
  readonly inFlight: number
}

/** Settled spend by window of the account's time zone. */
export function spendView({ day, month, lifetime }: Spent) {
  return { day: usdJson(day), month: usdJson(month), lifetime: usdJson(lifetime) }
}
