/** Bodies of the admin API: strict objects. A refusal names the path of the member and the expected value. */
import * as v from 'valibot'
import { InvalidRequest, type InvalidCode } from '../../errors/errors.ts'
import { toConfigIssues } from '../../errors/issues.ts'
import {
  concurrencyLimit,
  expiresAt,
  modelsByName,
  policy,
  recordId,
  rpmLimit,
  secretHash,
  secretStart,
  spendCap,
  signedUsd,
  tag,
  usd,
  usdOrNothing,
} from '../../accounts/key-settings.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import { isPastMoment, PAST_MOMENT, wholeNumber, wrongQuery } from '../../errors/query.ts'

export { checkParameters, readLimit, readMoment, wrongQuery } from '../../errors/query.ts'

/** Settings of a key; null means the default, or no limit. */
const settings = {
  rpm_limit: v.nullish(rpmLimit),
  concurrency_limit: v.nullish(concurrencyLimit),
  spend_cap: v.nullish(spendCap),
  expires_at: v.nullish(expiresAt),
  models: v.nullish(modelsByName),
  policy: v.nullish(policy),
  tag: v.nullish(tag),
  log_content: v.nullish(v.boolean('true or false')),
  note: v.nullish(text(1000)),
}

/** Members in which a careless client sends a whole key. */
const MAY_BE_SECRET: ReadonlySet<string> = new Set(['sha256', 'start'])

const FLAG = v.boolean('true or false')
const NAME = v.string('a text of 1 to 200 characters')
const ID = v.nullish(recordId)
const account = v.strictObject({ name: NAME, id: ID })
const accountChange = v.strictObject({
  name: v.optional(NAME),
  disabled: v.optional(FLAG),
  rpm_limit: v.nullish(rpmLimit),
  concurrency_limit: v.nullish(concurrencyLimit),
  spend_cap: v.nullish(spendCap),
  alert_below_usd: v.nullish(usdOrNothing),
  note: v.nullish(text(1000)),
})
const credits = v.strictObject({
  usd,
  reference: v.nullish(text(200)),
  note: v.nullish(text(1000)),
})
const adjustment = v.strictObject({
  usd: signedUsd,
  reason: text(1000),
  reference: v.nullish(text(200)),
})
const key = v.strictObject({
  name: NAME,
  id: ID,
  disabled: v.optional(FLAG),
  sha256: v.nullish(secretHash),
  start: v.nullish(secretStart),
  ...settings,
})
const keyChange = v.strictObject({
  name: v.optional(NAME),
  disabled: v.optional(FLAG),
  ...settings,
})
const OVERLAP = 'a whole number of seconds from 0 to 2592000'
const MUTE = 'a whole number of seconds from 0 to 2592000'
const mute = v.strictObject({
  seconds: v.pipe(
    v.number(MUTE),
    v.integer(MUTE),
    v.minValue(0, MUTE),
    v.maxValue(2_592_000, MUTE),
  ),
})

const rotation = v.strictObject({
  overlap: v.optional(
    v.pipe(
      v.number(OVERLAP),
      v.safeInteger(OVERLAP),
      v.minValue(0, OVERLAP),
      v.maxValue(2_592_000, OVERLAP),
    ),
    86_400,
  ),
})

const SECONDS = 'a whole number of seconds from 1 to 86400'
const cooldown = v.strictObject({
  seconds: v.pipe(
    v.number(SECONDS),
    v.safeInteger(SECONDS),
    v.minValue(1, SECONDS),
    v.maxValue(86_400, SECONDS),
  ),
})

const allowlist = v.nullable(modelsByName)
const policyPair = v.strictObject({
  from: v.nullable(policy),
  to: v.nullable(policy),
  models: v.optional(v.strictObject({ from: allowlist, to: allowlist })),
})

const CHUNK = 'a whole number of characters from 1 to 10000'
const CALLS = 'a whole number from 1 to 200'
const moment = v.pipe(
  v.string(PAST_MOMENT),
  v.check(isPastMoment, PAST_MOMENT),
  v.transform((text) => Date.parse(text)),
)
const replay = v.strictObject({
  policy,
  key: v.nullish(recordId),
  from: v.nullish(moment),
  to: v.nullish(moment),
  limit: v.optional(
    v.pipe(v.number(CALLS), v.integer(CALLS), v.minValue(1, CALLS), v.maxValue(200, CALLS)),
    50,
  ),
  ask: v.optional(FLAG, false),
})

const trial = v.strictObject({
  policy,
  input: v.optional(v.string('a text')),
  output: v.optional(v.string('a text')),
  chunk: v.optional(
    v.pipe(v.number(CHUNK), v.integer(CHUNK), v.minValue(1, CHUNK), v.maxValue(10_000, CHUNK)),
  ),
  ask: v.optional(FLAG),
})

const MODEL_IDS = v.optional(v.array(v.string('a text'), 'a list of models'), [])
const modelImport = v.strictObject({
  from: text(1000),
  text: v.optional(v.string('the text of a price list')),
  only: MODEL_IDS,
  accept: MODEL_IDS,
  write: v.optional(FLAG, false),
})

/** A policy and the texts to test it on. */
export interface PolicyTrial {
  readonly policy: Policy
  readonly input: string | undefined
  readonly output: string | undefined
  /** Characters of the output that arrive at a time; undefined for an answer that comes whole. */
  readonly chunk: number | undefined
  /** Whether guards may ask models and services. */
  readonly ask: boolean
}

/** @throws InvalidRequest, as all functions of this file */
export const readAccount = (body: object) => withoutNulls(read(account, body))
/** A change of an account: null clears a member, an absent member stays. @throws InvalidRequest */
export const readAccountChange = (body: object) => read(accountChange, body)
/** Credits to add. @throws InvalidRequest */
export const readCredits = (body: object) => withoutNulls(read(credits, body))
/** A correction of a balance. @throws InvalidRequest */
export const readAdjustment = (body: object) => withoutNulls(read(adjustment, body))
/** A new key; with `sha256` one whose secret was made elsewhere. @throws InvalidRequest */
export const readKey = (body: object) => withoutNulls(read(key, body))
/** A change: null clears a member, an absent member stays. */
export const readKeyChange = (body: object) => read(keyChange, body)

/** Two allowlists; null allows all models. */
export type ModelPair = Readonly<Record<'from' | 'to', readonly string[] | null>>

/** Two policies to compare, and perhaps two allowlists; null stands for none. @throws InvalidRequest */
export function readPolicyPair(body: object): Readonly<
  Record<'from' | 'to', Policy | undefined>
> & {
  readonly models: ModelPair | undefined
} {
  const { from, to, models } = read(policyPair, body)
  return {
    models,
    from: from ? readPolicy(from, 'from') : undefined,
    to: to ? readPolicy(to, 'to') : undefined,
  }
}

/** For how many seconds nothing is told of an alert. @throws InvalidRequest */
export const readMute = (body: object) => read(mute, body)

/** For how many seconds the secret before works on. @throws InvalidRequest */
export const readRotation = (body: object) => read(rotation, body)

/** For how many seconds a deployment is taken out. @throws InvalidRequest */
export const readCooldown = (body: object) => read(cooldown, body)

/** A policy test. @throws InvalidRequest */
export function readTrial(body: object): PolicyTrial {
  const { policy, input, output, chunk, ask = false } = read(trial, body)
  if (input !== undefined || output !== undefined) {
    return { policy: readPolicy(policy), input, output, chunk, ask }
  }
  const message = "Missing 'input' or 'output': a text to try the policy on."
  throw new InvalidRequest('missing_required_parameter', message, { param: 'input' })
}

/** A policy, and the kept calls to try it on. @throws InvalidRequest */
export function readReplay(body: object) {
  const { policy, ...which } = withoutNulls(read(replay, body))
  return { policy: readPolicy(policy), ...which }
}

/** Which prices are taken over. @throws InvalidRequest */
export const readImport = (body: object) => read(modelImport, body)

/** `?before=` of the ledger: a sequence number. @throws InvalidRequest */
export function readCursor(value: string | null): number | undefined {
  if (value === null) return undefined
  const number = wholeNumber(value)
  if (number !== undefined) return number
  throw wrongQuery('before', 'the "next" of the page before')
}

function read<Shape extends v.GenericSchema>(schema: Shape, body: object): v.InferOutput<Shape> {
  const result = v.safeParse(schema, body)
  if (result.success) return result.output
  const [issue] = result.issues
  // The values come from the request, so only secrets by name are hidden, and what a secret may be mistaken for.
  const source = { path: [], value: body, secrets: MAY_BE_SECRET }
  const [found] = toConfigIssues([issue!], source, schema)
  const { path, message } = found!
  const where = path === '' ? 'Invalid body' : `Invalid '${path}'`
  throw new InvalidRequest(codeOf(issue!), `${where}: ${message}.`.replace('?.', '?'), {
    param: path || null,
  })
}

function codeOf(issue: v.BaseIssue<unknown>): InvalidCode {
  if (issue.type === 'strict_object') {
    if (issue.expected === 'never') return 'unsupported_parameter'
    if (issue.path?.at(-1)?.origin === 'key') return 'missing_required_parameter'
  }
  return issue.kind === 'schema' && issue.type !== 'picklist' ? 'invalid_type' : 'invalid_value'
}

type WithoutNulls<Body> = { [Name in keyof Body]: Exclude<Body[Name], null> }

/** For new records, null and absent mean the same. */
function withoutNulls<Body extends object>(body: Body): WithoutNulls<Body> {
  const entries = Object.entries(body).filter(([, value]) => value !== null)
  return Object.fromEntries(entries) as WithoutNulls<Body>
}

function text(most: number) {
  const expected = `a text of 1 to ${most} characters`
  return v.pipe(v.string(expected), v.minLength(1, expected), v.maxLength(most, expected))
}
