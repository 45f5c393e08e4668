/** Descriptions of the settings of accounts and keys, and what follows from them. */
import * as v from 'valibot'
import { isMoment } from '../../../errors/moments.ts'
import { formatPico, MAX_AMOUNT, parsePico, type Pico } from '../../../money/amounts.ts'
import type { Right } from './rights.ts'

/** A setting in requests, in records and in answers. It is stored and shown as it is written, unless a member says otherwise. */
interface Setting {
  /** Its name in records. */
  readonly stored: string
  /** Its value in requests, where null clears it. */
  readonly schema: v.GenericSchema
  /** Its value in the `seed` of the configuration, where that differs; null where it cannot be seeded. */
  readonly seed?: v.GenericSchema | null
  /** Its value in records, where that differs. */
  readonly record?: v.GenericSchema
  /** Makes the value of records. */
  readonly keep?: (value: never) => unknown
  /** Makes the value of answers. */
  readonly show?: (stored: never) => unknown
  /** Value in answers where it is not set, if not null. */
  readonly absent?: unknown
  /** Its columns in a list as CSV, if not one of its own name. */
  readonly csv?: readonly string[]
  /** The option of commands that sets it. */
  readonly option?: SettingOption
  /** An actor with one of them may change it; `keys` where there are none. */
  readonly rights?: readonly Right[]
}

interface SettingOption {
  readonly name: string
  /** Name of the value in the help, and the way it is read. */
  readonly value: string
  readonly help: string
}

/** Settings by their names in the API and in the configuration. */
export type Settings = Readonly<Record<string, Setting>>

type Given<One extends Setting> = v.InferOutput<One['schema']>
type Kept<One extends Setting> = One extends { record: infer Form extends v.GenericSchema }
  ? v.InferOutput<Form>
  : Given<One>
type Shown<One extends Setting> = One extends { show: (stored: never) => infer Value }
  ? Value
  : Kept<One>
type Absent<One extends Setting> = One extends { absent: infer Value } ? Value : null

const TAG_FORM = '1 to 64 letters, digits, "_", ".", ":" or "-"'
/** A label of calls. */
export const TAG = v.pipe(v.string(TAG_FORM), v.regex(/^[A-Za-z0-9_.:-]{1,64}$/, TAG_FORM))

/** Settings in a request: null clears, absent leaves unchanged. */
export type GivenSettings<All extends Settings> = {
  readonly [Name in keyof All]?: Given<All[Name]> | null | undefined
}
export type KeptSettings<All extends Settings> = {
  readonly [Name in keyof All as All[Name]['stored']]?: Kept<All[Name]> | undefined
}
/** A change of a record, as {@link GivenSettings}. */
export type ChangedSettings<All extends Settings> = {
  readonly [Name in keyof All as All[Name]['stored']]?: Kept<All[Name]> | null | undefined
}
/** Settings in an answer: null means a default, or no limit. */
type ShownSettings<All extends Settings> = {
  readonly [Name in keyof All]: Shown<All[Name]> | Absent<All[Name]>
}

/** The last change of an object: its moment, ms since epoch, and the id of the actor. */
export interface Changed {
  readonly at: number
  readonly by: string
}

/** What keys, teams and accounts have beside their settings. */
export interface Owner {
  readonly id: string
  readonly name: string
  readonly disabled: boolean
  /** Moment of archiving, ms since epoch: calls are refused for good. */
  readonly archivedAt?: number | undefined
  /** Grows with every change. */
  readonly revision: number
  readonly createdAt: number
  /** The last change by an actor. */
  readonly changed?: Changed | undefined
}

/** A setting without the effect that was meant. */
export interface Notice {
  readonly code: string
  /** What it is about, such as `provider:openai`. */
  readonly object: string
  readonly member: string | null
  readonly message: string
}

export function changedView(changed: Changed | undefined) {
  return changed ? { at: moment(changed.at), by: changed.by } : null
}

export function bodyOf<All extends Settings>(settings: All) {
  const entries = Object.entries(settings).map(([name, { schema }]) => [name, v.nullish(schema)])
  return Object.fromEntries(entries) as {
    [Name in keyof All]: v.NullishSchema<All[Name]['schema'], undefined>
  }
}

export function seedOf<All extends Settings>(settings: All) {
  const entries = Object.entries(settings).flatMap(([name, { schema, seed = schema }]) =>
    seed === null ? [] : [[name, v.optional(seed)]],
  )
  return Object.fromEntries(entries) as {
    [Name in keyof All as All[Name] extends { seed: null } ? never : Name]: v.OptionalSchema<
      All[Name]['schema'],
      undefined
    >
  }
}

export function changeOf<All extends Settings>(
  settings: All,
  values: GivenSettings<All>,
): ChangedSettings<All> {
  const entries = Object.entries(settings).map(([name, { stored, keep }]) => {
    const value = values[name] as never
    return [stored, keep && value != null ? keep(value) : value]
  })
  return Object.fromEntries(entries) as ChangedSettings<All>
}

export function shownOf<All extends Settings>(
  settings: All,
  record: KeptSettings<All>,
): ShownSettings<All> {
  const values = record as Readonly<Record<string, unknown>>
  const entries = Object.entries(settings).map(([name, { stored, show, absent = null }]) => {
    const value = values[stored]
    return [name, value === undefined ? absent : show ? show(value as never) : value]
  })
  return Object.fromEntries(entries) as ShownSettings<All>
}

export function columnsOf(settings: Settings): readonly string[] {
  return Object.entries(settings).flatMap(([name, { csv = [name] }]) => csv)
}

/** A moment in an answer. @param at ms since epoch */
export const moment = (at: number): string => new Date(at).toISOString()
export const momentOrNull = (at: number | undefined): string | null =>
  at === undefined ? null : moment(at)

/** A moment to the second where it has no fraction. */
export const second = (at: number): string => moment(at).replace('.000Z', 'Z')

const USD =
  `a decimal string of USD above 0 and at most ${formatPico(MAX_AMOUNT)}, such as "10.00", ` +
  'with at most 12 fractional digits'
const CAP = USD.replace(` and at most ${formatPico(MAX_AMOUNT)}`, '')
const USD_OR_NOTHING = USD.replace('above 0', 'of at least 0')
const CAP_OR_NOTHING = CAP.replace('above 0', 'of at least 0')
const SIGNED_USD = USD.replace('above 0 and', 'other than 0,').replace(
  'such as',
  'negative to take away, such as',
)
const COUNT = 'a whole number of at least 1'
const MOMENT = 'a moment such as "2027-01-31T00:00:00Z"'
const ID = '1 to 64 lower-case letters, digits, "_" or "-"'

/** An amount of USD above 0, as text. */
export const usd = v.pipe(v.string(USD), v.check(isAmount, USD))
/** An amount of USD of at least 0, as text. */
export const usdOrNothing = v.pipe(
  v.string(USD_OR_NOTHING),
  v.check((amount) => isUsd(amount, MAX_AMOUNT), USD_OR_NOTHING),
)
/** An amount of USD above or below 0, as text. */
export const signedUsd = v.pipe(
  v.string(SIGNED_USD),
  v.check((amount) => isAmount(amount.replace(/^-/, '')), SIGNED_USD),
)
export const recordId = v.pipe(v.string(ID), v.regex(/^[a-z0-9_-]{1,64}$/, ID))
const INSTANCE = 'a name of letters, digits, "-" and "_", at most 64'
/** The name of something in the configuration. */
export const instanceName = v.pipe(
  v.string(INSTANCE),
  v.regex(/^[A-Za-z0-9][\w-]{0,63}$/, INSTANCE),
)
export const count = v.pipe(v.number(COUNT), v.safeInteger(COUNT), v.minValue(1, COUNT))
export const flag = v.boolean('true or false')
export const name = v.string('a text of 1 to 200 characters')
export const momentText = v.pipe(
  v.union([v.string(), v.date()], MOMENT),
  v.transform((value) => (value instanceof Date ? value.toISOString() : value)),
  v.check(isMoment, MOMENT),
)

const MONTH = 'a month such as "2026-10"'
export const monthText = v.pipe(v.string(MONTH), v.regex(/^\d{4}-(0[1-9]|1[0-2])$/, MONTH))

export function text(most: number) {
  const expected = `a text of 1 to ${most} characters`
  return v.pipe(v.string(expected), v.minLength(1, expected), v.maxLength(most, expected))
}

/** A whole number. @param unit what it counts, such as ` of seconds` */
export function whole(least: number, most: number, unit = '') {
  const expected = `a whole number${unit} from ${least} to ${most}`
  return v.pipe(
    v.number(expected),
    v.safeInteger(expected),
    v.minValue(least, expected),
    v.maxValue(most, expected),
  )
}

const MODELS = 'a list of model ids such as "vendor/model" or "vendor/*"'
const MODEL_NAME = 'a model id such as "vendor/model", another name of a model, or "vendor/*"'

/** A list of models. @param expected description of a valid name */
export const modelList = (expected: string, form: RegExp) =>
  v.pipe(v.array(v.pipe(v.string(expected), v.regex(form, expected)), MODELS), v.readonly())
export const modelsByName = modelList(MODEL_NAME, /^\S{1,256}$/)

/** Whether calls get stored answers. */
export const cacheUse = v.picklist(['off', 'asked', 'on'], '"off", "asked" or "on"')

const spendCap = <Amount extends v.GenericSchema<string>>(usd: Amount) =>
  v.strictObject({
    usd,
    scope: v.picklist(['lifetime', 'day', 'month'], 'one of lifetime, day, month'),
  })

type SpendCap = v.InferOutput<ReturnType<typeof spendCap<typeof usd>>>

/** A spend cap. Its amount is text, so that a client can send back what it read. */
export const SPEND_CAP = {
  stored: 'spendCap',
  schema: spendCap(v.pipe(v.string(CAP), v.check(isCap, CAP))),
  // With 0, every call is refused.
  record: spendCap(
    v.pipe(
      v.string(CAP_OR_NOTHING),
      v.check((amount) => isUsd(amount), CAP_OR_NOTHING),
    ),
  ),
  show: ({ usd, scope }: SpendCap) => ({
    usd: formatPico(parsePico(usd)),
    scope,
  }),
  csv: ['spend_cap.usd', 'spend_cap.scope'],
} as const

/** The lists of models that may be used, all when absent, and of those that may not. @param user who uses them, in the help */
export const modelSettings = (user: string) =>
  ({
    models: {
      stored: 'models',
      schema: modelsByName,
      csv: [],
      option: {
        name: 'models',
        value: 'ids',
        help: `models that ${user} can use, separated by commas; "none" for all`,
      },
    },
    deny_models: {
      stored: 'denyModels',
      schema: modelsByName,
      csv: [],
      option: {
        name: 'deny-models',
        value: 'ids',
        help: `models that ${user} cannot use, separated by commas; "none" denies none`,
      },
    },
  }) as const

export const NOTE = {
  stored: 'note',
  schema: text(1000),
  seed: null,
  option: { name: 'note', value: 'text', help: 'for operators; "none" removes it' },
} as const

function isAmount(amount: string): boolean {
  return /^\d+(\.\d+)?$/.test(amount) && isUsd(amount, MAX_AMOUNT) && parsePico(amount) > 0n
}

function isCap(amount: string): boolean {
  return isUsd(amount) && parsePico(amount) > 0n
}

/** @param most absent for an amount that bounds a sum: sums have no bound */
function isUsd(amount: string, most?: Pico): boolean {
  try {
    const pico = parsePico(amount)
    return most === undefined || pico <= most
  } catch {
    return false
  }
}
