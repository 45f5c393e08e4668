/**
 * The way out: one undici pool per origin, bytes with real back-pressure, server-sent events. Built for the hot path, so no
 * fetch and no web streams (performance design, sections 1 and 2).
 */
import { Buffer, isAscii } from 'node:buffer'
import { Readable } from 'node:stream'
import type { ConsolaInstance } from 'consola'
import { ofetch } from 'ofetch'
import { Pool, type Dispatcher } from 'undici'
import { abortScopeOf, offAbort, onAbort } from '../lifetime/abort-scope.ts'
import type { DeploymentLimits } from '../lifetime/abort-scope.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import { createDownloader, type Downloader } from './download.ts'
import { flowFrom } from '../stream/flow.ts'
import { encodeForm } from './form.ts'
import { RawJson } from '../stream/raw-json.ts'
import { readEvents } from '../stream/sse.ts'
import type { Batch, Flow, Host, Source, UpstreamRequest, UpstreamResponse } from '../plugin.ts'

export interface UpstreamSettings {
  /** ms to the head of an answer that comes whole. */
  readonly timeoutMs: number
  /** ms to the head of a stream. */
  readonly firstPartTimeoutMs: number
  /** ms without a byte before a body counts as stalled. */
  readonly idleTimeoutMs: number
  /** Connections per origin. */
  readonly connections: number
}

/** A Host and the connections behind it. */
export interface ClosableHost {
  readonly host: Host
  close(): Promise<void>
}

const fetchNothing = createDownloader({ enabled: false, limit: 0, timeout: 1 })

/**
 * Builds the Host of one plugin instance. Whoever calls this closes it.
 * @param fetch what fetches addresses of others; by default nothing does
 */
export function createHost(
  name: string,
  settings: UpstreamSettings,
  log: ConsolaInstance,
  fetch: Downloader = fetchNothing,
): ClosableHost {
  const pools = new Map<string, Pool>()
  const poolOf = (origin: string): Pool => {
    let pool = pools.get(origin)
    if (!pool) {
      pool = new Pool(origin, { connections: settings.connections, pipelining: 1 })
      pools.set(origin, pool)
    }
    return pool
  }
  // Most requests of a plugin go where the one before them went.
  let last: Target | undefined
  const targetOf = (url: string): Target => {
    if (last?.url === url) return last
    const cut = url.indexOf('/', url.indexOf('://') + 3)
    const [origin, path] = cut < 0 ? [url, '/'] : [url.slice(0, cut), url.slice(cut)]
    return (last = { url, pool: poolOf(origin), path })
  }
  const host: Host = {
    name,
    log: log.withTag(name),
    http: ofetch.create({ retry: 0, timeout: settings.timeoutMs }),
    request: (request) => send(targetOf, settings, request),
    form: encodeForm,
    download: fetch,
    sse: readEvents,
    json: (body) => RawJson.stringify(body),
    fail: (failure, message, options) => new UpstreamFailure(failure, message, options),
  }
  return {
    host,
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.close()))
    },
  }
}

const MAX_TEXT_BYTES = 64 * 1024 * 1024
/** Bytes received but not yet asked for, above which the socket is paused. */
const HIGH_WATER_BYTES = 64 * 1024
/** How long, and for how many bytes, the end of a body is waited for when all that was wanted has come. */
const LINGER_MS = 500
const LINGER_BYTES = 16 * 1024

/** Where a request goes. */
interface Target {
  readonly url: string
  readonly pool: Pool
  readonly path: string
}

function send(
  targetOf: (url: string) => Target,
  settings: UpstreamSettings,
  request: UpstreamRequest,
): Promise<UpstreamResponse> {
  // A provider knows nothing of them.
  const own = abortScopeOf(request.signal)?.limits
  const limits = own ? limitsOf(settings, own) : settings
  return new Promise((resolve, reject) => {
    const exchange = new HttpExchange(request.signal, resolve, reject)
    if (request.signal.aborted) return exchange.fail(request.signal.reason)
    const { pool, path } = targetOf(request.url)
    pool.dispatch(
      {
        path,
        method: (request.method ?? 'POST') as Dispatcher.HttpMethod,
        headers: headersOf(request),
        body: bodyOf(request),
        headersTimeout: request.stream ? limits.firstPartTimeoutMs : limits.timeoutMs,
        // One value for an answer that comes whole: a client keeps one timer as long as it does not change.
        bodyTimeout: request.stream ? limits.idleTimeoutMs : limits.timeoutMs,
      },
      exchange,
    )
  })
}

function limitsOf(
  settings: UpstreamSettings,
  { timeout, firstPartTimeout, idleTimeout }: DeploymentLimits,
): UpstreamSettings {
  const ms = (own: number | undefined, hosts: number) => (own === undefined ? hosts : own * 1000)
  return {
    ...settings,
    timeoutMs: ms(timeout, settings.timeoutMs),
    firstPartTimeoutMs: ms(firstPartTimeout, settings.firstPartTimeoutMs),
    idleTimeoutMs: ms(idleTimeout, settings.idleTimeoutMs),
  }
}

function bodyOf({ body }: UpstreamRequest): string | Uint8Array | Readable | null {
  return inPieces(body) ? Readable.from(body) : (body ?? null)
}

/** Of a body in pieces the length has to be told. */
function headersOf({ headers = {}, body }: UpstreamRequest): Readonly<Record<string, string>> {
  if (!inPieces(body)) return headers
  const bytes = body.reduce((sum, piece) => sum + piece.length, 0)
  return { ...headers, 'content-length': String(bytes) }
}

function inPieces(body: UpstreamRequest['body']): body is readonly Uint8Array[] {
  return Array.isArray(body)
}

const NOTHING: readonly never[] = []

/** One request in flight: undici's handler on one side, a flow of bytes on the other. */
class HttpExchange implements Dispatcher.DispatchHandler, UpstreamResponse, Source<Uint8Array> {
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

  async next(): Promise<Batch<Uint8Array>> {
    if (this.#queue.length === 0 && !this.#ended) {
      // Goes on in a microtask, so that all chunks of one read of the socket leave as one batch.
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
    const parts = this.#queue
    if (parts.length === 0 && this.#error !== undefined) throw this.#error
    this.#queue = NOTHING
    this.#queuedBytes = 0
    // May deliver the rest of the body, its end included, before it returns.
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
        const message = 'The model provider sent an answer that is too large.'
        throw new UpstreamFailure('upstream_error', message)
      }
      last = batch.last
    }
    return utf8ToText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes))
  }

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

  // A field, so that it can be a listener and be taken off again. Bound, because it is hardly ever called: of functions that
  // are made and never called V8 keeps all that they see until a full collection.
  readonly #onAbort = this.#abort.bind(this)

  #abort(): void {
    this.fail(this.#signal.reason)
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Ends the request without an error: its body is no longer wanted. */
  #abandon(): void {
    this.#end()
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Reads on for a moment, so that the connection can be used again. */
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

/** Headers that were sent more than once, as one. Mostly there are none. */
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

/** UTF-8 to text; the detour over ASCII is several times faster for large base64 bodies. */
export function utf8ToText(bytes: Uint8Array): string {
  const { buffer: memory, byteOffset, byteLength } = bytes
  const buffer = bytes instanceof Buffer ? bytes : Buffer.from(memory, byteOffset, byteLength)
  return buffer.toString(isAscii(buffer) ? 'latin1' : 'utf8')
}

function toFailure(error: Error & { code?: string }): UpstreamFailure {
  switch (error.code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return new UpstreamFailure('timeout', 'The model provider did not answer in time.', {
        cause: error,
      })
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return new UpstreamFailure('upstream_error', 'The model provider could not be reached.', {
        cause: error,
      })
    default:
      return new UpstreamFailure(
        'upstream_error',
        'The model provider closed the connection early.',
        {
          cause: error,
        },
      )
  }
}
