/** A vendor on a raw socket: each lane gets the bytes that it was told, whole, in pieces, broken off or never ended. */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** What the next requests of a lane get. */
export interface Script {
  /** Head and body, each piece in a packet of its own. */
  readonly pieces: readonly Uint8Array[]
  /** What follows: another request, a closed or reset connection, nothing. */
  readonly ending: 'next' | 'close' | 'reset' | 'hang'
}

/** Listens on a free port. Lane `n` is below `/l<n>`. */
export class VendorServer {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #scripts = new Map<number, Script>()
  /** Requests served. */
  requests = 0

  static async start(): Promise<VendorServer> {
    const server = new VendorServer()
    server.#server.listen(0, '127.0.0.1')
    await once(server.#server, 'listening')
    return server
  }

  private constructor() {
    this.#server = createServer((socket) => this.#accept(socket))
  }

  urlOf(lane: number): string {
    const { port } = this.#server.address() as AddressInfo
    return `http://127.0.0.1:${port}/l${lane}`
  }

  answer(lane: number, script: Script): void {
    this.#scripts.set(lane, script)
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('close', () => this.#sockets.delete(socket))
    socket.on('error', () => {})
    let received: Buffer = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      received = received.length === 0 ? bytes : Buffer.concat([received, bytes])
      const lane = takeRequest(received)
      if (lane === undefined) return
      received = Buffer.alloc(0)
      this.requests++
      void play(socket, this.#scripts.get(lane)!)
    })
  }
}

/** The lane of a request that is complete. */
function takeRequest(bytes: Buffer): number | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const head = bytes.toString('latin1', 0, end)
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1]
  const chunked = /\r\ntransfer-encoding: chunked/i.test(head)
  if (chunked && !bytes.subarray(-5).equals(Buffer.from('0\r\n\r\n'))) return undefined
  if (length !== undefined && bytes.length < end + 4 + Number(length)) return undefined
  return Number(/^\w+ \/l(\d+)/.exec(head)![1])
}

async function play(socket: Socket, { pieces, ending }: Script): Promise<void> {
  for (const [i, piece] of pieces.entries()) {
    if (i > 0) await new Promise((resolve) => setImmediate(resolve))
    if (socket.destroyed) return
    socket.write(piece)
  }
  if (ending === 'close') socket.end()
  else if (ending === 'reset') socket.resetAndDestroy()
}
