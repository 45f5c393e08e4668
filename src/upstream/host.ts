/** The implementation of Host: one connection pool per origin, on undici's dispatch interface. */
import { Readable } from 'node:stream'
import type { ConsolaInstance } from 'consola'
import { ofetch } from 'ofetch'
import { Client, Pool, type Dispatcher } from 'undici'
import { UpstreamFailure } from '../errors/errors.ts'
import { abortScopeOf, type DeploymentLimits, inTime } from '../lifetime/scope.ts'
import type { Host, UpstreamRequest, UpstreamResponse } from '../plugin.ts'
import { RawJson } from '../stream/raw-json.ts'
import { createDownloader, type Downloader } from './download.ts'
import { type BodyBounds, HttpExchange } from './exchange.ts'
import { encodeForm } from './form.ts'
import { readEvents } from '../stream/flow.ts'
import { readLines } from '../stream/lines.ts'
import { failureOf, readJson } from './answer.ts'

/** Limits of one plugin instance. */
export interface UpstreamSettings {
  /** ms until the head of an answer that is not streamed. */
  readonly timeoutMs: number
  /** ms until the head of a stream. */
  readonly firstPartTimeoutMs: number
  /** ms without a byte after which a stream counts as stalled. */
  readonly idleTimeoutMs: number
  /** Most connections per origin. */
  readonly connections: number
  /** 64 MiB for an answer and 256 MiB for a stream by default. */
  readonly bounds?: BodyBounds
}

/** Length of a body from which on it is sent as a stream. */
const LONG = 64 * 1024

const BOUNDS: BodyBounds = { answer: 64 * 1024 * 1024, stream: 256 * 1024 * 1024 }

/** A Host with its connections. The owner closes it. */
export interface ClosableHost {
  readonly host: Host
  /**
   * Resolves when running requests have ended, for which they have five seconds, and all connections are closed.
   * @throws Error that names the plugin instance when connections are still open a second later
   */
  close(): Promise<void>
}

const refuseDownloads = createDownloader({ enabled: false, limit: 0, timeout: 1 })

/**
 * Builds the Host of one plugin instance.
 * @param name of the instance, from the configuration
 * @param download serves {@link Host.download}; by default every download is refused
 * @param mask serves {@link Host.mask}
 */
export function createHost(
  name: string,
  settings: UpstreamSettings,
  log: ConsolaInstance,
  download: Downloader = refuseDownloads,
  mask: Host['mask'] = () => {},
): ClosableHost {
  const pools = new Pools(settings.connections, (error) => {
    log.error(`${name}: a connection failed in an unforeseen way`, error)
  })
  const host: Host = {
    name,
    log: log.withTag(name),
    http: ofetch.create(
      { retry: 0, timeout: settings.timeoutMs },
      { fetch: boundedFetch((settings.bounds ?? BOUNDS).answer) },
    ),
    request: (request) => send(pools, settings, request),
    form: encodeForm,
    json: (body) => RawJson.stringify(body),
    download,
    mask,
    sse: readEvents,
    lines: readLines,
    readJson,
    failure: failureOf,
    fail: (failure, message, options) => new UpstreamFailure(failure, message, options),
  }
  const open = () => new Error(`connections of ${name} could not be closed`)
  return { host, close: () => pools.close(open) }
}

/** Where a request goes. */
interface Target {
  readonly url: string
  readonly pool: Pool
  readonly path: string
}

const CLOSE_MS = 5_000
/** How long destroyed connections have to end. */
const DESTROY_MS = 1_000

/** One pool per origin. */
class Pools {
  readonly #connections: number
  readonly #onError: (error: unknown) => void
  readonly #pools = new Map<string, Pool>()
  /** Most plugins send all their requests to one address. */
  #last: Target | undefined

  /** @param onError receives errors that belong to no request */
  constructor(connections: number, onError: (error: unknown) => void) {
    this.#connections = connections
    this.#onError = onError
  }

  /** @throws an error of undici when the origin is not a valid URL */
  targetOf(url: string): Target {
    if (this.#last?.url === url) return this.#last
    const end = url.slice(url.indexOf('://') + 3).search(/[/?]/)
    const at = end < 0 ? url.length : url.indexOf('://') + 3 + end
    const [origin, rest] = [url.slice(0, at), url.slice(at)]
    const path = rest.startsWith('/') ? rest : `/${rest}`
    return (this.#last = { url, pool: this.#poolOf(origin), path })
  }

  /** Requests that were abandoned, and their connections, end after {@link CLOSE_MS}. @throws the error that `late` makes */
  async close(late: () => Error): Promise<void> {
    const pools = [...this.#pools.values()]
    const closing = Promise.all(pools.map((pool) => pool.close()))
    try {
      await inTime(closing, CLOSE_MS, () => new Error('requests are still running'))
    } catch {
      await inTime(Promise.all(pools.map((pool) => pool.destroy())), DESTROY_MS, late)
    }
  }

  #poolOf(origin: string): Pool {
    let pool = this.#pools.get(origin)
    if (!pool) {
      pool = new Pool(origin, {
        connections: this.#connections,
        pipelining: 1,
        factory: (to, options) => {
          const client: NodeJS.EventEmitter & Dispatcher = new Client(to, options)
          return client.on('error', this.#onError)
        },
      })
      this.#pools.set(origin, pool)
    }
    return pool
  }
}

function send(
  pools: Pools,
  settings: UpstreamSettings,
  request: UpstreamRequest,
): Promise<UpstreamResponse> {
  // The limits travel with the signal, so providers need not pass them on.
  const scope = abortScopeOf(request.signal)
  const own = scope?.limits
  const limits = own ? withOwnLimits(settings, own) : settings
  return new Promise((resolve, reject) => {
    const bounds = settings.bounds ?? BOUNDS
    const exchange = new HttpExchange(request, resolve, reject, bounds)
    if (scope) scope.sent = exchange
    if (request.signal.aborted) return exchange.fail(request.signal.reason)
    const { pool, path } = pools.targetOf(request.url)
    pool.dispatch(
      {
        path,
        method: exchange.method as Dispatcher.HttpMethod,
        headers: scope?.traceHeaders
          ? { ...headersOf(request), ...scope.traceHeaders }
          : headersOf(request),
        body: bodyOf(request),
        headersTimeout: request.stream ? limits.firstPartTimeoutMs : limits.timeoutMs,
        // The same value as for the head: undici then keeps its timer.
        bodyTimeout: request.stream ? limits.idleTimeoutMs : limits.timeoutMs,
      },
      exchange,
    )
  })
}

function withOwnLimits(
  settings: UpstreamSettings,
  { timeout, firstPartTimeout, idleTimeout }: DeploymentLimits,
): UpstreamSettings {
  const ms = (seconds: number | undefined, otherwise: number) =>
    seconds === undefined ? otherwise : seconds * 1000
  return {
    ...settings,
    timeoutMs: ms(timeout, settings.timeoutMs),
    firstPartTimeoutMs: ms(firstPartTimeout, settings.firstPartTimeoutMs),
    idleTimeoutMs: ms(idleTimeout, settings.idleTimeoutMs),
  }
}

function bodyOf({ body }: UpstreamRequest): string | Uint8Array | Readable | null {
  if (isSegmented(body)) return Readable.from(sentOnce([...body]))
  return isLong(body) ? Readable.from(sentOnce([body])) : (body ?? null)
}

/** undici keeps a text until its answer has ended, and a stream lets go of what was sent. */
function isLong(body: UpstreamRequest['body']): body is string | Uint8Array {
  return !isSegmented(body) && body !== undefined && body.length >= LONG
}

/** @param segments emptied as they are sent */
function* sentOnce(segments: (string | Uint8Array)[]): Generator<Uint8Array> {
  for (let next = segments.shift(); next !== undefined; next = segments.shift()) {
    yield typeof next === 'string' ? Buffer.from(next) : next
  }
}

/** Adds the length of a body that is sent as a stream: undici cannot know it. */
function headersOf({ headers = {}, body }: UpstreamRequest): Readonly<Record<string, string>> {
  if (!isSegmented(body) && !isLong(body)) return headers
  const segments = isSegmented(body) ? body : [body]
  const bytes = segments.reduce((sum, segment) => sum + Buffer.byteLength(segment), 0)
  return { ...headers, 'content-length': String(bytes) }
}

function isSegmented(body: UpstreamRequest['body']): body is readonly Uint8Array[] {
  return Array.isArray(body)
}

/** `fetch` whose responses end with an error after so many decoded bytes. */
function boundedFetch(limitBytes: number): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await globalThis.fetch(input, init)
    if (!response.body) return response
    let bytes = 0
    const bound = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length
        if (bytes > limitBytes) controller.error(new Error('the answer is too large'))
        else controller.enqueue(chunk)
      },
    })
    return new Response(response.body.pipeThrough(bound), response)
  }
}
