/** Validates a configuration: its sections, its models with what price lists say of them, and what depends on several of them. */
import * as v from 'valibot'
import { VENDORS } from '../../providers/vendors.ts'
import { ConfigError, GatewayError, type ConfigIssue } from '../errors/errors.ts'
import { didYouMean, show, toConfigIssues } from '../errors/issues.ts'
import {
  hasPrices,
  isWildcard,
  misplacedChanges,
  misplacedTiers,
  missingPrices,
  wildcardSchema,
  type ModelEntry,
  type Unpriced,
  type WildcardEntry,
  type WrittenEntry,
} from '../models/entry.ts'
import { buildCatalog } from '../models/catalog.ts'
import { fallbackIssues } from '../models/fallbacks.ts'
import { isRaw, listedFor } from '../models/layers.ts'
import type { PriceList } from '../models/price-list.ts'
import { firstFactor, type Factor } from '../models/markup.ts'
import { withVendorPrices } from '../models/vendor-prices.ts'
import { expandWildcard, pricedFrom, unlistedPricing, wildcardIssues } from '../models/wildcards.ts'
import type { resolveEnvironment } from './environment.ts'
import { configSchema, type Settings } from './schema.ts'
import { providerOf } from '../models/offers.ts'
import { clashes } from '../models/names.ts'
import { preparePolicy, readPolicy } from '../policy/policy.ts'

type Listed = PriceList['models']

/** A validated configuration with all defaults: durations in seconds, sizes in bytes. */
export type ValidConfig = Omit<Settings, 'models'> & {
  /** The models by id, those of wildcards included. */
  readonly models: Readonly<Record<string, ModelEntry>>
  /** The wildcards by id, `vendor/*`. */
  readonly wildcards?: Readonly<Record<string, WildcardEntry>>
  /** What is written and not served. */
  readonly unpriced?: readonly Unpriced[]
}

/** @param label names the file @throws ConfigError with all issues */
export async function validate(
  resolved: ReturnType<typeof resolveEnvironment>,
  label: string,
  listed: Listed,
): Promise<ValidConfig> {
  const { secrets, overrides } = resolved
  const issues = [...resolved.issues]
  const { value, wildcards } = takeWildcards(withAdmin(resolved.value))
  const source = { value, secrets }
  const result = v.safeParse(configSchema, value)
  if (!result.success) {
    const reported = new Set(issues.map(({ path }) => path))
    const schemaIssues = toConfigIssues(result.issues, { path: [], ...source }, configSchema)
    issues.push(...schemaIssues.filter(({ path }) => !reported.has(path)))
  }
  const valid: Record<string, WildcardEntry> = {}
  for (const [id, entry] of Object.entries(wildcards)) {
    const read = v.safeParse(wildcardSchema, entry)
    if (read.success) valid[id] = read.output
    else {
      const own = { path: ['models', id], value: entry, secrets }
      issues.push(...toConfigIssues(read.issues, own, wildcardSchema))
    }
  }
  let config: ValidConfig | undefined
  if (result.success && issues.length === 0) {
    issues.push(...misplacedMarkups(result.output.models, valid))
    config = withWildcards(result.output, valid, listed)
    issues.push(...checkWildcards(config), ...(await crossCheck(config)), ...checkFallbacks(config))
  }
  if (config && issues.length === 0) return config
  const traced = issues.map(({ path, message }) => {
    const variable = overrides.get(path)
    return { path, message: variable ? `${message} (set by ${variable})` : message }
  })
  throw new ConfigError(label, traced)
}

/** `admin: false` is short for an admin API that is not enabled. */
function withAdmin(value: unknown): unknown {
  return isRaw(value) && value.admin === false ? { ...value, admin: { enabled: false } } : value
}

/** Takes wildcards out of the models: they have a schema of their own. */
function takeWildcards(value: unknown): {
  readonly value: unknown
  readonly wildcards: Readonly<Record<string, unknown>>
} {
  if (!isRaw(value) || !isRaw(value.models)) return { value, wildcards: {} }
  const { false: models = [], true: wildcards = [] } = Object.groupBy(
    Object.entries(value.models),
    ([id]) => (isWildcard(id) ? 'true' : 'false'),
  )
  return {
    value: { ...value, models: Object.fromEntries(models) },
    wildcards: Object.fromEntries(wildcards),
  }
}

/** The configuration with the models of its wildcards, with what the price list says of each, and without those that have no price. */
function withWildcards(
  config: Settings,
  wildcards: Readonly<Record<string, WildcardEntry>>,
  listed: Listed,
): ValidConfig {
  const unpriced: Unpriced[] = []
  const own = Object.entries(config.models).flatMap(([id, written]): [string, ModelEntry][] => {
    const model = listedFor(id, written, listed)
    const entry =
      written.pricing !== undefined || !model
        ? written
        : {
            ...written,
            ...pricedFrom(model, markupOf(config, id, withMarkupOf(written, id, wildcards))),
            ...changesOf(written),
            ...differingMarkups(config, written),
          }
    const needs = missingPrices(entry)
    if (needs.length > 0 || !hasPrices(entry)) {
      if (entry.enabled) unpriced.push({ id, needs })
      return []
    }
    return [[id, model ? { ...entry, listed: model } : entry]]
  })
  const isTaken = (id: string) => Object.hasOwn(config.models, id)
  const priced = Object.fromEntries(
    Object.entries(wildcards).map(([id, wildcard]) => {
      const unlisted = unlistedPricing(id, wildcard, listed, markupOf(config, id, wildcard))
      return [id, { ...wildcard, ...(unlisted && { unlisted }) }]
    }),
  )
  const added = Object.entries(priced)
    .filter(([, { enabled }]) => enabled)
    .flatMap(([id, wildcard]) => {
      const models = expandWildcard(id, wildcard, listed, isTaken, markupOf(config, id, wildcard))
      if (models.length === 0 && !wildcard.unlisted && !wildcard.discover)
        unpriced.push({ id, needs: [] })
      return models
    })
  const factorOf = (provider: string) =>
    Object.hasOwn(config.providers, provider) ? config.providers[provider]!.cost?.factor : undefined
  const models = [...own, ...added].map(
    ([id, entry]) => [id, withVendorPrices(id, entry, listed, factorOf)] as const,
  )
  return {
    ...config,
    models: Object.fromEntries(models),
    ...(Object.keys(priced).length > 0 && { wildcards: priced }),
    ...(unpriced.length > 0 && { unpriced }),
  }
}

/** Changes of prices that an entry has without prices of its own follow those of the list. */
function changesOf({ price_changes }: WrittenEntry) {
  return price_changes && { price_changes }
}

/** The factor of list prices: the first of the entry's, of its first provider, and of `prices`. A wildcard has its own in its models. */
function markupOf(
  { providers, prices }: Settings,
  id: string,
  { markup, deployments }: Pick<WrittenEntry | WildcardEntry, 'markup' | 'deployments'>,
): Factor {
  const provider = firstOf(deployments)?.provider ?? vendorOf(id)
  const own = Object.hasOwn(providers, provider) ? providers[provider]!.markup : undefined
  return firstFactor(markup, own, prices.markup)
}

/** The markups of the providers of an entry that has none itself, where they differ. */
function differingMarkups({ providers, prices }: Settings, { markup, deployments }: WrittenEntry) {
  if (markup !== undefined) return undefined
  const markups = deployments.map(
    ({ provider }) => [provider, providers[provider]?.markup ?? prices.markup] as const,
  )
  return new Set(markups.map(([, factor]) => factor)).size > 1 ? { markups } : undefined
}

/** An entry without a markup of its own has that of the wildcard of its vendor. */
function withMarkupOf(
  { markup, deployments }: WrittenEntry,
  id: string,
  wildcards: Readonly<Record<string, WildcardEntry>>,
) {
  const wildcard = `${vendorOf(id)}/*`
  const own = Object.hasOwn(wildcards, wildcard) ? wildcards[wildcard]!.markup : undefined
  return { markup: markup ?? own, deployments }
}

/** The deployment of the lowest priority; of equal ones the first. */
function firstOf<Deployment extends { readonly priority: number }>(
  deployments: readonly Deployment[] = [],
): Deployment | undefined {
  return deployments.toSorted((a, b) => a.priority - b.priority)[0]
}

const NO_MARKUP =
  'expected none beside "pricing": a markup multiplies the prices of the price list, and these are charged as they are'

function misplacedMarkups(...entries: Readonly<Record<string, WrittenEntry | WildcardEntry>>[]) {
  return entries.flatMap((some) =>
    Object.entries(some).flatMap(([id, { markup, pricing }]) =>
      markup === undefined || pricing === undefined
        ? []
        : [{ path: `models.${id}.markup`, message: NO_MARKUP }],
    ),
  )
}

function checkWildcards({ providers, wildcards = {} }: ValidConfig): ConfigIssue[] {
  const names = Object.keys(providers)
  return Object.entries(wildcards)
    .filter(([, { enabled }]) => enabled)
    .flatMap(([id, entry]) =>
      [
        ...wildcardIssues(id, entry, names),
        ...(entry.unlisted?.vendor_usd !== undefined && !reportsCost(id, entry, providers)
          ? [{ member: 'unpriced', message: NO_AMOUNT }]
          : []),
      ].map(({ member, message }) => ({
        path: ['models', id, ...(member === undefined ? [] : [member])].join('.'),
        message,
      })),
    )
}

const REPORTING = VENDORS.filter((vendor) => vendor.reportsCost)
const NO_AMOUNT = `expected a vendor that reports the cost of an answer: ${REPORTING.map(({ name }) => name).join(', ')}`

/** Whether the provider of a wildcard has the profile of a vendor that reports what an answer has cost. */
function reportsCost(
  id: string,
  entry: WildcardEntry,
  providers: ValidConfig['providers'],
): boolean {
  const options = providers[providerOf(id, entry)]?.options
  const profile = (options as { readonly quirks?: unknown } | undefined)?.quirks
  return REPORTING.some(({ row }) => row === profile)
}

// Checks between the sections of a configuration.

/** Issues between the sections of a configuration that is valid by its schema. */
async function crossCheck(config: ValidConfig): Promise<ConfigIssue[]> {
  const providers = Object.keys(config.providers)
  const models = Object.entries(config.models).filter(([, model]) => model.enabled)
  // Those of a list were checked when it was read.
  const written = models.filter(([, { wildcard }]) => wildcard === undefined)
  return [
    ...clashes(models.map(([id, { aliases }]) => ({ id, aliases }))).map(
      ({ id, index, message }) => ({ path: `models.${id}.aliases.${index}`, message }),
    ),
    ...written.flatMap(([id, { pricing }]) =>
      misplacedTiers(pricing).map(({ index, message }) => ({
        path: `models.${id}.pricing.overrides.${index}.min_prompt_tokens`,
        message,
      })),
    ),
    ...written.flatMap(([id, model]) =>
      misplacedChanges(model).map(({ path, message }) => ({
        path: `models.${id}.${path}`,
        message,
      })),
    ),
    ...models.flatMap(([id, model]) =>
      model.deployments.flatMap(({ provider }, index) => {
        if (providers.includes(provider)) return []
        const path = `models.${id}.deployments.${index}.provider`
        const near = didYouMean(provider, providers)
        return [
          { path, message: `expected the name of a provider, found ${show(provider)}; ${near}` },
        ]
      }),
    ),
    ...checkLists(config),
    ...models.flatMap(([id, model]) => {
      const names = model.deployments.map(({ provider, model }) => `${provider}/${model}`)
      return repeated(names, (index) => `models.${id}.deployments.${index}`)
    }),
    ...checkWorkers(config),
    ...checkLog(config),
    ...checkSearch(config.search),
    ...checkSinks(config),
    ...checkPayments(config),
    ...checkLogin(config),
    ...checkTokens(config.admin),
    ...(await checkSeed(config.seed)),
  ]
}

/** Entries of the price lists of accounts name models, or wildcards, that there are. */
function checkLists({
  prices,
  models,
  wildcards = {},
}: Pick<ValidConfig, 'prices' | 'models' | 'wildcards'>): ConfigIssue[] {
  const ids = [...Object.keys(models), ...Object.keys(wildcards)]
  const vendors = new Set(ids.map(vendorOf))
  return Object.entries(prices.lists).flatMap(([list, { models: entries }]) =>
    Object.entries(entries).flatMap(([id, entry]) => {
      const path = `prices.lists.${list}.models.${id}`
      const isServed = isWildcard(id)
        ? vendors.has(vendorOf(id))
        : ids.includes(id) || ids.includes(`${vendorOf(id)}/*`)
      const unknown = `expected a model that is served, or "vendor/*", found ${show(id)}; ${didYouMean(id, ids)}`
      const tiers = 'pricing' in entry ? misplacedTiers(entry.pricing) : []
      return [
        ...(isServed ? [] : [{ path, message: unknown }]),
        ...tiers.map(({ index, message }) => ({
          path: `${path}.pricing.overrides.${index}.min_prompt_tokens`,
          message,
        })),
      ]
    }),
  )
}

/** Customers come back from the page of the provider, and its webhooks come to the gateway. */
function checkPayments({
  payments,
  server,
}: Pick<ValidConfig, 'payments' | 'server'>): ConfigIssue[] {
  if (!payments || server.publicUrl !== undefined) return []
  const message = 'needs "server.publicUrl", to which customers return and the provider delivers'
  return [{ path: 'payments', message }]
}

function vendorOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}

/** What is wrong with lists of fallbacks. That of a wildcard is for models of any kind, as that of `routing` is. */
function checkFallbacks(config: ValidConfig): ConfigIssue[] {
  const { models, wildcards = {}, names, routing } = config
  // A model that is written and lacks a price is reported elsewhere.
  const unpriced = new Set(config.unpriced?.map(({ id }) => id))
  const lists = [
    ...Object.entries(models).flatMap(([id, { enabled, wildcard, fallbacks }]) =>
      enabled && wildcard === undefined && fallbacks
        ? [{ path: `models.${id}.fallbacks`, id, fallbacks }]
        : [],
    ),
    ...Object.entries(wildcards).flatMap(([id, { enabled, fallbacks }]) =>
      enabled && fallbacks ? [{ path: `models.${id}.fallbacks`, id: '', fallbacks }] : [],
    ),
    ...(routing.fallbacks
      ? [{ path: 'routing.fallbacks', id: '', fallbacks: routing.fallbacks }]
      : []),
  ]
  if (lists.length === 0) return []
  const catalog = buildCatalog(models, names, wildcards)
  return lists.flatMap(({ path, id, fallbacks }) =>
    fallbackIssues(fallbacks, catalog, catalog.get(id))
      .filter(({ index }) => !unpriced.has(fallbacks[index]!.model))
      .map(({ index, message }) => ({ path: `${path}.${index}`, message })),
  )
}

/** Workers share limits and money, which only Redis lets several processes do. */
function checkWorkers({
  server: { workers },
  state: { driver },
}: Pick<Settings, 'server' | 'state'>): ConfigIssue[] {
  if (driver === 'redis' || workers === 1) return []
  const why =
    driver === 'file'
      ? 'the file of a ledger has one owner, and several processes would wait for each other'
      : 'each process would have limits and balances of its own'
  const message = `expected 1 with state.driver ${show(driver)}, found ${show(workers)}: ${why}. Use state.driver "redis" for several workers`
  return [{ path: 'server.workers', message }]
}

/** A request log in Redis is one that gateways share. */
function checkLog({ log: { url }, state: { driver } }: Pick<Settings, 'log' | 'state'>) {
  if (url === undefined || driver === 'redis') return []
  const message = `expected none with state.driver ${show(driver)}: the request log is in files or in memory then, and only gateways that share a state have it in Redis`
  return [{ path: 'log.url', message }]
}

function checkSearch({ default: chosen, engines }: Settings['search']): ConfigIssue[] {
  if (chosen === undefined || Object.hasOwn(engines, chosen)) return []
  const near = didYouMean(chosen, Object.keys(engines))
  const message = `expected the name of a search engine, found ${show(chosen)}; ${near}`
  return [{ path: 'search.default', message }]
}

/** Calls reach sinks as lines of the request log. */
function checkSinks({
  sinks,
  guards,
  log: { requests },
}: Pick<Settings, 'sinks' | 'guards' | 'log'>): ConfigIssue[] {
  if ((sinks.length === 0 && !guards.escalate) || requests) return []
  return [{ path: 'log.requests', message: 'expected true, because sinks get calls from it' }]
}

/** The address of the way back from a provider begins with the public address; members join by a provider that is theirs. */
function checkLogin({ admin, server }: Pick<Settings, 'admin' | 'server'>): ConfigIssue[] {
  const { oidc } = admin.login
  const ofMembers = Object.keys(oidc).filter((name) => oidc[name]!.members)
  const joins = admin.members.join.flatMap(({ provider }, index) => {
    if (ofMembers.includes(provider)) return []
    const path = `admin.members.join.${index}.provider`
    const expected = 'expected a name of admin.login.oidc with members: true'
    return [{ path, message: `${expected}, found ${show(provider)}` }]
  })
  if (Object.keys(oidc).length === 0 || server.publicUrl !== undefined) return joins
  const message = 'is needed for admin.login.oidc: the provider sends browsers back to it'
  return [...joins, { path: 'server.publicUrl', message }]
}

/** A name says in the audit log who it was, so each stands for one token. */
function checkTokens({ token, tokens }: Settings['admin']): ConfigIssue[] {
  const names = ['admin', ...tokens.map((one) => one.name)]
  const secrets = [token, ...tokens.map((one) => one.token)]
  const pathOf = (member: string) => (index: number) =>
    index === 0 ? 'admin.token' : `admin.tokens.${index - 1}.${member}`
  return [
    ...repeated(names, (index) =>
      index === 0 ? 'the name of admin.token' : pathOf('name')(index),
    ),
    ...repeated(secrets, pathOf('token')),
  ]
}

async function checkSeed({ accounts }: Settings['seed']): Promise<ConfigIssue[]> {
  const keys = accounts.flatMap((account, a) =>
    account.keys.map((key, k) => ({ ...key, path: `seed.accounts.${a}.keys.${k}` })),
  )
  const policies: ConfigIssue[] = []
  for (const { policy, path } of keys) {
    policies.push(...(await checkPolicy(policy, `${path}.policy`)))
  }
  const teams = accounts.flatMap((account, a) =>
    account.teams.map(({ id }, t) => ({ id, path: `seed.accounts.${a}.teams.${t}.id` })),
  )
  const accountIds = accounts.map(({ id }) => id)
  const keyIds = keys.map(({ id }) => id)
  return [
    ...repeated(accountIds, (index) => `seed.accounts.${index}.id`),
    ...repeated(
      teams.map(({ id }) => id),
      (index) => teams[index]!.path,
    ),
    ...repeated(keyIds, (index) => `${keys[index]!.path}.id`),
    ...(['sha256', 'secret'] as const).flatMap((member) => {
      const values = keys.map((key) => key[member])
      return repeated(values, (index) => `${keys[index]!.path}.${member}`)
    }),
    ...policies,
  ]
}

async function checkPolicy(policy: unknown, path: string): Promise<ConfigIssue[]> {
  if (policy === undefined) return []
  await preparePolicy(policy)
  try {
    readPolicy(policy, path)
    return []
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    return [{ path: error.param ?? path, message: error.message }]
  }
}

/** Issues for values that occur more than once; undefined may. */
function repeated(
  values: readonly (string | undefined)[],
  pathOf: (index: number) => string,
): ConfigIssue[] {
  return values.flatMap((value, index) => {
    const first = value === undefined ? index : values.indexOf(value)
    return first === index
      ? []
      : [{ path: pathOf(index), message: `is the same as ${pathOf(first)}` }]
  })
}
