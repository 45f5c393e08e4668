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
import { readEvents } from '../stream/sse.ts'
import type {
  Batch,
  Flow,
  Host,
  Sink,
  Source,
  UpstreamRequest,
  UpstreamResponse,
} from '../plugin.ts'

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

const SOON = Promise.resolve()
const NOTHING: readonly never[] = []

/** One request in flight: undici's handler on one side, a flow of bytes on the other. */
class HttpExchange implements Dispatcher.DispatchHandler, UpstreamResponse, Source<Uint8Array> {
  status = 0
  headers: Readonly<Record<string, string>> = {}
  readonly #signal: AbortSignal
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: unknown) => void
  #controller: Dispatcher.DispatchController | undefined
  #queue: readonly Uint8Array[] = NOTHING
  #queued = 0
  #ended = false
  #error: unknown = undefined
  #lingering: NodeJS.Timeout | undefined
  /** Somebody wants the body as one text. */
  #whole:
    | {
        readonly limit: number
        readonly resolve: (text: string) => void
        readonly reject: (error: unknown) => void
      }
    | undefined
  #waiting: { resolve(batch: Batch<Uint8Array>): void; reject(error: unknown): void } | undefined
  /** Who takes what arrives, until the end. */
  #sink: Sink<Uint8Array> | undefined
  #full = false
  #flushing = false

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

  pour(sink: Sink<Uint8Array>): void {
    this.#sink = sink
    this.#flush()
  }

  next(): Promise<Batch<Uint8Array>> {
    if (this.#queue.length > 0) return Promise.resolve(this.#batch())
    if (this.#error !== undefined) return Promise.reject(this.#error)
    if (this.#ended) return Promise.resolve(this.#batch())
    return new Promise((resolve, reject) => (this.#waiting = { resolve, reject }))
  }

  close(complete: boolean): void {
    this.#queue = NOTHING
    this.#sink = undefined
    if (this.#ended || this.#lingering) return
    if (complete) this.#linger()
    else this.#abandon()
  }

  text(limit = MAX_TEXT_BYTES): Promise<string> {
    // Most answers are whole when somebody asks for them, so nothing is iterated here.
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#whole = { limit, resolve, reject }
    if (this.#controller?.paused) this.#controller.resume()
    this.#finishText()
    return promise
  }

  fail(error: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#error = error
    offAbort(this.#signal, this.#onAbort)
    this.#reject(error)
    this.#waiting?.reject(error)
    this.#waiting = undefined
    this.#whole?.reject(error)
    if (this.#sink) this.#flushSoon()
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
    this.#queued += chunk.length
    if (this.#lingering) {
      if (this.#queued > LINGER_BYTES) this.#abandon()
      return
    }
    if (this.#queue.length === 0) this.#queue = [chunk]
    else (this.#queue as Uint8Array[]).push(chunk)
    if (this.#whole) this.#finishText()
    else if (this.#waiting) this.#deliver()
    else if (this.#sink && !this.#full) this.#flushSoon()
    else if (this.#queued > HIGH_WATER_BYTES) controller.pause()
  }

  onResponseEnd(): void {
    clearTimeout(this.#lingering)
    if (this.#ended) return
    this.#ended = true
    offAbort(this.#signal, this.#onAbort)
    if (this.#waiting) this.#deliver()
    if (this.#sink) this.#flushSoon()
    if (this.#whole) this.#finishText()
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

  /** Gives the text out when it is complete, gives up when it is too large. */
  #finishText(): void {
    const { limit, resolve, reject } = this.#whole!
    if (this.#error !== undefined) return reject(this.#error)
    if (this.#queued > limit) {
      const message = 'The model provider sent an answer that is too large.'
      reject(new UpstreamFailure('upstream_error', message))
      if (!this.#ended) this.#abandon()
    } else if (this.#ended) {
      const chunks = this.#queue
      resolve(utf8ToText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, this.#queued)))
    }
  }

  #abandon(): void {
    clearTimeout(this.#lingering)
    this.#ended = true
    offAbort(this.#signal, this.#onAbort)
    this.#controller?.abort(new Error('no longer wanted'))
  }

  #linger(): void {
    offAbort(this.#signal, this.#onAbort)
    this.#queued = 0
    this.#lingering = setTimeout(() => this.#abandon(), LINGER_MS).unref()
    if (this.#controller?.paused) this.#controller.resume()
  }

  #deliver(): void {
    this.#waiting!.resolve(this.#batch())
    this.#waiting = undefined
  }

  /** What comes in one read of the socket goes on together. */
  #flushSoon(): void {
    if (this.#flushing) return
    this.#flushing = true
    void SOON.then(this.#onFlush)
  }

  // A field, so that there is one for all the reads.
  readonly #onFlush = this.#flushNow.bind(this)

  #flushNow(): void {
    this.#flushing = false
    this.#flush()
  }

  #flush(): void {
    const sink = this.#sink
    if (!sink || this.#full) return
    if (this.#queue.length > 0 || (this.#ended && this.#error === undefined)) {
      const batch = this.#batch()
      if (batch.last) this.#sink = undefined
      const room = sink.take(batch)
      if (room) this.#waitFor(room)
    }
    // What arrived before it broke has gone out by now.
    if (this.#error === undefined || this.#full || this.#sink !== sink) return
    this.#sink = undefined
    sink.fail(this.#error)
  }

  #waitFor(room: Promise<void>): void {
    this.#full = true
    const goOn = () => {
      this.#full = false
      this.#flush()
    }
    void room.then(goOn, goOn)
  }

  #batch(): Batch<Uint8Array> {
    const parts = this.#queue
    this.#queue = NOTHING
    this.#queued = 0
    // May deliver the rest of the body, its end included, before it returns.
    if (this.#controller?.paused) this.#controller.resume()
    return {
      parts,
      last: this.#ended && this.#error === undefined && this.#queue.length === 0,
    }
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
