/**
 * Finds, imports, checks and sets up plugins. Plugins are trusted code; a problem is reported at the setting that
 * names the plugin.
 */
import { existsSync, realpathSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, extname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Catalog, type Deployment } from '../models/catalog.ts'
import type { Config } from '../config/config.ts'
import { isObject } from '../errors/checks.ts'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { methodProblem, withDerivedMethods } from '../guard/check.ts'
import { inTime } from '../lifetime/scope.ts'
import type { NamedSink } from '../observe/sinks/work.ts'
import { didYouMean, redact, show, toConfigIssues, type Source } from '../errors/issues.ts'
import {
  API_VERSION,
  type Closable,
  type Guard,
  type GuardHost,
  type GuardPlugin,
  type Host,
  type Provider,
  type ProviderPlugin,
  type SearchEngine,
  type SearchPlugin,
  type SinkHost,
  type SinkPlugin,
} from '../plugin.ts'
import { providePluginImports } from './plugin-imports.ts'

/** Where a plugin may come from, and the host it gets. */
export interface PluginSource<H = Host> {
  /** Folder of the configuration file, for relative paths and packages. */
  readonly directory: string
  /** Dotted paths of secret settings. Without it, no text of the options is shown in errors. */
  readonly secrets?: ReadonlySet<string>
  readonly createHost: (instance: string) => H
  /** Learns which file or folder holds the code of an instance. */
  readonly own?: (path: string, instance: string) => void
  /** Takes over what was set up, to close it. */
  readonly opened?: (plugin: OpenedPlugin) => void
}

/** A plugin that was set up. */
export interface OpenedPlugin {
  /** Names section, instance and plugin, for messages. */
  readonly label: string
  readonly instance: Closable
}

/** A plugin and the provider it has set up. */
export interface LoadedProvider {
  readonly provider: Provider
  readonly plugin: ProviderPlugin
}

type AnyPlugin = ProviderPlugin | SearchPlugin | GuardPlugin | SinkPlugin
type Kind = AnyPlugin['kind']

/** The differences between kinds of plugins. */
interface KindOfPlugin {
  /** Folder of the built-in plugins. */
  readonly folder: URL
  /** The function that defines one. */
  readonly define: string
  /** The name of the result of `setup`. */
  readonly noun: string
}

/** One instance of a plugin, as configured. */
interface PluginSettings {
  readonly use: unknown
  readonly options: unknown
}

/** Where the code of a plugin is. */
interface PluginCode {
  readonly url: URL
  /** Absolute path of the folder that belongs to the plugin. */
  readonly folder: string
  readonly builtIn?: true
}

interface Manifest {
  readonly exports?: unknown
  readonly main?: string
}

const KINDS: Readonly<Record<Kind, KindOfPlugin>> = {
  provider: {
    folder: new URL('../../providers/', import.meta.url),
    define: 'defineProvider',
    noun: 'provider',
  },
  search: {
    folder: new URL('../../plugins/search/', import.meta.url),
    define: 'defineSearch',
    noun: 'search engine',
  },
  guard: {
    folder: new URL('../../plugins/guards/', import.meta.url),
    define: 'defineGuard',
    noun: 'guard',
  },
  sink: {
    folder: new URL('../../plugins/sinks/', import.meta.url),
    define: 'defineSink',
    noun: 'sink',
  },
}
/** Built-in plugins are TypeScript in a checkout and JavaScript in a build, like this file. */
const EXTENSION = extname(import.meta.url)

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
  const { plugin, made } = await load<ProviderPlugin>('provider', path, settings, origin, instance)
  const { deploymentOptions = plugin.deploymentOptions } = made
  return { plugin: deploymentOptions ? { ...plugin, deploymentOptions } : plugin, provider: made }
}

/** Loads a search engine. @throws ConfigError with issues at `search.engines.<name>.use` and `.options` */
export async function loadSearch(
  name: string,
  settings: PluginSettings,
  origin: PluginSource,
): Promise<{ readonly engine: SearchEngine; readonly plugin: SearchPlugin }> {
  const path = ['search', 'engines', name]
  const { plugin, made } = await load<SearchPlugin>('search', path, settings, origin, name)
  return { engine: made, plugin }
}

/**
 * Loads a guard.
 * @param index position under `guards.use`; an instance without a name has that of its plugin
 * @throws ConfigError with issues at `guards.use.<index>.use` and `.options`
 */
export async function loadGuard(
  index: number,
  settings: Config['guards']['use'][number],
  origin: PluginSource<GuardHost>,
): Promise<{ readonly guard: Guard; readonly plugin: GuardPlugin }> {
  const path = ['guards', 'use', String(index)]
  const { plugin, made } = await load<GuardPlugin>('guard', path, settings, origin, settings.name)
  const use = [...path, 'use'].join('.')
  const answers: unknown = made.enforces
  if (!Array.isArray(answers) || (made.execution !== 'local' && made.execution !== 'remote')) {
    const message = `expected ${show(plugin.name)} to make a guard with "enforces" and an "execution"`
    fail(use, message)
  }
  const problem = methodProblem(made)
  if (problem) fail(use, `${show(plugin.name)}: ${problem}`)
  return { guard: withDerivedMethods(made), plugin }
}

/** A plugin that is not set up. */
export type FoundPlugin = (
  | { readonly kind: 'provider'; readonly plugin: ProviderPlugin }
  | { readonly kind: 'search'; readonly plugin: SearchPlugin }
  | { readonly kind: 'guard'; readonly plugin: GuardPlugin }
) & {
  /** Absolute path of its module. */
  readonly file: string
}

/**
 * Finds a plugin of any kind and does not set it up.
 * @param use a path, the name of a built-in plugin, or a package
 * @throws ConfigError with an issue at `plugin`
 */
export async function findPlugin(use: string, directory: string): Promise<FoundPlugin> {
  const kinds = Object.keys(KINDS) as Kind[]
  const places = await Promise.allSettled(
    kinds.map((kind) => locate(kind, use, directory, 'plugin')),
  )
  const found = places.find((place) => place.status === 'fulfilled')
  if (!found) throw (places[0] as PromiseRejectedResult).reason
  const code = found.value
  if (!code.builtIn) providePluginImports()
  const plugin = await importPlugin(code.url, 'plugin')
  const { kind } = (isObject(plugin) ? plugin : {}) as { kind?: Kind }
  const known = kind !== undefined && Object.hasOwn(KINDS, kind) ? kind : 'provider'
  checkPlugin(known, plugin, 'plugin')
  return { kind: known, plugin, file: fileURLToPath(code.url) } as FoundPlugin
}

/** Names of the built-in plugins, by kind. */
export async function builtInPlugins(): Promise<readonly (readonly [kind: Kind, name: string])[]> {
  const lists = (Object.keys(KINDS) as Kind[]).map(async (kind) =>
    (await builtInNames(kind)).map((name) => [kind, name] as const),
  )
  return (await Promise.all(lists)).flat()
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
  const { plugin, made } = await load<SinkPlugin>('sink', path, settings, origin, settings.name)
  const { takes, send } = made as unknown as Partial<Record<string, unknown>>
  if (!Array.isArray(takes) || typeof send !== 'function') {
    fail([...path, 'use'].join('.'), `expected ${show(plugin.name)} to make "takes" and "send"`)
  }
  return { name: settings.name ?? plugin.name, sink: made, index }
}

/**
 * The catalog with the options of its deployments, as the plugins' `deploymentOptions` return them.
 * @param plugins by instance name
 * @throws ConfigError with issues at `models.<id>.deployments.<index>.options`
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
  const { bare, wildcards } = catalog.naming
  const checked = await Promise.all(
    Object.entries(wildcards).map(async ([id, wildcard]) => {
      const checks = wildcard.deployments?.map((deployment, i) => check(deployment, id, i))
      const deployments = checks && (await Promise.all(checks))
      return [id, deployments ? { ...wildcard, deployments } : wildcard] as const
    }),
  )
  if (issues.length > 0) throw broken(issues)
  return new Catalog(models, { bare, wildcards: Object.fromEntries(checked) })
}

/**
 * Finds the plugin of an instance, checks it, validates the options, and sets it up within a time limit.
 * @param instance its name; that of the plugin when absent
 */
async function load<P extends AnyPlugin>(
  kind: P['kind'],
  path: readonly string[],
  { use, options }: PluginSettings,
  { directory, secrets, createHost, own, opened }: PluginSource<Parameters<P['setup']>[1]>,
  instance?: string,
): Promise<{ readonly plugin: P; readonly made: Awaited<ReturnType<P['setup']>> }> {
  const where = [...path, 'use'].join('.')
  const code = typeof use === 'string' ? await locate(kind, use, directory, where) : undefined
  if (code && !code.builtIn) providePluginImports()
  const found = code ? await importPlugin(code.url, where) : use
  checkPlugin(kind, found, where)
  const plugin = found as P
  for (const place of placesOf(code, directory)) own?.(place, instance ?? plugin.name)
  const source: Source = { path: [...path, 'options'], value: options, ...(secrets && { secrets }) }
  const result = await plugin.options['~standard'].validate(options)
  if (result.issues) throw broken(toConfigIssues(result.issues, source, plugin.options))
  try {
    const setup = async () =>
      plugin.setup(result.value, createHost(instance ?? plugin.name) as never)
    const made = await madeBy<Closable>(setup(), KINDS[kind].noun)
    opened?.({ label: `${path.join('.')} (plugin ${show(plugin.name)})`, instance: made })
    return { plugin, made: made as never }
  } catch (error) {
    const reason = redact(messageOf(error), source)
    return fail(where, `the plugin ${show(plugin.name)} could not be set up: ${reason}`)
  }
}

/** Files and folders with the code of a plugin. One that is a value of the configuration is beside it. */
function placesOf(code: PluginCode | undefined, directory: string): string[] {
  if (!code) return [directory]
  // Node.js names files in stacks by their real paths.
  const file = realpathSync(code.url)
  return [file, existsSync(code.folder) ? realpathSync(code.folder) : code.folder]
}

async function importPlugin(url: URL, path: string): Promise<unknown> {
  try {
    const module = (await import(/* @vite-ignore */ url.href)) as { default?: unknown }
    const plugin = module.default
    // A CommonJS module that was compiled from an ES module has its default export one level down.
    return isObject(plugin) && 'default' in plugin ? plugin.default : plugin
  } catch (error) {
    const file = fileURLToPath(url)
    if (codeOf(error) === 'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING') {
      const message =
        `${file} is TypeScript, which Node.js does not run below node_modules; ` +
        'a published plugin has to ship JavaScript'
      return fail(path, message)
    }
    return fail(path, `${file} could not be loaded: ${messageOf(error)}`)
  }
}

/** Tries a path, a built-in plugin, and a package, in this order. */
async function locate(
  kind: Kind,
  use: string,
  directory: string,
  path: string,
): Promise<PluginCode> {
  const { folder } = KINDS[kind]
  if (/^(?:\.{1,2}[/\\]|file:)/.test(use) || isAbsolute(use)) {
    const url = use.startsWith('file:') ? new URL(use) : pathToFileURL(resolve(directory, use))
    if (!existsSync(url)) return fail(path, `there is no file ${decodeURI(url.pathname)}`)
    return { url, folder: dirname(fileURLToPath(url)) }
  }
  const builtIn = new URL(use + EXTENSION, folder)
  if (/^[a-z\d][a-z\d-]*$/.test(use) && existsSync(builtIn)) {
    return { url: builtIn, folder: fileURLToPath(new URL(use, folder)), builtIn: true }
  }
  const packages = [use, `sluicegate-${kind}-${use}`]
  for (const name of packages) {
    const manifest = findManifest(name, directory)
    if (manifest === undefined) continue
    return { url: await packageEntry(manifest, path), folder: dirname(manifest) }
  }
  const names = await builtInNames(kind)
  const message =
    `there is no plugin ${show(use)}: not built in (${didYouMean(use, names)}), ` +
    `no package ${packages.join(' or ')} for ${directory}; ` +
    `a file is named by its path, such as "./${use}.ts"`
  return fail(path, message)
}

async function builtInNames(kind: Kind): Promise<string[]> {
  return (await readdir(KINDS[kind].folder).catch(() => []))
    .filter((name) => name.endsWith(EXTENSION))
    .map((name) => name.slice(0, -EXTENSION.length))
}

/** Path of a package's `package.json`, as an import from the folder would find it. */
function findManifest(name: string, directory: string): string | undefined {
  try {
    return findPackageJSON(name, pathToFileURL(`${directory}/`))
  } catch {
    return undefined
  }
}

/** The main module of a package, by Node's rules for imports. */
async function packageEntry(manifest: string, path: string): Promise<URL> {
  try {
    const { exports, main } = JSON.parse(await readFile(manifest, 'utf8')) as Manifest
    return pathToFileURL(resolve(dirname(manifest), exported(exports) ?? main ?? 'index.js'))
  } catch (error) {
    return fail(path, `${manifest} cannot be read: ${messageOf(error)}`)
  }
}

/** The target of `.` in a package's `exports` (Node.js, Modules: Packages, conditional exports). */
function exported(target: unknown): string | undefined {
  if (typeof target === 'string') return target
  if (!isObject(target)) return undefined
  for (const [condition, inner] of Object.entries(target)) {
    if (!['.', 'node', 'import', 'module-sync', 'default'].includes(condition)) continue
    const found = exported(inner)
    if (found !== undefined) return found
  }
  return undefined
}

/** @throws ConfigError for anything but a plugin of this kind */
function checkPlugin(kind: Kind, plugin: unknown, path: string): void {
  if (!isObject(plugin) || !('kind' in plugin)) {
    const expected = `a default export made with ${KINDS[kind].define}`
    fail(path, `expected ${expected}, found ${show(plugin)}`)
  }
  const { kind: found, api, name, options, setup } = plugin as Partial<Record<string, unknown>>
  if (found !== kind) fail(path, `expected a ${kind} plugin, found kind ${show(found)}`)
  if (api !== API_VERSION) {
    const version = `${show(name)} is written for interface version ${String(api)}`
    fail(path, `${version}; this gateway knows version ${API_VERSION}`)
  }
  const validates = options as AnyPlugin['options'] | undefined
  if (typeof setup !== 'function' || typeof validates?.['~standard']?.validate !== 'function') {
    fail(path, `expected ${show(name)} to have "options" (a Standard Schema) and "setup"`)
  }
}

async function madeBy<Made extends Closable>(setup: Promise<Made>, noun: string): Promise<Made> {
  const made = await inTime(setup, SETUP_LIMIT_SECONDS * 1000, () => {
    // The instance is not awaited any more, but must be closed if it gets ready.
    setup.then((late) => late.close?.()).catch(() => {})
    return new Error(`it took more than ${SETUP_LIMIT_SECONDS} seconds`)
  })
  if (!isObject(made)) throw new Error(`expected a ${noun}, found ${show(made)}`)
  return made
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function codeOf(error: unknown): unknown {
  return isObject(error) && 'code' in error ? error.code : undefined
}

function broken(issues: readonly ConfigIssue[]): ConfigError {
  return new ConfigError('the configuration', issues)
}

/** Refuses a setting. @param path dotted @throws ConfigError */
export function fail(path: string, message: string): never {
  throw broken([{ path, message }])
}
