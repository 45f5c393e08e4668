/** A fake upstream on a local socket: sends configured responses, split as configured, and records requests. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'

export interface FakeResponse {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** The body. Each piece is written on its own, after the connection has taken the last one; may be endless. */
  readonly pieces: Iterable<Uint8Array | string>
  /** ms before each piece. */
  readonly pauseMs?: number
  /** Each piece, and at last the ending, waits for it. */
  readonly release?: (step: number) => Promise<void>
  /**
   * The action after the last piece: `end` ends the response (default), `cut` closes the connection, `reset` resets
   * it, `hang` keeps it open. Without a response: `silent` sends nothing, `refuse` resets the connection.
   */
  readonly ending?: 'end' | 'cut' | 'reset' | 'hang' | 'silent' | 'refuse'
}

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly json: any
  /** Whether the caller has closed the connection before the response was complete. */
  readonly aborted: Promise<boolean>
  readonly takenBytes: number
}

type Responder = FakeResponse | ((request: ReceivedRequest) => FakeResponse | Promise<FakeResponse>)

export interface FakeUpstream extends AsyncDisposable {
  /** Address without a trailing slash. */
  readonly url: string
  readonly requests: readonly ReceivedRequest[]
  answer(next: Responder): void
  close(): Promise<void>
}

/** Starts a fake upstream on a free port. The caller closes it. @param first the response until `answer` is called */
export async function startUpstream(first?: FakeResponse): Promise<FakeUpstream> {
  let current: Responder = first ?? json({}, 500)
  const requests: ReceivedRequest[] = []
  const server = createServer((incoming, outgoing) => {
    serve(incoming, outgoing).catch(() => outgoing.destroy())
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

/** An event stream of payloads; strings are sent as they are, other values as JSON. */
export function events(...payloads: readonly unknown[]): FakeResponse {
  const lines = payloads.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
  return sse(lines.map((line) => `data: ${line}\n\n`).join(''))
}

export function sse(text: string): FakeResponse {
  return { headers: { 'content-type': 'text/event-stream' }, pieces: [text] }
}

async function play(
  answer: FakeResponse,
  outgoing: ServerResponse,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const { status = 200, headers = {}, pieces, pauseMs = 0, ending = 'end', release } = answer
  if (ending === 'silent') return
  if (ending === 'refuse') return void outgoing.socket?.resetAndDestroy()
  outgoing.writeHead(status, headers)
  outgoing.flushHeaders()
  let step = 0
  for (const piece of pieces) {
    await (pauseMs > 0 ? sleep(pauseMs) : nextTick())
    await release?.(step++)
    if (outgoing.destroyed) return
    await new Promise((resolve) => outgoing.write(piece, resolve))
    onBytes(Buffer.byteLength(piece))
  }
  await release?.(step)
  if (ending === 'end') outgoing.end()
  else if (ending === 'cut') outgoing.destroy()
  else if (ending === 'reset') outgoing.socket?.resetAndDestroy()
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer | undefined> {
  try {
    return Buffer.concat(await incoming.toArray())
  } catch {
    return undefined
  }
}
