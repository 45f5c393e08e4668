/**
 * A vendor on a real socket of this machine: it answers what the test says, cut where the test says, and remembers what
 * it was asked.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTick, setTimeout as sleep } from 'node:timers/promises'

/** What the vendor answers. */
export interface Answer {
  /** Default 200. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** Each piece is a write of its own, flushed before the next. */
  readonly pieces: readonly (Uint8Array | string)[]
  /** ms before each piece. */
  readonly pauseMs?: number
  /**
   * After the last piece: `end` is a proper end (default), `cut` closes without one, `reset` resets the connection,
   * `hang` says nothing more.
   */
  readonly ending?: 'end' | 'cut' | 'reset' | 'hang'
}

/** A request as it arrived. */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** The body as JSON. */
  readonly json: any
  /** Whether the caller closed the connection before the answer was complete. */
  readonly aborted: Promise<boolean>
}

export interface FakeUpstream extends AsyncDisposable {
  /** Without a slash at the end. */
  readonly url: string
  /** Everything asked so far. */
  readonly requests: readonly Seen[]
  /** What is answered from now on. */
  answer(next: Answer | ((request: Seen) => Answer)): void
  close(): Promise<void>
}

/** Starts a vendor on a free port. Whoever calls this closes it. */
export async function startUpstream(first?: Answer): Promise<FakeUpstream> {
  let current: Answer | ((request: Seen) => Answer) = first ?? json({}, 500)
  const requests: Seen[] = []
  const server = createServer((incoming, outgoing) => {
    void serve(incoming, outgoing)
  })

  async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    outgoing.socket?.setNoDelay(true)
    const body = Buffer.concat(await incoming.toArray())
    const request: Seen = {
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      body,
      get json() {
        return JSON.parse(body.toString())
      },
      aborted: new Promise((resolve) => {
        outgoing.once('close', () => resolve(!outgoing.writableFinished))
      }),
    }
    requests.push(request)
    await play(typeof current === 'function' ? current(request) : current, outgoing)
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
export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    pieces: [JSON.stringify(value)],
  }
}

/** An event stream of these payloads; strings go out as they are, everything else as JSON. */
export function events(...payloads: readonly unknown[]): Answer {
  const lines = payloads.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)))
  return sse(lines.map((line) => `data: ${line}\n\n`).join(''))
}

/** An event stream, written out. */
export function sse(text: string): Answer {
  return { headers: { 'content-type': 'text/event-stream' }, pieces: [text] }
}

/** Pieces that end where events do, whichever line ends the stream uses. */
export function cutAtEvents(body: Uint8Array): Uint8Array[] {
  const ends: number[] = []
  const text = Buffer.from(body).toString('latin1')
  for (const match of text.matchAll(/\r\n\r\n|\n\n|\r\r/g)) ends.push(match.index + match[0].length)
  return cutAt(body, ends)
}

/** Pieces that end at these positions, in any order. */
export function cutAt(body: Uint8Array, positions: readonly number[]): Uint8Array[] {
  const ends = [...new Set(positions)].filter((end) => end > 0 && end < body.length)
  ends.sort((a, b) => a - b)
  return [...ends, body.length].map((end, i) => body.subarray(ends[i - 1] ?? 0, end))
}

async function play(answer: Answer, outgoing: ServerResponse): Promise<void> {
  const { status = 200, headers = {}, pieces, pauseMs = 0, ending = 'end' } = answer
  outgoing.writeHead(status, headers)
  outgoing.flushHeaders()
  for (const piece of pieces) {
    await (pauseMs > 0 ? sleep(pauseMs) : nextTick())
    if (outgoing.destroyed) return
    await new Promise((resolve) => outgoing.write(piece, resolve))
  }
  if (ending === 'end') outgoing.end()
  else if (ending === 'cut') outgoing.destroy()
  else if (ending === 'reset') outgoing.socket?.resetAndDestroy()
}
