/**
 * Statements of accounts: drafts are computed, issued ones are stored with a number and never change. A number is taken by the record
 * `statement:<number>` itself, and the record `statement-of:<account>:<month>` says which number its issuers try; so numbers have no
 * gap, and several issuers, or a later one after a crash, end with the same statement.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Account } from '../../accounts/stored.ts'
import { zoneOf } from '../../accounts/limits.ts'
import { NotPossible } from '../../errors/errors.ts'
import { checkParameters, readLimit, wrongQuery } from '../../errors/query.ts'
import { formatPico, parseDecimal, parsePico, type Pico } from '../../money/money.ts'
import type { StatementSums, UsedBy } from '../../observe/usage/statement.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { Records } from '../../state/records.ts'
import { firstMoment, momentIn } from '../../state/ledger/zone.ts'
import { note } from './audit.ts'
import { csvResponse } from './csv.ts'
import { moment, momentOrNull, second } from './resources/settings.ts'
import {
  newStatement,
  STATEMENT_TABLES,
  statementCsv,
  statementEntry,
  voiding,
  withAmounts,
  type Statement,
  type StatementLine,
} from './resources/statement.ts'
import {
  accountOf,
  bodyOf,
  missing,
  needs,
  readNew,
  type AdminRequest,
  type Answer,
  type Routes,
} from './route.ts'
import { statementPage } from './statement-page.ts'
import { indexOf } from './usage.ts'

export const statementRoutes: Routes = {
  '/accounts/:id/statement': { GET: needs('money', showDraft) },
  '/statements': { GET: needs('money', listAll), POST: needs('money', issue) },
  '/statements/:id': { GET: needs('money', showIssued) },
  '/statements/:id/void': { POST: needs('money', voidOne) },
}

/** Time after the end of a month from which on it can be issued: calls that began in it have ended then. */
const SETTLING_MS = 7_200_000
/** Lines of a table of usage; the rest is one line. */
const MOST_LINES = 1000
const CENT = 10n ** 10n
const INDEX = 'statements'

async function showDraft({ runtime, id, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, new Set(['month', 'format']))
  const account = await accountOf(runtime, id)
  const present = momentIn(zoneIn(runtime, account), Date.now()).slice(0, 7)
  const month = query.get('month') ?? present
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(month)) throw wrongQuery('month', 'a month such as 2026-10')
  if (month > present) throw wrongQuery('month', `a month that has begun, up to ${present}`)
  const { statement } = await contentOf(runtime, account, month)
  return statementAnswer(statement, query)
}

/** A statement in one of its formats. @throws InvalidRequest for another */
export function statementAnswer(statement: Statement, query: URLSearchParams): Answer | Response {
  const { number, account_id, month } = statement
  const format = query.get('format') ?? 'json'
  if (format === 'html') return statementPage(statement)
  if (format === 'csv') {
    const { columns, rows } = statementCsv(statement)
    return csvResponse(`statement-${number ?? `${account_id}-${month}`}`, columns, rows)
  }
  if (format !== 'json') throw wrongQuery('format', 'one of json, html, csv')
  return { body: { data: withAmounts(statement) } }
}

/** Lists issued statements, the newest first. */
async function listAll({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set(['account', 'limit', 'after']))
  const account = query.get('account')
  const all = account ? await numbersOf(runtime, account) : await runtime.records.list(INDEX)
  const numbers = all.toReversed()
  const after = query.get('after')
  const from = after === null ? 0 : numbers.indexOf(after) + 1
  const limit = readLimit(query.get('limit'))
  const page = numbers.slice(from, from + limit)
  const statements = await statementsOf(runtime.records, page)
  const isLast = from + limit >= numbers.length
  return {
    body: {
      data: statements.map((one) => withAmounts(statementEntry(one))),
      next: isLast ? null : page.at(-1),
    },
  }
}

/** The issued statements of an account, the oldest first. */
export async function issuedTo({ records }: Runtime, account: string): Promise<Statement[]> {
  return statementsOf(records, await numbersOf({ records }, account))
}

/** @throws NotFound */
export async function issuedStatement({ records }: Runtime, number: string): Promise<Statement> {
  const stored = /^[\w-]{1,40}$/.test(number) && (await records.get<Stored>(keyOf(number)))
  return stored ? shown(stored) : missing('statement', number)
}

async function showIssued({ runtime, id, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, new Set(['format']))
  return statementAnswer(await issuedStatement(runtime, id), query)
}

/** Issues the statement of a month once; status 200 where it was issued before. @throws NotPossible, NotFound */
async function issue(request: AdminRequest): Promise<Answer> {
  const { runtime } = request
  const { account_id, month } = readNew(newStatement, await bodyOf(request))
  const account = await accountOf(runtime, account_id)
  const existing = await issuedFor(runtime.records, account.id, month)
  if (existing) {
    await finish(runtime.records, existing)
    return { body: { data: withAmounts(shown(existing)) } }
  }
  await checkOrder(runtime, account, month)
  const { statement, isLevel } = await contentOf(runtime, account, month)
  if (!isLevel || runtime.ledger.health().outbox > 0) {
    const message = 'Some entries of the ledger are not in the index yet: try again in a minute.'
    throw new NotPossible(message, 'not_level')
  }
  const { prefix } = runtime.config.statements
  const issued = await take(runtime.records, statement, prefix, Date.now())
  const after = { number: issued.number, month, account: account.id }
  await note(request, { action: 'statement.issue', object: `account:${account.id}`, after })
  return { status: 201, body: { data: withAmounts(shown(issued)) } }
}

/** @throws NotPossible for a month that cannot be the next one */
async function checkOrder(runtime: Runtime, account: Account, month: string): Promise<void> {
  const { records } = runtime
  const zone = zoneIn(runtime, account)
  const [, to] = boundsOf(month)
  const end = firstMoment(zone, dateOf(to))
  if (Date.now() < end + SETTLING_MS) {
    const at = momentIn(zone, end + SETTLING_MS)
    throw new NotPossible(`${month} can be issued from ${at} on.`, 'period_open')
  }
  const ask = { account: account.id, from: 0, to, zone }
  const { result } = await indexOf(runtime).ask('statement', ask)
  if (end <= account.createdAt && result.bookings.length === 0 && result.spent === 0n) {
    throw new NotPossible(`The account did not exist in ${month}.`, 'period_empty')
  }
  const months = (await records.list(indexKey(account.id))).map((one) => one.slice(0, 7))
  const first = months.toSorted()[0]
  if (first === undefined) return
  if (month < first || (await issuedFor(records, account.id, nextMonth(month)))) {
    const message = `The statements of this account go on after ${first}: an earlier month is not issued.`
    throw new NotPossible(message, 'not_newest')
  }
  if (month > first && !(await issuedFor(records, account.id, monthBefore(month)))) {
    throw new NotPossible(`${monthBefore(month)} has to be issued first.`, 'earlier_month_open')
  }
}

/** Voids the newest statement of an account, whose month can be issued again then. */
async function voidOne(request: AdminRequest): Promise<Answer> {
  const { records } = request.runtime
  const { reason } = readNew(voiding, await bodyOf(request))
  const statement = await issuedStatement(request.runtime, request.id)
  const { account_id, month, number } = statement
  if (await issuedFor(records, account_id, nextMonth(month))) {
    const message = `Only the newest statement of an account can be voided: ${nextMonth(month)} is issued.`
    throw new NotPossible(message, 'not_newest')
  }
  const changed = await records.update<Stored>(keyOf(number!), (stored) =>
    stored?.state === 'issued' ? { ...stored, state: 'void', void_reason: reason } : undefined,
  )
  if (changed) {
    const after = { number, month, reason }
    await note(request, { action: 'statement.void', object: `account:${account_id}`, after })
  }
  const voided = await issuedStatement(request.runtime, request.id)
  return { body: { data: withAmounts(statementEntry(voided)) } }
}

// Records of statements.

type Stored = Statement & { readonly revision: number }

interface Tried {
  readonly number: string
  readonly revision: number
}

const keyOf = (number: string) => `statement:${number}`
const triedKey = (account: string, month: string) => `statement-of:${account}:${month}`
const indexKey = (account: string) => `statements-of:${account}`

async function numbersOf({ records }: Pick<Runtime, 'records'>, account: string) {
  return (await records.list(indexKey(account))).map((one) => one.slice('2026-10_'.length))
}

async function statementsOf(records: Records, numbers: readonly string[]): Promise<Statement[]> {
  const stored = await records.getMany<Stored>(numbers.map(keyOf))
  return stored.flatMap((one) => (one ? [shown(one)] : []))
}

function shown(stored: Stored): Statement {
  const { revision: _, ...statement } = stored
  return statement
}

/** Issued and voided statements, in the order of their numbers. */
export async function* allStatements(records: Records): AsyncGenerator<Statement> {
  for (const number of await records.list(INDEX)) yield* await statementsOf(records, [number])
}

/** Takes over a statement of another state. @returns whether it changed this one; undefined where the number is that of another statement */
export async function storeStatement(
  records: Records,
  statement: Statement,
): Promise<boolean | undefined> {
  const { number, account_id, month, state } = statement
  const stored = await records.get<Stored>(keyOf(number!))
  const isSame = stored && { ...shown(stored), state, void_reason: statement.void_reason }
  if (isSame && !isDeepStrictEqual(isSame, statement)) return undefined
  const isNew = await records.create(keyOf(number!), { ...statement, revision: 0 })
  const isVoided = stored?.state === 'issued' && state === 'void'
  if (isVoided) await records.put(keyOf(number!), { ...statement, revision: stored.revision + 1 })
  const key = triedKey(account_id, month)
  const tried = await records.get<Tried>(key)
  if (state === 'issued') await records.put(key, { number, revision: (tried?.revision ?? -1) + 1 })
  await finish(records, { ...statement, revision: 0 })
  return isNew || isVoided
}

/** The issued statement of a month; undefined where there is none, or it was voided. */
async function issuedFor(
  records: Records,
  account: string,
  month: string,
): Promise<Stored | undefined> {
  const tried = await records.get<Tried>(triedKey(account, month))
  const stored = tried && (await records.get<Stored>(keyOf(tried.number)))
  return stored && isOf(stored, account, month) ? stored : undefined
}

function isOf({ account_id, month: of, state }: Stored, account: string, month: string): boolean {
  return account_id === account && of === month && state === 'issued'
}

/** Gives a statement the next free number. @param now ms since epoch */
async function take(
  records: Records,
  statement: Statement,
  prefix: string,
  now: number,
): Promise<Stored> {
  const { account_id, month } = statement
  const series = `${prefix}${new Date(now).getUTCFullYear()}`
  const key = triedKey(account_id, month)
  const newest = await records.get<Tried>(`statement-newest:${series}`)
  for (;;) {
    const tried = await records.get<Tried>(key)
    if (!tried) {
      await records.create(key, { number: following(series, newest?.number), revision: 0 })
      continue
    }
    const { number, revision } = tried
    const stored = await records.get<Stored>(keyOf(number))
    if (stored && isOf(stored, account_id, month)) {
      await finish(records, stored)
      return stored
    }
    if (stored) {
      const number = following(series, stored.number!)
      await records.replace(key, { number, revision: revision + 1 } as Tried, revision)
      continue
    }
    const issued = { ...statement, number, state: 'issued', issued_at: second(now), revision: 0 }
    await records.create(keyOf(number), issued)
  }
}

/** The number after another one of the series; the first one after that of another series. */
function following(series: string, number: string | undefined): string {
  const last = number?.startsWith(`${series}-`) ? Number(number.slice(series.length + 1)) : 0
  return `${series}-${String(last + 1).padStart(5, '0')}`
}

/** Writes what lists need; the next issuer writes what a crash has left out. */
async function finish(records: Records, { number, account_id, month }: Stored): Promise<void> {
  await records.add(indexKey(account_id), `${month}_${number}`)
  await records.add(INDEX, number!)
  const series = number!.slice(0, number!.lastIndexOf('-'))
  await records.put(`statement-newest:${series}`, { number, revision: 0 })
}

// What a statement says.

function zoneIn({ config }: Runtime, account: Account): string | undefined {
  return zoneOf(account, config.defaults)
}

/** A month as midnights of UTC, half-open. */
function boundsOf(month: string): readonly [from: number, to: number] {
  const [year, number] = month.split('-').map(Number) as [number, number]
  return [Date.UTC(year, number - 1), Date.UTC(year, number)]
}

function dateOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

function nextMonth(month: string): string {
  return dateOf(boundsOf(month)[1]).slice(0, 7)
}

function monthBefore(month: string): string {
  return dateOf(boundsOf(month)[0] - 1).slice(0, 7)
}

/** A draft, and whether all of the ledger is in it. */
async function contentOf(
  runtime: Runtime,
  account: Account,
  month: string,
): Promise<{ readonly statement: Statement; readonly isLevel: boolean }> {
  const zone = zoneIn(runtime, account)
  const [from, to] = boundsOf(month)
  const { result, checked } = await indexOf(runtime).ask('statement', {
    account: account.id,
    from,
    to,
    zone,
  })
  const before = await issuedFor(runtime.records, account.id, monthBefore(month))
  const opening = before ? amountOf(before.closing_usd) : result.opening
  const booked = result.bookings.reduce((sum, { amount }) => sum + amount, 0n)
  const refunds = refundsIn(result)
  const { seller, footer } = runtime.config.statements
  const { name = account.name, tax: _, ...buyer } = account.billing ?? {}
  const isLevel = checked.agrees === true
  const statement: Statement = {
    number: null,
    state: 'draft',
    issued_at: null,
    void_reason: null,
    account_id: account.id,
    month,
    time_zone: zone ?? 'UTC',
    seller: seller ?? null,
    buyer: { id: account.id, name, ...buyer },
    footer: footer ?? null,
    opening_usd: formatPico(opening),
    late_usd: formatPico(result.opening - opening),
    bookings_usd: formatPico(booked),
    usage_usd: formatPico(result.spent),
    closing_usd: formatPico(result.closing),
    bookings: result.bookings.map(bookingView),
    usage: await usageView(runtime, account, result),
    credit: {
      plain_usd: formatPico(result.credit.plain),
      blocks: result.credit.blocks.map(({ name, left, expiresAt }) => ({
        name,
        left_usd: formatPico(left),
        expires_at: momentOrNull(expiresAt),
      })),
    },
    tax: taxOf(runtime, account, result.spent - refunds),
    chain: result.chain,
    ledger: { agrees: isLevel },
  }
  return { statement, isLevel }
}

/** Reads {@link formatPico}. */
function amountOf(text: string): Pico {
  return text.startsWith('-') ? -parsePico(text.slice(1)) : parsePico(text)
}

function refundsIn({ bookings }: StatementSums): Pico {
  return bookings.reduce((sum, { kind, amount }) => (kind === 'refund' ? sum + amount : sum), 0n)
}

function bookingView({
  seq,
  at,
  kind,
  reference,
  note,
  amount,
  details,
}: StatementSums['bookings'][number]): Statement['bookings'][number] {
  return {
    seq,
    at: moment(at),
    kind,
    reference,
    note,
    request_id: kind === 'refund' ? reference : null,
    amount_usd: formatPico(amount),
    cash: details?.facts?.cash ?? null,
  }
}

async function usageView(
  { accounts }: Runtime,
  { id }: Account,
  { usage }: StatementSums,
): Promise<Statement['usage']> {
  const [keys, teams] = [await accounts.listKeys(id), await accounts.listTeams(id)]
  const named = new Map([...keys, ...teams].map((one) => [one.id, one.name]))
  const tables = STATEMENT_TABLES.map((table) => {
    const lines = usage[table].slice(0, MOST_LINES).map((one) => lineOf(one, named))
    const others = usage[table].slice(MOST_LINES)
    if (others.length > 0) lines.push({ ...lineOf(sumOf(others), named), id: null, name: 'others' })
    return [table, lines]
  })
  return Object.fromEntries(tables)
}

function lineOf(
  { name, calls, cost, refunds, quantities }: UsedBy,
  named: ReadonlyMap<string, string>,
): StatementLine {
  return {
    id: name || null,
    name: named.get(name) ?? (name || null),
    calls,
    amount_usd: formatPico(cost),
    refunds_usd: formatPico(refunds),
    total_usd: formatPico(cost - refunds),
    ...(quantities && { quantities }),
  }
}

function sumOf(lines: readonly UsedBy[]): UsedBy {
  const add = (sum: UsedBy, { calls, cost, refunds }: UsedBy) => ({
    name: '',
    calls: sum.calls + calls,
    cost: sum.cost + cost,
    refunds: sum.refunds + refunds,
  })
  return lines.reduce(add, { name: '', calls: 0, cost: 0n, refunds: 0n })
}

const RATE_DIGITS = 6

/** Tax on usage less refunds, rounded half up to cents. The rate of the buyer wins. */
function taxOf({ config }: Runtime, { billing }: Account, base: Pico): Statement['tax'] {
  const { tax } = config.statements
  if (!tax) return null
  const { name, included } = tax
  const { rate, note = null } = billing?.tax ?? tax
  const share = parseDecimal(rate, RATE_DIGITS)
  const whole = 10n ** BigInt(RATE_DIGITS) + (included ? share : 0n)
  const size = base < 0n ? -base : base
  const cents = (2n * size * share + whole * CENT) / (2n * whole * CENT)
  return {
    name,
    rate,
    included,
    note,
    base_usd: formatPico(base),
    tax_usd: formatPico((base < 0n ? -cents : cents) * CENT),
  }
}
