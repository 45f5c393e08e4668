/** Sets up everything that one configuration creates, and closes it again. */
import type { LoadedConfig } from '../config/config.ts'
import { checkProviders, servedModels } from '../config/served.ts'
import { ConfigError } from '../errors/errors.ts'
import { Escalations } from '../guard/escalations.ts'
import { inTime } from '../lifetime/scope.ts'
import { buildCatalog } from '../models/catalog.ts'
import { compilePrices } from '../money/prices.ts'
import type { Mask } from '../observe/mask.ts'
import type { Sinks } from '../observe/sinks/sinks.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import type { Provider, ProviderPlugin } from '../plugin.ts'
import { Search, type ConfiguredEngine } from '../search/search.ts'
import { isPrivateUrl } from '../upstream/addresses.ts'
import { createDownloader } from '../upstream/download.ts'
import { createHost, type ClosableHost, type UpstreamSettings } from '../upstream/host.ts'
import { setUpGuards } from './guard-setup.ts'
import type { Common, Shared } from './shared.ts'
import { setUpSinks } from './sinks/set-up.ts'
import { packageVersion } from './version.ts'
import {
  checkDeployments,
  loadEach,
  loadProvider,
  loadSearch,
  type OpenedPlugin,
} from './loader.ts'

/** Everything that one configuration creates. */
export interface Assembled {
  readonly own: Omit<Runtime, keyof Shared> & Pick<Runtime, 'access' | 'requests'>
  close(): Promise<void>
}

/**
 * Sets up the plugins of a configuration.
 * @throws ConfigError for plugins that cannot be used; those that were set up before are closed then
 */
export async function assemble(loaded: LoadedConfig, common: Common): Promise<Assembled> {
  const { config, file } = loaded
  const { log } = common
  const hosts: ClosableHost[] = []
  const opened: OpenedPlugin[] = []
  const providers = new Map<string, Provider>()
  const engines: ConfiguredEngine[] = []
  const { escalate } = config.guards
  const escalations = escalate && new Escalations(escalate, (message) => log.warn(message))
  let sinks: Sinks | undefined
  const close = async () => {
    await sinks?.close()
    await escalations?.close()
    const results = await Promise.allSettled([
      ...opened.map(closePlugin),
      ...hosts.map((host) => host.close()),
    ])
    for (const result of results) {
      if (result.status === 'rejected') log.error('closing a plugin failed', result.reason)
    }
  }
  const fetch = createDownloader(config.fetch)
  const ownHost = (name: string, settings: UpstreamSettings) => {
    const owner = {}
    const mask = (secrets: readonly string[]) => common.mask.use(secrets, owner)
    const owned = createHost(name, settings, log, fetch, mask)
    const close = () => owned.close().finally(() => mask([]))
    hosts.push({ ...owned, close })
    return owned.host
  }
  const { directory, secrets } = loaded
  const origin = {
    directory,
    secrets,
    own: (path: string, instance: string) => common.faults.own(path, instance),
    opened: (plugin: OpenedPlugin) => void opened.push(plugin),
  }
  try {
    const plugins = new Map<string, ProviderPlugin>()
    await loadEach(Object.entries(config.providers), async ([name, settings]) => {
      const createHost = () => ownHost(name, upstreamSettings(settings))
      const made = await loadProvider(name, settings, { ...origin, createHost })
      providers.set(name, made.provider)
      plugins.set(name, made.plugin)
    })
    const catalog = await checkDeployments(
      buildCatalog(servedModels(config.models, providers), config.names.bare, config.wildcards),
      plugins,
      secrets,
    )
    await loadEach(Object.entries(config.search.engines), async ([name, settings]) => {
      const createHost = () => ownHost(name, sameLimits(settings.timeout))
      const { engine, plugin } = await loadSearch(name, settings, { ...origin, createHost })
      const prices = compilePrices({ web_search: settings.price })
      engines.push({ name, use: plugin.name, engine, prices, timeoutMs: settings.timeout * 1000 })
    })
    const createGuardHost = (name: string) => ownHost(name, sameLimits(GUARD_SECONDS))
    const guards = await setUpGuards(config, catalog, { ...origin, createHost: createGuardHost })
    const issues = checkProviders(config, catalog, providers)
    if (issues.length > 0) throw new ConfigError(file, issues)
    sinks = await setUpSinks({
      loaded,
      gatewayId: common.gatewayId,
      telemetry: {
        ...config.telemetry,
        providers: Object.fromEntries([...plugins].map(([name, plugin]) => [name, plugin.name])),
        version: packageVersion(),
      },
      log,
      metrics: common.metrics.sinks,
      mask: maskOfSinks(common.mask),
    })
    const access = config.log.access ? common.access : undefined
    const requests = config.log.requests ? common.requests : undefined
    const search =
      engines.length > 0 ? new Search(engines, config.search.default, common) : undefined
    const privateProviders = privateOnes(config)
    const plugged = { providers, privateProviders, search, guards, escalations }
    return { own: { config, catalog, ...plugged, download: fetch, access, requests, sinks }, close }
  } catch (error) {
    await close()
    throw error instanceof ConfigError ? new ConfigError(file, error.issues) : error
  }
}

/** Each sink replaces its own secrets. */
function maskOfSinks(mask: Mask) {
  const owners = new Map<string, object>()
  return (sink: string, secrets: readonly string[]) => {
    const owner = owners.get(sink) ?? {}
    owners.set(sink, owner)
    mask.use(secrets, owner)
  }
}

/** For a plugin to release what it has acquired. */
const CLOSE_SECONDS = 5

/** Closes a plugin, which may hang: it is left behind then. @throws Error that names it */
async function closePlugin({ label, instance }: OpenedPlugin): Promise<void> {
  const closing = (async () => instance.close?.())()
  try {
    const late = () => new Error(`it took more than ${CLOSE_SECONDS} seconds`)
    await inTime(closing, CLOSE_SECONDS * 1000, late)
  } catch (cause) {
    throw new Error(`${label} could not be closed`, { cause })
  }
}

/** Providers with an option that is an address inside the operator's network. */
function privateOnes({ providers }: LoadedConfig['config']): ReadonlySet<string> {
  const isPrivate = ({ options }: ProviderSettings) =>
    Object.values(options).some((value) => typeof value === 'string' && isPrivateUrl(value))
  const found = Object.entries(providers).filter(([, settings]) => isPrivate(settings))
  return new Set(found.map(([name]) => name))
}

type ProviderSettings = LoadedConfig['config']['providers'][string]

function upstreamSettings(settings: ProviderSettings) {
  return {
    timeoutMs: settings.timeout * 1000,
    firstPartTimeoutMs: settings.firstPartTimeout * 1000,
    idleTimeoutMs: settings.idleTimeout * 1000,
    connections: settings.connections,
    bounds: { answer: settings.maxAnswer, stream: settings.maxStream },
  }
}

/** Upper bound: a guard has shorter deadlines of its own. */
const GUARD_SECONDS = 30

function sameLimits(seconds: number): UpstreamSettings {
  const ms = seconds * 1000
  return { timeoutMs: ms, firstPartTimeoutMs: ms, idleTimeoutMs: ms, connections: 64 }
}
