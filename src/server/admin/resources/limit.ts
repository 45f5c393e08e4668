import * as v from 'valibot'
import { formatPico, parsePico, usdJson, type Pico, type Usd } from '../../../money/amounts.ts'
import {
  count,
  modelsByName,
  SPEND_CAP,
  type ChangedSettings,
  type KeptSettings,
} from './settings.ts'

export type { Usd } from '../../../money/amounts.ts'

/** Most limits of one owner, and most patterns of one limit. */
export const MOST_LIMITS = 16
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

/** The settings that limit: the simple form, and the list, which records keep. @param of whose they are, in the help; empty for one key. @param absent what holds without a rate or number */
export const limitSettings = (of: string, absent: string) =>
  ({
    rpm_limit: {
      stored: 'rpm',
      schema: count,
      option: {
        name: 'rpm',
        value: 'n',
        help: `requests per minute${of}; "none" for ${absent}`,
      },
    },
    concurrency_limit: {
      stored: 'concurrency',
      schema: count,
      option: {
        name: 'concurrency',
        value: 'n',
        help: `calls at once${of}; "none" for ${absent}`,
      },
    },
    spend_cap: {
      ...SPEND_CAP,
      option: {
        name: 'cap',
        value: 'usd[/day|/month]',
        help: `spend cap${of} such as 5.00/month; without a period for all time; "none" removes it`,
      },
    },
    limits: { stored: 'limits', schema: limitList, csv: [] },
  }) as const

export type LimitEntry = v.InferOutput<typeof limitEntry>

/** A change of limits in either spelling. */
export type LimitsChange = ChangedSettings<ReturnType<typeof limitSettings>>

/** A limit as a record keeps it. */
export interface StoredLimit extends LimitEntry {
  /** Its name without the owner. */
  readonly name: string
  /** A higher value until a moment, ms since epoch. */
  readonly raised?: { readonly value: string | number; readonly until: number }
  /** When a limit with a counter was set, ms since epoch. */
  readonly since?: number
}

/** The limits of a record. */
export interface LimitMembers {
  readonly limits?: readonly StoredLimit[] | undefined
}

const PLAIN_CAP = /^cap\.(lifetime|day|month)$/

/** The entries of a list that the simple form has members for. */
export const isSimple = {
  rpm: ({ name }: StoredLimit) => name === 'rpm',
  concurrency: ({ name }: StoredLimit) => name === 'concurrency',
  /** The first one is the spend cap. */
  spendCap: ({ name }: StoredLimit) => PLAIN_CAP.test(name),
}

/** The limits of a record in the simple form. */
export function simpleForm({
  limits = [],
}: LimitMembers): KeptSettings<Omit<ReturnType<typeof limitSettings>, 'limits'>> {
  const [rate, calls, cap] = Object.values(isSimple).map((is) => limits.find(is))
  return {
    ...(rate && { rpm: Number(rate.value) }),
    ...(calls && { concurrency: Number(calls.value) }),
    ...(cap && { spendCap: { usd: String(cap.value), scope: cap.window as 'day' } }),
  }
}

/** The limits of a record that the simple form has no member for; undefined where there are none. */
export function otherLimits({ limits = [] }: LimitMembers): LimitMembers['limits'] {
  const simple = Object.values(isSimple).map((is) => limits.find(is))
  const others = limits.filter((one) => !simple.includes(one))
  return others.length > 0 ? others : undefined
}

/** The limits of a record for answers, with the raises that run; null where there are none. */
export function shownLimits({ limits }: LimitMembers, now: number = Date.now()) {
  if (!limits) return null
  return limits.map(({ unit, window, models, raised, ...entry }) => {
    const value = unit === 'usd' ? formatPico(parsePico(String(entry.value))) : entry.value
    const isRaised = raised && raised.until > now
    return {
      unit,
      ...(window && { window }),
      value,
      ...(models && { models }),
      ...(isRaised && {
        raised: { value: raised.value, until: new Date(raised.until).toISOString() },
      }),
    }
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
  /** It is set aside for running calls. */
  readonly held: number | Usd
  readonly left: number | Usd
  /** Bounds of the window, ISO 8601; null for a limit without them. */
  readonly starts_at: string | null
  readonly resets_at: string | null
  /** The moment from which it counts, where that is after the window began. */
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
