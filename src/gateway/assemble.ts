/** Sets up everything that one configuration creates, and closes it again. */
import { extname, isAbsolute, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { ConsolaInstance } from 'consola'
import type { Config, LoadedConfig } from '../config/config.ts'
import { checkProviders, servedModels } from '../config/served.ts'
import { isLinkLocal } from '../errors/addresses.ts'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
import { buildCatalog, type Catalog } from '../models/catalog.ts'
import { withOffers } from '../models/offers.ts'
import { compilePrices } from '../money/prices.ts'
import type { Mask } from '../observe/mask.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { Host, Provider, ProviderPlugin, Telemetry } from '../plugin.ts'
import { Search, type ConfiguredEngine } from '../search/search.ts'
import { createDownloader, type Downloader, isPrivateUrl } from '../upstream/download.ts'
import { Egress, type EgressSettings } from '../upstream/egress.ts'
import { createHost, type ClosableHost, type UpstreamSettings } from '../upstream/host.ts'
import type { Common, Shared } from './shared.ts'
import { packageVersion } from './version.ts'
import {
  checkDeployments,
  loadEach,
  loadPayments,
  loadProvider,
  loadSearch,
  type OpenedPlugin,
  type PluginSource,
  loadGuard,
} from './loader.ts'
import { Sinks } from '../observe/sinks/sinks.ts'
import type { SinkMetrics, Metrics } from '../observe/metrics.ts'
import { startAlone } from '../threads/client.ts'
import type { SinksInit } from './sinks/thread.ts'
import { guardHost, FairSemaphore } from '../guard/host.ts'
import { GuardRegistry, type GuardInstance } from '../guard/plan.ts'
import { fail } from './plugin-code.ts'
import { AnswerCache } from '../answers/cache.ts'
import { isFolder, openStore } from '../answers/drivers.ts'
import type { Faults } from '../observe/faults.ts'

export interface Assembled {
  readonly own: Omit<Runtime, keyof Shared> & Pick<Runtime, 'access' | 'requests'>
  close(): Promise<void>
}

/**
 * Sets up the plugins of a configuration.
 * @throws ConfigError for plugins that cannot be used; those that were set up earlier are closed then
 */
export async function assemble(loaded: LoadedConfig, common: Common): Promise<Assembled> {
  const { config, file, directory, secrets } = loaded
  const download = createDownloader(config.fetch)
  const egress = new Egress(config.egress, loaded.network, common.proxies)
  const opened = new OpenedPlugins(common, download, egress)
  const close = () => opened.close()
  const origin: PluginOrigin = {
    directory,
    secrets,
    own: (path: string, instance: string) => common.faults.own(path, instance),
    opened: (plugin: OpenedPlugin) => opened.add(plugin),
  }
  try {
    const { providers, plugins, builtIn } = await setUpProviders(loaded, origin, opened)
    await common.discovery.begin(config, providers)
    const offered = withOffers(
      config.models,
      config.wildcards ?? {},
      common.discovery.offersOf(config),
    )
    const catalog = await checkDeployments(
      buildCatalog(
        servedModels(offered, providers),
        { ...config.names, lists: config.prices.lists },
        config.wildcards,
      ),
      plugins,
      secrets,
    )
    const engines = await setUpSearch(loaded, origin, opened)
    const hostOfGuard = (name: string, options: unknown, way: EgressSettings | undefined) => {
      egress.note(`guard:${name}`, options, way)
      return opened.host(name, sameLimits(GUARD_SECONDS), way)
    }
    const paymentProvider = await setUpPayments(config, origin, opened)
    for (const [name, { issuer }] of Object.entries(config.admin.login.oidc)) {
      egress.note(`login:${name}`, { issuer }, undefined)
    }
    for (const { name, use, options, egress: way } of config.sinks) {
      egress.note(`sink:${name ?? use}`, options, way)
    }
    const guards = await setUpGuards(config, catalog, origin, hostOfGuard)
    const issues = checkProviders(config, catalog, providers)
    if (issues.length > 0) throw new ConfigError(file, issues)
    warnOfDrainBounds(config.billing, common.log)
    const sinks = opened.first(await openSinks(loaded, common, plugins))
    const answers = opened.first(await openAnswers(config, origin.directory, common))
    const access = config.log.access ? common.access : undefined
    const requests = config.log.requests ? common.requests : undefined
    const search =
      engines.length > 0 ? new Search(engines, config.search.default, common) : undefined
    const privateProviders = privateOnes(config)
    const trustedProviders: ReadonlySet<string> = common.freezesAll ? new Set() : builtIn
    const kinds = { providers, privateProviders, trustedProviders }
    const plugged = { ...kinds, search, guards, paymentProvider, sinks, egress, answers }
    return { own: { config, catalog, ...plugged, download, access, requests }, close }
  } catch (error) {
    await close()
    throw error instanceof ConfigError ? new ConfigError(file, error.issues) : error
  }
}

/** Open plugins of one configuration. Its owner closes it. */
class OpenedPlugins {
  readonly #common: Common
  readonly #download: Downloader
  readonly egress: Egress
  readonly #hosts: ClosableHost[] = []
  readonly #plugins: OpenedPlugin[] = []
  /** Closed before plugins, in the reverse order. */
  readonly #first: { close(): Promise<void> }[] = []

  constructor(common: Common, download: Downloader, egress: Egress) {
    this.#common = common
    this.egress = egress
    this.#download = download
  }

  /** A host for one plugin, whose secrets are replaced in logs until it is closed. */
  host(
    name: string,
    settings: UpstreamSettings,
    way: EgressSettings | undefined,
    isManaged = false,
  ): Host {
    const { mask, log } = this.#common
    const owner = {}
    const own = (secrets: readonly string[]) => mask.use(secrets, owner)
    const route = this.egress.route(way, isManaged ? isLinkLocal : undefined, name)
    const host = createHost(name, settings, log, { download: this.#download, mask: own, route })
    const close = () => host.close().finally(() => own([]))
    this.#hosts.push({ ...host, close })
    return host.host
  }

  add(plugin: OpenedPlugin): void {
    this.#plugins.push(plugin)
  }

  /** Registers something to be closed before plugins. @returns it */
  first<One extends { close(): Promise<void> } | undefined>(one: One): One {
    if (one) this.#first.unshift(one)
    return one
  }

  /** Closes everything. Never rejects for a plugin: its error is logged. */
  async close(): Promise<void> {
    for (const one of this.#first) await one.close()
    const results = await Promise.allSettled([
      ...this.#plugins.map(closePlugin),
      ...this.#hosts.map((host) => host.close()),
    ])
    for (const result of results) {
      if (result.status === 'rejected')
        this.#common.log.error('closing a plugin failed', result.reason)
    }
  }
}

/** Where plugins come from, without their host. */
type PluginOrigin = Omit<PluginSource, 'createHost'>

/** Whether an entry was set up at run time: by an administrator, who need not be one of the machine. */
function isManaged({ origins }: LoadedConfig, ...path: string[]): boolean {
  return origins.of(path).from === 'managed'
}

async function setUpProviders(loaded: LoadedConfig, origin: PluginOrigin, opened: OpenedPlugins) {
  const providers = new Map<string, Provider>()
  const plugins = new Map<string, ProviderPlugin>()
  const builtIn = new Set<string>()
  const entries = Object.entries(loaded.config.providers)
  const optionsOf = new Map<string, unknown>()
  await loadEach(entries, async ([name, settings]) => {
    const createHost = (_: string, options: unknown) => {
      optionsOf.set(name, options)
      const managed = isManaged(loaded, 'providers', name)
      return opened.host(name, upstreamSettings(settings), settings.egress, managed)
    }
    const made = await loadProvider(name, settings, { ...origin, createHost })
    providers.set(name, made.provider)
    plugins.set(name, made.plugin)
    if (made.isBuiltIn) builtIn.add(name)
  })
  for (const [name, { egress }] of entries) {
    const { address } = providers.get(name)!
    opened.egress.note(name, address === undefined ? optionsOf.get(name) : { address }, egress)
  }
  return { providers, plugins, builtIn }
}

async function setUpSearch(loaded: LoadedConfig, origin: PluginOrigin, opened: OpenedPlugins) {
  const engines: ConfiguredEngine[] = []
  await loadEach(Object.entries(loaded.config.search.engines), async ([name, settings]) => {
    const createHost = (_: string, options: unknown) => {
      opened.egress.note(`search:${name}`, options, settings.egress)
      const managed = isManaged(loaded, 'search', 'engines', name)
      return opened.host(name, sameLimits(settings.timeout), settings.egress, managed)
    }
    const { engine, plugin } = await loadSearch(name, settings, { ...origin, createHost })
    const prices = compilePrices({ web_search: settings.price })
    engines.push({
      name,
      use: plugin.name,
      engine,
      prices,
      ...(settings.cost !== undefined && { cost: compilePrices({ web_search: settings.cost }) }),
      timeoutMs: settings.timeout * 1000,
    })
  })
  return engines
}

/** Loads the payment provider, if customers pay. @throws ConfigError */
async function setUpPayments({ payments }: Config, origin: PluginOrigin, opened: OpenedPlugins) {
  if (!payments) return undefined
  const { egress, currency } = payments
  const { directory } = origin
  const createHost = (name: string, options: unknown) => {
    opened.egress.note('payments', options, egress)
    return { ...opened.host(name, sameLimits(PAYMENT_SECONDS), egress), currency, directory }
  }
  return loadPayments(payments, { ...origin, createHost })
}

function openSinks(
  loaded: LoadedConfig,
  common: Common,
  plugins: ReadonlyMap<string, ProviderPlugin>,
) {
  return setUpSinks({
    loaded,
    gatewayId: common.gatewayId,
    telemetry: {
      ...loaded.config.telemetry,
      providers: Object.fromEntries(
        [...plugins].map(([name, plugin]) => {
          const { telemetryName: vendor = plugin.name } = plugin
          return [name, vendor ?? name]
        }),
      ),
      addresses: addressesOf(loaded.config),
      version: packageVersion(),
    },
    log: common.log,
    metrics: common.metrics.sinks,
    mask: maskOfSinks(common.mask),
  })
}

/** Masks the secrets of each sink, in place of its earlier ones. */
function maskOfSinks(mask: Mask) {
  const owners = new Map<string, object>()
  return (sink: string, secrets: readonly string[]) => {
    const owner = owners.get(sink) ?? {}
    owners.set(sink, owner)
    mask.use(secrets, owner)
  }
}

const CLOSE_SECONDS = 5

/** Closes a plugin. One that hangs is abandoned. @throws Error that names it */
async function closePlugin({ label, instance }: OpenedPlugin): Promise<void> {
  const closing = (async () => instance.close?.())()
  try {
    const late = () => new Error(`it took more than ${CLOSE_SECONDS} seconds`)
    await inTime(closing, CLOSE_SECONDS * 1000, late)
  } catch (cause) {
    throw new Error(`${label} could not be closed`, { cause })
  }
}

function privateOnes({ providers }: Config): ReadonlySet<string> {
  const isPrivate = ({ options }: ProviderSettings) =>
    Object.values(options).some((value) => typeof value === 'string' && isPrivateUrl(value))
  const entries = Object.entries(providers).filter(([, settings]) => isPrivate(settings))
  return new Set(entries.map(([name]) => name))
}

/** Addresses of providers that have one in the configuration. */
function addressesOf({ providers }: Config) {
  const entries = Object.entries(providers).flatMap(([name, { options }]) => {
    const texts = Object.values(options).filter((value) => typeof value === 'string')
    const url = texts.map((text) => URL.parse(text)).find((one) => one && one.host !== '')
    if (!url) return []
    const port = Number(url.port) || (url.protocol === 'http:' ? 80 : 443)
    return [[name, { host: url.hostname, port }] as const]
  })
  return Object.fromEntries(entries)
}

type ProviderSettings = Config['providers'][string]

function upstreamSettings(settings: ProviderSettings) {
  return {
    timeoutMs: settings.timeout * 1000,
    firstPartTimeoutMs: settings.firstPartTimeout * 1000,
    idleTimeoutMs: settings.idleTimeout * 1000,
    connections: settings.connections,
    bounds: { answer: settings.maxAnswer, stream: settings.maxStream },
  }
}

const GUARD_SECONDS = 30
const PAYMENT_SECONDS = 10

function sameLimits(seconds: number): UpstreamSettings {
  const ms = seconds * 1000
  return { timeoutMs: ms, firstPartTimeoutMs: ms, idleTimeoutMs: ms, connections: 64 }
}

// Sets up the sinks of a configuration in a thread of their own.

interface SinkSetup {
  readonly loaded: LoadedConfig
  readonly gatewayId: string
  readonly telemetry: Telemetry
  readonly log: ConsolaInstance
  readonly metrics: SinkMetrics
  readonly mask: (sink: string, secrets: readonly string[]) => void
}

/** @throws ConfigError with issues at `sinks.<index>.use` and `.options` */
async function setUpSinks(setup: SinkSetup): Promise<Sinks | undefined> {
  const { loaded, gatewayId, telemetry, log, metrics, mask } = setup
  const { config, file, directory, secrets } = loaded
  const configured = withEscalation(config, log)
  if (configured.length === 0) return undefined
  const issues = configured.flatMap(({ options }, index) => notPlain(options, index))
  if (issues.length > 0) throw new ConfigError(file, issues)
  const init = {
    sinks: configured,
    directory,
    secrets: [...secrets],
    egress: config.egress,
    network: loaded.network,
    managed: [...configured.keys()].filter((index) => isManaged(loaded, 'sinks', String(index))),
    gateway: gatewayId,
    telemetry,
  }
  const script = new URL(`./sinks/thread${extname(import.meta.url)}`, import.meta.url)
  const start = (entered: Int32Array, without: readonly number[]) =>
    startAlone('sinks', script, { ...init, entered, without } satisfies SinksInit)
  const sinks = new Sinks({ gateway: gatewayId, start, log, metrics, mask })
  try {
    const issues = await sinks.open()
    if (issues.length > 0) throw new ConfigError(file, issues)
    return sinks
  } catch (error) {
    await sinks.close()
    throw error
  }
}

/** The sinks of a configuration, with the receiver of escalations, unless a sink posts the same events to the same address. */
function withEscalation(
  { sinks, guards: { escalate } }: Config,
  log: ConsolaInstance,
): Config['sinks'] {
  if (!escalate) return sinks
  const { url, headers, secret } = escalate
  const isSame = ({ use, options }: Config['sinks'][number]) => {
    const { url: address, headers: own = {}, events } = options
    const takes = !Array.isArray(events) || events.includes('guard.escalation')
    return use === 'webhook' && takes && address === url && isDeepStrictEqual(own, headers)
  }
  if (sinks.some(isSame)) {
    log.info(
      'guards.escalate is left out: a webhook among the sinks posts escalations to its address',
    )
    return sinks
  }
  const events = ['guard.escalation']
  const options = { url, headers, events, ...(secret !== undefined && { secret }) }
  return [...sinks, { use: 'webhook', name: 'escalate', options }]
}

/** Issues of options that are not plain data: a thread gets only data. */
function notPlain(options: object, index: number): ConfigIssue[] {
  try {
    structuredClone(options)
    return []
  } catch {
    const message = 'expected plain data, because a sink runs in a thread of its own'
    return [{ path: `sinks.${index}.options`, message }]
  }
}

/** Most models that guards ask at the same time. */
const MOST_QUESTIONS = 64

/** Loads the guards of a configuration. @param hostOf makes hosts of ordinary plugins. @throws ConfigError with all problems */
async function setUpGuards(
  config: Config,
  catalog: Catalog,
  origin: PluginOrigin,
  hostOf: (name: string, options: unknown, way: EgressSettings | undefined) => Host,
): Promise<GuardRegistry> {
  const made: GuardInstance[] = []
  const places = new FairSemaphore(MOST_QUESTIONS)
  await loadEach(config.guards.use.entries(), async ([index, settings]) => {
    const { applies, mode, billing, egress, mask } = settings
    const createHost = (name: string, options: unknown) =>
      guardHost(hostOf(name, options, egress), places)
    const { guard, plugin, load } = await loadGuard(index, settings, { ...origin, createHost })
    const name = settings.name ?? plugin.name
    const isTaken = made.some((one) => one.name === name)
    made.push({ name, plugin: plugin.name, guard, load, applies, mode, billing, mask })
    if (mask !== 'off' && !guard.locate)
      fail(
        `guards.use.${index}.mask`,
        `the guard ${name} cannot mask: it has no "locate". Leave "mask" out.`,
      )
    if (isTaken)
      fail(`guards.use.${index}.name`, `there is a guard ${JSON.stringify(name)} already`)
  })
  return new GuardRegistry(made, (id) => catalog.get(id)?.modality === 'chat')
}

/** Tells of settings of the last release that have no effect any more. */
function warnOfDrainBounds(billing: Config['billing'], log: Common['log']): void {
  for (const name of ['drainSeconds', 'drainBytes'] as const) {
    if (billing[name] === undefined) continue
    log.warn(
      `billing.${name} has no effect: with "drain" an answer is read on to its report. Remove it.`,
    )
  }
}

// Opens the storage of stored answers that a configuration wants.

const MIB = 1_048_576
const SAME_REDIS =
  'answers.store is the Redis of the ledger: it removes nothing, and full it stops calls. Take another one.'
/** Most bytes of stored answers in memory, and in a folder, where the configuration does not say it. */
const MOST_IN_MEMORY = 64 * MIB
const MOST_IN_FOLDER = 1024 * MIB

/**
 * @param directory the directory of the configuration file
 * @returns undefined where the configuration has no section `answers`
 * @throws ConfigError for a driver that cannot be used
 */
async function openAnswers(
  { answers, state }: Pick<Config, 'answers' | 'state'>,
  directory: string,
  { faults, metrics }: { readonly faults: Pick<Faults, 'warn'>; readonly metrics: Metrics },
): Promise<AnswerCache | undefined> {
  if (!answers) return undefined
  const { store, maxEntry, ttl, timeout } = answers
  const kept = isFolder(store.driver) && typeof store.base === 'string' ? store.base : undefined
  const mostBytes = answers.maxSize ?? (kept === undefined ? MOST_IN_MEMORY : MOST_IN_FOLDER)
  if (store.driver === 'redis' && state.driver === 'redis' && store.url === state.url) {
    faults.warn('answers.ledger_redis', SAME_REDIS)
  }
  try {
    return new AnswerCache({
      storage: await openStore(store, directory, mostBytes),
      driver: store.driver,
      folder: kept === undefined || isAbsolute(kept) ? kept : resolve(directory, kept),
      mostEntryBytes: maxEntry,
      mostBytes,
      timeoutMs: timeout * 1000,
      maxTtl: ttl,
      metrics: metrics.calls,
      warn: (message) => faults.warn('answers.store', message),
    })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new ConfigError('answers', [{ path: 'answers.store', message }])
  }
}
