/** Serves the console and the key holder's page: static files that ask the API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Gateway } from '../gateway/gateway.ts'
import { requestId } from '../state/ids.ts'
import { LIBRARIES, libraryFiles } from './console-files.ts'
import { manualPages } from './manual.ts'

export const CONSOLE_PATHS = ['/console', '/console/**', '/me', '/me/**'] as const

const FOREVER = 'public, max-age=31536000, immutable'
const HEADERS: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}

/** The console of one gateway. Nothing is read before the first request for it. */
export class ConsolePages {
  readonly #gateway: Gateway
  #loading: Promise<ConsoleFiles | undefined> | undefined
  #pages: Promise<ReadonlyMap<string, ConsoleFile>> | undefined

  constructor(gateway: Gateway) {
    this.#gateway = gateway
    const { config, log } = gateway.runtime
    if (!config.admin.console || hasLibraries()) return
    log.warn(
      'there is no console: its libraries are not installed (npm install without --omit=dev)',
    )
  }

  /** Version of the files served now; undefined without a console. */
  async version(): Promise<string | undefined> {
    return (await this.#files())?.version
  }

  /** Answers a request for a page or a file. @returns false for an unknown name */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const files = await this.#files()
    if (!files) return false
    const { basePath } = this.#gateway.runtime.config.server
    const page = pageOf(files, basePath)
    const path = request.url!.split('?', 1)[0]!
    const [, version, name] = /^\/console\/a\/(\w+)\/(.+)$/.exec(path) ?? []
    if (name !== undefined) {
      const file = version === files.version ? files.files.get(name) : undefined
      if (!file) return false
      await write(request, response, file, { 'cache-control': FOREVER })
      return true
    }
    if (/^\/console\/help(?:\/|$)/.test(path)) {
      const file = (await this.#manual()).get(path.slice('/console/help/'.length))
      if (file) await write(request, response, file, { 'cache-control': 'no-cache' })
      return file !== undefined
    }
    if (path.slice(path.lastIndexOf('/')).includes('.')) return false
    const etag = `"${files.version}${basePath}"`
    const headers = {
      'cache-control': 'no-cache',
      etag,
      'content-security-policy': page.policy,
    }
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, { ...ownHeaders(), ...headers })
      response.end()
      return true
    }
    await write(request, response, page.shell, headers)
    return true
  }

  /** Pages of the manual by name; by the empty one the list of them. */
  #manual(): Promise<ReadonlyMap<string, ConsoleFile>> {
    if (this.#pages) return this.#pages
    const read = manualPages().then((pages) => {
      const listed = pages.filter(({ title }) => title !== '')
      const data = listed.map(({ text: _text, ...one }) => one)
      const files = pages.map(
        ({ page, text }) => [page, fileOf('text/markdown; charset=utf-8', text)] as const,
      )
      return new Map([['', fileOf('application/json', JSON.stringify({ data }))], ...files])
    })
    // What could not be read is read again when it is asked for.
    read.catch(() => (this.#pages = undefined))
    return (this.#pages = read)
  }

  #files(): Promise<ConsoleFiles | undefined> {
    const { config, log } = this.#gateway.runtime
    if (!config.admin.console) return Promise.resolve(undefined)
    this.#loading ??= loadConsole().catch((error: unknown) => {
      log.error('the console cannot be served', error)
      return undefined
    })
    return this.#loading
  }
}

async function write(
  request: IncomingMessage,
  response: ServerResponse,
  file: ConsoleFile,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const accepted = String(request.headers['accept-encoding'] ?? '')
  const encoding = (['br', 'gzip'] as const).find((one) =>
    new RegExp(`\\b${one}\\b`).test(accepted),
  )
  const body = encoding ? await file.encoded(encoding) : file.body
  response.writeHead(200, {
    ...ownHeaders(),
    ...headers,
    'content-type': file.type,
    'content-length': String(body.length),
    vary: 'accept-encoding',
    ...(encoding && { 'content-encoding': encoding }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

function ownHeaders(): Record<string, string> {
  const id = requestId()
  return { ...HEADERS, 'x-service-request-id': id, 'x-request-id': id }
}

interface ConsoleFile {
  readonly type: string
  readonly body: Buffer
  /** The body in an encoding; made on first use. */
  encoded(encoding: 'br' | 'gzip'): Promise<Buffer>
}

interface ConsoleFiles {
  readonly version: string
  /** Files by path below `/console/a/<version>/`. */
  readonly files: ReadonlyMap<string, ConsoleFile>
  /** Text of the page, before the addresses are put into it. */
  readonly shell: string
  readonly preloaded: readonly string[]
  /** Pages by the path that stands before those of the gateway. */
  readonly pages: Map<string, ConsolePage>
}

interface ConsolePage {
  readonly shell: ConsoleFile
  readonly policy: string
}

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
async function loadConsole(): Promise<ConsoleFiles> {
  const own = await ownFiles()
  const libraries = IS_CHECKOUT ? await libraryFiles() : []
  const texts = new Map([...own, ...libraries].sort(([a], [b]) => (a < b ? -1 : 1)))
  const digest = createHash('sha256')
  for (const [path, text] of texts) digest.update(`${path}\0${text.length}\0`).update(text)
  const version = digest.digest('hex').slice(0, 16)
  const shell = texts.get(SHELL)!
  const preloaded = modulesIn(texts)
  texts.delete(SHELL)
  const files = [...texts].map(
    ([path, text]) => [path, fileOf(TYPES[extname(path)]!, text)] as const,
  )
  return { version, files: new Map(files), shell, preloaded, pages: new Map() }
}

/** The page of a configuration, whose addresses begin with a path. */
function pageOf({ version, shell, preloaded, pages }: ConsoleFiles, path: string): ConsolePage {
  const made = pages.get(path)
  if (made) return made
  const base = `${path}/console/a/${version}/`
  const imports = Object.fromEntries(
    LIBRARIES.map(({ name, file }) => [name, `${base}vendor/${file}`]),
  )
  const map = JSON.stringify({ imports })
  const links = preloaded.map((file) => `<link rel="modulepreload" href="${base}${file}" />`)
  const text = shell
    .replace('{importmap}', `<script type="importmap">${map}</script>`)
    .replace('{preloads}', links.join('\n    '))
    .replace('{app}', `app${SCRIPT}`)
    .replace('{path}', path)
    .replaceAll('{base}', base)
  const page = {
    shell: fileOf('text/html; charset=utf-8', text),
    policy: policyFor(IS_CHECKOUT ? map : undefined),
  }
  pages.set(path, page)
  return page
}

function hasLibraries(): boolean {
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

/** All modules that the first one needs, which the page names, so that their depth costs one round trip. */
function modulesIn(texts: ReadonlyMap<string, string>): string[] {
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
