/** `GET /v1/key/usage` and `/v1/key/requests`: the usage of a key for its holder, and the calls behind it. */
import { NotFound } from '../../errors/errors.ts'
import { checkParameters, readLimit } from '../../errors/query.ts'
import { parsePico, usdJson } from '../../money/money.ts'
import { readLogId, readStatus, requestId } from '../../observe/log/query.ts'
import { endedCall, type KnownCall } from '../../observe/record.ts'
import { callOfCharge } from '../../observe/usage/charge.ts'
import { readUsageQuery } from '../../observe/usage/parse.ts'
import { usageBody } from '../../observe/usage/view.ts'
import type { Call } from '../../pipeline/pipeline.ts'
import { billView } from '../../server/admin/resources/bill.ts'
import type { HolderCall } from '../../server/admin/resources/request.ts'
import type { GetRoute } from './route.ts'
import type { GroupName } from '../../observe/usage/query.ts'

/** Groups that the holder of a key may use. */
export const HOLDER_GROUPS: readonly GroupName[] = ['model', 'endpoint', 'outcome', 'tag', 'user']

const REQUEST_PARAMETERS = new Set(['limit', 'after', 'status', 'model'])

/** Usage of the calling key alone: as the admin API has it, without deployments and other keys. */
export const keyUsage: GetRoute = {
  path: '/v1/key/usage',
  authenticated: true,
  cacheControl: 'no-store',
  async answer(call) {
    const { runtime, admission } = call
    const { account, key, entered } = admission
    const { usage } = runtime
    if (!runtime.config.log.holders || !usage) throw notHere()
    const question = readUsageQuery(queryOf(call), HOLDER_GROUPS, entered!.at)
    const query = { ...question, filters: { ...question.filters, key: [key.id] } }
    const ask = { accounts: [account.id], queries: [query] }
    const { result, checked, since } = await usage.ask('usage', ask)
    // The other keys of the account are not this holder's business.
    const differences = checked.differences.filter((one) => one.key === key.id)
    const agrees = differences.length === 0 && checked.agrees === false ? true : checked.agrees
    const own = { ...checked, differences, agrees }
    return JSON.stringify(usageBody(query, { result: result[0]!, checked: own, since }))
  },
}

/** Calls of the calling key, newest first. */
export const keyRequests: GetRoute = {
  path: '/v1/key/requests',
  authenticated: true,
  cacheControl: 'no-store',
  async answer(call) {
    const { runtime, admission } = call
    const { key } = admission
    const { requests } = runtime
    if (!runtime.config.log.holders || !requests) throw notHere()
    const query = queryOf(call)
    checkParameters(query, REQUEST_PARAMETERS)
    const [status, models] = [query.getAll('status'), query.getAll('model')]
    const after = query.get('after')
    const page = await requests.list({
      filters: { key: [key.id], ...(models.length > 0 && { model: models.slice(0, 100) }) },
      ...(status.length > 0 && { status: status.slice(0, 100).map(readStatus) }),
      ...(after !== null && { after: readLogId(after, 'after') }),
      limit: readLimit(query.get('limit')),
    })
    return JSON.stringify({
      data: page.calls.map(viewOf),
      next: page.next === undefined ? null : requestId(page.next),
      searched_to: page.searchedTo === undefined ? null : new Date(page.searchedTo).toISOString(),
    })
  },
}

const REQUEST_PATH = '/v1/key/requests/'

/** One call of the calling key, with its bill: which quantity was charged at which price. */
export const keyRequest: GetRoute = {
  path: `${REQUEST_PATH}{id}`,
  authenticated: true,
  cacheControl: 'no-store',
  async answer(call) {
    const { runtime, admission, incoming } = call
    const { account, key } = admission
    const { requests, usage, prices } = runtime
    if (!runtime.config.log.holders || !usage) throw notHere()
    const id = incoming.url.split('?', 1)[0]!.slice(REQUEST_PATH.length)
    if (!/^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(id)) throw noRequest(id)
    const logged = await requests?.find(id)
    const charge = await usage.ask('charge', { request: id, account: account.id })
    const known = logged ?? (charge && callOfCharge(charge))
    if (!known || known.key_id !== key.id || known.account_id !== account.id) throw noRequest(id)
    const explained = charge && (await prices.explain(charge.row))
    const { vendor: _, ...bill } = explained ? billView(explained) : { vendor: undefined }
    const missing = charge ? 'prices' : 'folded'
    return JSON.stringify({
      data: {
        ...viewOf(known),
        bill: explained ? bill : null,
        ...(!explained && { bill_missing: missing }),
      },
    })
  },
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

function viewOf(call: KnownCall): HolderCall {
  const { id, at, endpoint, model, status, code, outcome, stream, usage, cost_usd, times, tag } =
    endedCall(call)
  return {
    id,
    at,
    endpoint,
    model,
    status,
    code,
    outcome,
    stream: stream === true,
    usage,
    cost_usd: cost_usd === null ? null : usdJson(parsePico(cost_usd)),
    times: { first_ms: times.first_ms, total_ms: times.total_ms },
    tag,
  }
}
