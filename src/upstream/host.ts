/** The implementation of Host: one connection pool per origin, on undici's dispatch interface. */
import { Readable } from 'node:stream'
import type { ConsolaInstance } from 'consola'
import { ofetch } from 'ofetch'
import { Pool, type Dispatcher } from 'undici'
import { Buffer, isAscii } from 'node:buffer'
import { UpstreamFailure, brokenAnswer } from '../errors/errors.ts'
import { abortScopeOf, type DeploymentLimits, offAbort, onAbort } from '../lifetime/scope.ts'
import type { Host, UpstreamRequest, UpstreamResponse, Batch, Flow, Source } from '../plugin.ts'
import { RawJson } from '../stream/raw-json.ts'
import { createDownloader, type Downloader } from './download.ts'
import { encodeForm } from './form.ts'
import { flowFrom, readEvents } from '../stream/flow.ts'

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
}

/** A Host with its connections. The owner closes it. */
export interface ClosableHost {
  readonly host: Host
  /** Resolves when running requests have ended and all connections are closed. */
  close(): Promise<void>
}

const refuseDownloads = createDownloader({ enabled: false, limit: 0, timeout: 1 })

/**
 * Builds the Host of one plugin instance.
 * @param name of the instance, from the configuration
 * @param download serves {@link Host.download}; by default every download is refused
 */
export function createHost(
  name: string,
  settings: UpstreamSettings,
  log: ConsolaInstance,
  download: Downloader = refuseDownloads,
): ClosableHost {
  const pools = new Pools(settings.connections)
  const host: Host = {
    name,
    log: log.withTag(name),
    http: ofetch.create({ retry: 0, timeout: settings.timeoutMs }),
    request: (request) => send(pools, settings, request),
    form: encodeForm,
    json: (body) => RawJson.stringify(body),
    download,
    sse: readEvents,
    fail: (failure, message, options) => new UpstreamFailure(failure, message, options),
  }
  return { host, close: () => pools.close() }
}

/** Where a request goes. */
interface Target {
  readonly url: string
  readonly pool: Pool
  readonly path: string
}

/** One pool per origin. */
class Pools {
  readonly #connections: number
  readonly #pools = new Map<string, Pool>()
  /** Most plugins send all their requests to one address. */
  #last: Target | undefined

  constructor(connections: number) {
    this.#connections = connections
  }

  /** @throws an error of undici when the origin is not a valid URL */
  targetOf(url: string): Target {
    if (this.#last?.url === url) return this.#last
    const slash = url.indexOf('/', url.indexOf('://') + 3)
    const [origin, path] = slash < 0 ? [url, '/'] : [url.slice(0, slash), url.slice(slash)]
    return (this.#last = { url, pool: this.#poolOf(origin), path })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()))
  }

  #poolOf(origin: string): Pool {
    let pool = this.#pools.get(origin)
    if (!pool) {
      pool = new Pool(origin, { connections: this.#connections, pipelining: 1 })
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
  const own = abortScopeOf(request.signal)?.limits
  const limits = own ? withOwnLimits(settings, own) : settings
  return new Promise((resolve, reject) => {
    const exchange = new HttpExchange(request.signal, resolve, reject)
    if (request.signal.aborted) return exchange.fail(request.signal.reason)
    const { pool, path } = pools.targetOf(request.url)
    pool.dispatch(
      {
        path,
        method: (request.method ?? 'POST') as Dispatcher.HttpMethod,
        headers: headersOf(request),
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
  return isSegmented(body) ? Readable.from(body) : (body ?? null)
}

/** Adds the length of a body in segments: undici cannot know it. */
function headersOf({ headers = {}, body }: UpstreamRequest): Readonly<Record<string, string>> {
  if (!isSegmented(body)) return headers
  const bytes = body.reduce((sum, segment) => sum + segment.length, 0)
  return { ...headers, 'content-length': String(bytes) }
}

function isSegmented(body: UpstreamRequest['body']): body is readonly Uint8Array[] {
  return Array.isArray(body)
}

const MAX_TEXT_BYTES = 64 * 1024 * 1024
/** The socket is paused while more than this was received and not pulled. */
const HIGH_WATER_BYTES = 64 * 1024
/** How long, and for how many bytes, a finished reader waits for the end of the body, so that the connection can be reused. */
const LINGER_MS = 500
const LINGER_BYTES = 16 * 1024

const NOTHING: readonly never[] = []

/**
 * One request and its response. Chunks wait in a queue until they are pulled; while more than 64 KiB wait, the socket is
 * paused, and the next pull resumes it.
 */
export class HttpExchange
  implements Dispatcher.DispatchHandler, UpstreamResponse, Source<Uint8Array>
{
  status = 0
  headers: Readonly<Record<string, string>> = {}
  readonly #signal: AbortSignal
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: unknown) => void
  #controller: Dispatcher.DispatchController | undefined
  /** Chunks that arrived and were not yet pulled. */
  #queue: readonly Uint8Array[] = NOTHING
  #queuedBytes = 0
  /** Nothing more arrives; `#error` says whether the body is complete. */
  #ended = false
  #error: unknown = undefined
  #lingering: NodeJS.Timeout | undefined
  /** Wakes the pull that waits. */
  #wake: (() => void) | undefined

  /**
   * @param signal ends the exchange; its reason is thrown
   * @param resolve receives this object when the head has arrived
   * @param reject receives the failure when no head arrives
   */
  constructor(
    signal: AbortSignal,
    resolve: (response: UpstreamResponse) => void,
    reject: (error: unknown) => void,
  ) {
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    onAbort(signal, this.#onAbort)
  }

  get body(): Flow<Uint8Array> {
    return flowFrom(this)
  }

  /** @throws UpstreamFailure `timeout` or `upstream_error`, or the reason of the abort, after all chunks that came before it */
  async next(): Promise<Batch<Uint8Array>> {
    if (this.#queue.length === 0 && !this.#ended) {
      // Continues in a microtask, so all chunks of one read of the socket are one batch.
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    const parts = this.#queue
    if (parts.length === 0 && this.#error !== undefined) throw this.#error
    this.#queue = NOTHING
    this.#queuedBytes = 0
    // This may deliver more chunks and the end before it returns. They come after the ones taken above.
    if (this.#controller?.paused) this.#controller.resume()
    return {
      parts,
      last: this.#ended && this.#error === undefined && this.#queue.length === 0,
    }
  }

  close(complete: boolean): void {
    this.#queue = NOTHING
    if (this.#ended || this.#lingering) return
    if (complete) this.#linger()
    else this.#abandon()
  }

  /** @throws UpstreamFailure `upstream_error` for more than `limit` bytes, and what {@link next} throws */
  async text(limit = MAX_TEXT_BYTES): Promise<string> {
    const chunks: Uint8Array[] = []
    let bytes = 0
    for (let last = false; !last;) {
      const batch = await this.next()
      for (const chunk of batch.parts) {
        bytes += chunk.length
        chunks.push(chunk)
      }
      if (bytes > limit) {
        this.close(false)
        throw brokenAnswer('The model provider sent an answer that is too large.')
      }
      last = batch.last
    }
    return utf8ToText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes))
  }

  /** Ends the exchange with an error, unless it has ended. */
  fail(error: unknown): void {
    if (this.#ended) return
    this.#error = error
    this.#end()
    this.#reject(error)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#ended) controller.abort(new Error('no longer wanted'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return
    this.status = status
    this.headers = joined(headers)
    this.#resolve(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#queuedBytes += chunk.length
    if (this.#lingering) {
      if (this.#queuedBytes > LINGER_BYTES) this.#abandon()
      return
    }
    if (this.#queue.length === 0) this.#queue = [chunk]
    else (this.#queue as Uint8Array[]).push(chunk)
    if (this.#queuedBytes > HIGH_WATER_BYTES) controller.pause()
    this.#wake?.()
  }

  onResponseEnd(): void {
    if (!this.#ended) this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(this.#signal.aborted ? this.#signal.reason : toFailure(error))
  }

  // A field, so that the listener can be removed. Bound instead of an arrow function: see lifetime/README.md.
  readonly #onAbort = this.#abort.bind(this)

  #abort(): void {
    this.fail(this.#signal.reason)
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Closes the connection without an error: the rest of the body is not needed. */
  #abandon(): void {
    this.#end()
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Discards what is left of the body for a moment, so that the connection can be reused. */
  #linger(): void {
    offAbort(this.#signal, this.#onAbort)
    this.#queuedBytes = 0
    this.#lingering = setTimeout(() => this.#abandon(), LINGER_MS).unref()
    if (this.#controller?.paused) this.#controller.resume()
  }

  #end(): void {
    clearTimeout(this.#lingering)
    this.#ended = true
    offAbort(this.#signal, this.#onAbort)
    this.#wake?.()
  }
}

/** Joins the values of headers that were sent more than once. */
function joined(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Readonly<Record<string, string>> {
  for (const name in headers) {
    if (typeof headers[name] === 'string') continue
    const given = Object.entries(headers).filter(([, value]) => value !== undefined)
    return Object.fromEntries(given.map(([one, value]) => [one, [value].flat().join(', ')]))
  }
  return headers as Readonly<Record<string, string>>
}

/** Decodes UTF-8. Invalid bytes become U+FFFD. */
export function utf8ToText(bytes: Uint8Array): string {
  const { buffer: memory, byteOffset, byteLength } = bytes
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(memory, byteOffset, byteLength)
  // 10.7 MB of base64: 6.5 instead of 17.6 ms.
  return buffer.toString(isAscii(buffer) ? 'latin1' : 'utf8')
}

function toFailure(cause: Error & { code?: string }): UpstreamFailure {
  switch (cause.code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return new UpstreamFailure('timeout', 'The model provider did not answer in time.', { cause })
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return brokenAnswer('The model provider could not be reached.', cause)
    default:
      return brokenAnswer('The model provider closed the connection early.', cause)
  }
}
