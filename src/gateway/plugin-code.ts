/** Finds the code of a plugin (a path, a built-in name or a package), imports it and checks its export. */
import { existsSync, realpathSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { findPackageJSON, stripTypeScriptTypes } from 'node:module'
import { basename, dirname, extname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isObject } from '../errors/checks.ts'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { didYouMean, show } from '../errors/issues.ts'
import {
  API_VERSION,
  type GuardPlugin,
  type PaymentsPlugin,
  type ProviderPlugin,
  type SearchPlugin,
  type SinkPlugin,
} from '../plugin.ts'
import { providePluginImports } from './plugin-imports.ts'

export type AnyPlugin = ProviderPlugin | SearchPlugin | GuardPlugin | SinkPlugin | PaymentsPlugin
type Kind = AnyPlugin['kind']

interface KindOfPlugin {
  readonly folder: URL
  /** Name of the function that defines a plugin. */
  readonly define: string
  /** Name of the result of `setup`. */
  readonly noun: string
}

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

export const KINDS: Readonly<Record<Kind, KindOfPlugin>> = {
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
  payments: {
    folder: new URL('../../plugins/payments/', import.meta.url),
    define: 'definePayments',
    noun: 'payment provider',
  },
}

/** Node.js' message for a module that it takes for CommonJS. */
const IS_COMMONJS = /Cannot use import statement outside a module|Unexpected token 'export'/
const COMMONJS_ADVICE =
  'its package.json says "type": "commonjs"; say "module" there, or end the name of the file with .mts or .mjs'

/** The table of vendors lies among the providers and is none. */
const NO_PLUGIN = 'vendors'

/** Built-in plugins are TypeScript in a checkout and JavaScript in a build, like this file. */
const EXTENSION = extname(import.meta.url)

/** A plugin before its setup. */
export type FoundPlugin = (
  | { readonly kind: 'provider'; readonly plugin: ProviderPlugin }
  | { readonly kind: 'search'; readonly plugin: SearchPlugin }
  | { readonly kind: 'guard'; readonly plugin: GuardPlugin }
  | { readonly kind: 'sink'; readonly plugin: SinkPlugin }
  | { readonly kind: 'payments'; readonly plugin: PaymentsPlugin }
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
  const located = places.find((place) => place.status === 'fulfilled')
  if (!located) throw (places[0] as PromiseRejectedResult).reason
  const code = located.value
  if (!code.builtIn) providePluginImports()
  const plugin = await importPlugin(code.url, 'plugin')
  const { kind } = (isObject(plugin) ? plugin : {}) as { kind?: Kind }
  const pluginKind = kind !== undefined && Object.hasOwn(KINDS, kind) ? kind : 'provider'
  checkPlugin(pluginKind, plugin, 'plugin')
  return { kind: pluginKind, plugin, file: fileURLToPath(code.url) } as FoundPlugin
}

export async function builtInPlugins(): Promise<readonly (readonly [kind: Kind, name: string])[]> {
  const lists = (Object.keys(KINDS) as Kind[]).map(async (kind) =>
    (await builtInNames(kind)).map((name) => [kind, name] as const),
  )
  return (await Promise.all(lists)).flat()
}

/** Files and folders with the code of a plugin. For a plugin that is a value of the configuration, its folder. */
export function placesOf(code: PluginCode | undefined, directory: string): string[] {
  if (!code) return [directory]
  // Node.js names files in stacks by their real paths.
  const file = realpathSync(code.url)
  return [file, existsSync(code.folder) ? realpathSync(code.folder) : code.folder]
}

/** Modules that were imported. Node.js looks for the file of one again at each import, though it evaluates it once. */
const imported = new Map<string, { readonly default?: unknown }>()

/** The plugin that a module exports. @param path the path of the setting @throws ConfigError when it cannot be loaded */
export async function importPlugin(url: URL, path: string): Promise<unknown> {
  try {
    const module = imported.get(url.href) ?? (await import(/* @vite-ignore */ url.href))
    imported.set(url.href, module)
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
    const advice = IS_COMMONJS.test(messageOf(error)) ? `; ${COMMONJS_ADVICE}` : ''
    const place = await placeOf(error, file)
    return fail(path, `${file} could not be loaded: ${messageOf(error)}${advice}${place}`)
  }
}

/** Tries a path, a built-in plugin, and a package, in this order. @throws ConfigError when there is none */
export async function locate(
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
  if (/^[a-z\d][a-z\d-]*$/.test(use) && use !== NO_PLUGIN && existsSync(builtIn)) {
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
    .filter((name) => name !== NO_PLUGIN)
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
    const file = exported(inner)
    if (file !== undefined) return file
  }
  return undefined
}

export function checkPlugin(kind: Kind, plugin: unknown, path: string): void {
  if (!isObject(plugin) || !('kind' in plugin)) {
    const expected = `a default export made with ${KINDS[kind].define}`
    fail(path, `expected ${expected}, found ${show(plugin)}`)
  }
  const { kind: pluginKind, api, name, options, setup } = plugin as Partial<Record<string, unknown>>
  if (pluginKind !== kind) fail(path, `expected a ${kind} plugin, found kind ${show(pluginKind)}`)
  if (api !== API_VERSION) {
    const version = `${show(name)} is written for interface version ${String(api)}`
    fail(path, `${version}; this gateway knows version ${API_VERSION}`)
  }
  const validates = options as AnyPlugin['options'] | undefined
  if (typeof setup !== 'function' || typeof validates?.['~standard']?.validate !== 'function') {
    fail(path, `expected ${show(name)} to have "options" (a Standard Schema) and "setup"`)
  }
}

/** The place of an error in the code of a plugin as text, with the line for errors of syntax; empty where Node does not tell it. */
async function placeOf(error: unknown, file: string): Promise<string> {
  if (!(error instanceof Error)) return ''
  const stack = error.stack ?? ''
  const thrown = /^ *at .*?(?:file:\/\/)?(\/[^()\n]+):(\d+):(\d+)\)?$/m.exec(stack)
  if (!(error instanceof SyntaxError) && thrown && !stack.startsWith('/'))
    return ` (${basename(thrown[1]!)}:${thrown[2]}:${thrown[3]})`
  const framed = FRAMED.exec(stack) ?? FRAMED.exec(await frameOf(file))
  if (!framed) return ''
  const [, path = '', line = '', code = ''] = framed
  const lines = code.split('\n')
  const mark = lines.findIndex((text) => /^ *\^+$/.test(text))
  const column = lines[mark]!.indexOf('^') + 1
  return ` (${basename(path)}:${line}:${column})\n${lines.slice(0, mark + 1).join('\n')}`
}

/** How Node shows a place: the file with the line, then code with a mark below it. */
const FRAMED = /^(?:file:\/\/)?(\/[^\n]+):(\d+)\n((?:[^\n]*\n)*? *\^+\n)/

/** What Node says of the syntax of a file: of JavaScript it tells no place, but of the same code as TypeScript it does. */
async function frameOf(file: string): Promise<string> {
  try {
    stripTypeScriptTypes(await readFile(file, 'utf8'), { sourceUrl: file })
    return ''
  } catch (error) {
    return (error as Error).stack ?? ''
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function codeOf(error: unknown): unknown {
  return isObject(error) && 'code' in error ? error.code : undefined
}

export function broken(issues: readonly ConfigIssue[]): ConfigError {
  return new ConfigError('the configuration', issues)
}

export function fail(path: string, message: string): never {
  throw broken([{ path, message }])
}
