import * as v from 'valibot'
import { isBookingKind } from '../../state/ledger/bookings.ts'
import { LedgerDoubted, NotFound } from '../../errors/errors.ts'
import { formatPico, usdJson } from '../../money/money.ts'
import { indexOf } from './usage.ts'
import { noted } from '../../observe/usage/seals.ts'
import type { ChainFault, NotedPoint } from '../../state/ledger/chain.ts'
import { StateChanged } from '../../state/ledger/doubt.ts'
import { note } from './audit.ts'
import { outboxView, quarantinedView } from './views.ts'
import { type LedgerRow, type Orphan, BOOKING_KINDS } from '../../state/ledger/ledger.ts'
import {
  checkParameters,
  readLimit,
  readMoment,
  wantsCsv,
  wrongQuery,
  wholeNumber,
} from '../../errors/query.ts'
import { csvResponse } from './csv.ts'
import { LEDGER_COLUMNS, type LedgerEntry } from './resources/ledger.ts'
import {
  accountOf,
  notInList,
  type Answer,
  type AdminRequest,
  bodyOf,
  read,
  missing,
  type Routes,
  needs,
} from './route.ts'
import type { Usage } from '../../plugin.ts'
import { moment } from './resources/settings.ts'

export const ledgerRoutes: Routes = {
  '/accounts/:id/ledger': { GET: needs('read', listRows) },
  '/ledger/verify': { GET: needs('read', verify) },
  '/ledger/seals': { GET: needs('read', listSeals) },
  '/prices/:id': { GET: needs('read', showPrices) },
  '/ledger/orphans': { GET: needs('read', listOrphans) },
  '/ledger/state': { GET: needs('read', async ({ runtime }) => stateOf(runtime)) },
  '/ledger/missing': { GET: needs('read', listMissing) },
  '/ledger/accept': { POST: needs('config', accept) },
  '/ledger/outbox': { GET: needs('read', listOutbox) },
  '/ledger/outbox/:id': { DELETE: needs('config', dropWaiting) },
  '/ledger/outbox/:id/book': { POST: needs('config', bookWaiting) },
}

const PARAMETERS = new Set(['limit', 'before', 'kind', 'key', 'from', 'to', 'format'])
const KINDS: readonly string[] = ['usage', ...BOOKING_KINDS, 'orphan']
/** Rows that one page searches. */
const MOST_SEARCHED = 20_000
/** Latest time between a call and its booking; rows are in the order of booking. */
const LATEST_MS = 86_400_000

/** Lists rows, newest first. @throws InvalidRequest, NotFound */
async function listRows({ runtime, id, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, PARAMETERS)
  const limit = readLimit(query.get('limit'))
  const before = readCursor(query.get('before'))
  const isWanted = filterIn(query)
  const from = query.has('from') ? readMoment(query.get('from')!, 'from') : 0
  const account = await accountOf(runtime, id)
  const rows = runtime.ledger.usage(account.id, before)
  if (wantsCsv(query)) {
    return csvResponse(`ledger-${account.id}`, LEDGER_COLUMNS, viewsOf(rows, isWanted, from))
  }
  const data = []
  let searched = 0
  for await (const row of rows) {
    // One row more than requested tells that the list goes on.
    if (data.length === limit) return { body: { data, next: data.at(-1)!.seq } }
    if (row.at < from - LATEST_MS) break
    if (isWanted(row)) data.push(rowView(row))
    if (++searched === MOST_SEARCHED) {
      return { body: { data, next: row.seq, searched_to: new Date(row.at).toISOString() } }
    }
  }
  return { body: { data, next: null } }
}

async function* viewsOf(
  rows: AsyncIterable<LedgerRow>,
  isWanted: (row: LedgerRow) => boolean,
  from: number,
): AsyncGenerator<object> {
  for await (const row of rows) {
    if (row.at < from - LATEST_MS) return
    if (isWanted(row)) yield rowView(row)
  }
}

/** The filter of a query. @throws InvalidRequest */
function filterIn(query: URLSearchParams): (row: LedgerRow) => boolean {
  const [kinds, keys] = [query.getAll('kind'), new Set(query.getAll('key'))]
  if (!kinds.every((kind) => KINDS.includes(kind))) {
    throw wrongQuery('kind', `one of ${KINDS.join(', ')}`)
  }
  const read = (name: string) => (query.has(name) ? readMoment(query.get(name)!, name) : undefined)
  const [from = 0, to = Infinity] = [read('from'), read('to')]
  return ({ kind, key, at }) =>
    (kinds.length === 0 || kinds.includes(kind)) &&
    (keys.size === 0 || keys.has(key ?? '')) &&
    at >= from &&
    at < to
}

async function stateOf({ ledger, usage }: AdminRequest['runtime']): Promise<Answer> {
  const { id = null, schema, engine, doubt, bytes, freeBytes, rows } = await ledger.state()
  const shown = doubt && {
    kind: doubt.kind,
    known: { id: doubt.known.id, at: moment(doubt.known.at) },
    found: {
      id: doubt.found?.id ?? null,
      at: doubt.found?.at === undefined ? null : moment(doubt.found.at),
    },
    message: ledger.health().doubt ?? null,
  }
  const missing = doubt ? await missingIn(usage) : []
  const size = {
    bytes,
    free_bytes: freeBytes ?? null,
    rows,
    growth_bytes: usage && rows > 0 ? Math.round((bytes / rows) * (await callsOfDay(usage))) : null,
  }
  return { body: { data: { id, schema, engine, ...size, doubt: shown ?? null, missing } } }
}

/** Calls that were booked in the last 24 hours. */
async function callsOfDay(usage: NonNullable<AdminRequest['runtime']['usage']>): Promise<number> {
  const to = Date.now()
  const { result } = await usage.ask('usage', {
    queries: [
      {
        from: to - DAY_MS,
        to,
        rollup: 'hour',
        group: [],
        filters: {},
        metric: 'calls',
        top: 1,
        of: 'settled',
        isOneSpan: true,
      },
    ],
  })
  const [answer] = result
  return answer && 'totals' in answer ? answer.totals.calls : 0
}

const DAY_MS = 86_400_000

/** What this gateway's index of usage has, and the ledger has not. */
async function missingIn(usage: AdminRequest['runtime']['usage']) {
  const accounts = (await usage?.ask('missing', true)) ?? []
  return accounts.map(({ account, credits, costs }) => ({
    account_id: account,
    credits_usd: usdJson(credits),
    costs_usd: usdJson(costs),
  }))
}

/** Bookings that the ledger lacks, as items of an export. */
async function listMissing({ runtime }: AdminRequest): Promise<Answer> {
  const bookings = await indexOf(runtime).ask('missingBookings', true)
  return { body: { data: bookings.map((one) => ({ ...one, cost: formatPico(one.cost) })) } }
}

const acceptance = v.strictObject({
  id: v.string('the id of the known ledger, as the state of the ledger tells it'),
  kind: v.picklist(['emptied', 'foreign', 'older'], 'the kind of the doubt'),
})

/** Goes on with a store that is not the one that was used until now. @throws LedgerDoubted where the doubt is another one */
async function accept(request: AdminRequest): Promise<Answer> {
  const { ledger } = request.runtime
  const accepted = read(acceptance, await bodyOf(request))
  const { doubt } = await ledger.state()
  const missing = doubt ? await missingIn(request.runtime.usage) : []
  try {
    await ledger.accept(accepted)
  } catch (error) {
    if (error instanceof StateChanged) throw new LedgerDoubted('state_changed', error.message)
    throw error
  }
  const found = doubt?.found?.id ?? null
  const after = { kind: accepted.kind, known: accepted.id, found, missing }
  await note(request, { action: 'ledger.accept', object: 'ledger', after })
  return stateOf(request.runtime)
}

/** Settlements of this gateway that are not booked yet. */
function listOutbox({ gateway, runtime }: AdminRequest): Answer {
  const quarantined = runtime.ledger.quarantined().map(quarantinedView)
  return { body: { data: { ...outboxView(gateway), quarantined } } }
}

async function bookWaiting(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const settled = await runtime.ledger.bookQuarantined(id)
  if (!settled) throw missing('quarantined settlement', id)
  const { state, cost } = settled
  const after = { state, usd: formatPico(cost) }
  await note(request, { action: 'outbox.book', object: `request:${id}`, after })
  return { body: { data: { request_id: id, state, cost_usd: usdJson(cost) } } }
}

const dropping = v.strictObject({ reason: v.pipe(v.string('a text'), v.minLength(1, 'a text')) })

async function dropWaiting(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const { reason } = read(dropping, await bodyOf(request))
  const dropped = runtime.ledger.dropQuarantined(id, reason)
  if (!dropped) throw missing('quarantined settlement', id)
  const after = { account: dropped.account, usd: formatPico(dropped.cost), reason }
  await note(request, { action: 'outbox.drop', object: `request:${id}`, after })
  return { body: { data: quarantinedView(dropped) } }
}

async function verify(request: AdminRequest): Promise<Answer> {
  const differences = await request.runtime.ledger.verify(await filterOf(request))
  const discrepancies = differences.map(({ account, what, stored, recomputed }) => ({
    account_id: account,
    what,
    stored: usdJson(stored),
    recomputed: usdJson(recomputed),
  }))
  if (request.query.get('chain') === 'true') return verifyChain(request)
  if (request.query.get('prices') !== 'true') {
    return { body: { data: { ok: differences.length === 0, discrepancies } } }
  }
  const prices = await pricesChecked(request)
  const ok = differences.length === 0 && prices.wrong.length === 0
  return { body: { data: { ok, discrepancies, prices } } }
}

/**
 * Recomputes the chain of each account from its rows, and compares it with the seals of months and with what this gateway's index of
 * usage has read before.
 */
async function verifyChain({ runtime }: AdminRequest): Promise<Answer> {
  const { records, audit } = runtime
  const { seals, months } = await noted(records)
  const { accounts, rows, faults } = await indexOf(runtime).ask('checkChains', seals)
  const audited = new Map<unknown, unknown>()
  const entries = await audit.list({ action: 'ledger.seal' }, undefined, MOST_SEALS)
  for (const { object, changes } of entries) audited.set(object, changes.root?.after)
  const roots = months.map(({ month, root, recomputed }) => {
    const isAudited = audited.get(`month:${month}`) === root
    return { month: monthText(month), root, ok: isAudited && root === recomputed }
  })
  const chain = { accounts, rows, months: roots, faults: faults.map(faultView) }
  const ok = faults.length === 0 && roots.every((root) => root.ok)
  return { body: { data: { ok, discrepancies: [], chain } } }
}

/** Seals of months, which prove rows of an export too, and where the folded rows of each account end, which prove an archive. */
async function listSeals({ runtime }: AdminRequest): Promise<Answer> {
  const { seals, months } = await noted(runtime.records)
  const bases = await indexOf(runtime).ask('bases', true)
  const data = {
    months: months.map(({ month, root, at }) => ({
      month: monthText(month),
      root,
      at: moment(at),
    })),
    seals: [...seals].flatMap(([account_id, places]) =>
      places.map(({ where, n, chain }) => ({ account_id, month: monthText(where), n, chain })),
    ),
    bases: bases.map(([account_id, { n, chain }]) => ({ account_id, n, chain })),
  }
  return { body: { data } }
}

/** Seals of a hundred years. */
const MOST_SEALS = 1200

function faultView({ account, after, before, rows }: ChainFault) {
  const place = ({ where, n }: NotedPoint) => ({ at: monthText(where), rows: n })
  return { account_id: account, after: place(after), before: place(before), rows }
}

/** @param where a month as `YYYYMM`, or another place */
function monthText(where: string): string {
  return /^\d{6}$/.test(where) ? `${where.slice(0, 4)}-${where.slice(4)}` : where
}

/** Prices every row again. `recomputed` is null where another tier would have applied. */
async function pricesChecked(request: AdminRequest) {
  const { accounts, ledger, prices } = request.runtime
  const account = await filterOf(request)
  const all = account === undefined ? await accounts.listAccounts() : [{ id: account }]
  const ids = all.map(({ id }) => id)
  const { wrong, ...counts } = await prices.check(ledger, ids)
  return {
    ...counts,
    wrong: wrong.map(({ account: id, request, stored, recomputed, of = 'cost' }) => ({
      of,
      account_id: id,
      request_id: request,
      stored: usdJson(stored),
      recomputed: recomputed === undefined ? null : usdJson(recomputed),
    })),
  }
}

/** A stored list of prices by its version. @throws NotFound */
async function showPrices({ runtime, id }: AdminRequest): Promise<Answer> {
  const pricing = /^[0-9a-f]{16}$/.test(id) ? await runtime.prices.pricing(id) : undefined
  if (!pricing) {
    throw new NotFound('not_found', `There are no prices ${JSON.stringify(id.slice(0, 100))}.`)
  }
  return { body: { data: { version: id, pricing } } }
}

/** The page of the orphans that `?limit=` and `?after=<request id>` select. */
async function listOrphans(request: AdminRequest): Promise<Answer> {
  const limit = readLimit(request.query.get('limit'))
  const after = request.query.get('after')
  let isPast = after === null
  const data = []
  for await (const orphan of request.runtime.ledger.orphans(await filterOf(request))) {
    if (isPast && data.length === limit) return { body: { data, next: data.at(-1)!.request_id } }
    if (isPast) data.push(orphanView(orphan))
    isPast ||= orphan.request === after
  }
  if (!isPast) throw notInList()
  return { body: { data, next: null } }
}

/** The id of the account that `?account=` filters by. @throws NotFound */
async function filterOf({ runtime, query }: AdminRequest): Promise<string | undefined> {
  const id = query.get('account')
  return id === null ? undefined : (await accountOf(runtime, id)).id
}

/** `?before=` of the ledger: a sequence number. @throws InvalidRequest */
function readCursor(value: string | null): number | undefined {
  if (value === null) return undefined
  const number = wholeNumber(value)
  if (number !== undefined) return number
  throw wrongQuery('before', 'the "next" of the page before')
}

/**
 * A row of the ledger. `amount_usd` is its effect on the balance: the rows of an account add up to its balance, unless some
 * were folded.
 */
function rowView({
  seq,
  kind,
  request,
  key,
  at,
  cost,
  usage,
  note,
  actor,
  booking,
}: LedgerRow): LedgerEntry {
  const ofCall = { request_id: request, key_id: key ?? booking?.facts?.call?.key }
  return {
    seq,
    kind,
    ...(isBookingKind(kind) ? { reference: request, ...(kind === 'refund' && ofCall) } : ofCall),
    at: moment(at),
    amount_usd: usdJson(-cost),
    ...(kind === 'adjust' || kind === 'refund' ? { reason: note } : { note }),
    ...(actor !== undefined && { actor }),
    ...(booking?.expiresAt !== undefined && { expires_at: moment(booking.expiresAt) }),
    ...(booking?.takesFrom !== undefined && { takes_from: booking.takesFrom }),
    ...(booking?.facts?.cash && { cash: booking.facts.cash }),
    usage: usage && {
      at: moment(usage.at),
      endpoint: usage.endpoint,
      model: usage.model,
      deployment: usage.deployment,
      outcome: usage.outcome,
      tag: usage.tag,
      user: usage.user,
      gateway: usage.gateway,
      lines: usage.lines.map(({ source, usage, prices, tier }) => ({
        source,
        ...quantities(usage),
        prices,
        tier,
      })),
      charged: usage.charged,
    },
  }
}

function orphanView({ account, key, request, at }: Orphan) {
  return { request_id: request, account_id: account, key_id: key, at: moment(at) }
}

function quantities(usage: Usage): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(usage).map(([name, count]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      count,
    ]),
  )
}
