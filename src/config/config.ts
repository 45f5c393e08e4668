/**
 * Loads the configuration: finds the file, reads it, applies the environment and validates it.
 * There is one file. Absent members have defaults, and the environment overrides the file.
 */
import { loadConfig as readWithC12 } from 'c12'
import { parseYAML } from 'confbox/yaml'
import { readFile, stat } from 'node:fs/promises'
import { dirname, extname, join, relative, resolve, sep } from 'node:path'
import type * as v from 'valibot'
import { OVERRIDE, readEnvironment, resolveEnvironment, type Environment } from './environment.ts'
import { boundsProblem, MAX_FILE_BYTES, TOO_DEEP, TOO_LARGE } from '../errors/bounds.ts'
import { ConfigError } from '../errors/errors.ts'
import type { wildcardSchema } from '../models/entry.ts'
import { isRaw, mergeModels, withDeployments, withListed } from '../models/layers.ts'
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
  /** Other folders in which an earlier start, with other settings, may have left a ledger. Absolute. */
  readonly otherDataFolders: readonly string[]
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
}

const NAME = 'gateway.config'
/** Endings of files that may be a configuration. */
export const EXTENSIONS: readonly string[] = ['.ts', '.mts', '.js', '.yaml', '.yml', '.json']
/** Name of the variable that chooses the data folder, and the folder's name by default. */
const DATA = 'SLUICEGATE_DATA'
const DATA_FOLDER = 'data'
/** Where the request log is in the data folder. */
const LOG_FOLDER = 'log'
const DATA_EXTENSIONS = ['.yaml', '.yml', '.json']
/** Name of the models file that need not be named. */
const MODELS = 'models'

/** Files that Node.js has loaded itself. Its module cache would return the old content after a change. */
const loadedByNode = new Set<string>()

/** Loads and validates the configuration. @throws ConfigError with all issues */
export async function loadConfig(options: LoadOptions = {}): Promise<LoadedConfig> {
  const { cwd = process.cwd(), env = process.env } = options
  const file = await find(cwd, options)
  const directory = file === options.builtIn ? resolve(cwd) : dirname(file)
  const label = labelOf(file, cwd)
  const environment = await readEnvironment(env, [cwd, dirname(file)])
  const folders = new Set([dirname(file), resolve(cwd)])

  const own = await read(file, label, environment)
  const written: Origin =
    file === options.builtIn ? { from: 'built-in' } : { from: 'configuration', file: label }
  const layers: Layer[] = [{ origin: written, value: own }]
  let resolved = resolveEnvironment(own, configSchema, environment)
  let listed: ListedPrices = { models: {}, origins: new WeakMap() }
  if (isRaw(own) && isRaw(resolved.value)) {
    const { models, extends: base } = resolved.value
    const starter = base === 'starter' ? await read(STARTER_FILE, base, environment) : {}
    const named = typeof models === 'string'
    const modelsFile = named ? resolve(directory, models) : await modelsBeside(file, options)
    if (modelsFile !== undefined) folders.add(dirname(modelsFile))
    const modelsLabel = modelsFile && labelOf(modelsFile, cwd)
    const entries = modelsFile && (await readModels(modelsFile, modelsLabel!, environment))
    const extended = { ...(extendBy(own, starter) as Record<string, unknown>) }
    extended.providers = withVendors(extended.providers, environment, label)
    const first = named ? entries : own.models
    const merged = mergeModels(first, entries, (starter as UserConfig).models)
    if (modelsLabel) {
      layers.push({ origin: { from: 'models', file: modelsLabel }, value: { models: entries } })
    }
    layers.push({ origin: { from: 'starter' }, value: starter })
    const packaged = !isRaw(resolved.value.prices) || resolved.value.prices.packaged !== false
    const vendors = vendorsOf(merged)
    const isNeeded = (id: string) => vendors.has(vendorOf(id))
    listed = await readPriceFiles(directory, (path) => labelOf(path, cwd), packaged, isNeeded)
    extended.models = withDeployments(withListed(merged, listed.models), extended.providers)
    // A variable that has named the file does not replace its entries.
    const { [`${OVERRIDE}MODELS`]: _, ...others } = environment
    resolved = resolveEnvironment(extended, configSchema, named ? others : environment)
  }

  const config = await validate(resolved, label, listed.models)
  const { network, files, issues } = await readNetwork(config, directory, environment)
  if (issues.length > 0) throw new ConfigError(label, issues)
  for (const one of files) folders.add(dirname(one))
  const otherDataFolders = placeState(config, file, directory, environment, options)
  const set = variablesOf(resolved, environment, options)
  const origins = new Origins({ layers, set, models: config.models, listed: listed.origins })
  const { secrets } = resolved
  return {
    config,
    file,
    directory,
    secrets,
    origins,
    folders: [...folders],
    certificates: files,
    network,
    otherDataFolders,
  }
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
  }
  if (state.driver !== 'file') return []
  const configured = resolve(directory, state.path)
  state.path = folder ?? configured
  log.path ??= join(state.path, LOG_FOLDER)
  if (data) return []
  // Earlier versions kept the ledger of a package's own configuration inside the package.
  const packaged = file === builtIn && file.split(sep).includes('node_modules')
  const earlier = packaged ? [resolve(dirname(file), '..', DATA_FOLDER)] : []
  const places = [configured, resolve(directory, DATA_FOLDER), resolve(cwd, DATA_FOLDER)]
  return [...new Set([...places, ...earlier])].filter((place) => place !== state.path)
}

/** The origins of values that are not written in a file, by their paths. */
function variablesOf(
  { references, overrides }: ReturnType<typeof resolveEnvironment>,
  environment: Environment,
  { data }: LoadOptions,
): Map<string, Origin> {
  const set = new Map<string, Origin>()
  for (const [path, name] of [...references, ...overrides]) {
    set.set(path, { from: 'environment', name })
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
    const tryNative = file === STARTER_FILE || !loadedByNode.has(file)
    loadedByNode.add(file)
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
  const value: unknown = extname(file) === '.json' ? JSON.parse(text) : parseYAML(text)
  if (value === undefined || value === null) throw new Error('it is empty')
  const problem = boundsProblem(value)
  return problem === undefined ? value : fail(label, problem)
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
