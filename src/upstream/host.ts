/** The implementation of Host: one connection pool per origin, on undici's dispatch interface. */
import { Readable } from 'node:stream'
import { Buffer, isAscii } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import type { ConsolaInstance } from 'consola'
import type { Dispatcher } from 'undici'
import { UpstreamFailure, brokenAnswer } from '../errors/errors.ts'
import {
  abortScopeOf,
  type AbortScope,
  type DeploymentLimits,
  offAbort,
  onAbort,
  type SentRequest,
} from '../lifetime/scope.ts'
import type {
  Host,
  UpstreamRequest,
  UpstreamResponse,
  Flow,
  FailureOptions,
  ReadJsonOptions,
  Form,
  FormField,
} from '../plugin.ts'
import { RawJson, JsonScan, type JsonLimits } from '../stream/raw-json.ts'
import { createDownloader, type Downloader } from './download.ts'
import { DIRECT, ProxyUnreachable, type EgressRoute, type Proxy } from './egress.ts'
import { CLASSES, toFailure, waitIn } from './failures.ts'
import { createHttp } from './http.ts'
import { Pools } from './pools.ts'
import type { Feed, Producer, Sink } from '../stream/chain.ts'
import { readEvents, flowFrom } from '../stream/flow.ts'
import { readLines } from '../stream/lines.ts'

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

/** Bodies from this length on are sent as a stream. */
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

/** What a host is made of. */
interface HostParts {
  /** Serves {@link Host.download}; by default every download is refused. */
  readonly download?: Downloader
  /** Serves {@link Host.mask}. */
  readonly mask?: Host['mask']
  /** Every connection is direct where it is absent. */
  readonly route?: EgressRoute
}

const refuseDownloads = createDownloader({ enabled: false, limit: 0, timeout: 1 })

/**
 * Builds the Host of one plugin instance.
 * @param name the name of the instance in the configuration
 */
export function createHost(
  name: string,
  settings: UpstreamSettings,
  log: ConsolaInstance,
  { download = refuseDownloads, mask = () => {}, route = DIRECT }: HostParts = {},
): ClosableHost {
  const pools = new Pools(route, settings.connections, (error) => {
    log.error(`${name}: a connection failed in an unforeseen way`, error)
  })
  const host: Host = {
    name,
    log: log.withTag(name),
    http: createHttp(pools, {
      timeoutMs: settings.timeoutMs,
      limitBytes: (settings.bounds ?? BOUNDS).answer,
    }),
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
    if (scope) {
      scope.sent = exchange
      exchange.scope = scope
    }
    if (request.signal.aborted) return exchange.fail(request.signal.reason)
    const { origin, path, dispatcher, proxy } = pools.targetOf(request.url)
    exchange.proxy = proxy
    dispatcher.dispatch(
      {
        origin,
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

/**
 * Whether a body is sent as a stream: undici keeps a text until its answer has ended, and lets go of the sent parts
 * of a stream.
 */
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

// One request to an upstream and its response.

/** Bounds of a response body, in bytes. */
interface BodyBounds {
  /**
   * The bound of a whole body that is read as a text. A plugin that expects files in it may ask for four times as
   * much.
   */
  readonly answer: number
  /** The bound of a body that is read as it comes. */
  readonly stream: number
}

/** The factor by which a plugin may raise the usual bound. */
const FILES = 4
/** More heads before the final one than any server sends. */
const MAX_INTERIM_HEADS = 20
const OPEN_OBJECT = 123
const NO_HEAD = 'UND_ERR_HEADERS_TIMEOUT'
const FIRST_ERROR = 400
/** The part of an error answer's body that is kept for the log. */
const ERROR_CHARACTERS = 64 * 1024
/** Limits of whole answers in JSON, which providers parse at once: four times as much as requests may have. */
const JSON_LIMITS: JsonLimits = {
  depth: 256,
  containers: 400_000,
  values: 2_000_000,
  literal: 1024,
  key: 65_536,
}
/** The socket is paused while more than this was received and not passed on. */
const HIGH_WATER_BYTES = 64 * 1024
/** Bounds of the wait for the end of a body that nothing reads any more, so that the connection can be reused. */
const LINGER_MS = 500
const LINGER_BYTES = 16 * 1024

const NOTHING: readonly never[] = []

/**
 * One request and its response. Chunks wait in a queue until their reader has room; while more than 64 KiB wait, the
 * socket is paused. All chunks of one read of the socket are passed on in one turn.
 */
export class HttpExchange
  implements Dispatcher.DispatchHandler, UpstreamResponse, Feed<Uint8Array>, Producer, SentRequest
{
  readonly method: string
  readonly url: string
  status = 0
  headers: Readonly<Record<string, string>> = {}
  errorBody: string | undefined = undefined
  /** It is absent for a direct connection. */
  proxy: Proxy | undefined = undefined
  /** It is set when the request begins, and not retained after that. */
  scope: AbortScope | undefined = undefined
  readonly #signal: AbortSignal
  readonly #resolve: (response: UpstreamResponse) => void
  readonly #reject: (error: unknown) => void
  readonly #bounds: BodyBounds
  #controller: Dispatcher.DispatchController | undefined
  #sink: Sink<Uint8Array> | undefined
  /** Whether the sink has no room. */
  #held = false
  #scheduled = false
  /** Whether nothing more is passed on. */
  #closed = false
  /** Chunks that arrived and were not passed on. */
  #queue: readonly Uint8Array[] = NOTHING
  #queuedBytes = 0
  /** All bytes of the body so far. */
  #receivedBytes = 0
  #interimHeads = 0
  /** Whether the body is in an encoding that was not asked for. */
  #encoded = false
  /** Whether nothing more arrives; `#error` says whether the body is complete. */
  #ended = false
  #error: unknown = undefined
  #lingering: NodeJS.Timeout | undefined

  /**
   * @param request its signal ends the exchange, whose reason is thrown
   * @param resolve receives this object when the head has arrived
   * @param reject receives the failure when no head arrives
   * @param bounds the bounds of the body
   */
  constructor(
    { method = 'POST', url, signal }: UpstreamRequest,
    resolve: (response: UpstreamResponse) => void,
    reject: (error: unknown) => void,
    bounds: BodyBounds,
  ) {
    this.method = method
    this.url = url
    this.#bounds = bounds
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    onAbort(signal, this.#onAbort)
  }

  /** Fails with UpstreamFailure `timeout` or `upstream_error`, or the reason of the abort, after all chunks that came before it. */
  get body(): Flow<Uint8Array> {
    return flowFrom(this)
  }

  start(sink: Sink<Uint8Array>): Producer {
    this.#sink = sink
    this.#schedule()
    return this
  }

  discard(): void {
    this.close(false)
  }

  pause(): void {
    this.#held = true
  }

  resume(): void {
    this.#held = false
    this.#schedule()
  }

  close(complete: boolean): void {
    this.#closed = true
    this.#sink = undefined
    this.#queue = NOTHING
    if (this.#ended || this.#lingering) return
    if (complete) this.#linger()
    else this.#abandon()
  }

  /**
   * @throws UpstreamFailure `upstream_error` for more than `limit` bytes or JSON beyond the limits, and the errors
   * of {@link body}
   */
  text(limit = this.#bounds.answer): Promise<string> {
    const most = Math.min(limit, FILES * this.#bounds.answer)
    return new Promise((resolve, reject) => {
      this.start(new TextSink(this, most, resolve, reject))
    })
  }

  get waitsForProxy(): boolean {
    return this.proxy !== undefined && this.#controller === undefined
  }

  proxyTimeout(): UpstreamFailure | undefined {
    if (!this.waitsForProxy) return undefined
    return toFailure(new ProxyUnreachable(noTunnel()), this.url, this.proxy)
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
    if (this.scope?.begunAt === 0) this.scope.begunAt = performance.now()
    this.scope = undefined
    if (this.#ended) controller.abort(new Error('no longer wanted'))
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (this.#ended) return
    if (status < 200) {
      if (++this.#interimHeads > MAX_INTERIM_HEADS) this.#breakOff(brokenHead())
      return
    }
    if (this.status > 0) return this.#breakOff(brokenHead())
    this.proxy?.answered()
    this.status = status
    this.headers = joined(headers)
    this.#encoded = (this.headers['content-encoding'] || 'identity').toLowerCase() !== 'identity'
    this.#resolve(this)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    if (this.#ended) return
    this.#queuedBytes += chunk.length
    if (this.#lingering) {
      if (this.#queuedBytes > LINGER_BYTES) this.#abandon()
      return
    }
    this.#receivedBytes += chunk.length
    if (this.#receivedBytes > this.#bounds.stream) return this.#breakOff(tooLarge())
    // A few bytes may stand for a very large text, and no request asks for an encoding.
    if (this.#encoded) return this.#breakOff(brokenAnswer(ENCODED))
    if (this.#queue.length === 0) this.#queue = [chunk]
    else (this.#queue as Uint8Array[]).push(chunk)
    if (this.#queuedBytes > HIGH_WATER_BYTES) controller.pause()
    this.#schedule()
  }

  onResponseEnd(): void {
    if (!this.#ended) this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#signal.aborted) return this.fail(this.#signal.reason)
    const url = this.status === 0 ? this.url : undefined
    // The deadline of a tunnel: the request itself has none yet.
    const late = (error as { code?: string }).code === NO_HEAD ? this.proxyTimeout() : undefined
    this.fail(late ?? toFailure(error, url, this.proxy))
  }

  // Fields, so that they are made once. Bound instead of arrow functions: see lifetime/README.md.
  readonly #onAbort = this.#abort.bind(this)
  readonly #onTurn = this.#give.bind(this)

  /** Passes chunks on in a microtask, so that all chunks of one read of the socket go together. */
  #schedule(): void {
    if (this.#scheduled || this.#held || this.#closed || !this.#sink) return
    this.#scheduled = true
    queueMicrotask(this.#onTurn)
  }

  #give(): void {
    this.#scheduled = false
    if (this.#held || this.#closed) return
    const sink = this.#sink!
    const chunks = this.#queue
    this.#queue = NOTHING
    this.#queuedBytes = 0
    for (let i = 0; i < chunks.length && !this.#closed; i++) sink.push(chunks[i]!)
    if (this.#closed) return
    if (chunks.length > 0) sink.batchEnd()
    // This may deliver more chunks, and the end, before it returns. They come after the ones given above.
    if (this.#controller?.paused) this.#controller.resume()
    if (this.#closed || this.#held || !this.#ended) return
    if (this.#queue.length > 0) return this.#schedule()
    this.#closed = true
    // What reads the body holds all of it, and the connection holds the exchange until the next request.
    this.#sink = undefined
    if (this.#error === undefined) sink.end()
    else sink.fail(this.#error)
  }

  #abort(): void {
    this.#breakOff(this.#signal.reason)
  }

  /** Closes the connection with an error. Earlier chunks are delivered. */
  #breakOff(error: unknown): void {
    this.fail(error)
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Closes the connection without an error: the rest of the body is not needed. */
  #abandon(): void {
    this.#end()
    this.#controller?.abort(new Error('no longer wanted'))
  }

  /** Discards the rest of the body for a moment, so that the connection can be reused. */
  #linger(): void {
    offAbort(this.#signal, this.#onAbort)
    this.#queuedBytes = 0
    this.#lingering = setTimeout(() => this.#abandon(), LINGER_MS).unref()
    if (this.#controller?.paused) this.#controller.resume()
  }

  #end(): void {
    clearTimeout(this.#lingering)
    this.#ended = true
    this.scope = undefined
    offAbort(this.#signal, this.#onAbort)
    this.#schedule()
  }
}

function noTunnel(): Error {
  return Object.assign(new Error('the proxy opened no connection in time'), {
    code: 'UND_ERR_CONNECT_TIMEOUT',
  })
}

/** Takes a whole body as a text. */
class TextSink implements Sink<Uint8Array> {
  readonly fail: (error: unknown) => void
  readonly #exchange: HttpExchange
  readonly #most: number
  readonly #take: (text: string) => void
  readonly #scan = new JsonScan(JSON_LIMITS)
  readonly #chunks: Uint8Array[] = []
  /** It is undefined until the first byte decides. */
  #isJson: boolean | undefined
  #bytes = 0

  constructor(
    exchange: HttpExchange,
    most: number,
    take: (text: string) => void,
    fail: (error: unknown) => void,
  ) {
    this.#exchange = exchange
    this.#most = most
    this.#take = take
    this.fail = fail
    this.#isJson = exchange.headers['content-type']?.includes('json') || undefined
  }

  push(chunk: Uint8Array): void {
    this.#bytes += chunk.length
    this.#chunks.push(chunk)
    // Some vendors call it text.
    this.#isJson ??= chunk[0] === OPEN_OBJECT
    if (this.#isJson && this.#scan.push(chunk)) {
      this.#refuse(brokenAnswer('The model provider sent an answer with too many values.'))
    } else if (this.#bytes > this.#most) this.#refuse(tooLarge())
  }

  batchEnd(): boolean {
    return true
  }

  end(): void {
    const chunks = this.#chunks
    const exchange = this.#exchange
    const text = utf8ToText(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, this.#bytes))
    if (exchange.status >= FIRST_ERROR) exchange.errorBody = text.slice(0, ERROR_CHARACTERS)
    this.#take(text)
  }

  #refuse(error: unknown): void {
    this.#exchange.close(false)
    this.fail(error)
  }
}

const ENCODED = 'The model provider sent its answer in an encoding that it was not asked for.'

function tooLarge(): UpstreamFailure {
  return brokenAnswer('The model provider sent an answer that is too large.')
}

function brokenHead(): UpstreamFailure {
  return brokenAnswer('The model provider sent more than one head of its answer.')
}

/** Joins the values of headers that were sent more than once. */
function joined(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Readonly<Record<string, string>> {
  for (const name in headers) {
    if (typeof headers[name] === 'string') continue
    const present = Object.entries(headers).filter(([, value]) => value !== undefined)
    return Object.fromEntries(present.map(([one, value]) => [one, [value].flat().join(', ')]))
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

const LIMIT_BYTES = 8 * 1024 * 1024
const MAX_REFUSAL_BYTES = 1024 * 1024

/** The value of an answer that is JSON. @throws as {@link Host.readJson} */
async function readJson(
  response: UpstreamResponse,
  { limitBytes = LIMIT_BYTES }: ReadJsonOptions = {},
): Promise<any> {
  const { status } = response
  if (status < 200 || status > 299) throw await failureOf(response)
  const value = parsed(await response.text(limitBytes))
  if (value === undefined) throw brokenAnswer('The model provider sent something that is not JSON.')
  return value
}

/** The failure that an answer stands for. Its body is read, so that the connection can be used again. */
async function failureOf(
  response: UpstreamResponse,
  { classes, classify, message }: FailureOptions = {},
): Promise<UpstreamFailure> {
  const { status, headers } = response
  // The status alone tells what happened where the body cannot be read.
  const body = await response.text(MAX_REFUSAL_BYTES).catch(() => '')
  const classified = classify?.(parsed(body), status)
  const refusal = typeof classified === 'string' ? { failure: classified } : classified
  const failure = refusal?.failure ?? classes?.[status] ?? CLASSES[status] ?? 'upstream_error'
  const retryAfterMs = refusal?.retryAfterMs ?? waitIn(headers)
  return new UpstreamFailure(failure, message, {
    cause: Object.assign(new Error(`HTTP ${status}`), { status }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Encodes a form; see {@link Host.form}. The bytes of files are shared, not copied. */
export function encodeForm(fields: readonly FormField[]): Form {
  // A random boundary cannot occur in the files.
  const boundary = `form-${randomUUID()}`
  const segments: Uint8Array[] = []
  let text = ''
  for (const { name, value } of fields) {
    text += `--${boundary}\r\ncontent-disposition: form-data; name="${quoted(name)}"`
    if (typeof value === 'string') {
      text += `\r\n\r\n${value}\r\n`
      continue
    }
    const { bytes, mediaType, filename } = value
    const type = mediaType.replace(/[^\x21-\x7e]/g, '')
    text += `; filename="${quoted(filename)}"\r\ncontent-type: ${type}\r\n\r\n`
    segments.push(Buffer.from(text), ...(bytes instanceof Uint8Array ? [bytes] : bytes))
    text = '\r\n'
  }
  segments.push(Buffer.from(`${text}--${boundary}--\r\n`))
  return { contentType: `multipart/form-data; boundary=${boundary}`, body: segments }
}

/** Escapes a name as browsers do: https://html.spec.whatwg.org/#multipart-form-data */
function quoted(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}
