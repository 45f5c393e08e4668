/** `GET /v1/key/usage` and `/v1/key/requests`: the usage of a key for its holder, and the calls behind it. */
import { NotFound } from '../../errors/errors.ts'
import { checkParameters, readLimit, wrongQuery } from '../../errors/query.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import { readEnd, readLogId, readStatus, requestId } from '../../observe/log/query.ts'
import { endedCall, type KnownCall } from '../../observe/record.ts'
import { callOfCharge } from '../../observe/usage/charge.ts'
import { inZones, readUsageQuery } from '../../observe/usage/parse.ts'
import { usageBody } from '../../observe/usage/view.ts'
import type { Call, Runtime } from '../../pipeline/pipeline.ts'
import { billView } from '../../server/admin/resources/bill.ts'
import { endOf, type HolderCall } from '../../server/admin/resources/request.ts'
import type { GetRoute } from './route.ts'
import type { GroupName } from '../../observe/usage/query.ts'

/** Groups that the holder of a key may use. */
export const HOLDER_GROUPS: readonly GroupName[] = ['model', 'endpoint', 'outcome', 'tag', 'user']

const REQUEST_PARAMETERS = new Set(['limit', 'after', 'status', 'end', 'model'])

interface Body {
  readonly data: object
  readonly [member: string]: unknown
}

/** The keys that an answer is about, all of one account. */
export interface Holder {
  readonly account: string
  readonly keys: readonly string[]
}

/** Usage of some keys: as the admin API has it, without deployments and other keys. @throws InvalidRequest, NotFound, Unavailable */
export async function usageOf(
  { accounts, config, usage }: Runtime,
  { account, keys }: Holder,
  parameters: URLSearchParams,
  now: number,
  groups = HOLDER_GROUPS,
): Promise<Body> {
  if (!config.log.holders || !usage) throw notHere()
  const parsed = readUsageQuery(parameters, groups, now)
  const owner = await accounts.account(account)
  const zones = new Set([owner?.timeZone ?? config.defaults.timeZone])
  const { query: question, zone } = inZones(parsed, parameters, zones)
  if (question.metric === 'margin_usd') throw wrongQuery('metric', 'another metric')
  const query = { ...question, filters: { ...question.filters, key: keys } }
  const { result, checked, since } = await usage.ask('usage', {
    accounts: [account],
    queries: [query],
  })
  // The other keys of the account are not this holder's business.
  const differences = checked.differences.filter(({ key }) => keys.includes(key!))
  const agrees = differences.length === 0 && checked.agrees === false ? true : checked.agrees
  return {
    ...usageBody(
      query,
      { result: result[0]!, checked: { ...checked, differences, agrees }, since },
      zone,
      false,
    ),
  }
}

/** Calls of some keys, newest first. @throws InvalidRequest, NotFound, Unavailable */
export async function requestsOf(
  { config, requests }: Runtime,
  keys: readonly string[],
  query: URLSearchParams,
): Promise<Body> {
  if (!config.log.holders || !requests) throw notHere()
  checkParameters(query, REQUEST_PARAMETERS)
  const [status, models, ends] = [
    query.getAll('status'),
    query.getAll('model'),
    query.getAll('end'),
  ]
  const after = query.get('after')
  const page = await requests.list({
    filters: { key: keys, ...(models.length > 0 && { model: models.slice(0, 100) }) },
    ...(ends.length > 0 && { ends: ends.slice(0, 100).map(readEnd) }),
    ...(status.length > 0 && { status: status.slice(0, 100).map(readStatus) }),
    ...(after !== null && { after: readLogId(after, 'after') }),
    limit: readLimit(query.get('limit')),
  })
  return {
    data: page.calls.map(holderCall),
    next: page.next === undefined ? null : requestId(page.next),
    searched_to: page.searchedTo === undefined ? null : new Date(page.searchedTo).toISOString(),
  }
}

/** One call of some keys, with its bill: which quantity was charged at which price. @throws NotFound, Unavailable */
export async function requestOf(
  { config, requests, usage, prices }: Runtime,
  { account, keys }: Holder,
  id: string,
): Promise<Body> {
  if (!config.log.holders || !usage) throw notHere()
  if (!/^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) throw noRequest(id)
  const logged = await requests?.find(id)
  const charge = await usage.ask('charge', { request: id, account })
  const record = logged ?? (charge && callOfCharge(charge))
  if (!record || !keys.includes(record.key_id!) || record.account_id !== account)
    throw noRequest(id)
  const explained = charge && (await prices.explain(charge.row))
  const { vendor: _, ...bill } = explained
    ? billView(explained, charge.refund)
    : { vendor: undefined }
  const missing = charge ? 'prices' : 'folded'
  const shown = { bill: explained ? bill : null, ...(!explained && { bill_missing: missing }) }
  return { data: { ...holderCall(record), ...shown } }
}

const PRIVATE = { authenticated: true, cacheControl: 'no-store' }
const REQUEST_PATH = '/v1/key/requests/'

/** Usage of the calling key alone. */
export const keyUsage: GetRoute = {
  path: '/v1/key/usage',
  ...PRIVATE,
  async answer(call) {
    const { entered } = call.admission
    return JSON.stringify(await usageOf(call.runtime, holderOf(call), queryOf(call), entered!.at))
  },
}

/** Calls of the calling key. */
export const keyRequests: GetRoute = {
  path: '/v1/key/requests',
  ...PRIVATE,
  async answer(call) {
    return JSON.stringify(await requestsOf(call.runtime, holderOf(call).keys, queryOf(call)))
  },
}

/** One call of the calling key. */
export const keyRequest: GetRoute = {
  path: `${REQUEST_PATH}{id}`,
  ...PRIVATE,
  async answer(call) {
    const id = call.incoming.url.split('?', 1)[0]!.slice(REQUEST_PATH.length)
    return JSON.stringify(await requestOf(call.runtime, holderOf(call), id))
  },
}

function holderOf({ admission: { account, key } }: Call): Holder {
  return { account: account.id, keys: [key.id] }
}

function noRequest(id: string): NotFound {
  const shown = JSON.stringify(id.slice(0, 100))
  return new NotFound('not_found', `There is no request ${shown} of this key.`)
}

function queryOf({ incoming }: Call): URLSearchParams {
  return new URLSearchParams(incoming.url.split('?')[1] ?? '')
}

function notHere(): NotFound {
  return new NotFound('unknown_url', 'There is no such route.')
}

/** A call as the holder of its key sees it. */
export function holderCall(call: KnownCall): HolderCall {
  const ended = endedCall(call)
  const { id, at, endpoint, model, status, code, outcome, stream, usage, cost_usd, times, tag } =
    ended
  return {
    id,
    at,
    endpoint,
    model,
    status,
    code,
    outcome,
    end: endOf(ended),
    stream: stream === true,
    usage,
    cost_usd: cost_usd === null ? null : usdJson(parsePico(cost_usd)),
    times: { first_ms: times.first_ms, total_ms: times.total_ms },
    tag,
  }
}
