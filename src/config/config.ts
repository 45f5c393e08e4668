/**
 * Loads the configuration: finds the file, reads it, applies the environment and validates it.
 * There is one file. Absent members have defaults, and the environment overrides the file.
 */
import { parseYAML, stringifyYAML } from 'confbox/yaml'
import { readFile, stat } from 'node:fs/promises'
import { dirname, extname, join, relative, resolve, sep } from 'node:path'
import type * as v from 'valibot'
import { OVERRIDE, readEnvironment, resolveEnvironment, type Environment } from './environment.ts'
import {
  aliasProblem,
  boundsProblem,
  MAX_FILE_BYTES,
  TOO_DEEP,
  TOO_LARGE,
} from '../errors/bounds.ts'
import { ConfigError } from '../errors/errors.ts'
import type { wildcardSchema } from '../models/entry.ts'
import { isRaw, mergeModels, withDeployments, withListed } from '../models/layers.ts'
import { providersWith, secretPaths, sinksWith, starterWith, type ManagedLayer } from './managed.ts'
import { Origins, type Layer, type Origin } from './origins.ts'
import { readNetwork, type Network } from './network.ts'
import { readPriceFiles, type ListedPrices } from './price-files.ts'
import { configSchema } from './schema.ts'
import { STARTER_FILE } from './starter.ts'
import { withVendors } from './vendors.ts'
import { validate, type ValidConfig } from './validate.ts'

/** A validated configuration with all defaults: durations in seconds, sizes in bytes, paths of `state` absolute. */
export type Config = Readonly<ValidConfig>
/** Limits of request bodies: sizes in bytes, and what else makes a body expensive (`docs/configuration.md#server`). */
export type BodyLimits = Readonly<Config['server']['limits']>

type UserModel = NonNullable<v.InferInput<typeof configSchema>['models']>[string]
/** Members that an entry `vendor/*` has beside those of a model. */
type UserWildcard = Pick<v.InferInput<typeof wildcardSchema>, 'discover' | 'unpriced'>

/** The configuration as the operator writes it. */
export type UserConfig = Omit<v.InferInput<typeof configSchema>, 'admin' | 'models'> & {
  /** `false` is short for `{ enabled: false }`. */
  admin?: v.InferInput<typeof configSchema>['admin'] | false
  /**
   * Entries by model id, or the path of a YAML or JSON file that holds them, relative to this file. Members that an entry
   * leaves out come from the models file, the starter and price lists. `vendor/*` stands for all priced models of a vendor.
   */
  models?: Record<string, Partial<UserModel & UserWildcard>> | string
}

/** The argument of a configuration that is a function. */
export interface ConfigContext {
  /** The environment, `.env` files included. */
  readonly env: Environment
}

/** A configuration, and where it came from. */
export interface LoadedConfig {
  readonly config: Config
  /** Absolute path of the file. */
  readonly file: string
  /** Folder to which relative paths refer: that of the file; for the built-in configuration the working folder. */
  readonly directory: string
  /** Dotted paths of the values that were taken from `${NAME}` and must not be shown. */
  readonly secrets: ReadonlySet<string>
  /** Where each value comes from. */
  readonly origins: Origins
  /** Folders of all files that were read. */
  readonly folders: readonly string[]
  /** Files of certificates that were read. Absolute. */
  readonly certificates: readonly string[]
  /** Proxies of the environment, and the texts of certificates. */
  readonly network: Network
  /** Variables with which secrets of the store are sealed. */
  readonly sealing: SealingVariables
  /** The same files with a managed layer; absent for a configuration that is not of files. @throws ConfigError */
  readonly withManaged?: (layer: ManagedLayer) => Promise<LoadedConfig>
  /** Other folders in which an earlier start, with other settings, may have left a ledger. Absolute. */
  readonly otherDataFolders: readonly string[]
}

/** Values of `SLUICEGATE_SECRET` and `SLUICEGATE_SECRET_PREVIOUS`. */
interface SealingVariables {
  readonly secret?: string
  readonly previous?: string
}

/** Where to look for the configuration. */
export interface LoadOptions {
  /** Path of the file; when absent, the file is searched for. */
  readonly file?: string
  /** Folder where the search starts; by default the working folder. */
  readonly cwd?: string
  readonly env?: Environment
  /** Path of the configuration that is used where there is no other one. Its relative paths refer to `cwd`. */
  readonly builtIn?: string
  /** The data folder, relative to `cwd`. Replaces `SLUICEGATE_DATA` and the folder of the configuration. */
  readonly data?: string
  /** What is listened on, in the place of `server.port` and `server.host`. */
  readonly address?: { readonly port?: number; readonly host?: string }
}

const NAME = 'gateway.config'
/** Endings of files that may be a configuration. */
export const EXTENSIONS: readonly string[] = ['.ts', '.mts', '.js', '.yaml', '.yml', '.json']
/** Name of the variable that chooses the data folder, and the folder's name by default. */
const DATA = 'SLUICEGATE_DATA'
const DATA_FOLDER = 'data'
/** Where the request log is in the data folder. */
const LOG_FOLDER = 'log'
const ARCHIVE_FOLDER = 'archive'
const DATA_EXTENSIONS = ['.yaml', '.yml', '.json']
/** Name of the models file that need not be named. */
const MODELS = 'models'

/** Files that Node.js has loaded itself, with their last change. Its module cache would return the old content after another one. */
const loadedByNode = new Map<string, number>()

/** The files of a configuration, read and not yet merged. */
interface ReadFiles {
  readonly file: string
  readonly label: string
  readonly directory: string
  readonly environment: Environment
  readonly folders: ReadonlySet<string>
  readonly own: unknown
  /** The configuration with the environment applied. */
  readonly resolved: ReturnType<typeof resolveEnvironment>
  readonly starter: unknown
  /** The models file; absent where there is none, or the configuration is no object. */
  readonly models?: { readonly label: string; readonly entries: unknown }
  /** Whether the configuration names the models file in place of entries. */
  readonly isNamed: boolean
}

/** Loads and validates the configuration. @throws ConfigError with all issues */
export async function loadConfig(options: LoadOptions = {}): Promise<LoadedConfig> {
  const files = await readFiles(options)
  return { ...(await merge(files, options)), withManaged: (layer) => merge(files, options, layer) }
}

async function readFiles(options: LoadOptions): Promise<ReadFiles> {
  const { cwd = process.cwd(), env = process.env } = options
  const file = await find(cwd, options)
  const directory = file === options.builtIn ? resolve(cwd) : dirname(file)
  const label = labelOf(file, cwd)
  const environment = await readEnvironment(env, [cwd, dirname(file)])
  const folders = new Set([dirname(file), resolve(cwd)])
  const own = await read(file, label, environment)
  const resolved = resolveEnvironment(own, configSchema, environment)
  const { value } = resolved
  const place = { file, label, directory, environment, folders, own, resolved }
  if (!isRaw(own) || !isRaw(value)) return { ...place, starter: {}, isNamed: false }
  const { models, extends: base } = value
  const starter = base === 'starter' ? await read(STARTER_FILE, base, environment) : {}
  const isNamed = typeof models === 'string'
  const modelsFile = isNamed ? resolve(directory, models) : await modelsBeside(file, options)
  if (modelsFile === undefined) return { ...place, starter, isNamed }
  folders.add(dirname(modelsFile))
  const modelsLabel = labelOf(modelsFile, cwd)
  const entries = await readModels(modelsFile, modelsLabel, environment)
  return { ...place, starter, isNamed, models: { label: modelsLabel, entries } }
}

/** Merges the layers, applies the environment and validates. @throws ConfigError with all issues */
async function merge(
  files: ReadFiles,
  options: LoadOptions,
  managed?: ManagedLayer,
): Promise<LoadedConfig> {
  const { cwd = process.cwd() } = options
  const { file, label, directory, environment, own, starter, models, isNamed } = files
  const folders = new Set(files.folders)
  const written: Origin =
    file === options.builtIn ? { from: 'built-in' } : { from: 'configuration', file: label }
  const layers: Layer[] = [{ origin: written, value: own }]
  let { resolved } = files
  let listed: ListedPrices = { models: {}, origins: new WeakMap() }
  let sinkNames: string[] = []
  if (isRaw(own) && isRaw(resolved.value)) {
    const below = managed ? starterWith(starter, managed) : starter
    const extended = { ...(extendBy(own, below) as Record<string, unknown>) }
    extended.providers = withVendors(extended.providers, environment, label)
    if (managed) {
      extended.providers = providersWith(extended.providers, own.providers, managed, label)
      extended.sinks = sinksWith(own.sinks, managed)
      sinkNames = namesOf(extended.sinks)
    }
    const first = isNamed ? models?.entries : own.models
    const merged = mergeModels(first, models?.entries, (below as UserConfig).models)
    if (models) {
      layers.push({
        origin: { from: 'models', file: models.label },
        value: { models: models.entries },
      })
    }
    if (managed) layers.push(managedLayerOf(managed))
    layers.push({ origin: { from: 'starter' }, value: starter })
    const packaged = !isRaw(resolved.value.prices) || resolved.value.prices.packaged !== false
    const vendors = vendorsOf(merged)
    const isNeeded = (id: string) => vendors.has(vendorOf(id))
    listed = await readPriceFiles(directory, (path) => labelOf(path, cwd), packaged, isNeeded)
    extended.models = withDeployments(withListed(merged, listed.models), extended.providers)
    // A variable that has named the file does not replace its entries.
    const { [`${OVERRIDE}MODELS`]: _, ...others } = environment
    resolved = resolveEnvironment(extended, configSchema, isNamed ? others : environment)
  }

  const config = await validate(resolved, label, listed.models)
  const { network, files: certificates, issues } = await readNetwork(config, directory, environment)
  if (issues.length > 0) throw new ConfigError(label, issues)
  for (const one of certificates) folders.add(dirname(one))
  Object.assign(config.server, options.address)
  const otherDataFolders = placeState(config, file, directory, environment, options)
  const set = variablesOf(resolved, environment, options)
  for (const [index, name] of sinkNames.entries()) {
    if (!managed || !Object.hasOwn(managed.sections.sinks, name)) continue
    set.set(`sinks.${index}`, { from: 'managed', revision: managed.revision })
  }
  const origins = new Origins({ layers, set, models: config.models, listed: listed.origins })
  const secrets = new Set([
    ...resolved.secrets,
    ...(managed ? secretPaths(managed, sinkNames) : []),
  ])
  return {
    config,
    file,
    directory,
    secrets,
    origins,
    folders: [...folders],
    certificates,
    network,
    sealing: sealingOf(environment),
    otherDataFolders,
  }
}

/** The managed entries as a layer whose values have an origin. */
function managedLayerOf({ revision, sections }: ManagedLayer): Layer {
  const { providers, models, engines } = sections
  return {
    origin: { from: 'managed', revision },
    value: { providers, models, search: { engines } },
  }
}

/** The names of sinks, in their order. */
function namesOf(sinks: unknown): string[] {
  return Array.isArray(sinks)
    ? sinks.map((one) => String(member(one, 'name') ?? member(one, 'use')))
    : []
}

const SECRET = 'SLUICEGATE_SECRET'
const SECRET_LENGTH = 32

/** @throws ConfigError for a secret that is too short to be one */
function sealingOf(environment: Environment): SealingVariables {
  const [secret, previous] = [SECRET, `${SECRET}_PREVIOUS`].map((name) => {
    const value = environment[name] || undefined
    if (value !== undefined && value.length < SECRET_LENGTH) {
      fail('the environment', `expected at least ${SECRET_LENGTH} characters`, name)
    }
    return value
  })
  return { ...(secret !== undefined && { secret }), ...(previous !== undefined && { previous }) }
}

/** Vendors of the price lists that entries of models refer to: by their ids, by `price_of`, and by their deployments. */
function vendorsOf(models: unknown): ReadonlySet<string> {
  if (!isRaw(models)) return new Set()
  const vendors = new Set<string>()
  const add = (name: unknown) => {
    if (typeof name === 'string') vendors.add(name)
  }
  const addOf = (id: unknown) => {
    if (typeof id === 'string') vendors.add(vendorOf(id))
  }
  for (const [id, entry] of Object.entries(models)) {
    addOf(id)
    if (!isRaw(entry)) continue
    addOf(entry.price_of)
    for (const deployment of Array.isArray(entry.deployments) ? entry.deployments : []) {
      add(member(deployment, 'provider'))
      addOf(member(member(deployment, 'cost'), 'price_of'))
    }
  }
  return vendors
}

function vendorOf(id: string): string {
  return id.slice(0, Math.max(0, id.indexOf('/')))
}

/**
 * Makes the folders of the state and of the request log absolute: that of `--data`, else of `SLUICEGATE_DATA`, else of the configuration.
 * @returns folders that were not chosen; none where `--data` chose
 */
function placeState(
  { state, log }: Config,
  file: string,
  directory: string,
  environment: Environment,
  { cwd = process.cwd(), builtIn, data }: LoadOptions,
): string[] {
  const chosen = data || environment[DATA]
  const folder = chosen ? resolve(cwd, chosen) : undefined
  if (log.path !== undefined) log.path = resolve(directory, log.path)
  if (state.driver === 'redis') {
    state.outbox = folder ? join(folder, 'outbox') : resolve(directory, state.outbox)
    log.path ??= join(folder ?? directory, LOG_FOLDER)
    placeArchive(state, folder ?? directory, directory)
  }
  if (state.driver !== 'file') return []
  const configured = resolve(directory, state.path)
  state.path = folder ?? configured
  log.path ??= join(state.path, LOG_FOLDER)
  placeArchive(state, state.path, directory)
  if (data) return []
  // Earlier versions kept the ledger of a package's own configuration inside the package.
  const packaged = file === builtIn && file.split(sep).includes('node_modules')
  const earlier = packaged ? [resolve(dirname(file), '..', DATA_FOLDER)] : []
  const places = [configured, resolve(directory, DATA_FOLDER), resolve(cwd, DATA_FOLDER)]
  return [...new Set([...places, ...earlier])].filter((place) => place !== state.path)
}

/** @param folder the folder of the data. @param directory the directory of the configuration */
function placeArchive(
  { archive }: Extract<Config['state'], { archive: unknown }>,
  folder: string,
  directory: string,
): void {
  if (archive === false) return
  archive.path =
    archive.path === undefined ? join(folder, ARCHIVE_FOLDER) : resolve(directory, archive.path)
}

/** The origins of values that are not written in a file, by their paths. */
function variablesOf(
  { references, overrides }: ReturnType<typeof resolveEnvironment>,
  environment: Environment,
  { data, address = {} }: LoadOptions,
): Map<string, Origin> {
  const set = new Map<string, Origin>()
  for (const [path, name] of [...references, ...overrides]) {
    set.set(path, { from: 'environment', name })
  }
  for (const name of Object.keys(address)) {
    set.set(`server.${name}`, { from: 'command line', name: `--${name}` })
  }
  if (data || environment[DATA]) {
    const origin: Origin = data
      ? { from: 'command line', name: '--data' }
      : { from: 'environment', name: DATA }
    for (const path of ['state.path', 'state.outbox']) set.set(path, origin)
  }
  return set
}

async function find(cwd: string, { file, builtIn }: LoadOptions): Promise<string> {
  if (file !== undefined) {
    const path = resolve(cwd, file)
    if (!(await isFile(path))) fail(file, 'the file does not exist')
    if (!EXTENSIONS.includes(extname(path))) {
      fail(file, `expected a file that ends in ${EXTENSIONS.join(', ')}`)
    }
    return path
  }
  const folders = [resolve(cwd), resolve(cwd, 'config')]
  for (const folder of folders) {
    for (const extension of EXTENSIONS) {
      const path = join(folder, NAME + extension)
      if (await isFile(path)) return path
    }
  }
  if (builtIn !== undefined) return builtIn
  const names = `${NAME}{${EXTENSIONS.join(',')}}`
  return fail('the configuration', `there is no ${names} in ${folders.join(' or ')}`)
}

/** The content of a file; a function is called. */
async function read(file: string, label: string, env: Environment): Promise<unknown> {
  try {
    if (DATA_EXTENSIONS.includes(extname(file))) return await readData(file, label)
    const { mtimeMs } = await stat(file)
    // The configuration of the package reads nothing that may have changed while it stayed as it is.
    const isSame = dirname(file) === dirname(STARTER_FILE) && loadedByNode.get(file) === mtimeMs
    const tryNative = file === STARTER_FILE || isSame || !loadedByNode.has(file)
    loadedByNode.set(file, mtimeMs)
    // Data needs none of it.
    const { loadConfig: readWithC12 } = await import('c12')
    const { config } = await readWithC12<Record<string, unknown>>({
      configFile: file,
      cwd: dirname(file),
      rcFile: false,
      globalRc: false,
      packageJson: false,
      extend: false,
      giget: false,
      envName: false,
      dotenv: false,
      context: { env } satisfies ConfigContext,
      // The default merger drops members; there is only one source here.
      merger: (...sources) => sources.find((source) => source) ?? {},
      jitiOptions: {
        // The cache would be in a folder that other users can write to.
        fsCache: false,
        // Loading a compiler takes 28 MB and a quarter of the start-up time; Node.js can often do without.
        tryNative,
      },
    })
    return config
  } catch (error) {
    if (error instanceof ConfigError) throw error
    // The parsers are recursive.
    if (error instanceof RangeError) return fail(label, TOO_DEEP)
    return fail(label, `cannot be read: ${reasonOf(error)}`)
  }
}

/** The value of a YAML or JSON file, within the bounds. No other code sees a value beyond them. */
async function readData(file: string, label: string): Promise<unknown> {
  if ((await stat(file)).size > MAX_FILE_BYTES) return fail(label, TOO_LARGE)
  const text = (await readFile(file, 'utf8')).replace(/^\ufeff/, '')
  const isJson = extname(file) === '.json'
  const alias = isJson ? undefined : aliasProblem(text)
  if (alias !== undefined) return fail(label, alias)
  const value: unknown = isJson ? JSON.parse(text) : parseYAML(text)
  if (value === undefined || value === null) throw new Error('it is empty')
  const problem = boundsProblem(value)
  return problem === undefined ? value : fail(label, problem)
}

const AFTER = 'after_all'

/** The text of a configuration as YAML. The library trims it, and a value that ends in spaces would lose them, so none is last. */
export function toYaml(value: object): string {
  if (Object.keys(value).length === 0) return '{}\n'
  const text = stringifyYAML({ ...value, [AFTER]: null }, { lineWidth: -1, noRefs: true })
  return text.slice(0, text.lastIndexOf(AFTER))
}

/** The models file that need not be named, if there is one: beside a configuration of the operator. */
async function modelsBeside(file: string, { builtIn }: LoadOptions): Promise<string | undefined> {
  if (file === builtIn) return undefined
  for (const extension of DATA_EXTENSIONS) {
    const path = join(dirname(file), MODELS + extension)
    if (await isFile(path)) return path
  }
  return undefined
}

async function readModels(file: string, label: string, env: Environment): Promise<unknown> {
  if (!DATA_EXTENSIONS.includes(extname(file)) || !(await isFile(file))) {
    return fail(label, 'expected a YAML or JSON file with models by id', 'models')
  }
  const models = await read(file, label, env)
  return isRaw(models) ? models : fail(label, 'expected models by id, found a list', 'models')
}

/** The message of a parser without the lines of the file that it quotes, because they may hold secrets. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof TypeError && error.message.includes('$meta')) return 'it is empty'
  const { reason, mark } = error as { reason?: string; mark?: { line: number; column: number } }
  if (reason && mark) return `${reason} (line ${mark.line + 1}, column ${mark.column + 1})`
  if (reason) return reason
  return error.message.replace(
    /, (?:\.\.\.)?"[^]*"(?:\.\.\.)? is not valid JSON/,
    ' (not valid JSON)',
  )
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

/** Path of the file for messages: relative to the working folder if the file is in it. */
function labelOf(file: string, cwd: string): string {
  const path = relative(cwd, file)
  return path.startsWith('..') ? file : path
}

function fail(source: string, message: string, path = ''): never {
  throw new ConfigError(source, [{ path, message }])
}

/**
 * A configuration with the providers and search engines of the starter beside its own. Of two with the same name the own one
 * is taken, whole. Sections that are no objects are left as they are, so that the schema can say what is wrong.
 */
function extendBy(own: unknown, starter: unknown): unknown {
  if (!isRaw(own) || !isRaw(starter)) return own
  const search = mergeNames(own.search, starter.search)
  return {
    ...own,
    providers: mergeNames(own.providers, starter.providers),
    ...(search !== undefined && {
      search: isRaw(search)
        ? {
            ...search,
            engines: mergeNames(member(own.search, 'engines'), member(starter.search, 'engines')),
          }
        : search,
    }),
  }
}

function mergeNames(own: unknown, starter: unknown): unknown {
  if (own === undefined) return starter
  return isRaw(own) && isRaw(starter) ? { ...starter, ...own } : own
}

function member(value: unknown, name: string): unknown {
  return isRaw(value) ? value[name] : undefined
}
