/**
 * Answers on their way to the socket. Pull only: a part is asked for when the one before it was taken. The call is ended,
 * its lease released and its charge booked, before the last byte: a client that has read the end can trust what it asks next.
 */
import { toErrorBody, toGatewayError } from './errors.ts'
import type { Call, Outgoing, Reply } from './pipeline.ts'
import type { Batch } from './plugin.ts'

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
  const first = reply.parts.next()
  let timer = call.alarm(headTimeout * 1000, () => {
    sendHead()
    out.flush()
  })
  try {
    let batch = await first
    timer.off()
    if (!out.headSent) sendHead()
    call.deadline(call.startedAt + call.runtime.config.server.streamTimeout * 1000)
    for (; !batch.last; batch = await reply.parts.next()) {
      const full = out.write(text(batch))
      timer.again(keepAliveMs)
      if (full) await full
    }
    timer.off()
    await call.end('completed')
    out.end(text(batch) + format.last)
  } catch (error) {
    timer.off()
    if (!out.headSent || call.outcome === 'cancelled') throw error
    const failure = toGatewayError(error)
    call.errorCode = failure.code
    call.report(error)
    await call.end('failed')
    out.end(`data: ${JSON.stringify(toErrorBody(failure))}\n\n${format.last}`)
  }

  /** What came together leaves together. */
  function text({ parts }: Batch<Part>): string {
    let events = ''
    for (let i = 0; i < parts.length; i++) events += format.encode(parts[i]!)
    return events
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
