import { NotFound, Unavailable } from '../../errors/errors.ts'
import { fallbacksOf, isTooSmall, type Skip } from '../../models/fallbacks.ts'
import type { When } from '../../models/fallback-list.ts'
import { mayUse, unknownModel, type ListChain } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { usdJson, type Pico } from '../../money/money.ts'
import type { FailureSum } from '../../observe/usage/work.ts'
import type { UsageIndex } from '../../observe/usage/usage.ts'
import { checkParameters, readLimit, readValues, wrongQuery } from '../../errors/query.ts'
import { type ModelAnswer, type UnservedAnswer, deploymentView } from './resources/model.ts'
import { type Answer, type AdminRequest, type Routes, needs } from './route.ts'
import { versionOf } from '../../money/prices.ts'
import type { Routing } from '../../models/routing.ts'
import { moment, momentOrNull, second } from './resources/settings.ts'
import type { ProviderAnswer } from './resources/managed.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { manageableOf, optionOf } from '../../gateway/manageable.ts'
import { maskedAddress } from '../../errors/issues.ts'

export const modelRoutes: Routes = {
  '/models': { GET: needs('read', listModels) },
  '/models/unserved': { GET: needs('read', listUnserved) },
  '/models/:id': { GET: needs('read', showModel) },
  '/providers': { GET: needs('read', listProviders) },
}

const PARAMETERS = new Set(['q', 'vendor', 'used', 'sort', 'limit', 'after'])
/** The longest time of `?used=`, in days. */
const MAX_DAYS = 366
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

/** Lists the vendors: those in force, and those that were set up and are left out. */
async function listProviders({ gateway, query }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set())
  const { runtime, managed } = gateway
  const { usage, routing, catalog } = runtime
  const now = Date.now()
  const from = now - DAY_MS
  const lately =
    usage &&
    (await Promise.all([
      callsOf(usage, { from, to: now, rollup: 'hour' }, 'deployment'),
      usage.ask('failures', from),
    ]).catch(unlessUnavailable))
  const models = catalog.at().all()
  const data = await Promise.all(
    providerNames(gateway).map(async (name): Promise<ProviderAnswer> => {
      const entry = managed.sections.providers[name]
      const own = models.flatMap(({ id, deployments }) =>
        deployments.filter((one) => one.provider === name).map((one) => ({ model: id, one })),
      )
      const ids = new Set(own.map(({ one }) => one.id))
      const answered = own.flatMap(({ one }) => routing.healthOf(one).report().succeededAt ?? [])
      return {
        name,
        ...(await wayTo(gateway, name)),
        models: new Set(own.map(({ model }) => model)).size,
        last_24h: lately
          ? {
              calls: [...ids].reduce((sum, id) => sum + (lately[0].get(id)?.calls ?? 0), 0),
              failures: byClass(lately[1].filter(({ deployment }) => ids.has(deployment))),
            }
          : null,
        last_success: momentOrNull(answered.length > 0 ? Math.max(...answered) : undefined),
        changed: entry
          ? { at: moment(entry.changed.at), by: entry.changed.by, revision: entry.revision }
          : null,
        left_out: managed.leftOut.get(`providers/${name}`) ?? null,
      }
    }),
  )
  return { body: { data, next: null } }
}

/** Vendors of the configuration, and those that are set up at run time. */
export function providerNames({ loaded, managed }: Gateway): readonly string[] {
  return Object.keys({ ...loaded.config.providers, ...managed.sections.providers })
}

/** The plugin of a vendor, its address and key, and where they are set. */
async function wayTo({ loaded: { config, origins }, managed }: Gateway, name: string) {
  const { use, options } =
    config.providers[name] ?? (managed.sections.providers[name]!.value as ProviderEntry)
  const { from, file, name: variable } = origins.of(['providers', name])
  const plugin = typeof use === 'string' ? await manageableOf('providers', use) : undefined
  const valuesOf = (wanted: string) =>
    plugin?.fields.flatMap(({ kind, name: field }) =>
      kind === wanted ? [optionOf(options, field)] : [],
    ) ?? []
  const address = [...valuesOf('address'), optionOf(options, 'baseURL')].find(
    (value) => typeof value === 'string',
  )
  const secrets = valuesOf('secret')
  const isSet = secrets.some((value) => value !== undefined)
  return {
    use: typeof use === 'string' ? use : 'own plugin',
    address: address === undefined ? null : maskedAddress(address),
    from: config.providers[name] ? from : 'managed',
    where: variable ?? file ?? null,
    key: secrets.length === 0 ? null : isSet ? ('set' as const) : ('not set' as const),
  }
}

interface ProviderEntry {
  readonly use?: unknown
  readonly options?: unknown
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
  const vendors = readValues(query, 'vendor')
  const used = await usedOf(usage, query.get('used'))
  const models = catalog
    .at()
    .all()
    .filter(
      ({ id, vendor, aliases }) =>
        (vendors.length === 0 || vendors.includes(vendor)) &&
        (!used || used.has(id)) &&
        [id, ...aliases].some((name) => name.toLowerCase().includes(wanted)),
    )
  const lately = usage && (await latelyOf(usage, Date.now()).catch(unlessUnavailable))
  const page = pageOf(order(models, lately), query)
  const data = page.models.map((model) => answerOf(model, routing, lately))
  return { body: { data, next: page.next } }
}

/** A model by its id or any other of its names. @throws NotFound with the nearest name */
/** Shows a model and its fallbacks; with `?key=` also which of them the key could not use now. */
async function showModel({ runtime, query, id }: AdminRequest): Promise<Answer> {
  checkParameters(query, new Set(['key']))
  const { routing, usage } = runtime
  const catalog = runtime.catalog.at()
  const model = catalog.find(id)
  if (!model) throw unknownModel(catalog, id)
  const lately = usage && (await latelyOf(usage, Date.now()).catch(unlessUnavailable))
  const chain = await chainOf(runtime, query.get('key'))
  const { fallbacks } = runtime.config.routing
  const others = fallbacksOf(model, catalog, fallbacks).map(({ model: other, when }) => {
    return { model: other.id, when, skipped: skippedNow(model, other, when, chain) ?? null }
  })
  return { body: { data: { ...answerOf(model, routing, lately), fallbacks: others } } }

  /** Why a fallback would be passed over, as far as no request is needed for it. */
  function skippedNow(
    original: Model,
    other: Model,
    when: readonly When[],
    of: ListChain | undefined,
  ): Skip | undefined {
    if (of && !mayUse(of, other.id, catalog)) return 'not_allowed'
    if (when.every((one) => isTooSmall(other, one, original, 0))) return 'window'
    return other.deployments.some((one) => routing.healthOf(one).isOpen()) ? undefined : 'out'
  }
}

/** The lists of a key and of its account. @throws NotFound for an unknown key */
async function chainOf(
  { accounts }: AdminRequest['runtime'],
  id: string | null,
): Promise<ListChain | undefined> {
  if (id === null) return undefined
  const key = await accounts.key(id)
  const account = key && (await accounts.account(key.account))
  if (!account)
    throw new NotFound('not_found', `There is no key ${JSON.stringify(id.slice(0, 100))}.`)
  return { key, account }
}

function answerOf(model: Model, routing: Routing, lately: Lately | undefined): ModelAnswer {
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
}

/** The models that `?limit=` and `?after=<id>` select; all of them without `limit`. @throws InvalidRequest */
function pageOf(models: readonly Model[], query: URLSearchParams) {
  const after = query.get('after')
  const from = after === null ? 0 : models.findIndex(({ id }) => id === after) + 1
  if (after !== null && from === 0) throw wrongQuery('after', 'the id of a model of this list')
  const limit = query.get('limit')
  const rest = models.slice(from, limit === null ? undefined : from + readLimit(limit))
  const next = from + rest.length < models.length ? rest.at(-1)!.id : null
  return { models: rest, next }
}

/** The ids of models that were called in the last days, such as `30d`; undefined for all. @throws InvalidRequest */
async function usedOf(
  usage: UsageIndex | undefined,
  text: string | null,
): Promise<ReadonlySet<string> | undefined> {
  if (text === null) return undefined
  const days = /^([1-9]\d{0,2})d$/.exec(text)?.[1]
  if (days === undefined || Number(days) > MAX_DAYS)
    throw wrongQuery('used', `a number of days from 1d to ${MAX_DAYS}d`)
  if (!usage) throw wrongQuery('used', 'nothing, because "log.usage" is off')
  const now = Date.now()
  const calls = await callsOf(usage, { from: now - Number(days) * DAY_MS, to: now, rollup: 'day' })
  return new Set(calls.keys())
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
  const [calls, failures] = await Promise.all([
    callsOf(usage, { from, to: now, rollup: 'hour' }),
    usage.ask('failures', from),
  ])
  return { calls, failures: Map.groupBy(failures, ({ model }) => model) }
}

/** Calls and their cost by model, or by deployment. */
async function callsOf(
  usage: UsageIndex,
  span: { readonly from: number; readonly to: number; readonly rollup: 'hour' | 'day' },
  by: 'model' | 'deployment' = 'model',
): Promise<ReadonlyMap<string, Recent>> {
  const query = {
    ...span,
    group: [by],
    filters: {},
    metric: 'cost_usd',
    top: Infinity,
    of: 'settled',
    isOneSpan: true,
  } as const
  const { result } = await usage.ask('usage', { queries: [query] })
  const [answer] = result
  const cells = answer && 'cells' in answer ? answer.cells : []
  return new Map(cells.map(({ group, calls, cost }) => [group[0]!, { calls, cost }]))
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

/** A model with its deployments and their health. @param model the model of the present catalog */
function modelView(model: Model, routing: Routing) {
  const [change] = model.priceChanges
  return {
    id: model.id,
    name: model.name ?? null,
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
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    created: model.created ?? null,
    deprecated_on: model.deprecatedOn ?? null,
    wildcard: model.wildcard ?? null,
    deployments: model.deployments.map((one) =>
      deploymentView(one, routing.healthOf(one).report()),
    ),
  }
}
