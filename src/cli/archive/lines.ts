/** The format of an export's lines, and the errors of invalid lines. */
import * as v from 'valibot'
import { isObject } from '../../errors/checks.ts'
import { toConfigIssues } from '../../errors/issues.ts'
import { recordId } from '../../server/admin/resources/settings.ts'
import { formatPico, MAX_AMOUNT, parsePico } from '../../money/money.ts'
import type { LedgerItem } from '../../state/ledger/ledger.ts'

/** Version of the format. Exports of another version are refused. */
export const VERSION = 1

export class LineError extends Error {
  /** @param line counted from 1 */
  constructor(line: number, reason: string) {
    super(`line ${line}: ${reason}`)
    this.name = 'LineError'
  }
}

export class TornLine extends LineError {}

export interface RecordLine {
  readonly kind: 'record'
  readonly key: string
  readonly value: object
}

export type Line =
  | { readonly kind: 'export'; readonly version: number; readonly at: number }
  /** Begins settlements of a damaged ledger: they were written one by one, so no line ends them. */
  | { readonly kind: 'rescue'; readonly version: number }
  | { readonly kind: 'end'; readonly lines: number }
  | RecordLine
  | LedgerItem

const MAX_MOMENT_MS = 8_640_000_000_000_000

const text = v.pipe(v.string('a text'), v.minLength(1, 'a text'))
const name = v.pipe(text, v.maxLength(300, 'a text of at most 300 characters'))
const flag = v.boolean('true or false')
const count = whole(0, Number.MAX_SAFE_INTEGER, 'a whole number')
const least1 = whole(1, Number.MAX_SAFE_INTEGER, 'a whole number of at least 1')
const moment = whole(-MAX_MOMENT_MS, MAX_MOMENT_MS, 'a moment in ms since 1970')
const day = v.pipe(v.string('a day such as "20270131"'), v.check(isDay, 'a day such as "20270131"'))

const most = formatPico(MAX_AMOUNT)
const cost = amount(/^\d{1,7}(\.\d{1,12})?$/, `an amount of USD such as "0.0025", at most ${most}`)
const credit = amount(
  /^-\d{1,7}(\.\d{1,12})?$/,
  `an amount of USD below zero such as "-10", at least -${most}`,
)
const correction = amount(
  /^-?\d{1,7}(\.\d{1,12})?$/,
  `an amount of USD such as "10" or "-10", at most ${most} either way`,
)
const nothing = amount(/^0$/, '"0"')

const VERSION_OF_PRICES = '16 hex digits'
const version = v.pipe(v.string(VERSION_OF_PRICES), v.regex(/^[0-9a-f]{16}$/, VERSION_OF_PRICES))

const owned = { account: name, key: name }

const items = v.variant('kind', [
  v.strictObject({ kind: v.literal('account'), account: name, paid: flag }),
  v.strictObject({
    kind: v.literal('limits'),
    ...owned,
    limits: v.strictObject({
      disabled: flag,
      expiresAt: v.optional(moment),
      rpm: v.optional(least1),
      concurrency: v.optional(least1),
      cap: v.optional(
        v.strictObject({ amount: cost, scope: v.picklist(['lifetime', 'day', 'month']) }),
      ),
    }),
    revision: count,
  }),
  v.strictObject({ kind: v.literal('total'), ...owned, day, rows: least1, cost }),
  v.strictObject({
    kind: v.literal('usage'),
    ...owned,
    request: name,
    day,
    at: moment,
    cost,
    usage: v.strictObject({
      at: moment,
      endpoint: text,
      model: text,
      deployment: v.optional(text),
      outcome: v.picklist(['completed', 'refused', 'cancelled', 'failed']),
      lines: v.array(
        v.strictObject({
          source: text,
          usage: v.record(v.string(), v.union([v.number(), v.boolean(), v.string()])),
          prices: v.optional(version),
          tier: v.optional(count),
        }),
      ),
      charged: v.optional(v.picklist(['nothing', 'most'])),
      flags: v.optional(v.array(v.picklist(['estimated', 'suspicious']))),
      tag: v.optional(text),
      user: v.optional(text),
      gateway: v.optional(text),
      reported: v.optional(v.record(v.string(), v.unknown())),
    }),
    unfolded: v.optional(v.literal(true)),
  }),
  v.strictObject({
    kind: v.literal('top-up'),
    account: name,
    request: name,
    at: moment,
    cost: credit,
    note: v.optional(v.string()),
  }),
  v.strictObject({
    kind: v.literal('adjust'),
    account: name,
    request: name,
    at: moment,
    cost: correction,
    note: text,
  }),
  v.strictObject({
    kind: v.literal('orphan'),
    ...owned,
    request: name,
    at: moment,
    cost: nothing,
  }),
  v.strictObject({ kind: v.literal('record'), key: text, value: v.record(v.string(), v.any()) }),
  v.strictObject({ kind: v.literal('end'), lines: count }),
])

const sha256 = v.pipe(v.string('64 hex digits'), v.regex(/^[0-9a-f]{64}$/, '64 hex digits'))
/** Schemas of records, by the prefix of their keys. Members without a meaning to the gateway are not checked. */
const records: Readonly<Record<string, v.GenericSchema>> = {
  index: v.strictObject({ ids: v.array(recordId) }),
  account: v.looseObject({ id: recordId, name: text, createdAt: moment }),
  prices: v.looseObject({}),
  hash: v.strictObject({ account: recordId, key: recordId }),
  key: v.looseObject({
    id: recordId,
    account: recordId,
    name: text,
    start: text,
    sha256,
    disabled: flag,
    revision: count,
    createdAt: moment,
  }),
}
const RECORD_KEY =
  /^(?:index:(?:accounts|prices|keys:[a-z0-9_-]{1,64})|prices:[0-9a-f]{16}|(?:account|key):[a-z0-9_-]{1,64}|hash:[0-9a-f]{64})$/

/** Parses and checks a line. @param number counted from 1; line 1 has to be the header. @throws LineError */
export function readLine(text: string, number: number): Line {
  const value = parse(text, number)
  if (number === 1) return readHeader(value)
  const line = check(items, value, number, []) as Line
  if (line.kind === 'record') readRecord(line, number)
  return line
}

function parse(text: string, number: number): { readonly [name: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return { ...value }
  } catch {
    // The error below does not repeat the text, which may hold a secret.
  }
  if (number === 1) throw new LineError(number, NO_EXPORT)
  throw new TornLine(number, 'expected a JSON object')
}

const NO_EXPORT = 'this is not an export: its first line is not a header'

function readHeader({ kind, version, at }: { readonly [name: string]: unknown }): Line {
  if (kind !== 'export' && kind !== 'rescue') throw new LineError(1, NO_EXPORT)
  if (version === VERSION && kind === 'rescue') return { kind, version }
  if (version === VERSION && kind === 'export') return { kind, version, at: Number(at) }
  const actual = JSON.stringify(version) ?? 'none'
  throw new LineError(1, `the export has version ${actual}; this gateway reads version ${VERSION}`)
}

function readRecord({ key, value }: RecordLine, number: number): void {
  const kind = RECORD_KEY.test(key) ? key.split(':', 1)[0]! : undefined
  if (kind === undefined) {
    throw new LineError(
      number,
      'key: expected the key of an account, key, hash, prices or index record',
    )
  }
  const record = check(records[kind]!, value, number, ['value']) as { readonly id?: string }
  if (record.id !== undefined && key !== `${kind}:${record.id}`) {
    throw new LineError(number, 'value.id: expected the id that is in the key of the record')
  }
}

function check(
  schema: v.GenericSchema,
  value: unknown,
  number: number,
  path: readonly string[],
): unknown {
  const result = v.safeParse(schema, value)
  if (result.success) return result.output
  // One error is enough. The message shows no value, which may be a key or a digest.
  const [issue] = toConfigIssues([result.issues[0]], { path, value, secrets: new Set() }, schema)
  throw new LineError(number, `${issue!.path}: ${issue!.message}`.replace(/^: /, ''))
}

function whole(least: number, most: number, expected: string) {
  return v.pipe(
    v.number(expected),
    v.safeInteger(expected),
    v.minValue(least, expected),
    v.maxValue(most, expected),
  )
}

function amount(form: RegExp, expected: string) {
  return v.pipe(
    v.string(expected),
    v.regex(form, expected),
    v.transform((text) => (text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text))),
    // Sums of larger amounts could exceed the 64 bits of the engines.
    v.check((pico) => pico >= -MAX_AMOUNT && pico <= MAX_AMOUNT, expected),
  )
}

function isDay(text: string): boolean {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)$/.exec(text) ?? []
  const date = new Date(parts.join('-'))
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(parts.join('-'))
}
