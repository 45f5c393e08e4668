/** The pipeline's view of Node's request and response. Node's own objects: web objects cost several times as much. */
import type { Socket } from 'node:net'
import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable, Transform } from 'node:stream'
import zlib from 'node:zlib'
import type { Timeout } from '../lifetime/scope.ts'
import { InvalidRequest, type InvalidCode } from '../errors/errors.ts'
import type { Incoming, Outgoing } from '../pipeline/http.ts'
import { ClientDisconnected, type Call } from '../pipeline/pipeline.ts'

/** Content codings that a body may have. */
const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  zstd: zlib.createZstdDecompress,
}

/** A slow body must bring this much within each `server.bodyTimeout`. */
const PACE_BYTES = 1024 * 1024

/** So many pieces this small in a row are joined at once. */
const SMALL_BYTES = 1024
const MANY = 1024

/** A timeout for bodies that belong to no call. @param ms until it fires, again and again */
export function bodyTimer(ms: number): (onTimeout: () => void) => Timeout {
  return (onTimeout) => {
    const timer = setInterval(onTimeout, ms)
    return { restart() {}, clear: () => clearInterval(timer) }
  }
}

/** Reads one request. Its body is read once. */
export class NodeIncoming implements Incoming {
  readonly #request: IncomingMessage
  readonly #startTimeout: (onTimeout: () => void) => Timeout

  /** @param startTimeout starts a timeout of `server.bodyTimeout` */
  constructor(request: IncomingMessage, startTimeout: (onTimeout: () => void) => Timeout) {
    this.#request = request
    this.#startTimeout = startTimeout
  }

  get method(): string {
    return this.#request.method ?? 'GET'
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  body(limitBytes: number): Promise<Buffer> {
    const chunks: Buffer[] = []
    let small = 0
    const take = (chunk: Buffer) => {
      chunks.push(chunk)
      small = chunk.length < SMALL_BYTES ? small + 1 : 0
      if (small < MANY) return
      // Without this, a body sent byte by byte would take a hundred times its size.
      chunks.push(Buffer.concat(chunks.splice(-small)))
      small = 0
    }
    const whole = () => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    return this.#read(limitBytes, 'invalid_json', take, whole)
  }

  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void> {
    return this.#read(limitBytes, 'invalid_multipart', take, () => {})
  }

  throwIfGone(): void {
    if (this.#request.socket.destroyed) throw new ClientDisconnected()
  }

  /** @param whole makes the result when all of it was taken */
  #read<T>(
    limitBytes: number,
    undecodable: InvalidCode,
    take: (chunk: Buffer) => void,
    whole: () => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const source = this.#decoded()
      if (source === this.#request && Number(this.header('content-length')) > limitBytes) {
        throw tooLarge(limitBytes)
      }
      const request = this.#request
      const init = { request, source, limitBytes, undecodable, take, whole, resolve, reject }
      new BodyReader(init).begin(this.#startTimeout)
    })
  }

  #decoded(): Readable {
    const coding = this.header('content-encoding')?.trim().toLowerCase()
    if (!coding || coding === 'identity') return this.#request
    const create = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined
    if (!create) {
      throw new InvalidRequest(
        'unsupported_content_encoding',
        'Bodies may be encoded with gzip, deflate, br or zstd; this one names another coding.',
      )
    }
    return this.#request.pipe(create())
  }
}

function tooLarge(limitBytes: number): InvalidRequest {
  return new InvalidRequest(
    'request_too_large',
    `The request body is larger than ${limitBytes} bytes, the limit of this route.`,
  )
}

interface BodyReaderInit<T> {
  readonly request: IncomingMessage
  /** The request, or the stream that decodes it. */
  readonly source: Readable
  readonly limitBytes: number
  readonly undecodable: InvalidCode
  readonly take: (chunk: Buffer) => void
  readonly whole: () => T
  readonly resolve: (whole: T) => void
  readonly reject: (error: unknown) => void
}

/** Reads one body: bounds its size and its time. */
class BodyReader<T> {
  readonly #init: BodyReaderInit<T>
  readonly #onData = this.#take.bind(this)
  #slow: Timeout | undefined
  #size = 0
  #sizeThen = 0
  #over = false

  constructor(init: BodyReaderInit<T>) {
    this.#init = init
  }

  begin(startTimeout: (onTimeout: () => void) => Timeout): void {
    const { request, source } = this.#init
    this.#slow = startTimeout(this.#check.bind(this))
    source.on('data', this.#onData)
    source.on('end', this.#end.bind(this))
    source.on('error', this.#broken.bind(this))
    request.on('close', this.#closed.bind(this))
    if (request.destroyed) this.#closed()
  }

  #take(chunk: Buffer): void {
    const { limitBytes, take } = this.#init
    this.#size += chunk.length
    if (this.#size > limitBytes) return this.#fail(tooLarge(limitBytes))
    try {
      take(chunk)
    } catch (error) {
      this.#fail(error)
    }
  }

  #end(): void {
    if (this.#over) return
    this.#release()
    this.#init.resolve(this.#init.whole())
  }

  #check(): void {
    if (this.#size - this.#sizeThen < PACE_BYTES) {
      const message = 'The request body did not arrive in time.'
      return this.#fail(new InvalidRequest('request_timeout', message))
    }
    this.#sizeThen = this.#size
    this.#slow!.restart()
  }

  #broken(): void {
    const message = 'The request body cannot be decoded: it is corrupt or cut off.'
    this.#fail(new InvalidRequest(this.#init.undecodable, message))
  }

  #closed(): void {
    if (!this.#init.request.complete) this.#fail(new ClientDisconnected())
  }

  #fail(error: unknown): void {
    if (this.#over) return
    this.#release()
    this.#init.source.off('data', this.#onData)
    this.#init.reject(error)
  }

  /** Stops reading and releases the timeout. */
  #release(): void {
    const { request, source } = this.#init
    this.#over = true
    this.#slow!.clear()
    if (source === request) return
    request.unpipe()
    source.destroy()
  }
}

const EXPOSED = [
  'X-Service-Request-Id',
  'X-Service-Cost',
  'X-Service-Guard',
  'X-Service-Guard-Escalate',
  'X-Service-Policy-Ignored',
  'x-request-id',
  'openai-processing-ms',
  'Retry-After',
  'retry-after-ms',
  'x-should-retry',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
].join(', ')

/** Headers of every response: CORS and the request id. */
export function commonHeaders(id: string): string[] {
  return [
    'access-control-allow-origin',
    '*',
    'access-control-expose-headers',
    EXPOSED,
    'x-service-request-id',
    id,
    'x-request-id',
    id,
  ]
}

/** Writes one response, with the common headers and those of the call. */
export class NodeOutgoing implements Outgoing {
  readonly #response: ServerResponse
  readonly #call: Call
  #drained: Promise<void> | undefined
  /** The head and a first write went out through Node, which decides then how the body is framed. */
  #begun = false

  constructor(response: ServerResponse, call: Call) {
    this.#response = response
    this.#call = call
  }

  get headSent(): boolean {
    return this.#response.headersSent
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    const call = this.#call
    const list = commonHeaders(call.id)
    if ((call as Partial<Call>).key) {
      list.push('openai-processing-ms', String(Date.now() - call.startedAt))
    }
    for (const name in call.headers) if (!(name in headers)) list.push(name, call.headers[name]!)
    for (const name in headers) list.push(name, headers[name]!)
    this.#response.writeHead(status, list)
  }

  flush(): void {
    this.#response.flushHeaders()
  }

  write(bytes: Uint8Array | string): void | Promise<void> {
    const response = this.#response
    const { socket } = response
    const room =
      this.#begun && socket && typeof bytes === 'string'
        ? writeChunk(socket, bytes, response.chunkedEncoding)
        : response.write(bytes)
    this.#begun = true
    if (room || response.destroyed) return
    return (this.#drained ??= this.#drain())
  }

  /** Resolves when the socket has room again, or is closed. */
  #drain(): Promise<void> {
    const response = this.#response
    const { socket } = response
    const call = this.#call
    const branch = call.abortScope()
    // A client that does not read would keep an aborted call alive, and would not notice the end either.
    const giveUp = () => void response.destroy()
    branch.on(giveUp)
    if (branch.signal.aborted) giveUp()
    return new Promise((resolve) => {
      const done = () => {
        this.#drained = undefined
        call.release(branch)
        branch.off(giveUp)
        socket?.off('drain', done)
        response.off('drain', done).off('close', done)
        resolve()
      }
      socket?.on('drain', done)
      response.on('drain', done).on('close', done)
    })
  }

  end(bytes?: Uint8Array | string, ascii = false): void {
    const response = this.#response
    const { socket } = response
    const encoding = ascii ? 'latin1' : 'utf8'
    if (!bytes || !socket || response.chunkedEncoding) return void response.end(bytes, encoding)
    // Head and body in one write: `end` alone would add an empty one.
    socket.cork()
    response.write(bytes, encoding)
    socket.uncork()
    response.end()
  }

  destroy(): void {
    this.#response.destroy()
  }
}

/**
 * Writes a text, framed as a chunk where the response is chunked. Node alone writes a chunk as four buffers at the end of the
 * turn, which costs 13 % of a paced event.
 */
function writeChunk(socket: Socket, text: string, chunked: boolean): boolean {
  const bytes = Buffer.byteLength(text)
  const framed = chunked ? `${bytes.toString(16)}\r\n${text}\r\n` : text
  return socket.write(framed, bytes === text.length ? 'latin1' : 'utf8')
}
