/** The overview: health and present cost of the gateway. */
import type { Gateway } from '../../gateway/gateway.ts'
import { manageableOf, optionOf } from '../../gateway/manageable.ts'
import { usdJson } from '../../money/money.ts'
import type { UsageAnswer, UsageQuery } from '../../observe/usage/query.ts'
import { agreementView, sumsView } from '../../observe/usage/view.ts'
import { noSums } from '../../observe/usage/sums.ts'
import { alertViews, incidentsOf } from './incidents.ts'
import { alertView, mute } from './resources/alert.ts'
import type { Overview } from './resources/overview.ts'
import { second } from './resources/settings.ts'
import {
  type Answer,
  type AdminRequest,
  bodyOf,
  missing,
  read,
  type Routes,
  needs,
} from './route.ts'
import { outboxView, keyNames, withNames } from './views.ts'
import { note } from './audit.ts'
import { runningRow } from '../../pipeline/call-record.ts'
import type { RequestView } from './resources/request.ts'
import { callView } from './requests.ts'

export const overviewRoutes: Routes = {
  '/alerts': { GET: needs('read', listAlerts) },
  '/alerts/:id/mute': { POST: needs('keys', muteAlert) },
  '/overview': { GET: needs('read', showOverview) },
}

const SHARED_MS = 2000
const DAY_MS = 86_400_000
const SHOWN_MODELS = 10
const SHOWN_KEYS = 3
const SHOWN_CALLS = 20

/** The last answer of each gateway, with its steady time. */
const answers = new WeakMap<Gateway, { readonly at: number; readonly answer: Promise<Answer> }>()

/** The first page of a console. */
function showOverview({ gateway }: AdminRequest): Promise<Answer> {
  const cached = answers.get(gateway)
  if (cached && performance.now() - cached.at < SHARED_MS) return cached.answer
  const answer = overviewOf(gateway)
  answers.set(gateway, { at: performance.now(), answer })
  // A failure is not shared.
  answer.catch(() => answers.delete(gateway))
  return answer
}

async function overviewOf(gateway: Gateway): Promise<Answer> {
  const { runtime } = gateway
  const now = Date.now()
  const { requests } = runtime
  // Once: the count and its list are of one moment.
  const running = runningViews(gateway)
  // Together: while the store is away, each of these waits for it.
  const [usage, calls, vendors, incidents, alerts] = await Promise.all([
    usageOf(gateway, now),
    withNames(runtime, running.slice(0, SHOWN_CALLS)),
    vendorsOf(gateway),
    incidentsOf(gateway, now),
    alertViews(runtime, runtime.alerts.active),
  ])
  const data: Overview = {
    as_of: second(now),
    ...usage,
    running: { count: running.length, calls },
    deployments: unhealthy(gateway),
    setup: { vendors },
    ...incidents,
    alerts,
    looked: runtime.spending.looked,
    books: outboxView(gateway),
    log: requests
      ? { rows: requests.counts.rows, dropped: Object.fromEntries(requests.counts.dropped) }
      : null,
  }
  return { body: { data } }
}

/** Sums of today beside the same hours of yesterday, and of the last 24 hours. */
async function usageOf({ runtime }: Gateway, now: number) {
  const { usage } = runtime
  if (!usage)
    return { today: null, yesterday: null, hours: [], models: [], refused: [], usage: null }
  const midnight = now - (now % DAY_MS)
  const ask = (from: number, to: number, group: UsageQuery['group']): UsageQuery => ({
    from,
    to,
    rollup: 'hour',
    group,
    filters: {},
    metric: 'cost_usd',
    top: Infinity,
  })
  const last = now - DAY_MS
  const queries = [
    ask(midnight, now, []),
    ask(midnight - DAY_MS, last, []),
    ask(last, now, []),
    { ...ask(last, now, ['model']), of: 'settled' as const, isOneSpan: true },
  ]
  const [nameOf, { result, checked }, refused] = await Promise.all([
    keyNames(runtime),
    usage.ask('usage', { queries }),
    usage.ask('refusals', { from: last, to: now, keys: SHOWN_KEYS }),
  ])
  const [today, yesterday, day, models] = result.map(answered)
  const { agrees, as_of, differences } = agreementView(checked)
  return {
    today: sumsView(today!.totals, true),
    yesterday: sumsView(yesterday!.totals, true),
    hours: day!.cells.map((cell) => ({ start: second(cell.start), ...sumsView(cell, true) })),
    models: models!.cells
      .filter(({ calls }) => calls > 0)
      .slice(0, SHOWN_MODELS)
      .map(({ group: [model], calls, cost }) => ({
        model: model || null,
        calls,
        cost_usd: usdJson(cost),
      })),
    refused: refused.map(({ limit, refused: calls, keys }) => ({
      limit,
      refused: calls,
      keys: keys.map(({ key, refused: ofKey }) => ({
        key_id: key,
        key_name: nameOf(key),
        refused: ofKey,
      })),
    })),
    usage: { agrees, as_of, differences: differences.length, indexed: checked.indexed },
  }
}

/** Too many rows for an answer: nothing is shown of them. */
function answered(result: UsageAnswer | { readonly fits: string }): UsageAnswer {
  if (!('fits' in result)) return result
  return { from: 0, to: 0, settled: true, cells: [], other: [], totals: noSums() }
}

/** Providers that were set up: not those that need nothing, which a gateway has by itself. */
async function vendorsOf({ loaded: { config, origins }, runtime: { catalog } }: Gateway) {
  const models = catalog.at().all()
  const vendors: Overview['setup']['vendors'][number][] = []
  for (const [name, { use, options }] of Object.entries(config.providers)) {
    const { from, file, name: variable } = origins.of(['providers', name])
    const isNamed = typeof use === 'string' && /^[\w-]+$/.test(use)
    const plugin = isNamed ? await manageableOf('providers', use) : undefined
    const secrets = plugin?.fields.filter(({ kind }) => kind === 'secret') ?? []
    const isSet = secrets.some((field) => optionOf(options, field.name) !== undefined)
    const isByItself = isNamed && (secrets.length === 0 || (from === 'starter' && !isSet))
    if (isByItself) continue
    const own = models.filter((model) => model.deployments.some((one) => one.provider === name))
    const where = variable ?? file ?? (from === 'managed' ? 'this page' : from)
    vendors.push({ name, models: own.length, from: where })
  }
  return vendors
}

/** Deployments in a cooldown, or on probation after one. */
function unhealthy({ runtime: { catalog, routing } }: Gateway) {
  return catalog.all().flatMap((model) =>
    model.deployments
      .map((deployment) => ({ deployment, health: routing.healthOf(deployment).report() }))
      .filter(({ health }) => health.state !== 'healthy')
      .map(({ deployment, health }) => ({
        deployment: deployment.id,
        model: model.id,
        state: health.state,
        since: health.since === undefined ? null : second(health.since),
        rests_until: health.cooldownUntil === undefined ? null : second(health.cooldownUntil),
        last_failure: health.lastFailure ?? null,
      })),
  )
}

// Alerts in the admin API.

/** `looked` says how many accounts and keys were looked at since the start: before all were, nothing is known to be well. */
async function listAlerts({ runtime }: AdminRequest): Promise<Answer> {
  const { alerts, spending } = runtime
  const data = await alertViews(runtime, [...alerts.active, ...alerts.ended])
  return { body: { data, looked: spending.looked } }
}

/** Mutes an alert for a while. @throws NotFound for one that is not active */
async function muteAlert(request: AdminRequest): Promise<Answer> {
  const { runtime, id } = request
  const { seconds } = read(mute, await bodyOf(request))
  const alert = runtime.alerts.mute(id, Date.now() + seconds * 1000) ?? missing('active alert', id)
  const after = { kind: alert.kind, object: alert.object, seconds }
  await note(request, { action: 'alert.mute', object: `alert:${id}`, after })
  return { body: { data: alertView(alert) } }
}

function runningViews(gateway: Gateway): readonly RequestView[] {
  return [...gateway.running].toReversed().map((call) => callView(runningRow(call), true))
}
