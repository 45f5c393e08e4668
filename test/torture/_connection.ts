/** An HTTP/1.1 client on a socket, as small as can be: it sends bytes, and reads the answer to the last byte or to its break. */
import { connect, type Socket } from 'node:net'
import { patience } from '../_patience.ts'

/** An answer, or what came of it. */
export interface RawAnswer {
  readonly status: number
  /** Names in lower case; of several fields with one name, the last. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: Buffer
  /** False when the connection ended before the answer did. */
  readonly whole: boolean
}

/** Longer than any answer takes on a busy machine. */
const PATIENCE_MS = 60_000 * patience()
const BRACE = 123
const HEAD_END = Buffer.from('\r\n\r\n')

/** No answer that can be read: what went wrong. */
export class NoAnswer extends Error {}

/** Connects again when the gateway has closed the connection. One exchange at a time. */
export class Connection {
  readonly #port: number
  #socket: Socket | undefined
  #received: Buffer[] = []
  #wake: (() => void) | undefined
  #closed = true
  /** Bytes of the next answer after which the client leaves. */
  leavesAfter = Infinity

  constructor(url: string) {
    this.#port = Number(new URL(url).port)
  }

  /**
   * Sends one request, and reads its answer.
   * @param pieces the pieces of the request, each in a packet of its own
   * @param bodiless the answer has a head only: of HEAD
   * @throws NoAnswer when none comes in time, before the connection ends, or when it is no HTTP
   */
  async exchange(pieces: readonly (string | Uint8Array)[], bodiless = false): Promise<RawAnswer> {
    const socket = this.#open()
    if (pieces.length > 1) socket.setNoDelay(true)
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) await new Promise((resolve) => setImmediate(resolve))
      if (!this.#closed) socket.write(piece)
    }
    const timer = setTimeout(() => {
      this.#received = []
      this.close()
    }, PATIENCE_MS)
    const started = performance.now()
    try {
      const answer = await this.#read(bodiless)
      if (!answer.whole || answer.headers.get('connection') === 'close') this.close()
      else if (this.#received.length > 0) throw new NoAnswer('bytes follow the answer')
      return answer
    } catch (error) {
      this.close()
      if (performance.now() - started < PATIENCE_MS) throw error
      throw new NoAnswer(`no answer within ${PATIENCE_MS / 1000} s`)
    } finally {
      clearTimeout(timer)
    }
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
    this.#closed = true
    this.#wake?.()
  }

  #open(): Socket {
    if (this.#socket && !this.#closed) return this.#socket
    this.#received = []
    this.#closed = false
    const socket = connect(this.#port, '127.0.0.1')
    const over = () => {
      if (this.#socket !== socket) return
      this.#closed = true
      this.#wake?.()
    }
    socket.on('data', (bytes: Buffer) => {
      this.#received.push(bytes.subarray(0, this.leavesAfter))
      this.leavesAfter -= bytes.length
      if (this.leavesAfter <= 0) this.close()
      else this.#wake?.()
    })
    socket.on('error', over).on('close', over).on('end', over)
    return (this.#socket = socket)
  }

  async #read(bodiless: boolean): Promise<RawAnswer> {
    let bytes: Buffer = Buffer.alloc(0)
    let end = -1
    for (;;) {
      end = bytes.indexOf(HEAD_END)
      if (end >= 0) {
        // Interim answers precede the answer.
        if (!bytes.subarray(0, 12).toString('latin1').startsWith('HTTP/1.1 1')) break
        bytes = bytes.subarray(end + 4)
        continue
      }
      const more = await this.#more()
      if (!more) throw new NoAnswer(`the connection ended after ${bytes.length} bytes of a head`)
      bytes = Buffer.concat([bytes, more])
    }
    const { status, headers } = headOf(bytes.toString('latin1', 0, end))
    const rest = bytes.subarray(end + 4)
    if (bodiless || status === 204 || status === 304) {
      if (rest.length > 0) this.#received.unshift(rest)
      return { status, headers, body: Buffer.alloc(0), whole: true }
    }
    if (headers.get('transfer-encoding') === 'chunked') {
      return { status, headers, ...(await this.#chunks(rest)) }
    }
    const length = headers.get('content-length')
    return { status, headers, ...(await this.#bytes(rest, Number(length ?? Infinity))) }
  }

  async #bytes(first: Buffer, length: number): Promise<Pick<RawAnswer, 'body' | 'whole'>> {
    const pieces = [first]
    let size = first.length
    while (size < length) {
      const more = await this.#more()
      if (!more) break
      pieces.push(more)
      size += more.length
    }
    const all = pieces.length === 1 ? first : Buffer.concat(pieces)
    if (size > length) this.#received.unshift(all.subarray(length))
    return { body: all.subarray(0, length), whole: size >= length || length === Infinity }
  }

  async #chunks(first: Buffer): Promise<Pick<RawAnswer, 'body' | 'whole'>> {
    const pieces: Buffer[] = []
    let bytes = first
    for (;;) {
      const line = bytes.indexOf('\r\n')
      const size = line < 0 ? NaN : sizeOf(bytes.toString('latin1', 0, line))
      const end = line + 2 + size
      if (line >= 0 && bytes.length >= end + 2) {
        if (bytes[end] !== 13 || bytes[end + 1] !== 10) throw new NoAnswer('a chunk does not end')
        pieces.push(bytes.subarray(line + 2, end))
        bytes = bytes.subarray(end + 2)
        if (size > 0) continue
        if (bytes.length > 0) this.#received.unshift(bytes)
        return { body: Buffer.concat(pieces), whole: true }
      }
      const more = await this.#more()
      if (!more) return { body: Buffer.concat(pieces), whole: false }
      bytes = Buffer.concat([bytes, more])
    }
  }

  /** The next bytes; undefined after the end of the connection. */
  async #more(): Promise<Buffer | undefined> {
    while (this.#received.length === 0) {
      if (this.#closed) return undefined
      await new Promise<void>((resolve) => (this.#wake = resolve))
      this.#wake = undefined
    }
    const all = this.#received.length === 1 ? this.#received[0] : Buffer.concat(this.#received)
    this.#received = []
    return all
  }
}

function headOf(head: string): Pick<RawAnswer, 'status' | 'headers'> {
  const [first = '', ...fields] = head.split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1])
  if (!status) throw new NoAnswer(`no status line: ${JSON.stringify(first.slice(0, 80))}`)
  const headers = new Map<string, string>()
  for (const field of fields) {
    const colon = field.indexOf(':')
    if (colon < 1) throw new NoAnswer(`no header field: ${JSON.stringify(field.slice(0, 80))}`)
    headers.set(field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim())
  }
  return { status, headers }
}

function sizeOf(line: string): number {
  if (!/^[\da-f]+$/i.test(line)) throw new NoAnswer(`no chunk size: ${JSON.stringify(line)}`)
  return parseInt(line, 16)
}

/**
 * All answers in what a connection has said.
 * @param bodiless the first answer has a head only
 * @throws NoAnswer for what is no HTTP
 */
export function answersIn(said: Buffer, bodiless: boolean): RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let rest = said; rest.length > 0;) {
    const end = rest.indexOf(HEAD_END)
    if (end < 0) throw new NoAnswer(`no head: ${JSON.stringify(rest.toString('latin1', 0, 80))}`)
    const { status, headers } = headOf(rest.toString('latin1', 0, end))
    rest = rest.subarray(end + HEAD_END.length)
    if (status < 200) continue
    // A head that cannot be read is refused with a body, whatever its first word.
    const isHead = bodiless && answers.length === 0 && rest[0] !== BRACE
    const isEmpty = isHead || status === 204 || status === 304
    let length = isEmpty ? 0 : Number(headers.get('content-length') ?? rest.length)
    if (!isEmpty && headers.get('transfer-encoding') === 'chunked') {
      const last = rest.indexOf('0\r\n\r\n')
      length = last < 0 ? rest.length : last + 5
    }
    const body = rest.subarray(0, length)
    answers.push({ status, headers, body, whole: body.length === length })
    rest = rest.subarray(length)
  }
  return answers
}
