/** Usage in the admin API: questions to the index, its proof, and balances of accounts. */
import { NotFound } from '../../errors/errors.ts'
import { inZones, readRange, readUsageQuery } from '../../observe/usage/parse.ts'
import { requireRight } from '../../access/actors.ts'
import { zoneOf } from '../../accounts/limits.ts'
import type { UsageIndex } from '../../observe/usage/usage.ts'
import { agreementView, usageBody, usageTable } from '../../observe/usage/view.ts'
import {
  type TooLarge,
  type UsageAnswer,
  type UsageQuery,
  GROUPS,
} from '../../observe/usage/query.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import { note } from './audit.ts'
import { checkParameters, wantsCsv, wrongQuery } from '../../errors/query.ts'
import { csvResponse } from './csv.ts'
import { keyNames } from './views.ts'
import { balanceView } from './resources/usage.ts'
import { accountOf, type Answer, type AdminRequest, type Routes, needs } from './route.ts'

export const usageRoutes: Routes = {
  '/accounts/:id/balance': { GET: needs('read', showBalance) },
  '/usage': { GET: needs('read', showUsage) },
  '/usage/verify': { GET: needs('read', verifyUsage) },
  '/usage/rebuild': { POST: needs('config', rebuildUsage) },
}

const DAY_MS = 86_400_000
/** Longest range in days that is shown in hours. */
const HOURLY_DAYS = 3
const MOST_POINTS = 10_000

/** Answers a question. @throws InvalidRequest, NotFound without an index, Unavailable */
async function showUsage({ runtime, query, actor }: AdminRequest): Promise<Answer | Response> {
  const parsed = readUsageQuery(query, ALL_GROUPS, Date.now())
  if (parsed.metric === 'margin_usd') requireRight(actor, 'money')
  const withMargin = actor.rights.has('money')
  const accounts = await scopeOf(runtime, parsed)
  const { query: request, zone } = inZones(parsed, query, await zonesOf(runtime, accounts))
  const { result, ...proof } = await indexOf(runtime).ask('usage', { accounts, queries: [request] })
  const answer = { ...proof, result: result[0]! }
  if (!wantsCsv(query)) {
    return {
      body: {
        ...usageBody(request, answer, zone, withMargin),
        ...(await namesIn(runtime, request, answer)),
      },
    }
  }
  const { columns, rows } = usageTable(request, answer, zone, withMargin)
  return csvResponse(`usage-${dayOf(request.from)}-${dayOf(request.to)}`, columns, rows)
}

async function namesIn(
  runtime: Runtime,
  { group }: UsageQuery,
  { result }: { readonly result: UsageAnswer | TooLarge },
) {
  const place = group.indexOf('key')
  if (place < 0 || !('cells' in result)) return {}
  const nameOf = await keyNames(runtime)
  const ids = new Set(result.cells.map((cell) => cell.group[place]!))
  return { key_names: Object.fromEntries([...ids].map((id) => [id, nameOf(id)])) }
}

async function verifyUsage({ runtime }: AdminRequest): Promise<Answer> {
  const { checked } = await indexOf(runtime).ask('verify', true)
  return { body: { data: { ...agreementView(checked), indexed: checked.indexed } } }
}

async function rebuildUsage(request: AdminRequest): Promise<Answer> {
  await indexOf(request.runtime).ask('rebuild', true)
  await note(request, { action: 'usage.rebuild', object: 'usage', after: { begun: true } })
  return { status: 202, body: { data: { begun: true } } }
}

/** Shows the balance at the end of each hour or day. @throws InvalidRequest, NotFound */
async function showBalance({ runtime, id, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set(['from', 'to']))
  const { from, to } = readRange(query, Date.now())
  const account = await accountOf(runtime, id)
  const rollup = to - from <= HOURLY_DAYS * DAY_MS ? 'hour' : 'day'
  if ((to - from) / DAY_MS > MOST_POINTS) throw wrongQuery('from', 'a later moment')
  const zone = zoneOf(account, runtime.config.defaults)
  const ask = { account: account.id, rollup, from, to, zone } as const
  const { result, checked } = await indexOf(runtime).ask('balances', ask)
  return { body: { data: result.map(balanceView), rollup, ledger: agreementView(checked) } }
}

export function indexOf({ usage }: Runtime): UsageIndex {
  if (usage) return usage
  throw new NotFound('not_found', 'There is no index of usage: log.usage is false.')
}

/** The accounts of a question; undefined for all. */
async function scopeOf(
  { accounts }: Runtime,
  { filters }: UsageQuery,
): Promise<readonly string[] | undefined> {
  if (filters.account) return filters.account
  if (!filters.key) return undefined
  const keys = await Promise.all(filters.key.map((id) => accounts.key(id)))
  return [...new Set(keys.flatMap((key) => key?.account ?? []))]
}

/** The time zones of accounts, of all without ids. */
async function zonesOf(
  { accounts, config }: Runtime,
  ids: readonly string[] | undefined,
): Promise<ReadonlySet<string>> {
  const all = ids
    ? await accounts.accountsOf(ids)
    : (await accounts.directory.view()).accounts.values()
  const zones = new Set([...all].map(({ timeZone = config.defaults.timeZone }) => timeZone))
  return zones.size > 0 ? zones : new Set([config.defaults.timeZone])
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}

/** All groups, which operators may use. */
const ALL_GROUPS = GROUPS
