/** The pipeline's view of Node's request and response. Node's own objects: web objects cost several times as much. */
import type { Socket } from 'node:net'
import { Buffer } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Timeout } from '../lifetime/scope.ts'
import type { BodyShare } from '../gateway/body-budget.ts'
import { ClientDisconnected, type Call } from '../pipeline/pipeline.ts'
import type { Incoming, Outgoing } from '../pipeline/http.ts'
import { JsonScan } from '../stream/json-scan.ts'
import { readBody, type BodyReading } from './body-reader.ts'

/** Size up to which pieces are small; this many of them in a row are joined at once. */
const SMALL_BYTES = 1024
const MANY = 1024

/** A timeout for bodies that belong to no call. @param ms interval of the timeout, which repeats */
export function bodyTimer(ms: number): (onTimeout: () => void) => Timeout {
  return (onTimeout) => {
    const timer = setInterval(onTimeout, ms)
    return { restart() {}, clear: () => clearInterval(timer) }
  }
}

interface IncomingOptions extends Pick<BodyReading, 'limits' | 'startTimeout' | 'onStart'> {
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
  'x-request-id',
  'request-id',
  'openai-processing-ms',
  'Retry-After',
  'retry-after-ms',
  'x-should-retry',
  'x-ratelimit-limit-requests',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-reset-requests',
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
    if (call.made.admission) {
      list.push('openai-processing-ms', String(call.elapsedMs))
    }
    for (const name in call.headers) if (!(name in headers)) list.push(name, call.headers[name]!)
    for (const name in headers) list.push(name, headers[name]!)
    this.#response.writeHead(status, list)
  }

  flush(): void {
    this.#response.flushHeaders()
  }

  write(bytes: Uint8Array | string): boolean {
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
