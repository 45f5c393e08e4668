/**
 * Answers on their way to the socket. Parts come only while it has room for them. The call is ended,
 * its lease released and its charge booked, before the last byte: a client that has read the end can trust what it asks next.
 */
import { Buffer } from 'node:buffer'
import { toErrorBody, toGatewayError, type ErrorBody } from '../../errors/errors.ts'
import type { Outgoing } from '../../pipeline/http.ts'
import type { Call, Reply } from '../../pipeline/pipeline.ts'
import type { Batch, Flow } from '../../plugin.ts'

const EVENT_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}
const KEEP_ALIVE = ': keep-alive\n\n'

/** Sends one JSON body, already serialised, and says what it cost if that is known. */
export function writeJson(call: Call, out: Outgoing, body: string): void | Promise<void> {
  return writeWhole(call, out, body, 'application/json')
}

/** The same for a text. */
export function writeText(call: Call, out: Outgoing, body: string): void | Promise<void> {
  return writeWhole(call, out, body, 'text/plain; charset=utf-8')
}

/** A promise only while the end of the call needs time. */
function writeWhole(call: Call, out: Outgoing, body: string, type: string): void | Promise<void> {
  call.status = 200
  if (call.bill) call.headers['x-service-cost'] = call.bill.text
  const ending = call.end('completed')
  if (ending) return ending.then(() => sendWhole(out, body, type))
  sendWhole(out, body, type)
}

function sendWhole(out: Outgoing, body: string, type: string): void {
  const bytes = Buffer.byteLength(body)
  out.head(200, { 'content-type': type, 'content-length': String(bytes) })
  out.end(body, bytes === body.length)
}

/**
 * Sends bytes as they come. The head waits for the first of them; what breaks after it breaks the connection, which is
 * the only way to say so.
 * @throws what the flow throws
 */
export async function writeBytes(
  call: Call,
  bytes: Flow<Uint8Array>,
  out: Outgoing,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  let batch = await bytes.next()
  call.status = 200
  out.head(200, headers)
  call.deadline(call.startedAt + call.runtime.config.server.streamTimeout * 1000)
  for (; !batch.last; batch = await bytes.next()) {
    for (const piece of batch.parts) {
      const full = out.write(piece)
      if (full) await full
    }
  }
  await call.end('completed')
  for (const piece of batch.parts) out.write(piece)
  out.end()
}

export interface EventFormat<Part> {
  /** One part as one event, blank line included. */
  encode(part: Part): string
  /** What follows the last event, be it good or bad. */
  readonly last: string
  /** An error after the head as an event; without it, the error alone. */
  fail?(body: ErrorBody): string
}

/** The error event of streams whose events are told apart by their `type` (wire contract, 5.5.4). */
export function typedErrorEvent({ error }: ErrorBody): string {
  return `event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`
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
  let timer = call.timeout(headTimeout * 1000, () => {
    sendHead()
    out.flush()
  })
  const { parts } = reply
  try {
    let batch = await parts.next()
    if (!out.headSent) {
      timer.clear()
      sendHead()
    }
    call.deadline(call.startedAt + call.runtime.config.server.streamTimeout * 1000)
    for (; !batch.last; batch = await parts.next()) {
      timer.restart()
      const full = out.write(text(batch))
      if (full) await full
    }
    timer.clear()
    await call.end('completed')
    out.end(text(batch) + format.last)
  } catch (error) {
    timer.clear()
    void parts.close()
    if (!out.headSent || call.outcome === 'cancelled') throw error
    const failure = toGatewayError(error)
    call.errorCode = failure.code
    call.report(error)
    await call.end('failed')
    const body = toErrorBody(failure)
    out.end((format.fail?.(body) ?? `data: ${JSON.stringify(body)}\n\n`) + format.last)
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
    timer = call.timeout(keepAlive * 1000, sayAlive)
  }

  function sayAlive(): void {
    void out.write(KEEP_ALIVE)
    timer.restart()
  }
}
