/** Serves the console and the key holder's page: static files that ask the API. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Gateway } from '../gateway/gateway.ts'
import { requestId } from '../state/ids.ts'
import { hasLibraries, loadConsole, type ConsoleFile, type ConsoleFiles } from './console-files.ts'

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
    const path = request.url!.split('?', 1)[0]!
    const [, version, name] = /^\/console\/a\/(\w+)\/(.+)$/.exec(path) ?? []
    if (name !== undefined) {
      const file = version === files.version ? files.files.get(name) : undefined
      if (!file) return false
      await write(request, response, file, { 'cache-control': FOREVER })
      return true
    }
    if (path.slice(path.lastIndexOf('/')).includes('.')) return false
    const etag = `"${files.version}"`
    const headers = {
      'cache-control': 'no-cache',
      etag,
      'content-security-policy': files.policy,
    }
    if (request.headers['if-none-match'] === etag) {
      response.writeHead(304, { ...ownHeaders(), ...headers })
      response.end()
      return true
    }
    await write(request, response, files.shell, headers)
    return true
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
