/** The Node request and response as the pipeline sees them. Raw Node objects: web ones cost several times as much. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable, Transform } from 'node:stream'
import zlib from 'node:zlib'
import { InvalidRequest, type InvalidCode } from './errors.ts'
import { ClientGone, type Call, type Incoming, type Outgoing } from './pipeline.ts'

/** Content codings a body may have (wire contract, 1.3). */
const DECODERS: Readonly<Record<string, () => Transform>> = {
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  zstd: zlib.createZstdDecompress,
}

/** A body that is slow but not stuck brings so much within each `server.bodyTimeout`. */
const PACE_BYTES = 1024 * 1024

/** So many pieces this small, one after the other, are put together at once. */
const SMALL_BYTES = 1024
const MANY = 1024

export class NodeIncoming implements Incoming {
  readonly path: string
  readonly #request: IncomingMessage
  readonly #bodyTimeoutMs: number

  constructor(request: IncomingMessage, path: string, bodyTimeoutMs: number) {
    this.#request = request
    this.path = path
    this.#bodyTimeoutMs = bodyTimeoutMs
  }

  get method(): string {
    return this.#request.method ?? 'GET'
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  async body(limitBytes: number): Promise<Buffer> {
    const chunks: Buffer[] = []
    let small = 0
    await this.#read(limitBytes, 'invalid_json', (chunk) => {
      chunks.push(chunk)
      small = chunk.length < SMALL_BYTES ? small + 1 : 0
      if (small < MANY) return
      // A body sent byte by byte would otherwise take a hundred times its size.
      chunks.push(Buffer.concat(chunks.splice(-small)))
      small = 0
    })
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  }

  pieces(limitBytes: number, take: (piece: Buffer) => void): Promise<void> {
    return this.#read(limitBytes, 'invalid_multipart', take)
  }

  async #read(
    limitBytes: number,
    undecodable: InvalidCode,
    take: (chunk: Buffer) => void,
  ): Promise<void> {
    const tooLarge = () =>
      new InvalidRequest(
        'request_too_large',
        `The request body is larger than ${limitBytes} bytes, the limit of this route.`,
      )
    const source = this.#decoded()
    if (source === this.#request && Number(this.header('content-length')) > limitBytes)
      throw tooLarge()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let size = 0
    let sizeThen = 0
    const timer = setInterval(() => {
      if (size - sizeThen >= PACE_BYTES) return void (sizeThen = size)
      const message = 'The request body did not arrive in time.'
      reject(new InvalidRequest('request_timeout', message))
    }, this.#bodyTimeoutMs)
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size > limitBytes) return reject(tooLarge())
      try {
        take(chunk)
      } catch (error) {
        // Nothing more is looked at.
        source.off('data', onData)
        reject(error)
      }
    }
    source.on('data', onData)
    source.once('end', resolve)
    source.once('error', () => {
      const message = 'The request body cannot be decoded: it is corrupt or cut off.'
      reject(new InvalidRequest(undecodable, message))
    })
    const onClose = () => {
      if (!this.#request.complete) reject(new ClientGone())
    }
    this.#request.once('close', onClose)
    if (this.#request.destroyed) onClose()
    try {
      await promise
    } finally {
      clearInterval(timer)
      source.off('data', onData)
      if (source !== this.#request) {
        this.#request.unpipe()
        source.destroy()
      }
    }
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

/** On every response (wire contract, 1.6 and 3). */
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

export class NodeOutgoing implements Outgoing {
  readonly #response: ServerResponse
  readonly #call: Call
  #drained: Promise<void> | undefined

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
    if (call.filled.key) {
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
    if (this.#response.write(bytes) || this.#response.destroyed) return
    return (this.#drained ??= this.#drain())
  }

  /** Until there is room again, or nobody to write to. */
  #drain(): Promise<void> {
    const response = this.#response
    const call = this.#call
    const branch = call.branch()
    // A client that does not read would keep a call that was given up, and would not learn why either.
    const giveUp = () => void response.destroy()
    branch.signal.addEventListener('abort', giveUp)
    if (branch.signal.aborted) giveUp()
    return new Promise((resolve) => {
      const done = () => {
        this.#drained = undefined
        call.drop(branch)
        branch.signal.removeEventListener('abort', giveUp)
        response.off('drain', done).off('close', done)
        resolve()
      }
      response.on('drain', done).on('close', done)
    })
  }

  end(bytes?: Uint8Array | string, ascii = false): void {
    if (ascii) this.#response.end(bytes, 'latin1')
    else this.#response.end(bytes)
  }

  destroy(): void {
    this.#response.destroy()
  }
}
