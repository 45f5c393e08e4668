import { Unavailable } from '../../errors/errors.ts'
import type { Model } from '../../models/catalog.ts'
import { usdJson, type Pico } from '../../money/money.ts'
import type { FailureSum } from '../../observe/usage/work.ts'
import type { UsageIndex } from '../../observe/usage/usage.ts'
import { checkParameters, wrongQuery } from '../../errors/query.ts'
import { type ModelAnswer, type UnservedAnswer, deploymentView } from './resources/model.ts'
import { type Answer, type AdminRequest, type Routes, needs } from './route.ts'
import { versionOf } from '../../money/prices.ts'
import type { Routing } from '../../models/routing.ts'
import { moment, second } from './resources/settings.ts'

export const modelRoutes: Routes = {
  '/models': { GET: needs('read', listModels) },
  '/models/unserved': { GET: needs('read', listUnserved) },
}

const PARAMETERS = new Set(['q', 'sort'])
const DAY_MS = 86_400_000

interface Recent {
  readonly calls: number
  readonly cost: Pico
}

/** Recent calls by id of a model; absent where nothing is known. */
interface Lately {
  readonly calls: ReadonlyMap<string, Recent>
  readonly failures: ReadonlyMap<string, readonly FailureSum[]>
}

/** Values by which a list can be sorted. */
const SORTS: Readonly<Record<string, (model: Model, recent: Recent) => string | number | bigint>> =
  {
    id: ({ id }) => id,
    modality: ({ modality }) => modality,
    calls: (_, { calls }) => calls,
    cost_usd: (_, { cost }) => cost,
    checked_at: ({ priceSource }) => priceSource.checked_at ?? '',
  }

/** Lists names that clients ask for and that are not served. */
async function listUnserved({ runtime }: AdminRequest): Promise<Answer> {
  const names = await runtime.unserved.all()
  const data = names.map(({ firstAt, lastAt, ...row }): UnservedAnswer => {
    return { ...row, first_at: second(firstAt), last_at: second(lastAt) }
  })
  return { body: { data, next: null } }
}

/** Lists models. @throws InvalidRequest for an unknown or unreadable parameter */
async function listModels({ runtime, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, PARAMETERS)
  const order = readOrder(query.get('sort'))
  const { catalog, routing, usage } = runtime
  const wanted = query.get('q')?.trim().toLowerCase() ?? ''
  const models = catalog
    .at()
    .all()
    .filter(({ id, aliases }) =>
      [id, ...aliases].some((name) => name.toLowerCase().includes(wanted)),
    )
  const lately = usage && (await latelyOf(usage, Date.now()).catch(unlessUnavailable))
  const data = order(models, lately).map((model): ModelAnswer => {
    const { deployments, ...view } = modelView(model, routing)
    const failures = lately?.failures.get(model.id) ?? []
    return {
      ...view,
      last_24h: lately ? recentView(recentOf(lately, model), failures) : null,
      deployments: deployments.map((one) => ({
        ...one,
        failures_24h: lately
          ? byClass(failures.filter(({ deployment }) => deployment === one.id))
          : null,
      })),
    }
  })
  return { body: { data, next: null } }
}

/** Models are shown even while their usage cannot be read. */
function unlessUnavailable(error: unknown): undefined {
  if (!(error instanceof Unavailable)) throw error
}

function readOrder(sort: string | null) {
  const name = sort?.replace(/^-/, '')
  const valueOf = name === undefined ? undefined : SORTS[name]
  if (name !== undefined && !valueOf) {
    const names = Object.keys(SORTS).join(', ')
    throw wrongQuery('sort', `one of ${names}, with "-" before it for the opposite order`)
  }
  const sign = sort?.startsWith('-') ? -1 : 1
  return (models: readonly Model[], lately: Lately | undefined): readonly Model[] => {
    if (!valueOf) return models
    const valued = models.map((model) => [valueOf(model, recentOf(lately, model)), model] as const)
    return valued
      .toSorted(([one], [other]) => sign * (one < other ? -1 : Number(one > other)))
      .map(([, model]) => model)
  }
}

async function latelyOf(usage: UsageIndex, now: number): Promise<Lately> {
  const from = now - DAY_MS
  const query = {
    from,
    to: now,
    rollup: 'hour',
    group: ['model'],
    filters: {},
    metric: 'cost_usd',
    top: Infinity,
    of: 'settled',
    isOneSpan: true,
  } as const
  const [{ result }, failures] = await Promise.all([
    usage.ask('usage', { queries: [query] }),
    usage.ask('failures', from),
  ])
  const [answer] = result
  const cells = answer && 'cells' in answer ? answer.cells : []
  const calls = new Map(cells.map(({ group, calls, cost }) => [group[0]!, { calls, cost }]))
  return { calls, failures: Map.groupBy(failures, ({ model }) => model) }
}

function recentOf(lately: Lately | undefined, { id }: Model): Recent {
  return lately?.calls.get(id) ?? { calls: 0, cost: 0n }
}

function recentView({ calls, cost }: Recent, failures: readonly FailureSum[]) {
  return { calls, cost_usd: usdJson(cost), failures: byClass(failures) }
}

/** Failed requests to vendors by class, the most frequent first. */
function byClass(failures: readonly FailureSum[]): Readonly<Record<string, number>> {
  const sums: Record<string, number> = {}
  for (const { class: name, attempts } of failures) sums[name] = (sums[name] ?? 0) + attempts
  return Object.fromEntries(Object.entries(sums).toSorted(([, one], [, other]) => other - one))
}

/** A model with its deployments and their health. @param model of the present catalog */
function modelView(model: Model, routing: Routing) {
  const [change] = model.priceChanges
  return {
    id: model.id,
    aliases: model.aliases,
    modality: model.modality,
    free_tier: model.freeTier,
    pricing: model.pricing,
    price_version: versionOf(model.prices),
    price_source: model.priceSource,
    next_price_change: change
      ? {
          from: moment(change.from),
          pricing: change.pricing,
          price_version: versionOf(change.prices),
        }
      : null,
    capabilities: model.capabilities ? [...model.capabilities] : null,
    deployments: model.deployments.map((one) =>
      deploymentView(one, routing.healthOf(one).report()),
    ),
  }
}
