/**
 * Answers on their way to the socket. Pull only: a part is asked for when the one before it was taken. The call is ended,
 * its lease released and its charge booked, before the last byte: a client that has read the end can trust what it asks next.
 */
import { toErrorBody, toGatewayError } from './errors.ts'
import type { Call, Outgoing, Reply } from './pipeline.ts'

const EVENT_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}
const KEEP_ALIVE = ': keep-alive\n\n'

/** Sends one JSON body, already serialised. */
export async function writeJson(
  call: Call,
  out: Outgoing,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  call.status = 200
  await call.end('completed')
  const bytes = Buffer.byteLength(body)
  out.head(200, {
    'content-type': 'application/json',
    'content-length': String(bytes),
    ...headers,
  })
  out.end(body, bytes === body.length)
}

export interface EventFormat<Part> {
  /** One part as one event, blank line included. */
  encode(part: Part): string
  /** What follows the last event, be it good or bad. */
  readonly last: string
}

/**
 * Sends parts as server-sent events (wire contract, section 4). The head waits for the first part, at most
 * `server.headTimeout`, so that early failures still get a status; errors after the head become one event.
 * @throws what the parts throw before the head was sent
 */
export async function writeEvents<Part>(
  call: Call,
  reply: Reply<Part>,
  out: Outgoing,
  format: EventFormat<Part>,
): Promise<void> {
  const { headTimeout, keepAlive } = call.runtime.config.server
  const keepAliveMs = keepAlive * 1000
  const parts = reply.parts[Symbol.asyncIterator]()
  const first = parts.next()
  let timer = call.alarm(headTimeout * 1000, () => {
    sendHead()
    out.flush()
  })
  try {
    let result = await first
    timer.off()
    if (!out.headSent) sendHead()
    call.deadline(call.startedAt + call.runtime.config.server.streamTimeout * 1000)
    while (!result.done) {
      const full = out.write(format.encode(result.value))
      timer.again(keepAliveMs)
      if (full) await full
      result = await parts.next()
    }
    timer.off()
    await call.end('completed')
    out.end(format.last)
  } catch (error) {
    timer.off()
    if (!out.headSent || call.outcome === 'cancelled') throw error
    const failure = toGatewayError(error)
    call.errorCode = failure.code
    call.report(error)
    await call.end('failed')
    out.end(`data: ${JSON.stringify(toErrorBody(failure))}\n\n${format.last}`)
  }

  function sendHead(): void {
    call.status = 200
    out.head(200, EVENT_HEADERS)
    timer = call.alarm(keepAliveMs, sayAlive)
  }

  function sayAlive(): void {
    void out.write(KEEP_ALIVE)
    timer.again(keepAliveMs)
  }
}
