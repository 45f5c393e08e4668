/** Sets up plugins. They are trusted code; a problem is reported at the setting that names the plugin. */
import { Catalog, type Deployment } from '../models/catalog.ts'
import type { Config } from '../config/config.ts'
import { isObject } from '../errors/checks.ts'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { methodProblem, withDerivedMethods } from '../guard/check.ts'
import { inTime } from '../lifetime/scope.ts'
import type { NamedSink } from '../observe/sinks/work.ts'
import { redact, show, toConfigIssues, type Source } from '../errors/issues.ts'
import {
  type Closable,
  type Guard,
  type GuardHost,
  type GuardPlugin,
  type Host,
  type Payments,
  type PaymentsHost,
  type PaymentsPlugin,
  type Provider,
  type ProviderPlugin,
  type SearchEngine,
  type SearchPlugin,
  type SinkHost,
  type SinkPlugin,
} from '../plugin.ts'
import {
  broken,
  checkPlugin,
  fail,
  importPlugin,
  KINDS,
  locate,
  messageOf,
  placesOf,
  type AnyPlugin,
} from './plugin-code.ts'
import { providePluginImports } from './plugin-imports.ts'

export interface PluginSource<H = Host> {
  /** Folder of the configuration file, for relative paths and packages. */
  readonly directory: string
  /** Dotted paths of secret settings. Without it, no text of the options is shown in errors. */
  readonly secrets?: ReadonlySet<string>
  readonly createHost: (instance: string, options: unknown) => H
  /** Receives the file or folder with the code of an instance. */
  readonly own?: (path: string, instance: string) => void
  /** Takes over a set-up plugin, to close it. */
  readonly opened?: (plugin: OpenedPlugin) => void
}

export interface OpenedPlugin {
  /** Section, instance and plugin, for messages. */
  readonly label: string
  readonly instance: Closable
}

export interface LoadedProvider {
  readonly provider: Provider
  readonly plugin: ProviderPlugin
  /** Whether its code belongs to this package. */
  readonly isBuiltIn: boolean
}

interface PluginSettings {
  readonly use: unknown
  readonly options: unknown
}

/** A plugin whose options are valid, and whether its code belongs to this package. */
interface Prepared<P extends AnyPlugin> {
  readonly plugin: P
  readonly options: unknown
  readonly isBuiltIn: boolean
  /** @throws ConfigError when the plugin cannot be set up */
  readonly setUp: () => Promise<Awaited<ReturnType<P['setup']>>>
}

/** A guard of this package that is set up on first use: it tells beforehand what it enforces. */
interface DeferredGuard {
  outline?(options: unknown): Pick<Guard, 'enforces' | 'execution'>
}

/** The time that others' plugins get to be set up. One of this package waits for its own code only, which a busy machine loads slowly. */
const SETUP_LIMIT_SECONDS = 10

/** Loads one entry after the other. @throws ConfigError with the issues of all of them, not only the first */
export async function loadEach<Entry>(
  entries: Iterable<Entry>,
  load: (entry: Entry) => Promise<void>,
): Promise<void> {
  const issues: ConfigIssue[] = []
  for (const entry of entries) {
    try {
      await load(entry)
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      issues.push(...error.issues)
    }
  }
  if (issues.length > 0) throw broken(issues)
}

/** Loads a provider. @throws ConfigError with issues at `providers.<instance>.use` and `.options` */
export async function loadProvider(
  instance: string,
  settings: PluginSettings,
  origin: PluginSource,
): Promise<LoadedProvider> {
  const path = ['providers', instance]
  const { plugin, setUp, isBuiltIn } = await prepare<ProviderPlugin>(
    'provider',
    path,
    settings,
    origin,
    instance,
  )
  const made = await setUp()
  const { deploymentOptions = plugin.deploymentOptions } = made
  const whole = deploymentOptions ? { ...plugin, deploymentOptions } : plugin
  return { plugin: whole, provider: made, isBuiltIn }
}

/** Loads a search engine. @throws ConfigError with issues at `search.engines.<name>.use` and `.options` */
export async function loadSearch(
  name: string,
  settings: PluginSettings,
  origin: PluginSource,
): Promise<{ readonly engine: SearchEngine; readonly plugin: SearchPlugin }> {
  const path = ['search', 'engines', name]
  const { plugin, setUp } = await prepare<SearchPlugin>('search', path, settings, origin, name)
  return { engine: await setUp(), plugin }
}

/** A guard, and its plugin. */
interface LoadedGuard {
  readonly guard: Guard
  readonly plugin: GuardPlugin
  /** Completes a guard that is set up on first use. */
  readonly load?: () => Promise<void>
}

/**
 * Loads a guard. One of this package that tells what it enforces is set up on first use.
 * @param index position under `guards.use`; an instance without a name has that of its plugin
 * @throws ConfigError with issues at `guards.use.<index>.use` and `.options`
 */
export async function loadGuard(
  index: number,
  settings: Config['guards']['use'][number],
  origin: PluginSource<GuardHost>,
): Promise<LoadedGuard> {
  const path = ['guards', 'use', String(index)]
  const prepared = await prepare<GuardPlugin>('guard', path, settings, origin, settings.name)
  const { plugin, options, isBuiltIn } = prepared
  const setUp = async () => {
    const made = await prepared.setUp()
    checkGuard(made, plugin, [...path, 'use'].join('.'))
    return withDerivedMethods(made)
  }
  const outline = isBuiltIn ? (plugin as DeferredGuard).outline?.(options) : undefined
  return outline ? { plugin, ...deferred(outline, setUp) } : { plugin, guard: await setUp() }
}

/** @throws ConfigError for a guard that cannot be asked. @param path dotted */
function checkGuard(guard: Guard, { name }: GuardPlugin, path: string): void {
  const answers: unknown = guard.enforces
  if (!Array.isArray(answers) || (guard.execution !== 'local' && guard.execution !== 'remote')) {
    fail(path, `expected ${show(name)} to make a guard with "enforces" and an "execution"`)
  }
  const problem = methodProblem(guard)
  if (problem) fail(path, `${show(name)}: ${problem}`)
}

/** A guard that gets its methods when it is loaded. Until then it only says which sides it reads: both. */
function deferred(
  outline: Pick<Guard, 'enforces' | 'execution'>,
  setUp: () => Promise<Guard>,
): Required<Pick<LoadedGuard, 'guard' | 'load'>> {
  const absent = () => {
    throw new Error('the guard is asked before it is loaded')
  }
  const methods = { checkInput: absent, checkOutput: absent, streamOutput: absent }
  const guard: Guard = { ...outline, ...methods }
  let loading: Promise<void> | undefined
  const load = async () => {
    try {
      await (loading ??= setUp().then((made) => void Object.assign(guard, made)))
    } catch (error) {
      loading = undefined
      throw error
    }
  }
  return { guard, load }
}

/**
 * Loads a sink.
 * @param index position under `sinks`; an instance without a name has that of its plugin
 * @throws ConfigError with issues at `sinks.<index>.use` and `.options`
 */
export async function loadSink(
  index: number,
  settings: Config['sinks'][number],
  origin: PluginSource<SinkHost>,
): Promise<NamedSink> {
  const path = ['sinks', String(index)]
  const { plugin, setUp } = await prepare<SinkPlugin>('sink', path, settings, origin, settings.name)
  const made = await setUp()
  const { takes, send }: { readonly [Name in keyof typeof made]?: unknown } = made
  if (!Array.isArray(takes) || typeof send !== 'function') {
    fail([...path, 'use'].join('.'), `expected ${show(plugin.name)} to make "takes" and "send"`)
  }
  return { name: settings.name ?? plugin.name, sink: made, index }
}

/** Loads the payment provider. @throws ConfigError with issues at `payments.use` and `payments.options` */
export async function loadPayments(
  settings: PluginSettings,
  origin: PluginSource<PaymentsHost>,
): Promise<{ readonly name: string; readonly provider: Payments }> {
  const { plugin, setUp } = await prepare<PaymentsPlugin>(
    'payments',
    ['payments'],
    settings,
    origin,
  )
  const provider = await setUp()
  const methods: readonly unknown[] = [provider.checkout, provider.read, provider.find]
  if (methods.some((method) => typeof method !== 'function')) {
    fail('payments.use', `expected ${show(plugin.name)} to make "checkout", "read" and "find"`)
  }
  return { name: plugin.name, provider }
}

/**
 * The catalog with the options of its deployments, as the plugins' `deploymentOptions` return them.
 * @param plugins the plugins by instance name. @throws ConfigError with issues at `models.<id>.deployments.<index>.options`
 */
export async function checkDeployments(
  catalog: Catalog,
  plugins: ReadonlyMap<string, ProviderPlugin>,
  secrets?: ReadonlySet<string>,
): Promise<Catalog> {
  const issues: ConfigIssue[] = []
  const check = async <D extends Pick<Deployment, 'provider' | 'options'>>(
    deployment: D,
    model: string,
    index: number,
  ) => {
    const path = ['models', model, 'deployments', String(index), 'options']
    const plugin = plugins.get(deployment.provider)
    if (!plugin) return deployment
    const { options } = deployment
    if (!plugin.deploymentOptions) {
      const [name] = Object.keys(options)
      if (name === undefined) return deployment
      const message = `unknown key; the plugin "${plugin.name}" takes no options for a deployment`
      issues.push({ path: [...path, name].join('.'), message })
      return deployment
    }
    const schema = plugin.deploymentOptions
    const result = await schema['~standard'].validate(options)
    if (!result.issues) return { ...deployment, options: result.value }
    const source = { path, value: options, ...(secrets && { secrets }) }
    issues.push(...toConfigIssues(result.issues, source, schema))
    return deployment
  }
  const models = await Promise.all(
    catalog.all().map(async (model) => {
      const checks = model.deployments.map((deployment, i) => check(deployment, model.id, i))
      return { ...model, deployments: await Promise.all(checks) }
    }),
  )
  const { wildcards, ...names } = catalog.naming
  const checked = await Promise.all(
    Object.entries(wildcards).map(async ([id, wildcard]) => {
      const checks = wildcard.deployments?.map((deployment, i) => check(deployment, id, i))
      const deployments = checks && (await Promise.all(checks))
      return [id, deployments ? { ...wildcard, deployments } : wildcard] as const
    }),
  )
  if (issues.length > 0) throw broken(issues)
  return new Catalog(models, { ...names, wildcards: Object.fromEntries(checked) })
}

/**
 * Finds the plugin of an instance, checks it, and validates the options. It is set up within a time limit.
 * @param instance its name; that of the plugin when absent
 */
async function prepare<P extends AnyPlugin>(
  kind: P['kind'],
  path: readonly string[],
  { use, options }: PluginSettings,
  { directory, secrets, createHost, own, opened }: PluginSource<Parameters<P['setup']>[1]>,
  instance?: string,
): Promise<Prepared<P>> {
  const where = [...path, 'use'].join('.')
  const code = typeof use === 'string' ? await locate(kind, use, directory, where) : undefined
  if (code && !code.builtIn) providePluginImports()
  const value = code ? await importPlugin(code.url, where) : use
  checkPlugin(kind, value, where)
  const plugin = value as P
  for (const place of placesOf(code, directory)) own?.(place, instance ?? plugin.name)
  const source: Source = { path: [...path, 'options'], value: options, ...(secrets && { secrets }) }
  const result = await plugin.options['~standard'].validate(options)
  if (result.issues) throw broken(toConfigIssues(result.issues, source, plugin.options))
  const name = instance ?? plugin.name
  const setUp = async () => {
    try {
      const setup = async () => plugin.setup(result.value, createHost(name, result.value) as never)
      const made = await (code?.builtIn ? setup() : inLimit<Closable>(setup()))
      if (!isObject(made)) throw new Error(`expected a ${KINDS[kind].noun}, found ${show(made)}`)
      opened?.({ label: `${path.join('.')} (plugin ${show(plugin.name)})`, instance: made })
      return made as never
    } catch (error) {
      const reason = redact(messageOf(error), source)
      return fail(where, `the plugin ${show(plugin.name)} could not be set up: ${reason}`)
    }
  }
  return { plugin, options: result.value, isBuiltIn: code?.builtIn === true, setUp }
}

function inLimit<Made extends Closable>(setup: Promise<Made>): Promise<Made> {
  return inTime(setup, SETUP_LIMIT_SECONDS * 1000, () => {
    // The instance is no longer awaited, but must be closed if it gets ready.
    setup.then((late) => late.close?.()).catch(() => {})
    return new Error(`it took more than ${SETUP_LIMIT_SECONDS} seconds`)
  })
}
