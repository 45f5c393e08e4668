/**
 * The model catalog: models, their prices, and the deployments that serve them. Clients see and pay for models; a
 * deployment is one way to serve a model and is never shown to them.
 */
import { LRUCache } from 'lru-cache'
import {
  compilePrices,
  plainPricing,
  PRICE_NAMES,
  pricesUpTo,
  type Prices,
  type Pricing,
} from '../money/prices.ts'
import { Unavailable } from '../errors/errors.ts'
import { nearest } from '../errors/nearest.ts'
import { atMost } from '../lifetime/cache.ts'
import type { DeploymentLimits } from '../lifetime/scope.ts'
import { atPricesOf, type AccountPrices } from './account-prices.ts'
import type { Capability } from './capabilities.ts'
import {
  hasPrices,
  modalityOf,
  type ListedModel,
  type Modality,
  type ModelCache,
  type ModelDefaults,
  type ModelEntry,
  type WildcardEntry,
  type WrittenEntry,
} from './entry.ts'
import type { Fallback } from './fallback-list.ts'
import { isAllowed, Names, type Meaning } from './names.ts'
import { coveredBy, type PricedWildcard } from './wildcards.ts'

/** One way to serve a model: a provider instance and the name the upstream knows the model by. */
export interface Deployment {
  /** `<provider>/<model>` */
  readonly id: string
  readonly provider: string
  readonly model: string
  /** Share of calls among deployments of the same priority, above 0. */
  readonly weight: number
  /** Deployments with lower numbers are tried first. */
  readonly priority: number
  /** It is passed to the provider with every request. */
  readonly options: Readonly<Record<string, unknown>>
  /** Time-outs; when absent, those of the provider apply. */
  readonly limits?: DeploymentLimits
  /** What its vendor is paid: the object of the model's prices where they are equal. Absent where it is unknown. */
  readonly cost?: Prices
  /** Later prices of its vendor, ascending. */
  readonly costChanges?: readonly { readonly from: number; readonly prices: Prices }[]
}

/** Prices that apply to a model from a later moment on. */
interface PriceChange {
  /** The first moment of these prices, ms since epoch by the clock of the store. */
  readonly from: number
  /** Plain decimal strings of USD per unit. */
  readonly pricing: Pricing
  readonly prices: Prices
}

/** A model that clients can use. */
export interface Model {
  /** `<vendor>/<model>` */
  readonly id: string
  /** What people call it. */
  readonly name?: string
  readonly description?: string
  /** Seconds since epoch; absent where it is not known. */
  readonly created?: number
  readonly vendor: string
  /** What metrics call it: its id, or the wildcard that covers a name which no list has. */
  readonly label: string
  /** Other names that clients may ask for. */
  readonly aliases: readonly string[]
  readonly modality: Modality
  readonly freeTier: boolean
  /** Plain decimal strings of USD per unit. */
  readonly pricing: Pricing
  readonly prices: Prices
  /** Later prices, ascending. Those of a catalog {@link Catalog.at a moment} are in the future of it. */
  readonly priceChanges: readonly PriceChange[]
  /** It is undefined where the entry says nothing; `lacks` (`capabilities.ts`) tells what is refused. */
  readonly capabilities: ReadonlySet<Capability> | undefined
  /** Where the prices come from. */
  readonly priceSource: NonNullable<ModelEntry['price_source']>
  /** What the price list says of it. */
  readonly listed?: ListedModel
  /** The markups of its providers where they differ. */
  readonly markups?: readonly (readonly [provider: string, factor: string])[]
  /** The wildcard that it comes from, such as `vendor/*`. */
  readonly wildcard?: string
  /** A day, after which its vendor may no longer offer it. */
  readonly deprecatedOn?: string
  /** Tokens. */
  readonly contextLength?: number
  /** Tokens. */
  readonly maxOutputTokens?: number
  /** Parameters of a chat that apply where a request does not say them. */
  readonly defaults?: ModelDefaults
  /** Whether equal calls get stored answers; absent where the key alone says it. */
  readonly cache?: ModelCache
  /** Models that answer where this one cannot; absent where those of all models apply. */
  readonly fallbacks?: readonly Fallback[]
  readonly deployments: readonly Deployment[]
}

/** How clients may call models. */
interface Naming {
  /** Whether clients may leave out the vendor of a name. */
  readonly bare: boolean
  /** Vendors that are preferred where several have a model of the same name, the best first. */
  readonly prefer?: readonly string[]
  /** Wildcards with prices, by id: they serve names that are not in the catalog. */
  readonly wildcards: Readonly<Record<string, PricedWildcard>>
  /** Price lists of accounts, by name. */
  readonly lists?: Readonly<Record<string, AccountPrices>>
}

/** The model that a name means, and what the name asks for beside it. */
interface Resolution {
  readonly model: Model
  /** The name asks for reasoning. */
  readonly thinks: boolean
}

/** Why a name means no model: several are called so, or the one that is called so is not free. */
interface Miss {
  readonly candidates: readonly string[]
  /** The id of a model that was asked for with `:free`, and costs something. */
  readonly charged?: string
}

/** Models that wildcards serve and that are remembered. */
const MAX_COVERED = 1000
/** Names other than ids whose meaning is remembered. */
const MAX_RESOLVED = 1000
/** Longer names get no suggestion, which bounds the time. */
const MAX_SUGGESTED = 200
/** Catalogs of different moments that are kept. Calls enter by the clock of the store, so that two moments may be in use at once. */
const KEPT_MOMENTS = 4

/**
 * The catalog of a validated configuration, without models that are disabled or have no price.
 * @param names how clients may call models
 * @param wildcards the wildcards by id; those without prices have no further effect
 */
export function buildCatalog(
  models: Readonly<Record<string, WrittenEntry | ModelEntry>>,
  names: Omit<Naming, 'wildcards'> = { bare: true },
  wildcards: Readonly<Record<string, WildcardEntry>> = {},
): Catalog {
  const enabled = Object.entries(models).flatMap(([id, entry]) =>
    entry.enabled && hasPrices(entry) ? [toModel(id, entry)] : [],
  )
  const priced = Object.entries(wildcards).flatMap(([id, entry]) => {
    const pricing = entry.unlisted ?? (entry.unpriced === undefined ? entry.pricing : undefined)
    return entry.enabled && pricing ? [[id, { ...entry, pricing }] as const] : []
  })
  return new Catalog(enabled, { ...names, wildcards: Object.fromEntries(priced) })
}

/** The models that clients can use. */
export class Catalog {
  readonly naming: Naming
  readonly #models: readonly Model[]
  readonly #free: readonly Model[]
  readonly #offered: readonly Model[]
  readonly #byId: ReadonlyMap<string, Model>
  /** It is made when a name that is no id is first asked for. */
  #names: Names | undefined
  readonly #resolved = new LRUCache<string, Resolution | Miss>(atMost(MAX_RESOLVED))
  /** All moments at which a price changes, ascending. */
  readonly #changes: readonly number[]
  /** Ids that lists of models mean by other names. */
  readonly #allowed = new WeakMap<readonly string[], ReadonlySet<string>>()
  readonly #moments = new LRUCache<number, Catalog>({ max: KEPT_MOMENTS })
  readonly #covered = new LRUCache<string, Model>(atMost(MAX_COVERED))
  /** The catalogs of the price lists of accounts, by name. */
  readonly #lists = new Map<string, Catalog>()

  /** The price list of accounts whose prices it has. */
  readonly #list: AccountPrices | undefined

  /** @param names the names of the same models, where they are known @param list gives models that a wildcard covers their prices */
  constructor(models: readonly Model[], naming: Naming, names?: Names, list?: AccountPrices) {
    this.#list = list
    this.#models = models.toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const changes = this.#models.flatMap(({ priceChanges, deployments }) =>
      [...priceChanges, ...deployments.flatMap(({ costChanges = [] }) => costChanges)].map(
        ({ from }) => from,
      ),
    )
    this.#changes = [...new Set(changes)].toSorted((a, b) => a - b)
    this.#free = this.#models.filter((model) => model.freeTier)
    this.#offered = this.#models.filter((model) => !isRetired(model))
    this.#byId = new Map(this.#models.map((model) => [model.id, model]))
    this.naming = naming
    this.#names = names
  }

  /**
   * The catalog with the prices of a moment: the same one until a price changes.
   * @param now ms since epoch; a call has that of the store
   */
  at(now: number = Date.now()): Catalog {
    const since = this.#changes.findLast((from) => from <= now)
    if (since === undefined) return this
    let then = this.#moments.get(since)
    if (!then) {
      const models = this.#models.map((model) => modelAt(model, since))
      this.#moments.set(since, (then = new Catalog(models, this.naming, this.#namesOfAll)))
    }
    return then
  }

  get #namesOfAll(): Names {
    return (this.#names ??= new Names(this.#models, this.naming))
  }

  /** The names of the price lists of accounts. */
  get listNames(): readonly string[] {
    return Object.keys(this.naming.lists ?? {})
  }

  /** The catalog with the prices of a list of accounts. @throws Unavailable for a list that is not configured any more: no other price was agreed */
  withList(name: string): Catalog {
    const { lists = {} } = this.naming
    if (!Object.hasOwn(lists, name)) {
      throw new Unavailable(
        'service_unavailable',
        'The price list of this account is not configured.',
      )
    }
    const list = lists[name]!
    let own = this.#lists.get(name)
    if (!own) {
      const models = this.#models.map((model) => atPricesOf(list, model))
      this.#lists.set(name, (own = new Catalog(models, this.naming, this.#namesOfAll, list)))
    }
    return own
  }

  /** The model of an id, also of one that only a wildcard covers; undefined if there is none. */
  get(id: string): Model | undefined {
    return this.#byId.get(id) ?? this.#coveredModel(id)
  }

  /** The model that a client means: by its id, by another of its names (`names.ts`), or by a name that a wildcard covers. */
  find(name: string): Model | undefined {
    return this.resolve(name)?.model
  }

  /** The same, with what the name asks for beside it. */
  resolve(name: string): Resolution | undefined {
    const model = this.#byId.get(name)
    if (model) return { model, thinks: false }
    const result = this.#resolve(name)
    return 'model' in result ? result : undefined
  }

  /** Why a name means no model. */
  missOf(name: string): Miss {
    const result = this.#resolve(name)
    return 'model' in result ? { candidates: [] } : result
  }

  /** The ids of several models, all of which a name may mean; empty for one or none. */
  candidates(name: string): readonly string[] {
    return this.missOf(name).candidates
  }

  /** Whether a list of models that a key may use has one: by its id, its vendor, or another of its names. */
  allows(models: readonly string[], id: string): boolean {
    if (isAllowed(models, id)) return true
    let ids = this.#allowed.get(models)
    if (!ids) {
      const others = models.filter((one) => !one.endsWith('/*') && !this.#byId.has(one))
      ids = new Set(others.flatMap((one) => this.find(one)?.id ?? []))
      this.#allowed.set(models, ids)
    }
    return ids.has(id)
  }

  /** All models, sorted by id. */
  all(): readonly Model[] {
    return this.#models
  }

  /** The models that clients are told of: without those of wildcards that their vendors have given up. */
  offered(): readonly Model[] {
    return this.#offered
  }

  /** The models that an account can use before its first top-up, sorted by id. */
  freeTier(): readonly Model[] {
    return this.#free
  }

  /**
   * The model id that a client most likely meant: the same name with another vendor, with an extra prefix or without the
   * vendor, or else the nearest spelling of any name. The time is bounded for every input.
   */
  suggest(name: string): string | undefined {
    if (name.length > MAX_SUGGESTED) return undefined
    const other = name.includes('/') ? this.#namesOfAll.otherVendor(name) : undefined
    if (other !== undefined) return other
    const ids = new Map<string, string>()
    for (const [one, id] of this.#namesOfAll.similar(name)) if (!ids.has(one)) ids.set(one, id)
    // The one that begins like it for longer comes first of two that are equally near.
    const names = [...ids.keys()].map((one) => [shared(one, name), one] as const)
    const sorted = names.toSorted(([a], [b]) => b - a).map(([, one]) => one)
    return ids.get(nearest(name, sorted) ?? '')
  }

  /** What a name means that is no id; remembered, because the same programs ask with the same names. */
  #resolve(name: string): Resolution | Miss {
    let result = this.#resolved.get(name)
    if (!result) {
      const exact = this.#namesOfAll.exactly(name)
      const covered = exact ? undefined : this.#coveredModel(name)
      result = covered
        ? { model: covered, thinks: false }
        : this.#meant(exact ?? this.#namesOfAll.roughly(name))
      // Names that a wildcard covers have a memory of their own.
      if (!covered) this.#resolved.set(name, result)
    }
    return result
  }

  #meant(meaning: Meaning | undefined): Resolution | Miss {
    const { ids, suffixes } = meaning ?? { ids: [], suffixes: [] }
    const model = ids.length === 1 ? this.#byId.get(ids[0]!) : undefined
    if (!model) return { candidates: ids }
    if (suffixes.includes('free') && !costsNothing(model))
      return { candidates: [], charged: model.id }
    return { model, thinks: suffixes.includes('thinking') }
  }

  #coveredModel(name: string): Model | undefined {
    const id = `${name.slice(0, name.indexOf('/'))}/*`
    const { wildcards } = this.naming
    if (!Object.hasOwn(wildcards, id)) return undefined
    let model = this.#covered.get(name)
    if (model) return model
    const entry = coveredBy(id, wildcards[id]!, name)
    if (!entry) return undefined
    model = { ...toModel(name, entry), label: id }
    // Clients choose the names: health and metrics are kept by wildcard, so that they do not grow with them.
    const deployments = model.deployments.map((one) => ({ ...one, id: `${one.provider}/*` }))
    model = { ...model, deployments }
    if (this.#list) model = atPricesOf(this.#list, model)
    this.#covered.set(name, model)
    return model
  }
}

/** Whether the vendor of a model that no person wrote may no longer offer it. It is served as long as the vendor does. */
function isRetired({ wildcard, deprecatedOn }: Model): boolean {
  return (
    wildcard !== undefined && deprecatedOn !== undefined && Date.parse(deprecatedOn) < Date.now()
  )
}

/** Number of letters with which two names begin alike. */
function shared(one: string, other: string): number {
  let at = 0
  while (at < one.length && one[at]?.toLowerCase() === other[at]?.toLowerCase()) at++
  return at
}

/** Whether all prices are 0, those for long prompts too. */
function costsNothing({ prices }: Model): boolean {
  return pricesUpTo(prices, Infinity).every((list) =>
    PRICE_NAMES.every((name) => (list[name] ?? 0n) === 0n),
  )
}

/** The model with the prices of a moment, and the changes after it. */
function modelAt(model: Model, now: number): Model {
  const change = model.priceChanges.findLast(({ from }) => from <= now)
  const deployments = model.deployments.map((deployment) => costAt(deployment, now))
  const isSame = deployments.every((one, index) => one === model.deployments[index])
  const then = isSame ? model : { ...model, deployments }
  if (!change) return then
  const { pricing, prices } = change
  const priceChanges = model.priceChanges.filter(({ from }) => from > now)
  return { ...then, pricing, prices, priceChanges }
}

function costAt(deployment: Deployment, now: number): Deployment {
  const change = deployment.costChanges?.findLast(({ from }) => from <= now)
  if (!change) return deployment
  const costChanges = deployment.costChanges!.filter(({ from }) => from > now)
  return { ...deployment, cost: change.prices, costChanges }
}

function toModel(id: string, entry: ModelEntry): Model {
  const { name, description, created, context_length, max_output_tokens } = entry
  const { listed: listedModel, wildcard, deprecated_on, defaults, fallbacks } = entry
  // What the vendor is paid is the same object where nothing is added to it, so that it is not computed a second time.
  const compiled = new Map<Pricing, Prices>()
  const pricesOf = (pricing: Pricing) => {
    const prices = compiled.get(pricing) ?? compilePrices(pricing)
    compiled.set(pricing, prices)
    return prices
  }
  return {
    id,
    label: id,
    vendor: id.slice(0, id.indexOf('/')),
    aliases: entry.aliases,
    modality: modalityOf(entry),
    freeTier: entry.free_tier,
    pricing: plainPricing(entry.pricing),
    prices: pricesOf(entry.pricing),
    priceChanges: (entry.price_changes ?? []).map(({ from, pricing }) => {
      return { from: Date.parse(from), pricing: plainPricing(pricing), prices: pricesOf(pricing) }
    }),
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(created > 0 && { created }),
    capabilities: entry.capabilities && new Set(entry.capabilities),
    priceSource: entry.price_source ?? { from: 'own' },
    ...(listedModel && { listed: listedModel }),
    ...(entry.markups && { markups: entry.markups }),
    ...(wildcard !== undefined && { wildcard }),
    ...(deprecated_on !== undefined && { deprecatedOn: deprecated_on }),
    ...(context_length === undefined ? {} : { contextLength: context_length }),
    ...(max_output_tokens === undefined ? {} : { maxOutputTokens: max_output_tokens }),
    ...(defaults && { defaults }),
    ...(fallbacks && { fallbacks }),
    ...(entry.cache && { cache: entry.cache }),
    deployments: entry.deployments.map((deployment) => toDeployment(deployment, pricesOf)),
  }
}

function toDeployment(
  { timeout, firstPartTimeout, idleTimeout, vendor, ...all }: ModelEntry['deployments'][number],
  pricesOf: (pricing: Pricing) => Prices,
): Deployment {
  const { cost: _, ...deployment } = all
  const limits = { timeout, firstPartTimeout, idleTimeout }
  const own = Object.values(limits).some((limit) => limit !== undefined)
  const id = `${deployment.provider}/${deployment.model}`
  const costChanges = vendor?.changes.map(({ from, pricing }) => ({
    from: Date.parse(from),
    prices: pricesOf(pricing),
  }))
  return {
    id,
    ...deployment,
    ...(own && { limits }),
    ...(vendor && { cost: pricesOf(vendor.pricing) }),
    ...(costChanges && costChanges.length > 0 && { costChanges }),
  }
}
