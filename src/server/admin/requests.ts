/** The request log in the admin API: questions, and calls as JSON. */
import { NotFound, Unavailable, InvalidRequest } from '../../errors/errors.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import {
  FILTERS,
  matches,
  type FilterName,
  type LogQuery,
  readLogId,
  readEnd,
  readStatus,
} from '../../observe/log/query.ts'
import type { RequestLog } from '../../observe/log/request-log.ts'
import { endedCall, type KnownCall } from '../../observe/record.ts'
import { callOfCharge, type ChargeOfCall } from '../../observe/usage/charge.ts'
import { runningRow } from '../../pipeline/call-record.ts'
import { note } from './audit.ts'
import { csvResponse } from './csv.ts'
import {
  checkParameters,
  readLimit,
  readMoment,
  readValues,
  wantsCsv,
  wrongQuery,
} from '../../errors/query.ts'
import { withNames } from './views.ts'
import { billView } from './resources/bill.ts'
import {
  REQUEST_COLUMNS,
  requestView,
  type LimitInForce,
  type RequestDetails,
  type RequestView,
  type RequestContent,
} from './resources/request.ts'
import { momentOrNull } from './resources/settings.ts'
import { type Answer, type AdminRequest, type Routes, needs } from './route.ts'
import type { CallContent } from '../../observe/content/content.ts'

export const requestRoutes: Routes = {
  '/requests': { GET: needs('read', answerRequests) },
  '/requests/content': { DELETE: needs('contents', removeContents) },
  '/requests/:id/content': { GET: needs('contents', showContent) },
  '/requests/:id/end': { POST: needs('keys', endRequest) },
  '/requests/:id': {
    GET: needs('read', async (request) => ({ body: await showRequest(request) })),
  },
}

const OTHER_PARAMETERS = [
  'status',
  'end',
  'stream',
  'charged',
  'keyed',
  'decided',
  'min_cost_usd',
  'min_ms',
  'from',
  'to',
  'running',
]
const PAGING = ['limit', 'after', 'format']
const PARAMETERS = new Set<string>([...FILTERS, ...OTHER_PARAMETERS, ...PAGING])
const CSV_PAGE = 200
interface RequestsPage {
  readonly data: readonly object[]
  readonly next: string | null
  /** Where the search had to stop for now; null at the end of the log. */
  readonly searched_to: string | null
  /** Moment from which on no call was removed; null where that is not known. */
  readonly complete_from: string | null
  /** Days whose file is damaged: their calls are missing. */
  readonly unreadable_days?: readonly string[]
}

/** Answers with a page, or with `format=csv` with all ended calls. @throws as {@link listRequests} */
async function answerRequests(request: AdminRequest): Promise<Answer | Response> {
  if (!wantsCsv(request.query)) return { body: { ...(await listRequests(request)) } }
  const query = readQuery(request.query)
  const [from = 'start', to = 'now'] = [request.query.get('from'), request.query.get('to')].map(
    (moment) => moment ?? undefined,
  )
  const withMoney = request.actor.rights.has('money')
  const rows = allRows(request.gateway, query, withMoney)
  const columns = REQUEST_COLUMNS.filter((name) => withMoney || name !== 'vendor_cost_usd')
  return csvResponse(`requests-${from}-${to}`, columns, rows)
}

async function* allRows(
  gateway: Gateway,
  query: LogQuery,
  withMoney: boolean,
): AsyncGenerator<object> {
  const { runtime } = gateway
  const log = logOf(gateway)
  for (let after = query.after; ;) {
    const paged = { ...query, limit: CSV_PAGE, ...(after !== undefined && { after }) }
    const { calls, next } = await log.list(paged)
    yield* await withNames(
      runtime,
      calls.map((call) => callView(call, false, withMoney)),
    )
    if (next === undefined) return
    after = next
  }
}

/**
 * Calls, newest first; the first page begins with running ones.
 * @throws InvalidRequest for an unknown or unreadable parameter, NotFound without a request log
 */
async function listRequests({ gateway, query, actor }: AdminRequest): Promise<RequestsPage> {
  const withMoney = actor.rights.has('money')
  const filters = readQuery(query)
  const running = query.has('after') ? [] : await runningCalls(gateway, filters, query)
  if (query.get('running') === 'true') {
    const views = running.map((call) => callView(call, true, withMoney))
    const data = await withNames(gateway.runtime, views)
    return { data, next: null, searched_to: null, complete_from: null }
  }
  const { calls, next, searchedTo, completeFrom, unreadable } = await logOf(gateway).list(filters)
  return {
    data: await withNames(gateway.runtime, [
      ...running.map((call) => callView(call, true, withMoney)),
      ...calls.map((call) => callView(call, false, withMoney)),
    ]),
    next: next === undefined ? null : `req_${next}`,
    searched_to: momentOrNull(searchedTo),
    complete_from: momentOrNull(completeFrom),
    ...(unreadable.length > 0 && { unreadable_days: unreadable }),
  }
}

/** Shows one call. @throws NotFound */
async function showRequest(request: AdminRequest): Promise<{ readonly data: object }> {
  const [data] = await withNames(request.runtime, [await viewOf(request)])
  return { data: data! }
}

async function viewOf(request: AdminRequest): Promise<RequestDetails> {
  const { gateway, id, actor } = request
  const withMoney = actor.rights.has('money')
  const own = [...gateway.running].find((call) => call.id === id)
  const running = own
    ? runningRow(own)
    : (await gateway.peers.calls()).find((call) => call.id === id)
  if (running) return { ...callView(running, true, withMoney), limits: limitsView(running) }
  if (!/^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) throw notLogged(id, WHOLE_ID)
  const call = await gateway.runtime.requests?.find(id)
  const charge = await chargeIn(request, call)
  const content = async () =>
    (await contentOf(request)) ? ('kept' as const) : ('not kept' as const)
  if (call) {
    const view = callView(call, false, withMoney)
    const limits = limitsView(call)
    const bill = await billOf(request, charge, call.cost_usd !== undefined)
    return { ...view, limits, ledger: ledgerView(charge), ...bill, content: await content() }
  }
  if (!charge) throw gateway.runtime.requests ? notLogged(id) : noLog()
  const view = callView(callOfCharge(charge), false, withMoney)
  const ledger = ledgerView(charge)
  const bill = await billOf(request, charge, true)
  return { ...view, limits: null, ledger, ...bill, content: await content(), log: 'missing' }
}

/** The charge of a call; undefined where there is none, or the ledger cannot be read. */
async function chargeIn({ runtime, id }: AdminRequest, call: KnownCall | undefined) {
  const account = call?.account_id
  // A call without an account was never charged.
  if (call && account === undefined) return undefined
  try {
    return await runtime.usage?.ask('charge', { request: id, ...(account && { account }) })
  } catch (error) {
    if (call && error instanceof Unavailable) return undefined
    throw error
  }
}

/** The bill of a call, with what its vendors were paid for an actor with the right `money`. */
async function billOf(
  { runtime, actor }: AdminRequest,
  charge: ChargeOfCall | undefined,
  isCharged: boolean,
): Promise<Pick<RequestDetails, 'bill' | 'bill_missing'>> {
  if (!charge) return isCharged ? { bill: null, bill_missing: 'folded' } : {}
  const explained = await runtime.prices.explain(charge.row)
  if (!explained) return { bill: null, bill_missing: 'prices' }
  const { vendor, ...bill } = billView(explained, charge.refund)
  return { bill: actor.rights.has('money') ? { ...bill, vendor } : bill }
}

/** The row of the ledger, for comparison with that of the log. */
function ledgerView(charge: ChargeOfCall | undefined): RequestDetails['ledger'] & (object | null) {
  return charge ? { seq: charge.row.seq, cost_usd: usdJson(charge.row.cost) } : null
}

const WHOLE_ID = ' A request is named by its whole id: req_ and 26 letters and digits.'

function notLogged(id: string, hint = ''): NotFound {
  const named = JSON.stringify(id.slice(0, 100))
  return new NotFound('not_found', `There is no request ${named} in the log.${hint}`)
}

function noLog(): NotFound {
  return new NotFound('not_found', 'There is no request log: log.requests is false.')
}

function logOf({ runtime }: Gateway): RequestLog {
  if (runtime.requests) return runtime.requests
  throw noLog()
}

async function runningCalls(
  gateway: Gateway,
  filters: LogQuery,
  query: URLSearchParams,
): Promise<KnownCall[]> {
  if (['status', 'end', 'charged', 'min_cost_usd', 'min_ms', 'to'].some((name) => query.has(name)))
    return []
  if (query.get('running') === 'false') return []
  const calls = [...[...gateway.running].map(runningRow), ...(await gateway.peers.calls())]
  return newestFirst(calls.filter((call) => matches(call, filters)))
}

/** Sorts calls by id, which is their order of arrival. */
function newestFirst(calls: readonly KnownCall[]): KnownCall[] {
  return calls.toSorted((a, b) => (a.id < b.id ? 1 : -1))
}

/** Ends a running call. @throws NotFound when it does not run */
async function endRequest(request: AdminRequest): Promise<Answer> {
  const { gateway, id } = request
  if (!gateway.peers.endOwn(id) && !(await gateway.peers.end(id))) {
    throw new NotFound('not_found', `No request ${JSON.stringify(id.slice(0, 100))} is running.`)
  }
  await note(request, { action: 'request.end', object: `request:${id}`, after: { ended: true } })
  return { status: 202, body: { data: { id, ended: true } } }
}

/** The filters of a query. @throws InvalidRequest */
export function readQuery(query: URLSearchParams): LogQuery {
  checkParameters(query, PARAMETERS)
  const filters: Partial<Record<FilterName, string[]>> = {}
  for (const name of FILTERS) if (query.has(name)) filters[name] = readValues(query, name)
  const read = <Value>(name: string, reader: (text: string, name: string) => Value) => {
    const value = query.get(name)
    return value === null ? undefined : reader(value, name)
  }
  const status = readValues(query, 'status').map(readStatus)
  const ends = readValues(query, 'end').map(readEnd)
  const after = read('after', readLogId)
  const [from, to] = [read('from', readMoment), read('to', readMoment)]
  if (from !== undefined && to !== undefined && from >= to)
    throw wrongQuery('from', "a moment before 'to'")
  const stream = read('stream', readFlag)
  const charged = read('charged', readFlag)
  const keyed = read('keyed', readFlag)
  const decided = readValues(query, 'decided')
  read('running', readFlag)
  const minCost = read('min_cost_usd', readUsd)
  const minMs = read('min_ms', readWhole)
  return {
    filters,
    limit: readLimit(query.get('limit')),
    ...(status.length > 0 && { status }),
    ...(ends.length > 0 && { ends }),
    ...(after !== undefined && { after }),
    ...(from !== undefined && { from }),
    ...(to !== undefined && { to }),
    ...(stream !== undefined && { stream }),
    ...(charged !== undefined && { charged }),
    ...(keyed !== undefined && { keyed }),
    ...(decided.length > 0 && { decided }),
    ...(minCost !== undefined && { minCost }),
    ...(minMs !== undefined && { minMs }),
  }
}

function readFlag(text: string, name: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  throw wrongQuery(name, 'true or false')
}

function readUsd(text: string, name: string): bigint {
  try {
    const amount = parsePico(text)
    if (amount <= MAX_COST) return amount
  } catch {
    // Not an amount.
  }
  throw wrongQuery(name, 'an amount in USD such as 0.05')
}

/** Largest integer of SQLite, in 10⁻¹² USD. */
const MAX_COST = 2n ** 63n - 1n

function readWhole(text: string, name: string): number {
  if (/^\d{1,12}$/.test(text)) return Number(text)
  throw wrongQuery(name, 'a whole number of milliseconds')
}

/** @param withMoney whether it has what vendors are paid */
export function callView(call: KnownCall, running: boolean, withMoney = false): RequestView {
  return requestView(endedCall(call), running, withMoney)
}

/** The limits that were in force for a call; null where its rate is unknown. */
export function limitsView({ rate, limits }: KnownCall): readonly LimitInForce[] | null {
  if (!rate) return null
  const { limit: value, left } = rate
  return [
    { limit: 'rpm', value, used: value - left, left },
    ...Object.entries<number | string>(limits ?? {}).map(([limit, value]) => ({
      limit,
      value,
      used: null,
      left: null,
    })),
  ]
}

const REMOVED_BY = ['key', 'user', 'before'] as const
const CONTENT_PARAMETERS = new Set<string>(REMOVED_BY)

/** Shows the contents of a call; every reading is recorded. @throws NotFound where nothing is kept, Unavailable */
async function showContent(request: AdminRequest): Promise<Answer> {
  const { runtime, id, query } = request
  checkParameters(query, new Set())
  const content = await contentOf(request)
  if (!content) {
    const how = runtime.config.log.content.enabled
      ? 'Contents are kept by the gateway that served the call, of keys with log_content, for log.content.keep days.'
      : 'Contents are not kept: log.content.enabled is false.'
    throw new NotFound(
      'not_found',
      `There is no content of ${JSON.stringify(id.slice(0, 100))}. ${how}`,
    )
  }
  const { account, key, user, endpoint, model, decided, input, output, cut } = content
  await note(request, { action: 'request.content', object: `request:${id}`, after: { read: true } })
  const data: RequestContent = {
    id,
    account_id: account,
    key_id: key,
    user: user ?? null,
    endpoint,
    model: model ?? null,
    decided,
    input: JSON.parse(input),
    output: JSON.parse(output),
    cut,
  }
  return { body: { data } }
}

/** The contents of a call by its id; undefined where none are kept. @throws Unavailable */
function contentOf({
  runtime,
  id,
}: Pick<AdminRequest, 'runtime' | 'id'>): Promise<CallContent | undefined> {
  const isId = /^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)
  return isId ? runtime.contents.find(id) : Promise.resolve(undefined)
}

/** Removes the contents of a key, of an end user, or before a moment. @throws InvalidRequest, Unavailable */
async function removeContents(request: AdminRequest): Promise<Answer> {
  const { runtime, query } = request
  checkParameters(query, CONTENT_PARAMETERS)
  const by = REMOVED_BY.filter((name) => query.get(name))
  if (by.length === 0) {
    const message = `Missing 'key', 'user' or 'before': contents are removed by at least one of them.`
    throw new InvalidRequest('missing_required_parameter', message, { param: 'key' })
  }
  const [key, user, before] = REMOVED_BY.map((name) => query.get(name) || undefined)
  const moment = before === undefined ? undefined : readMoment(before, 'before')
  const removed = await runtime.contents.remove({ key, user, before: moment })
  // The name of an end user is part of what was to be removed, so it is not recorded.
  const after = { removed, by: by.join(','), ...(key !== undefined && { key }) }
  await note(request, { action: 'request.content.remove', object: 'requests', after })
  return { body: { data: { removed } } }
}
