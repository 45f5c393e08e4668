/** The files of the console for a browser: read once, named by a hash of their contents, compressed once. */
import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { findPackageJSON, stripTypeScriptTypes } from 'node:module'
import { dirname, extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'

export interface ConsoleFile {
  readonly type: string
  readonly body: Buffer
  /** The body in an encoding; made on first use. */
  encoded(encoding: 'br' | 'gzip'): Promise<Buffer>
}

export interface ConsoleFiles {
  readonly version: string
  /** Files by path below `/console/a/<version>/`. */
  readonly files: ReadonlyMap<string, ConsoleFile>
  readonly shell: ConsoleFile
  readonly policy: string
}

/** A library of the console: its name in imports, and the paths of its file and its license in its package. */
interface Library {
  readonly name: string
  /** Path below `vendor/`. */
  readonly file: string
  /** Path relative to the resolved file of the package. */
  readonly source: string
  /** Appended to it, where the browser's file is no module. */
  readonly footer?: string
}

export const LIBRARIES: readonly Library[] = [
  { name: 'preact', file: 'preact.js', source: 'preact.mjs' },
  { name: 'preact/hooks', file: 'preact-hooks.js', source: 'hooks.mjs' },
  { name: '@preact/signals-core', file: 'signals-core.js', source: 'signals-core.mjs' },
  { name: '@preact/signals', file: 'signals.js', source: 'signals.mjs' },
  { name: 'htm', file: 'htm.js', source: 'htm.mjs' },
  // The module of this package is not minified, and three times as large.
  {
    name: 'uplot',
    file: 'uplot.js',
    source: 'uPlot.iife.min.js',
    footer: 'export default uPlot\n',
  },
]
const TYPES: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.ts': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
}
/** A file that is not for browsers. */
const BUILD = 'pack.ts'
const SHELL = 'index.html'
const FOLDER = fileURLToPath(new URL('../console/', import.meta.url))
/** A checkout serves the sources without their types; a package has bundles, libraries included. */
const SCRIPT = extname(import.meta.url)
const IS_CHECKOUT = SCRIPT === '.ts'

/**
 * Reads the console beside this file.
 * @throws Error when a library is not installed, as in a checkout without development dependencies
 */
export async function loadConsole(): Promise<ConsoleFiles> {
  const own = await ownFiles()
  const libraries = IS_CHECKOUT ? await libraryFiles() : []
  const texts = new Map([...own, ...libraries].sort(([a], [b]) => (a < b ? -1 : 1)))
  const digest = createHash('sha256')
  for (const [path, text] of texts) digest.update(`${path}\0${text.length}\0`).update(text)
  const version = digest.digest('hex').slice(0, 16)
  const base = `/console/a/${version}/`
  const imports = Object.fromEntries(
    LIBRARIES.map(({ name, file }) => [name, `${base}vendor/${file}`]),
  )
  const map = JSON.stringify({ imports })
  const shell = texts
    .get(SHELL)!
    .replace('{importmap}', `<script type="importmap">${map}</script>`)
    .replace('{preloads}', preloads(texts, base))
    .replace('{app}', `app${SCRIPT}`)
    .replaceAll('{base}', base)
  texts.delete(SHELL)
  return {
    version,
    files: new Map([...texts].map(([path, text]) => [path, fileOf(TYPES[extname(path)]!, text)])),
    shell: fileOf('text/html; charset=utf-8', shell),
    policy: policyFor(IS_CHECKOUT ? map : undefined),
  }
}

/** The libraries with their licenses and styles. @throws Error when one is not installed */
export async function libraryFiles(): Promise<[path: string, text: string][]> {
  const files = LIBRARIES.map(
    async ({ name, file, source, footer = '' }): Promise<[string, string]> => {
      const folder = dirname(fileURLToPath(import.meta.resolve(name)))
      const text = await readFile(join(folder, source), 'utf8')
      // Maps are not served, and a browser's tools would ask for them.
      return [`vendor/${file}`, text.replace(/\/\/# sourceMappingURL=.*$/gm, '') + footer]
    },
  )
  const style = fileURLToPath(new URL('uPlot.min.css', import.meta.resolve('uplot')))
  return [
    ...(await Promise.all(files)),
    ['vendor/uplot.css', await readFile(style, 'utf8')],
    ['vendor/LICENSES.txt', await licenses()],
  ]
}

async function licenses(): Promise<string> {
  const packages = new Set(LIBRARIES.map(({ name }) => name.replace(/(?<!^@[^/]*)\/.*$/, '')))
  const texts = [...packages].map(async (name) => {
    const file = findPackageJSON(name, import.meta.url)!
    return `${name}\n\n${await readFile(join(dirname(file), 'LICENSE'), 'utf8')}`
  })
  return (await Promise.all(texts)).join('\n\n---\n\n')
}

export function hasLibraries(): boolean {
  if (!IS_CHECKOUT) return true
  try {
    return LIBRARIES.every(({ name }) => import.meta.resolve(name))
  } catch {
    return false
  }
}

async function ownFiles(): Promise<[path: string, text: string][]> {
  const paths = await ownPaths()
  return Promise.all(
    paths.map(async (path): Promise<[string, string]> => {
      const text = await readFile(join(FOLDER, path), 'utf8')
      return [path, path.endsWith('.ts') ? withoutTypes(text) : text]
    }),
  )
}

/** Paths of served files, below the folder of the console. */
async function ownPaths(): Promise<string[]> {
  const entries = await readdir(FOLDER, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(FOLDER.length))
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path === SHELL || (extname(path) in TYPES && path !== BUILD))
}

/** Removes types. Some versions of Node warn that the function is experimental at its first use, which an operator cannot act upon. */
function withoutTypes(text: string): string {
  const { emitWarning } = process
  process.emitWarning = (warning: string | Error, ...rest: never[]) => {
    if (!String(warning).includes('stripTypeScriptTypes')) emitWarning(warning, ...rest)
  }
  try {
    return stripTypeScriptTypes(text)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** Lists all modules that the first one needs, so that their depth costs one round trip. */
function preloads(texts: ReadonlyMap<string, string>, base: string): string {
  const modules = new Set<string>()
  const visit = (path: string): void => {
    if (modules.has(path) || !texts.has(path)) return
    modules.add(path)
    for (const [, name] of texts.get(path)!.matchAll(/\b(?:from|import)\s*["']([^"']+)["']/g)) {
      const library = LIBRARIES.find((one) => one.name === name)
      visit(library ? `vendor/${library.file}` : posix.join(posix.dirname(path), name!))
    }
  }
  visit(`app${SCRIPT}`)
  return [...modules]
    .map((path) => `<link rel="modulepreload" href="${base}${path}" />`)
    .join('\n    ')
}

/** @param importMap text of the one script that is in the page itself */
function policyFor(importMap: string | undefined): string {
  const own = importMap && ` 'sha256-${createHash('sha256').update(importMap).digest('base64')}'`
  return [
    "default-src 'none'",
    `script-src 'self'${own ?? ''}`,
    "style-src 'self'",
    "img-src 'self' data: blob:",
    'media-src blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

function fileOf(type: string, text: string): ConsoleFile {
  const body = Buffer.from(text)
  const made: { br?: Promise<Buffer>; gzip?: Promise<Buffer> } = {}
  return {
    type,
    body,
    encoded: (encoding) => (made[encoding] ??= encode(encoding, body)),
  }
}

function encode(encoding: 'br' | 'gzip', body: Buffer): Promise<Buffer> {
  if (encoding === 'gzip') return promisify(gzip)(body)
  return promisify(brotliCompress)(body, {
    params: {
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_SIZE_HINT]: body.length,
    },
  })
}
