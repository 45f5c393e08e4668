/**
 * The durable state of a gateway as lines of JSON: `ledger export` writes them and `ledger import` reads them. A header is
 * followed by the records of accounts and keys, the ledger account by account, and a last line with the number of lines.
 * Amounts are decimal text in USD, positive for costs and negative for top-ups; of an adjustment, negative for what was
 * added. Times are ms since epoch.
 */
import { isDeepStrictEqual } from 'node:util'
import * as v from 'valibot'
import { formatPico, MAX_AMOUNT, parsePico, type Pico } from '../../money/money.ts'
import { PRICE_INDEX, priceKey } from '../../state/prices.ts'
import type { Records } from '../../state/records.ts'
import { toLine } from '../../state/ledger/items.ts'
import {
  ACCOUNT,
  type KeyLimits,
  type Ledger,
  type LedgerItem,
  type LimitsItem,
  type RowItem,
  BOOKING_KINDS,
  type BookingKind,
} from '../../state/ledger/ledger.ts'
import { withLimitList } from '../../accounts/limits.ts'
import type { StoredToken } from '../../access/credentials.ts'
import { storeMember, type Member } from '../../access/members.ts'
import { allStatements, storeStatement } from '../../server/admin/statements.ts'
import type { Statement } from '../../server/admin/resources/statement.ts'
import { packageVersion } from '../../gateway/version.ts'
import { isObject } from '../../errors/checks.ts'
import { toConfigIssues } from '../../errors/issues.ts'
import { simpleForm, type LimitMembers } from '../../server/admin/resources/limit.ts'
import { recordId } from '../../server/admin/resources/settings.ts'
import type { Team } from '../../server/admin/resources/team.ts'

// The format of an export's lines, and the errors of invalid lines.

/**
 * Version of the format. Exports of version 1, which releases before it wrote, are read too; those of a higher version are refused. A
 * line of a kind that this release does not know is skipped where it is `optional: true`, and a member where `optional` lists it.
 */
const VERSION = 2
const READ_VERSIONS: readonly unknown[] = [1, VERSION]

export class LineError extends Error {
  /** @param line counted from 1 */
  constructor(line: number, reason: string) {
    super(`line ${line}: ${reason}`)
    this.name = 'LineError'
  }
}

class TornLine extends LineError {}

/** What was set up at run time, with sealed secrets. A release that does not know it leaves it out. */
interface ManagedLine {
  readonly kind: 'managed'
  readonly optional: true
  readonly head: ManagedHead
  readonly document: object
}

interface ManagedHead {
  readonly revision: number
  readonly doc: string
  readonly history: readonly { readonly doc: string }[]
}

/** A token of the admin API, or a member. A release that does not know them leaves them out. */
type PersonLine =
  | {
      readonly kind: 'token'
      readonly optional: true
      readonly sha256: string
      readonly value: StoredToken
    }
  | { readonly kind: 'member'; readonly optional: true; readonly value: Member }

/** An issued statement, with its number. A release that does not know it leaves it out. */
interface StatementLine {
  readonly kind: 'statement'
  readonly optional: true
  readonly value: Statement
}

interface RecordLine {
  readonly kind: 'record'
  readonly key: string
  readonly value: object
}

type Line =
  | {
      readonly kind: 'export'
      readonly version: number
      readonly at: number
      /** Identity of the ledger, and the release that wrote it; not in version 1. */
      readonly ledger?: string
      readonly release?: string
    }
  /** A line that a newer release has written, and that may be left out. */
  | { readonly kind: 'skipped' }
  /** Begins settlements of a damaged ledger: they were written one by one, so no line ends them. */
  | { readonly kind: 'rescue'; readonly version: number }
  | { readonly kind: 'end'; readonly lines: number }
  | RecordLine
  | Omit<ManagedLine, 'optional'>
  | PersonLine
  | Omit<StatementLine, 'optional'>
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
const sum = v.pipe(
  v.string('a sum of USD such as "0.0025"'),
  v.regex(/^\d+(\.\d{1,12})?$/, 'a sum of USD such as "0.0025"'),
  v.transform((text) => {
    const [whole = '', fraction = ''] = text.split('.')
    return BigInt(whole + fraction.padEnd(12, '0'))
  }),
)

const VERSION_OF_PRICES = '16 hex digits'
const VENDOR = 'a whole number of pico-dollars, as text'
const version = v.pipe(v.string(VERSION_OF_PRICES), v.regex(/^[0-9a-f]{16}$/, VERSION_OF_PRICES))

const sha256 = v.pipe(v.string('64 hex digits'), v.regex(/^[0-9a-f]{64}$/, '64 hex digits'))
const owned = { account: name, key: name }
const LIMIT_ID =
  /^(?:rpm|concurrency|(?:cap|requests|tokens)\.(?:minute|5h|day|week|month|lifetime))(?:\.[0-9a-f]{8})?$/

const pico = v.pipe(v.string(VENDOR), v.regex(/^\d{1,30}$/, VENDOR))

/** Details of a booking, as in its row. */
const booking = v.strictObject({
  expiresAt: v.optional(moment),
  unlock: v.optional(flag),
  takesFrom: v.optional(text),
  facts: v.optional(v.record(v.string(), v.any())),
  blocks: v.optional(
    v.array(v.strictObject({ name: text, from: pico, to: pico, expiresAt: v.optional(moment) })),
  ),
})

/** @param note kept with the booking; that of a correction or a refund is its reason */
function bookingLine<Kind extends BookingKind, Note extends v.GenericSchema>(
  kind: Kind,
  amount: typeof correction | typeof sum,
  note: Note,
) {
  return v.strictObject({
    kind: v.literal(kind),
    account: name,
    request: name,
    at: moment,
    cost: amount,
    note,
    booking: v.optional(booking),
    actor: v.optional(text),
  })
}

const remark = v.optional(v.string())

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
      // Exports of earlier releases have one cap.
      cap: v.optional(
        v.strictObject({ amount: sum, scope: v.picklist(['lifetime', 'day', 'month']) }),
      ),
      counted: v.optional(
        v.array(
          v.strictObject({
            id: v.pipe(text, v.regex(LIMIT_ID, 'the name of a limit')),
            value: sum,
            models: v.optional(v.array(text)),
            raised: v.optional(v.strictObject({ value: sum, until: moment })),
          }),
        ),
      ),
      credit: v.optional(sum),
    }),
    revision: count,
  }),
  v.strictObject({
    kind: v.literal('total'),
    ...owned,
    team: v.optional(recordId),
    day,
    rows: least1,
    cost: sum,
  }),
  v.strictObject({
    kind: v.literal('counter'),
    account: name,
    owner: name,
    id: v.pipe(text, v.regex(LIMIT_ID, 'the name of a limit')),
    window: v.pipe(v.string(), v.regex(/^(?:-|\d{6,15})?$/, 'the name of a window')),
    settled: sum,
    reset: sum,
    rows: v.optional(count),
  }),
  v.strictObject({
    kind: v.literal('base'),
    account: name,
    n: least1,
    chain: sha256,
    optional: v.optional(v.literal(true), true),
  }),
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
          cost: v.optional(version),
        }),
      ),
      charged: v.optional(v.picklist(['nothing', 'most'])),
      because: v.optional(v.picklist(['free_tier', 'gateway'])),
      list: v.optional(text),
      vendor: v.optional(v.pipe(v.string(VENDOR), v.regex(/^\d{1,24}$/, VENDOR))),
      flags: v.optional(v.array(v.picklist(['estimated', 'suspicious']))),
      tag: v.optional(text),
      user: v.optional(text),
      gateway: v.optional(text),
      team: v.optional(recordId),
      counted: v.optional(text),
      reported: v.optional(v.record(v.string(), v.unknown())),
    }),
    unfolded: v.optional(v.literal(true)),
  }),
  bookingLine('top-up', credit, remark),
  bookingLine('promo', credit, remark),
  bookingLine('adjust', correction, text),
  bookingLine('refund', credit, text),
  bookingLine('expire', sum, remark),
  v.strictObject({
    kind: v.literal('orphan'),
    ...owned,
    request: name,
    at: moment,
    cost: nothing,
  }),
  v.strictObject({ kind: v.literal('record'), key: text, value: v.record(v.string(), v.any()) }),
  v.strictObject({
    kind: v.literal('managed'),
    head: v.looseObject({
      revision: count,
      doc: name,
      history: v.array(v.looseObject({ doc: name })),
    }),
    document: v.looseObject({ format: v.literal(1) }),
  }),
  v.strictObject({
    kind: v.literal('token'),
    sha256,
    value: v.looseObject({ id: name, name, role: text, createdAt: moment, revision: count }),
  }),
  v.strictObject({
    kind: v.literal('member'),
    value: v.looseObject({
      id: name,
      account: recordId,
      name,
      manages: flag,
      disabled: flag,
      createdAt: moment,
      revision: count,
    }),
  }),
  v.strictObject({
    kind: v.literal('statement'),
    value: v.looseObject({
      number: v.pipe(text, v.regex(/^[\w-]{1,40}$/, 'the number of a statement')),
      state: v.picklist(['issued', 'void']),
      account_id: recordId,
      month: v.pipe(text, v.regex(/^\d{4}-\d\d$/, 'a month such as "2026-10"')),
      closing_usd: text,
    }),
  }),
  v.strictObject({ kind: v.literal('end'), lines: count }),
])

/** Schemas of records, by the prefix of their keys. Members without a meaning to the gateway are not checked. */
const records: Readonly<Record<string, v.GenericSchema>> = {
  index: v.strictObject({ ids: v.array(recordId) }),
  account: v.looseObject({ id: recordId, name: text, createdAt: moment }),
  prices: v.looseObject({}),
  hash: v.strictObject({ account: recordId, key: recordId }),
  team: v.looseObject({ id: recordId, account: recordId, name: text, createdAt: moment }),
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
  /^(?:index:(?:accounts|prices|(?:keys|teams):[a-z0-9_-]{1,64})|prices:[0-9a-f]{16}|(?:account|key|team):[a-z0-9_-]{1,64}|hash:[0-9a-f]{64})$/

/** Parses and checks a line. @param number counted from 1; line 1 has to be the header. @throws LineError */
function readLine(text: string, number: number): Line {
  const value = parse(text, number)
  if (number === 1) return readHeader(value)
  const members = withoutOptional(value)
  if (!members) return { kind: 'skipped' }
  const line = check(items, members, number, []) as Line
  // The line stays as it was written: the order of its members is part of the chain.
  if (line.kind === 'usage')
    return { ...line, usage: members.usage as NonNullable<typeof line.usage> }
  if (line.kind === 'record') readRecord(line, number)
  return line.kind === 'limits' ? withList(line) : line
}

/** A line without the members that it marks as optional and that are not known here; undefined for a whole line. */
function withoutOptional(value: Members): Members | undefined {
  const { optional, ...line } = value
  if (optional === undefined) return value
  const item = items.options.find(({ entries }) => entries.kind.literal === line.kind)
  if (!item) return optional === true ? undefined : value
  const unknown = Array.isArray(optional) ? optional : []
  const entries = Object.entries(line).filter(
    ([name]) => name in item.entries || !unknown.includes(name),
  )
  return Object.fromEntries(entries)
}

/** Limits of an earlier release have one cap in place of a list. */
function withList(line: LimitsItem & { limits: { cap?: { amount: Pico; scope: string } } }): Line {
  const { cap, ...limits } = line.limits
  if (!cap) return line
  return {
    ...line,
    limits: { ...limits, counted: [{ id: `cap.${cap.scope}`, value: cap.amount }] },
  }
}

type Members = { readonly [name: string]: unknown }

function parse(text: string, number: number): { readonly [name: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text)
    if (isObject(value)) return { ...value }
  } catch {
    // The error below does not repeat the text, which may hold a secret.
  }
  if (number === 1) throw new LineError(number, packedReason(text) ?? NO_EXPORT)
  throw new TornLine(number, 'expected a JSON object')
}

/** Why a file that is compressed cannot be read: its first bytes say with what, read as text as the rest of it is. */
function packedReason(text: string): string | undefined {
  const command = text.startsWith('\u001f\ufffd')
    ? 'gunzip'
    : text.startsWith('(\ufffd/\ufffd')
      ? 'unzstd'
      : undefined
  return command && `this file is compressed: unpack it first, with "${command}"`
}

const NO_EXPORT = 'this is not an export: its first line is not a header'

function readHeader({ kind, version, at, ledger: id }: { readonly [name: string]: unknown }): Line {
  if (kind !== 'export' && kind !== 'rescue') throw new LineError(1, NO_EXPORT)
  if (READ_VERSIONS.includes(version)) {
    if (kind === 'rescue') return { kind, version: Number(version) }
    const ledger = typeof id === 'string' ? { ledger: id } : {}
    return { kind, version: Number(version), at: Number(at), ...ledger }
  }
  const actual = JSON.stringify(version) ?? 'none'
  const read = `this gateway reads version ${READ_VERSIONS.join(' and ')}`
  throw new LineError(1, `the export has version ${actual}; ${read}`)
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
    v.check((pico) => pico >= -MAX_AMOUNT && pico <= MAX_AMOUNT, expected),
  )
}

function isDay(text: string): boolean {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)$/.exec(text) ?? []
  const date = new Date(parts.join('-'))
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(parts.join('-'))
}

/** The state of a gateway: the source of an export, the target of an import. */
interface State {
  readonly ledger: Ledger
  readonly records: Records
}

interface Transferred {
  readonly lines: number
  /** The number of lines that changed the state. */
  readonly added: number
}

interface Ids {
  readonly ids: readonly string[]
}

interface KeyRecord {
  readonly account: string
  readonly sha256: string
  readonly previous?: { readonly sha256: string }
  readonly revision: number
}

const INDEX = 'index:'
/** Records that have limits. */
const LIMITED = /^(account|team|key):/
/** Lines imported at a time, with one sync of the disk per batch. */
const BATCH_LINES = 500

/**
 * Yields each line with its line feed. The ledger is as of one moment; records are read while they may change.
 * @param version 1 for what releases of schema 8 read. @throws RangeError for a sum that they cannot read
 */
export async function* exportLines(
  { ledger, records }: State,
  version: 1 | 2 = VERSION,
): AsyncGenerator<string> {
  let lines = 0
  const write = (line: object) => {
    lines++
    return `${toLine(line)}\n`
  }
  const { id } = await ledger.state()
  const origin = version === 1 ? {} : { ledger: id, release: packageVersion() }
  yield write({ kind: 'export', version, at: Date.now(), ...origin })
  for await (const record of recordsOf(records)) {
    yield write(version === 1 ? formerRecord(record) : record)
  }
  if (version !== 1) {
    for (const line of await managedOf(records)) yield write(line)
    for await (const line of peopleOf(records)) yield write(line)
    for await (const value of allStatements(records)) {
      yield write({ kind: 'statement', optional: true, value } satisfies StatementLine)
    }
  }
  for await (const item of ledger.export()) {
    const line = version === 1 ? asVersion1(item) : item
    if (line) yield write(line)
  }
  yield write({ kind: 'end', lines: lines + 1 })
}

/** A record as releases of schema 8 read it: a rate, a number at once and a cap are members of their own. */
function formerRecord(record: RecordLine): RecordLine {
  if (!LIMITED.test(record.key)) return record
  const { limits, ...value }: LimitMembers = withLimitList(record.value)
  return { ...record, value: { ...value, ...simpleForm({ limits }) } }
}

/**
 * An item as releases of schema 8 read it; undefined for one that says nothing there. Bookings of kinds that they do not know are
 * corrections there. @throws RangeError
 */
function asVersion1(item: LedgerItem): object | undefined {
  if (item.kind === 'counter' || item.kind === 'base') return undefined
  const cap = item.kind === 'limits' ? capOf(item.limits) : undefined
  // The move to schema 9 makes limits of each account, which limit nothing.
  if (item.kind === 'limits' && item.key === ACCOUNT && item.revision === 0) return undefined
  if (isBooking(item)) {
    const { actor: _, booking: __, kind, request, ...rest } = item
    if (kind === 'top-up' || kind === 'adjust') return { kind, request, ...rest }
    if (rest.cost === 0n) return undefined
    return { kind: 'adjust', ...rest, request: `${kind}:${request}`, note: rest.note ?? kind }
  }
  const sum = item.kind === 'total' ? item.cost : item.kind === 'limits' ? cap?.amount : 0n
  if (item.kind === 'usage' && item.usage) {
    const { team: _, counted: __, vendor: ___, because: ____, list: _____, ...usage } = item.usage
    const lines = usage.lines.map(({ cost: _cost, ...line }) => line)
    return { ...item, usage: { ...usage, lines } }
  }
  if (sum === undefined || sum <= MAX_AMOUNT) {
    if (item.kind !== 'limits') return item
    const { counted: _, ...limits } = item.limits
    return { ...item, limits: { ...limits, ...(cap && { cap }) } }
  }
  const what = item.kind === 'total' ? `the total of ${item.day}` : 'the cap'
  throw new RangeError(
    `${what} of account ${item.account}, key ${'key' in item ? item.key : ''} is above ${most} USD: only version 2 has it`,
  )
}

function isBooking(item: LedgerItem): item is RowItem & { readonly kind: BookingKind } {
  return (BOOKING_KINDS as readonly string[]).includes(item.kind)
}

/** The one cap that limits of schema 8 have. @throws RangeError for limits that they cannot have */
function capOf({ counted = [], credit }: KeyLimits) {
  if (credit !== undefined) {
    throw new RangeError('a credit limit cannot be written: only version 2 has it')
  }
  const [first] = counted
  if (!first) return undefined
  const [, scope] = /^cap\.(lifetime|day|month)$/.exec(first.id) ?? []
  if (counted.length > 1 || !scope || first.raised) {
    throw new RangeError('a list of limits cannot be written: only version 2 has it')
  }
  return { amount: first.value, scope }
}

/**
 * Imports an export. Lines that are in the state already change nothing, so an interrupted import can be repeated.
 * @param read yields the lines from the first. It is called twice, because an incomplete export must not be
 * imported.
 * @throws LineError for an invalid line, or one that contradicts the state; the lines before it are imported then
 */
export async function importLines(
  { ledger, records }: State,
  read: () => AsyncIterable<string>,
): Promise<Transferred> {
  for await (const _ of checkedLines(read()));
  let [lines, added] = [0, 0]
  let batch: LedgerItem[] = []
  const flush = async () => {
    if (batch.length === 0) return
    const first = lines - batch.length
    const { stored, refused, ...imported } = await ledger.import(batch)
    if (refused !== undefined) throw new LineError(first + stored + 1, refused)
    added += imported.added
    batch = []
  }
  for await (const line of checkedLines(read())) {
    if (batch.length === BATCH_LINES || !isItem(line)) await flush()
    lines++
    // A rescue and a list of missing bookings have no identity: they are parts.
    if (line.kind === 'export' && line.ledger !== undefined) await ledger.adopt(line.ledger)
    if (isItem(line)) batch.push(line)
    if (line.kind === 'record') added += Number(await importRecord(records, line, lines))
    if (line.kind === 'managed') added += Number(await importManaged(records, line))
    if (line.kind === 'token') {
      added += Number(await records.create(`token:${line.sha256}`, line.value))
      await records.add('tokens', line.sha256)
    }
    if (line.kind === 'member') added += Number(await storeMember(records, line.value))
    if (line.kind === 'statement') {
      const isNew = await storeStatement(records, line.value)
      if (isNew === undefined) {
        throw new LineError(lines, `another statement ${line.value.number} exists`)
      }
      added += Number(isNew)
    }
  }
  await flush()
  return { lines, added }
}

/** Items of an export. @throws LineError as {@link importLines} */
export async function* readItems(texts: AsyncIterable<string>): AsyncGenerator<LedgerItem> {
  for await (const line of checkedLines(texts)) if (isItem(line)) yield line
}

/** @throws LineError for a file that is not an export, or only a part of one */
async function* checkedLines(texts: AsyncIterable<string>): AsyncGenerator<Line> {
  let number = 0
  let [ended, rescued] = [false, false]
  let torn: TornLine | undefined
  for await (const text of texts) {
    number++
    if (torn) throw torn
    if (ended) throw new LineError(number, 'the export ended on the line before')
    let line: Line
    try {
      line = readLine(text, number)
    } catch (error) {
      // A cut line is the last one.
      if (!(error instanceof TornLine)) throw error
      torn = error
      continue
    }
    rescued ||= line.kind === 'rescue'
    ended = line.kind === 'end'
    if (line.kind === 'end' && line.lines !== number) {
      throw new LineError(number, `the export had ${line.lines} lines, some are missing`)
    }
    yield line
  }
  // A gateway that was killed while it wrote the last line of a rescue has confirmed that to no client.
  if (rescued || ended) return
  if (torn) {
    throw new LineError(number, 'the file is cut within this line, what follows is missing')
  }
  throw new LineError(number + 1, 'the export ends early, its last lines are missing')
}

const NO_ITEMS: ReadonlySet<Line['kind']> = new Set([
  'export',
  'rescue',
  'record',
  'managed',
  'token',
  'member',
  'statement',
  'end',
  'skipped',
])

function isItem(line: Line): line is LedgerItem {
  return !NO_ITEMS.has(line.kind)
}

/** Records of prices, accounts and keys, in the order in which they were created. */
async function* recordsOf(records: Records): AsyncGenerator<RecordLine> {
  const versions = await records.list(PRICE_INDEX)
  yield* indexLine(PRICE_INDEX, versions)
  for (const version of versions) yield* await find(priceKey(version))
  const accounts = await records.list('accounts')
  yield* indexLine('accounts', accounts)
  for (const account of accounts) {
    yield* await find(`account:${account}`)
    const teams = await records.list(`teams:${account}`)
    yield* indexLine(`teams:${account}`, teams)
    for (const id of teams) yield* await find(`team:${id}`)
    const keys = await records.list(`keys:${account}`)
    yield* indexLine(`keys:${account}`, keys)
    for (const id of keys) {
      const key = await find<KeyRecord>(`key:${id}`)
      for (const sha256 of hashesOf(key[0]?.value)) yield* await find(`hash:${sha256}`)
      yield* key
    }
  }

  async function find<Value extends object>(key: string) {
    const value = await records.get<Value>(key)
    return value === undefined ? [] : [{ kind: 'record', key, value } as const]
  }
}

const HEAD = 'managed:head'

/** The present revision of what was set up at run time; its history stays where it is. */
async function managedOf(records: Records): Promise<ManagedLine[]> {
  const head = await records.get<ManagedHead>(HEAD)
  const document = head && (await records.get<object>(`managed:doc:${head.doc}`))
  if (!document) return []
  const history = head.history.slice(0, 1)
  return [{ kind: 'managed', optional: true, head: { ...head, history }, document }]
}

/** Tokens and members; sessions, links and invitations end with the state. */
async function* peopleOf(records: Records): AsyncGenerator<PersonLine> {
  for (const sha256 of await records.list('tokens')) {
    const value = await records.get<StoredToken>(`token:${sha256}`)
    if (value) yield { kind: 'token', optional: true, sha256, value }
  }
  for (const id of await records.list('members')) {
    const value = await records.get<Member>(`member:${id}`)
    if (value) yield { kind: 'member', optional: true, value }
  }
}

/** @returns whether it changed the state: one that has something set up keeps it */
async function importManaged(
  records: Records,
  { head, document }: Omit<ManagedLine, 'optional'>,
): Promise<boolean> {
  if (await records.get(HEAD)) return false
  await records.add('managed', head.doc)
  await records.put(`managed:doc:${head.doc}`, document)
  return records.create(HEAD, head)
}

/** Hashes of a key's secrets: the present one, and one that it had before its last rotation. */
function hashesOf(key: KeyRecord | undefined): string[] {
  if (!key) return []
  return key.previous ? [key.previous.sha256, key.sha256] : [key.sha256]
}

/** A non-empty index as a record line; each storage keeps indexes in its own way. */
function indexLine(index: string, ids: readonly string[]): RecordLine[] {
  return ids.length > 0 ? [{ kind: 'record', key: `${INDEX}${index}`, value: { ids } }] : []
}

/** @returns whether it changed the state. @throws LineError when a different record has the same key */
async function importRecord(
  records: Records,
  { key, value }: RecordLine,
  number: number,
): Promise<boolean> {
  if (key.startsWith(INDEX)) return importIndex(records, key.slice(INDEX.length), value as Ids)
  const [kind] = key.split(':', 1)
  const stored = await records.get<object>(key)
  const incoming = LIMITED.test(key) ? withLimitList(value) : value
  const next = stored === undefined ? incoming : MERGES[kind!]!(stored, incoming)
  if (next === undefined) throw new LineError(number, `another ${kind} with the same id exists`)
  if (isDeepStrictEqual(next, stored)) return false
  await records.put(key, next)
  return true
}

async function importIndex(records: Records, index: string, { ids }: Ids): Promise<boolean> {
  const stored = new Set(await records.list(index))
  const missing = ids.filter((id) => !stored.has(id))
  if (missing.length > 0) await records.add(index, ...missing)
  return missing.length > 0
}

/** Merges a stored record with one of an export; undefined when they contradict each other. */
const MERGES: Readonly<Record<string, (stored: any, value: any) => object | undefined>> = {
  account: (stored, value) => ((value.revision ?? 0) > (stored.revision ?? 0) ? value : stored),
  prices: (stored) => stored,
  hash: (stored, value) => (isDeepStrictEqual(stored, value) ? stored : undefined),
  team(stored: Team, value: Team) {
    if (stored.account !== value.account) return undefined
    return value.revision > stored.revision ? value : stored
  },
  key(stored: KeyRecord, value: KeyRecord) {
    const shared = hashesOf(stored).some((sha256) => hashesOf(value).includes(sha256))
    if (stored.account !== value.account || !shared) return undefined
    return value.revision > stored.revision ? value : stored
  },
}
