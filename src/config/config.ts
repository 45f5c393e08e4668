/**
 * The configuration: found, read, filled in from the environment, validated, watched. One file; what it does not say is
 * a default, what the environment says counts more.
 */
import { loadConfig as readWithC12 } from 'c12'
import { watch as watchFolder, type FSWatcher } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, extname, join, relative, resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import * as v from 'valibot'
import type { Catalog, Modality } from '../models/catalog.ts'
import { OVERRIDE, readEnvironment, resolveEnvironment, type Environment } from './environment.ts'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { toConfigIssues } from '../errors/issues.ts'
import type { Provider } from '../plugin.ts'
import { configSchema, crossCheck } from './schema.ts'

/** Validated, every default filled in: durations in seconds, sizes in bytes, the paths of `state` absolute. */
export type Config = Readonly<v.InferOutput<typeof configSchema>>
/** Bytes, except `files`, which counts. */
export type BodyLimits = Readonly<Config['server']['limits']>

/** The configuration as it is written. */
export type UserConfig = Omit<v.InferInput<typeof configSchema>, 'models'> & {
  /** Entries by model id, or the path of a YAML or JSON file that holds them, relative to this file. */
  models?: v.InferInput<typeof configSchema>['models'] | string
}

/** What a configuration that is a function gets. */
export interface ConfigContext {
  /** The environment, `.env` files included. */
  readonly env: Environment
}

export interface LoadedConfig {
  readonly config: Config
  /** Absolute path of the file. */
  readonly file: string
  /** Its folder: what relative paths in it start from. */
  readonly directory: string
  /** Dotted paths of the values that came out of `${NAME}`: never to be shown. */
  readonly secrets: ReadonlySet<string>
  /** The folders of the files that were read. */
  readonly folders: readonly string[]
}

export interface LoadOptions {
  /** Path of the file; without it the file is searched for. */
  readonly file?: string
  /** Where the search starts; default: the working folder. */
  readonly cwd?: string
  readonly env?: Environment
}

const NAME = 'gateway.config'
const EXTENSIONS = ['.ts', '.mts', '.js', '.yaml', '.yml', '.json']
const DATA_EXTENSIONS = ['.yaml', '.yml', '.json']

/** Editors write a file in several steps; a change counts when it has been quiet for so long. */
const QUIET_MS = 100

/** What Node.js was asked to load by itself: it would give the same again, however the file has changed. */
const loadedByNode = new Set<string>()

/** The provider's method for models of a modality. */
const METHODS: Readonly<Record<Modality, keyof Provider>> = {
  chat: 'chat',
  image: 'generateImage',
  ocr: 'ocr',
  speech: 'speech',
  transcription: 'transcribe',
}

/** @throws ConfigError with everything that is wrong */
export async function loadConfig(options: LoadOptions = {}): Promise<LoadedConfig> {
  const { cwd = process.cwd(), env = process.env } = options
  const file = await find(cwd, options.file)
  const directory = dirname(file)
  const label = labelOf(file, cwd)
  const environment = await readEnvironment(env, [cwd, directory])
  const folders = new Set([directory, resolve(cwd)])

  const raw = await read(file, label, environment)
  let resolved = resolveEnvironment(raw, configSchema, environment)
  const models = (resolved.value as { models?: unknown } | undefined)?.models
  if (typeof models === 'string') {
    const modelsFile = resolve(directory, models)
    folders.add(dirname(modelsFile))
    const entries = await readModels(modelsFile, labelOf(modelsFile, cwd), environment)
    const { [`${OVERRIDE}MODELS`]: _, ...others } = environment
    resolved = resolveEnvironment({ ...(raw as object), models: entries }, configSchema, others)
  }

  const config = await validate(resolved, label)
  const { state } = config
  if (state.driver === 'file') state.path = resolve(directory, state.path)
  if (state.driver === 'redis') state.outbox = resolve(directory, state.outbox)
  return { config, file, directory, secrets: resolved.secrets, folders: [...folders] }
}

/**
 * Reloads when a file in one of the configuration's folders has changed, also when it was replaced as a whole. An
 * invalid configuration goes to `onError` and changes nothing; one that says the same as before is not reported.
 * @param options those that the configuration was loaded with
 */
export async function watchConfig(
  loaded: LoadedConfig,
  onChange: (next: LoadedConfig) => void,
  onError: (error: unknown) => void,
  options: LoadOptions = {},
): Promise<{ close(): Promise<void> }> {
  let current = loaded
  let closed = false
  let timer: NodeJS.Timeout | undefined
  let working = Promise.resolve()
  const soon = () => {
    clearTimeout(timer)
    timer = setTimeout(() => (working = working.then(reload)), QUIET_MS)
  }
  let watchers = watchAll(current.folders, soon, onError)
  let seen = await fingerprint(current.folders)

  async function reload(): Promise<void> {
    try {
      const now = await fingerprint(current.folders)
      if (closed || now === seen) return
      seen = now
      const next = await loadConfig({ ...options, file: loaded.file })
      if (closed || isDeepStrictEqual(next.config, current.config)) return
      if (!isDeepStrictEqual(next.folders, current.folders)) {
        for (const watcher of watchers) watcher.close()
        watchers = watchAll(next.folders, soon, onError)
        seen = await fingerprint(next.folders)
      }
      current = next
      onChange(next)
    } catch (error) {
      if (!closed) onError(error)
    }
  }

  return {
    async close() {
      closed = true
      clearTimeout(timer)
      for (const watcher of watchers) watcher.close()
      await working
    },
  }
}

/** Whether the providers, now that they are set up, can serve the models that are deployed on them. */
export function checkProviders(
  config: Config,
  catalog: Catalog,
  providers: ReadonlyMap<string, Provider>,
): ConfigIssue[] {
  return catalog.all().flatMap(({ id, modality, capabilities, deployments }) => {
    const edits = modality === 'image' && capabilities.has('REFERENCES')
    return deployments.flatMap((deployment, index) => {
      const provider = providers.get(deployment.provider)
      if (!provider) return []
      const serves = offers(provider, METHODS[modality])
      if (serves && (!edits || offers(provider, 'editImage'))) return []
      const { use } = config.providers[deployment.provider]!
      const plugin = typeof use === 'string' ? use : use.name
      const offered = Object.keys(METHODS).filter((other) =>
        offers(provider, METHODS[other as Modality]),
      )
      const wanted = serves ? 'image models with the capability REFERENCES' : `${modality} models`
      const message =
        `expected a provider for ${wanted}, found "${deployment.provider}" (${plugin}), ` +
        `which serves ${offered.join(', ') || 'nothing'}${serves ? ', and edits no images' : ''}`
      return [{ path: `models.${id}.deployments.${index}.provider`, message }]
    })
  })
}

async function find(cwd: string, file: string | undefined): Promise<string> {
  if (file !== undefined) {
    const path = resolve(cwd, file)
    if (!(await isFile(path))) fail(file, 'there is no such file')
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
  const names = `${NAME}{${EXTENSIONS.join(',')}}`
  return fail('the configuration', `there is no ${names} in ${folders.join(' or ')}`)
}

/** What a file holds; a function is called. */
async function read(file: string, label: string, env: Environment): Promise<unknown> {
  try {
    // Through c12, JSON would come out of a cache when it is read again.
    if (extname(file) === '.json') return JSON.parse(await readFile(file, 'utf8'))
    const tryNative = !loadedByNode.has(file)
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
      // The default one would merge and drop members; there is nothing to merge here.
      merger: (...sources) => sources.find((source) => source) ?? {},
      jitiOptions: {
        // Its place would be a folder that others may write to.
        fsCache: false,
        // Where Node.js can do it, no compiler is loaded: that takes 28 MB, and a quarter of the time of a start.
        tryNative,
      },
    })
    return config
  } catch (error) {
    return fail(label, `cannot be read: ${reasonOf(error)}`)
  }
}

async function readModels(file: string, label: string, env: Environment): Promise<unknown> {
  if (!DATA_EXTENSIONS.includes(extname(file)) || !(await isFile(file))) {
    return fail(label, 'expected a YAML or JSON file with models by id', 'models')
  }
  return read(file, label, env)
}

async function validate(resolved: ReturnType<typeof resolveEnvironment>, label: string) {
  const { value, secrets, overrides } = resolved
  const issues = [...resolved.issues]
  const result = v.safeParse(configSchema, value)
  if (!result.success) {
    const known = new Set(issues.map(({ path }) => path))
    const found = toConfigIssues(result.issues, { path: [], value, secrets }, configSchema)
    issues.push(...found.filter(({ path }) => !known.has(path)))
  } else if (issues.length === 0) {
    issues.push(...(await crossCheck(result.output)))
  }
  if (issues.length > 0) {
    const traced = issues.map(({ path, message }) => {
      const variable = overrides.get(path)
      return { path, message: variable ? `${message} (set by ${variable})` : message }
    })
    throw new ConfigError(label, traced)
  }
  return (result as { output: v.InferOutput<typeof configSchema> }).output
}

/** Without the lines of the file that parsers like to quote: there may be secrets in them. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof TypeError && error.message.includes('$meta')) return 'it is empty'
  const { reason, mark } = error as { reason?: string; mark?: { line: number; column: number } }
  if (reason && mark) return `${reason} (line ${mark.line + 1}, column ${mark.column + 1})`
  if (reason) return reason
  return error.message.replace(/, (?:\.\.\.)?"[^]*" is not valid JSON/, ' (not valid JSON)')
}

function watchAll(
  folders: readonly string[],
  onEvent: () => void,
  onError: (error: unknown) => void,
): FSWatcher[] {
  return folders.map((folder) => watchFolder(folder, onEvent).on('error', onError))
}

/** Changes whenever a file changes that a configuration can consist of. */
async function fingerprint(folders: readonly string[]): Promise<string> {
  const names = await Promise.all(
    folders.map(async (folder) => {
      const entries = await readdir(folder).catch(() => [])
      const own = entries.filter((name) => name === '.env' || EXTENSIONS.includes(extname(name)))
      return own.map((name) => join(folder, name))
    }),
  )
  const stamps = names.flat().map(async (path) => {
    const found = await stat(path, { bigint: true }).catch(() => undefined)
    return found ? `${path}:${found.ino}:${found.mtimeNs}:${found.size}` : path
  })
  return (await Promise.all(stamps)).join('\n')
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

/** The file as the operator would name it. */
function labelOf(file: string, cwd: string): string {
  const path = relative(cwd, file)
  return path.startsWith('..') ? file : path
}

function offers(provider: Provider, method: keyof Provider): boolean {
  return typeof provider[method] === 'function'
}

function fail(source: string, message: string, path = ''): never {
  throw new ConfigError(source, [{ path, message }])
}
