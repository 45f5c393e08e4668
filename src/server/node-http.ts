/** The pipeline's view of Node's request and response. Node's own objects: web objects cost several times as much. */
import type { Socket } from 'node:net'
import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import zlib from 'node:zlib'
import type { Timeout } from '../lifetime/scope.ts'
import type { BodyShare } from '../gateway/body-budget.ts'
import { ClientDisconnected, type Call } from '../pipeline/pipeline.ts'
import type { Incoming, Outgoing } from '../pipeline/http.ts'
import { JsonScan, jsonRefusal } from '../stream/raw-json.ts'
import type { BodyLimits } from '../config/config.ts'
import { InvalidRequest, type InvalidCode } from '../errors/errors.ts'
import { clientAddress } from './client-address.ts'

/** Size up to which pieces are small; this many of them in a row are joined at once. */
const SMALL_BYTES = 1024
const MANY = 1024

interface IncomingOptions extends Pick<BodyReading, 'limits' | 'startTimeout' | 'onStart'> {
  /** Proxies that tell where a client is; none by default. */
  readonly trustedProxies?: readonly string[]
  /** Makes the share of the body in the budget of memory, when the body is read. */
  readonly share?: () => BodyShare
}

export class NodeIncoming implements Incoming {
  readonly #request: IncomingMessage
  readonly #options: IncomingOptions
  #share: BodyShare | undefined

  constructor(request: IncomingMessage, options: IncomingOptions) {
    this.#request = request
    this.#options = options
  }

  get method(): string {
    return this.#request.method ?? 'GET'
  }

  get url(): string {
    return this.#request.url ?? '/'
  }

  get address(): string {
    return clientAddress(this.#request, this.#options.trustedProxies ?? [])
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  json<T>(limitBytes: number, take: (body: Buffer) => T | Promise<T>): Promise<T> {
    const chunks: Buffer[] = []
    let small = 0
    const keep = (chunk: Buffer) => {
      chunks.push(chunk)
      small = chunk.length < SMALL_BYTES ? small + 1 : 0
      if (small < MANY) return
      // Without this, a body sent byte by byte would take a hundred times its size.
      chunks.push(Buffer.concat(chunks.splice(-small)))
      small = 0
    }
    const whole = () => (chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
    const scan = new JsonScan(this.#options.limits)
    return this.#read('invalid_json', limitBytes, keep, () => take(whole()), scan)
  }

  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void> {
    return this.#read('invalid_multipart', limitBytes, take, () => {})
  }

  release(): void {
    this.#share?.release()
  }

  throwIfGone(): void {
    if (this.#request.socket.destroyed) throw new ClientDisconnected()
  }

  #read<T>(
    undecodable: BodyReading['undecodable'],
    limitBytes: number,
    take: BodyReading['take'],
    result: () => T | Promise<T>,
    scan?: JsonScan,
  ): Promise<T> {
    const { limits, onStart, startTimeout, share } = this.#options
    this.#share = share?.()
    const reading = {
      request: this.#request,
      limitBytes,
      limits,
      undecodable,
      scan,
      share: this.#share,
      onStart,
      startTimeout,
      take,
    }
    return readBody(reading, result)
  }
}

const EXPOSED = [
  'X-Service-Request-Id',
  'X-Service-Cost',
  'X-Service-Guard',
  'X-Service-Guard-Escalate',
  'X-Service-Policy-Ignored',
  'X-Service-Ignored',
  'X-Service-Model',
  'X-Service-Cache',
  'X-Service-Original-Request',
  'Idempotent-Replayed',
  'x-request-id',
  'request-id',
  'openai-processing-ms',
  'Retry-After',
  'retry-after-ms',
  'x-should-retry',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-tokens',
  'X-Service-Limit',
].join(', ')

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
  #resume: () => void = () => {}
  /** Whether the socket is full; it reports when it has room. */
  #isFull = false
  /** Whether the head and a first write went out through Node, which then decides how the body is framed. */
  #begun = false
  #detached = false

  constructor(response: ServerResponse, call: Call) {
    this.#response = response
    this.#call = call
  }

  get headSent(): boolean {
    return this.#response.headersSent || this.#detached
  }

  /** Drops what follows: the client has left, and the call goes on. */
  detach(): void {
    this.#detached = true
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    const call = this.#call
    const list = commonHeaders(call.id)
    if (call.made.admission) {
      list.push('openai-processing-ms', String(call.elapsedMs))
    }
    for (const name in call.headers) if (!(name in headers)) list.push(name, call.headers[name]!)
    for (const name in headers) list.push(name, headers[name]!)
    call.copy?.head(status, headers['content-type'] ?? '')
    if (!this.#detached) this.#response.writeHead(status, list)
  }

  flush(): void {
    if (!this.#detached) this.#response.flushHeaders()
  }

  write(bytes: Uint8Array | string): boolean {
    this.#call.copy?.add(bytes)
    if (this.#detached) return true
    const response = this.#response
    const { socket } = response
    const room =
      this.#begun && socket && typeof bytes === 'string'
        ? writeChunk(socket, bytes, response.chunkedEncoding)
        : response.write(bytes)
    this.#begun = true
    if (room || response.destroyed) return true
    if (!this.#isFull) this.#awaitRoom()
    return false
  }

  onDrain(resume: () => void): void {
    this.#resume = resume
  }

  /** Wakes the writer when the socket has room again, or is closed. */
  #awaitRoom(): void {
    this.#isFull = true
    const response = this.#response
    const { socket } = response
    const call = this.#call
    const branch = call.abortScope()
    const done = () => {
      this.#isFull = false
      call.release(branch)
      branch.off(giveUp)
      socket?.off('drain', done)
      response.off('drain', done).off('close', done)
      this.#resume()
    }
    // A client that does not read would keep an aborted call alive, and would not notice the end either.
    const giveUp = () => void response.destroy()
    socket?.on('drain', done)
    response.on('drain', done).on('close', done)
    branch.on(giveUp)
    if (branch.signal.aborted) giveUp()
  }

  end(bytes?: Uint8Array | string, ascii = false): void {
    if (this.#detached) return
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

// Reads one request body and refuses it before it becomes expensive: size, ratio and structure are checked as it arrives.

// The share of one turn of the event loop for the bodies of all requests together.

/** Time for the bodies of all requests in one turn of the event loop, in ms, except for the piece that exceeds it. */
const TURN_MS = 5

/** Shares the event loop among the bodies that are being read: measures the work of each turn, and delays the excess. */
export class Turns {
  #spentMs = 0
  #isTimed = false
  readonly #waiting: (() => void)[] = []

  /**
   * Does work in this turn or, when that was long enough, in a later one, in the order of calls. The work must not throw.
   * @returns whether it is done
   */
  run(work: () => void): boolean {
    if (!this.#isTimed) this.#time()
    if (this.#spentMs >= TURN_MS || this.#waiting.length > 0) {
      this.#waiting.push(work)
      return false
    }
    this.#do(work)
    return true
  }

  #do(work: () => void): void {
    const began = performance.now()
    work()
    this.#spentMs += performance.now() - began
  }

  #time(): void {
    this.#isTimed = true
    setImmediate(() => {
      this.#isTimed = false
      this.#spentMs = 0
      while (this.#waiting.length > 0 && this.#spentMs < TURN_MS) this.#do(this.#waiting.shift()!)
      // The work done now belongs to the turn that begins.
      if (this.#spentMs > 0) this.#time()
    })
  }
}

/** Decodes one body; `bytesWritten` is the number of encoded bytes consumed. */
type Decoder = Readable & NodeJS.WritableStream & { readonly bytesWritten: number }

const PIECE = { chunkSize: 64 * 1024 }
/** 8 MiB: the window of `zstd -19`, which a decoder has to keep. */
const ZSTD_WINDOW = { [zlib.constants.ZSTD_d_windowLogMax]: 23 }

/** Content codings that a body may have. */
const DECODERS: ReadonlyMap<string, () => Decoder> = new Map([
  ['gzip', () => zlib.createGunzip(PIECE)],
  ['x-gzip', () => zlib.createGunzip(PIECE)],
  ['deflate', () => zlib.createInflate(PIECE)],
  ['br', () => zlib.createBrotliDecompress(PIECE)],
  ['zstd', () => zlib.createZstdDecompress({ ...PIECE, params: ZSTD_WINDOW })],
])

/** A slow body must bring this many bytes within each `server.bodyTimeout`. */
const PACE_BYTES = 1024 * 1024
/** A decoded body below this size may have any ratio to its compressed size. */
const RATIO_FROM_BYTES = 1024 * 1024

/** Smaller bodies are not counted in the budget of memory. */
const COUNTED_FROM_BYTES = 64 * 1024

interface BodyReading {
  readonly request: IncomingMessage
  /** Most decoded bytes. */
  readonly limitBytes: number
  readonly limits: BodyLimits
  /** The code for a body that cannot be decoded. */
  readonly undecodable: InvalidCode
  /** Scans the decoded body; absent for bodies that are no JSON. */
  readonly scan?: JsonScan | undefined
  /** The memory that the body may take; bounded by `limitBytes` alone if absent. The caller releases it. */
  readonly share?: BodyShare | undefined
  readonly onStart?: (() => void) | undefined
  readonly startTimeout: (onTimeout: () => void) => Timeout
  /** Receives each accepted decoded piece; an error that it throws ends the reading. */
  readonly take: (piece: Buffer) => void
}

/**
 * Reads a body to its end.
 * @param result makes the result from the pieces taken
 * @throws InvalidRequest `request_too_large`, `unsupported_content_encoding`, `request_timeout`, `invalid_json` for a scan that
 * failed, the code for a body that cannot be decoded, and errors of `take`; errors of {@link BodyShare.grow};
 * ClientDisconnected
 */
export function readBody<T>(reading: BodyReading, result: () => T | Promise<T>): Promise<T> {
  const { request, limitBytes } = reading
  return new Promise((resolve, reject) => {
    // An error that is thrown becomes the rejection.
    const decoder = decoderOf(request)
    if (!decoder && Number(request.headers['content-length']) > limitBytes) {
      throw tooLarge(limitBytes)
    }
    const take = () => {
      try {
        resolve(result())
      } catch (error) {
        reject(error as Error)
      }
    }
    new BodyReader({ ...reading, resolve: take, reject }, decoder).begin()
  })
}

/** @throws InvalidRequest `unsupported_content_encoding` for other codings, and for several */
function decoderOf({ headers }: IncomingMessage): Decoder | undefined {
  const coding = headers['content-encoding']?.trim().toLowerCase()
  if (!coding || coding === 'identity') return undefined
  const create = DECODERS.get(coding)
  if (create) return create()
  throw new InvalidRequest(
    'unsupported_content_encoding',
    'Bodies may be encoded with one of gzip, deflate, br and zstd; this one names another coding, or several.',
  )
}

function tooLarge(limitBytes: number): InvalidRequest {
  return new InvalidRequest(
    'request_too_large',
    `The request body is larger than ${limitBytes} bytes, the limit of this route.`,
  )
}

/** Turns of this process, which has one event loop. */
const turns = new Turns()

/** A reading with its promise, which keeps the result of the body alive. */
interface PendingReading extends BodyReading {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

class BodyReader {
  /** It is undefined once the body is read: the listeners stay on the request, which lives as long as its answer. */
  #reading: PendingReading | undefined
  readonly #decoder: Decoder | undefined
  #slow: Timeout | undefined
  /** Number of encoded bytes received. */
  #received = 0
  #size = 0
  #sizeThen = 0
  /** Whether the reader waits for memory or for other bodies, not for the client. */
  #waits = false
  /** Whether the stream has ended while its last piece still waits for memory: a paused stream emits `end` after its last `data`. */
  #ended = false

  constructor(reading: PendingReading, decoder: Decoder | undefined) {
    this.#reading = reading
    this.#decoder = decoder
  }

  begin(): void {
    const { request } = this.#reading!
    request.on('close', () => this.#closed())
    if (request.destroyed) return this.#closed()
    const length = this.#decoder ? 0 : Number(request.headers['content-length'] ?? 0)
    const waiting = this.#reserve(length)
    if (waiting) void waiting.then(() => this.#start(), this.#fail.bind(this))
    else this.#start()
  }

  #start(): void {
    if (!this.#reading) return
    const { request, startTimeout, onStart } = this.#reading
    onStart?.()
    this.#slow = startTimeout(() => this.#check())
    this.#source
      .on('data', (piece: Buffer) => this.#receive(piece))
      .on('end', () => this.#end())
      .on('error', () => this.#broken())
    if (!this.#decoder) return
    request.on('data', ({ length }: Buffer) => (this.#received += length)).pipe(this.#decoder)
  }

  get #source(): Readable {
    return this.#decoder ?? this.#reading!.request
  }

  /** @returns a promise while the body has to wait for memory */
  #reserve(bytes: number): void | Promise<void> {
    const { share, scan } = this.#reading!
    if (bytes >= COUNTED_FROM_BYTES) return share?.grow(bodyWeight(bytes, scan?.values))
  }

  #receive(piece: Buffer): void {
    if (!this.#reading || turns.run(this.#look.bind(this, piece))) return
    this.#waits = true
    this.#source.pause()
  }

  #look(piece: Buffer): void {
    if (!this.#reading) return
    try {
      this.#size += piece.length
      this.#bound(piece, this.#reading)
      this.#reading.take(piece)
      const room = this.#reserve(this.#size)
      if (room) this.#pauseUntil(room)
      else if (this.#waits) this.#goOn()
    } catch (error) {
      this.#fail(error)
    }
  }

  #pauseUntil(room: Promise<void>): void {
    this.#waits = true
    this.#source.pause()
    void room.then(this.#goOn.bind(this), this.#fail.bind(this))
  }

  #goOn(): void {
    this.#waits = false
    if (!this.#reading) return
    if (this.#ended) this.#end()
    else this.#source.resume()
  }

  /** @throws InvalidRequest */
  #bound(piece: Buffer, { limitBytes, limits, scan }: BodyReading): void {
    if (this.#size > limitBytes) throw tooLarge(limitBytes)
    const encoded = this.#decoder?.bytesWritten
    if (
      encoded !== undefined &&
      this.#size > RATIO_FROM_BYTES &&
      this.#size > encoded * limits.ratio
    ) {
      throw new InvalidRequest(
        'request_too_large',
        `The request body decodes to more than ${limits.ratio} times the bytes that were sent.`,
      )
    }
    const excess = scan?.push(piece)
    if (excess) throw jsonRefusal(excess, limits, 'The request body')
  }

  #end(): void {
    if (!this.#reading) return
    if (this.#waits) return void (this.#ended = true)
    // Decoders end where their format does, and ignore what comes after it.
    if (this.#decoder && this.#decoder.bytesWritten < this.#received) return this.#broken()
    const { resolve } = this.#reading
    this.#release()
    resolve()
  }

  #check(): void {
    if (!this.#waits && this.#size - this.#sizeThen < PACE_BYTES) {
      const message = 'The request body did not arrive in time. Send it again, without pauses.'
      return this.#fail(new InvalidRequest('request_timeout', message))
    }
    this.#sizeThen = this.#size
    this.#slow!.restart()
  }

  #broken(): void {
    const message = 'The request body cannot be decoded: it is corrupt or cut off.'
    if (this.#reading) this.#fail(new InvalidRequest(this.#reading.undecodable, message))
  }

  #closed(): void {
    if (this.#reading?.request.complete === false) this.#fail(new ClientDisconnected())
  }

  #fail(error: unknown): void {
    if (!this.#reading) return
    const { reject } = this.#reading
    this.#release()
    reject(error)
  }

  #release(): void {
    this.#slow?.clear()
    if (this.#decoder) {
      this.#reading!.request.unpipe()
      this.#decoder.destroy()
    }
    this.#reading = undefined
  }
}

/** Bytes of memory per byte of a body: its text and parsed values take about as much as its bytes. */
const WEIGHT_PER_BYTE = 3

const WEIGHT_PER_VALUE = 256

/** The memory of a body by its bytes and number of JSON values. */
export function bodyWeight(bytes: number, values = 0): number {
  return WEIGHT_PER_BYTE * bytes + WEIGHT_PER_VALUE * values
}
