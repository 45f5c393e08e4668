/** Schemas of the settings of a key, shared by the configuration and the admin API. */
import * as v from 'valibot'
import { isMoment } from '../errors/moments.ts'
import { MAX_AMOUNT, formatPico, parsePico } from '../money/money.ts'
import { CHECKED, hasValidChecksum, isSecret, SECRET } from './secrets.ts'

const USD =
  `a decimal string of USD above 0 and at most ${formatPico(MAX_AMOUNT)}, such as "10.00", ` +
  'with at most 12 fractional digits'
const USD_OR_NOTHING = USD.replace('above 0', 'of at least 0')
const SIGNED_USD = USD.replace('above 0 and', 'other than 0,').replace(
  'such as',
  'negative to take away, such as',
)
const COUNT = 'a whole number of at least 1'
const MOMENT = 'a moment such as "2027-01-31T00:00:00Z"'
const MODELS = 'a list of model ids such as "vendor/model" or "vendor/*"'
const MODEL = 'a model id such as "vendor/model", or "vendor/*" for all of a vendor'
const MODEL_NAME = 'a model id such as "vendor/model", another name of a model, or "vendor/*"'
const SHA256 = 'the SHA-256 of the key: 64 lower-case hex digits'
const START = 'the beginning of the key, 1 to 20 visible characters, such as "sk-...ab12"'
const TAG = '1 to 64 letters, digits, "_", ".", ":" or "-"'
const ID = '1 to 64 lower-case letters, digits, "_" or "-"'

/** An amount of USD above 0, as text. */
export const usd = v.pipe(v.string(USD), v.check(isAmount, USD))
/** An amount of USD of at least 0, as text. */
export const usdOrNothing = v.pipe(
  v.string(USD_OR_NOTHING),
  v.check(isAmountOrNothing, USD_OR_NOTHING),
)
/** An amount of USD above or below 0, as text. */
export const signedUsd = v.pipe(
  v.string(SIGNED_USD),
  v.check((amount) => isAmount(amount.replace(/^-/, '')), SIGNED_USD),
)
/** The id of an account or a key. */
export const recordId = v.pipe(v.string(ID), v.regex(/^[a-z0-9_-]{1,64}$/, ID))

/** A secret that was made elsewhere. */
export const givenSecret = v.pipe(
  v.string(SECRET),
  v.check(isSecret, SECRET),
  v.check(hasValidChecksum, CHECKED),
)
/** The hash of a secret that was made elsewhere. */
export const secretHash = v.pipe(v.string(SHA256), v.regex(/^[0-9a-f]{64}$/, SHA256))
/** What lists show of a secret. Too short to be one. */
export const secretStart = v.pipe(v.string(START), v.regex(/^[\x21-\x7e]{1,20}$/, START))

/** What the calls of a key are counted by, beside the key. */
export const tag = v.pipe(v.string(TAG), v.regex(/^[A-Za-z0-9_.:-]{1,64}$/, TAG))
/** Requests per minute. */
export const rpmLimit = v.pipe(v.number(COUNT), v.safeInteger(COUNT), v.minValue(1, COUNT))
/** Calls at a time. */
export const concurrencyLimit = rpmLimit
/** The most that a key can spend in a period. */
export const spendCap = v.strictObject({
  usd,
  scope: v.picklist(['lifetime', 'day', 'month'], 'one of lifetime, day, month'),
})
/** A moment as ISO 8601 text. A Date is accepted too, because YAML turns an unquoted moment into one. */
export const expiresAt = v.pipe(
  v.union([v.string(), v.date()], MOMENT),
  v.transform((moment) => (moment instanceof Date ? moment.toISOString() : moment)),
  v.check(isMoment, MOMENT),
)
/** The models that a key can use. */
export const models = v.array(v.pipe(v.string(MODEL), v.regex(/^[^/\s:]+\/\S+$/, MODEL)), MODELS)
/** The same, by any of the names that clients may use. */
export const modelsByName = v.array(
  v.pipe(v.string(MODEL_NAME), v.regex(/^\S{1,256}$/, MODEL_NAME)),
  MODELS,
)
/** A policy; checked only for being an object, `readPolicy` checks the members. */
export const policy = v.record(v.string(), v.unknown(), 'a policy object')

function isAmount(amount: string): boolean {
  return isAmountOrNothing(amount) && parsePico(amount) > 0n
}

function isAmountOrNothing(amount: string): boolean {
  try {
    return parsePico(amount) <= MAX_AMOUNT
  } catch {
    return false
  }
}
