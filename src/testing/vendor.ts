/**
 * A vendor on a real socket of this machine: it answers what it is told to, cut where it is told to, and remembers what it
 * was asked.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'

/** What the vendor answers. */
export interface FakeResponse {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Each piece is a write of its own, taken by the connection before the next is asked for; there may be no end of them. */
  readonly pieces: Iterable<Uint8Array | string>
  /** ms before each piece. */
  readonly pauseMs?: number
  /**
   * After the last piece: `end` is a proper end (default), `cut` closes without one, `reset` resets the connection,
   * `hang` says nothing more. Without as much as a status: `silent` says nothing at all, `refuse` resets the connection.
   */
  readonly ending?: 'end' | 'cut' | 'reset' | 'hang' | 'silent' | 'refuse'
}

/** A request as it arrived. */
export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** The body as JSON. */
  readonly json: any
  /** Whether the caller closed the connection before the answer was complete. */
  readonly aborted: Promise<boolean>
  /** Bytes of the answer's body that the connection has taken so far. */
  readonly takenBytes: number
}

export interface FakeUpstream extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string
  /** Everything asked so far. */
  readonly requests: readonly ReceivedRequest[]
  /** What is answered from now on. */
  answer(
    next: FakeResponse | ((request: ReceivedRequest) => FakeResponse | Promise<FakeResponse>),
  ): void
  close(): Promise<void>
}

/** Starts a vendor on a free port. Whoever calls this closes it. */
export async function startUpstream(first?: FakeResponse): Promise<FakeUpstream> {
  let current: FakeResponse | ((request: ReceivedRequest) => FakeResponse | Promise<FakeResponse>) =
    first ?? json({}, 500)
  const requests: ReceivedRequest[] = []
  const server = createServer((incoming, outgoing) => {
    void serve(incoming, outgoing)
  })

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    outgoing.socket?.setNoDelay(true)
    const aborted = new Promise<boolean>((resolve) => {
      outgoing.once('close', () => resolve(!outgoing.writableFinished))
    })
    const body = await bodyOf(incoming)
    if (!body) return
    let takenBytes = 0
    const request: ReceivedRequest = {
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      body,
      get json() {
        return JSON.parse(body.toString())
      },
      aborted,
      get takenBytes() {
        return takenBytes
      },
    }
    requests.push(request)
    const answer = typeof current === 'function' ? await current(request) : current
    await play(answer, outgoing, (bytes) => (takenBytes += bytes))
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function close(): Promise<void> {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    answer(next) {
      current = next
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A JSON answer. */
export function json(
  value: unknown,
  status = 200,
  headers: Record<string, string> = {},
): FakeResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    pieces: [JSON.stringify(value)],
  }
}

/** An event stream of these payloads; strings go out as they are, everything else as JSON. */
export function events(...payloads: readonly unknown[]): FakeResponse {
  const lines = payloads.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
  return sse(lines.map((line) => `data: ${line}\n\n`).join(''))
}

/** An event stream, written out. */
export function sse(text: string): FakeResponse {
  return { headers: { 'content-type': 'text/event-stream' }, pieces: [text] }
}

async function play(
  answer: FakeResponse,
  outgoing: ServerResponse,
  taken: (bytes: number) => void,
): Promise<void> {
  const { status = 200, headers = {}, pieces, pauseMs = 0, ending = 'end' } = answer
  if (ending === 'silent') return
  if (ending === 'refuse') return void outgoing.socket?.resetAndDestroy()
  outgoing.writeHead(status, headers)
  outgoing.flushHeaders()
  for (const piece of pieces) {
    await (pauseMs > 0 ? sleep(pauseMs) : nextTick())
    if (outgoing.destroyed) return
    await new Promise((resolve) => outgoing.write(piece, resolve))
    taken(Buffer.byteLength(piece))
  }
  if (ending === 'end') outgoing.end()
  else if (ending === 'cut') outgoing.destroy()
  else if (ending === 'reset') outgoing.socket?.resetAndDestroy()
}

/** Undefined when the caller left before all of it was here. */
async function bodyOf(incoming: IncomingMessage): Promise<Buffer | undefined> {
  try {
    return Buffer.concat(await incoming.toArray())
  } catch {
    return undefined
  }
}
