/**
 * Writes answers to the socket, and pulls parts only while the socket has room. The call ends before the last byte is
 * written: a client that has read the end finds its balance charged and its concurrency slot free.
 */
import { Buffer } from 'node:buffer'
import { toErrorBody, toGatewayError, type ErrorBody } from '../../errors/errors.ts'
import type { Timeout } from '../../lifetime/scope.ts'
import type { Outgoing, Call, Receipt, Reply, WireFormat } from '../../pipeline/pipeline.ts'
import type { Batch, Flow } from '../../plugin.ts'

const EVENT_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}
const KEEP_ALIVE = ': keep-alive\n\n'

/**
 * `writeError` for formats whose errors are OpenAI's error object. A failure that is charged says so in `usage` and in a
 * header.
 * @param usageJson quantities and cost in the form of the format's `usage`
 */
export function errorWriter(
  usageJson: (receipt: Receipt, call: Call) => object,
): WireFormat['writeError'] {
  return (error, call) => {
    const { status, headers, receipt } = error
    const body = toErrorBody(error)
    if (!receipt || !call) return { status, headers, body }
    body.error.usage = usageJson(receipt, call)
    return { status, headers: { ...headers, 'x-service-cost': receipt.bill.text }, body }
  }
}

/** The members of a charged answer: its `usage`, and the decisions of guards if any were at work. */
export function billedJson({ guard }: Receipt, usage: object): object {
  return { usage, ...(guard && { guard }) }
}

/** Ends the call and sends one JSON text, with the cost in a header if the call was charged. */
export function writeJson(call: Call, out: Outgoing, body: string): Promise<void> {
  return writeWhole(call, out, body, 'application/json')
}

/** Like {@link writeJson}, for plain text. */
export function writeText(call: Call, out: Outgoing, body: string): Promise<void> {
  return writeWhole(call, out, body, 'text/plain; charset=utf-8')
}

async function writeWhole(call: Call, out: Outgoing, body: string, type: string): Promise<void> {
  call.status = 200
  if (call.bill) call.headers['x-service-cost'] = call.bill.text
  await call.end('completed')
  const bytes = Buffer.byteLength(body)
  out.head(200, { 'content-type': type, 'content-length': String(bytes) })
  out.end(body, bytes === body.length)
}

/**
 * Sends bytes as they come. The head waits for the first of them; a failure after the head breaks the connection, the only
 * sign of failure in a byte stream.
 * @throws errors of the flow
 */
export async function writeBytes(
  call: Call,
  bytes: Flow<Uint8Array>,
  out: Outgoing,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  let batch = await bytes.next()
  call.firstMs = call.elapsedMs
  call.status = 200
  out.head(200, headers)
  call.deadline(call.runtime.config.server.streamTimeout)
  for (; !batch.last; batch = await bytes.next()) {
    for (const piece of batch.parts) {
      const full = out.write(piece)
      if (full) await full
    }
  }
  await call.end('completed')
  for (const piece of batch.parts) void out.write(piece)
  out.end()
}

/** The form of a stream's events. */
export interface EventFormat<Part> {
  /** The events of one part, blank lines included; may be none. */
  encode(part: Part): string
  /** Events that go out with the head where the first part is long in coming; those of the first part follow. */
  opening?(): string
  /** What is said in a silence; by default a comment. @param quietMs ms without an event */
  keepAlive?(quietMs: number): string
  /** Text after the last event, also after an error. */
  readonly last: string
  /** An error after the head as an event; by default, its body alone. */
  fail?(body: unknown): string
  /** Whether a failure before the head is told in the stream too, as one after the head; by default it has its status. */
  failsInStream?(code: string | null): boolean
}

/** The error event of streams whose events are told apart by their `type`. @param body OpenAI's error object */
export function typedErrorEvent(body: unknown): string {
  const { error } = body as ErrorBody
  return `event: error\ndata: ${JSON.stringify({ type: 'error', error })}\n\n`
}

/**
 * Sends parts as server-sent events. The head waits for the first part, at most `server.headTimeout`, so that early failures
 * get a status; an error after the head becomes one event.
 * @throws errors before the head
 */
export function writeEvents<Part>(
  call: Call,
  { parts }: Reply<Part>,
  out: Outgoing,
  format: EventFormat<Part>,
): Promise<void> {
  return new EventWriter(call, out, format).write(parts)
}

/** Writes the events of one answer. */
class EventWriter<Part> {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #format: EventFormat<Part>
  /** For the head; after it, for signs of life. */
  #timer: Timeout
  /** Signs of life since the last event. */
  #silences = 0

  constructor(call: Call, out: Outgoing, format: EventFormat<Part>) {
    const { headTimeout } = call.runtime.config.server
    this.#call = call
    this.#out = out
    this.#format = format
    this.#timer = call.timeout(headTimeout * 1000, () => this.#open())
  }

  async write(parts: Flow<Part>): Promise<void> {
    const call = this.#call
    const out = this.#out
    try {
      let batch = await parts.next()
      call.firstMs = call.elapsedMs
      if (!out.headSent) {
        this.#timer.clear()
        this.#sendHead()
      }
      call.deadline(call.runtime.config.server.streamTimeout)
      for (; !batch.last; batch = await parts.next()) {
        const events = this.#textOf(batch)
        if (!events) continue
        this.#silences = 0
        this.#timer.restart()
        const full = out.write(events)
        if (full) await full
      }
      this.#timer.clear()
      await call.end('completed')
      out.end(this.#textOf(batch) + this.#format.last)
    } catch (error) {
      this.#timer.clear()
      parts.close().catch((thrown: unknown) => call.report(thrown))
      await this.#fail(error)
    }
  }

  /** @throws the error, where it is told without an event */
  async #fail(error: unknown): Promise<void> {
    const call = this.#call
    const format = this.#format
    if (call.outcome === 'cancelled') throw error
    const failure = toGatewayError(error)
    if (!this.#out.headSent) {
      if (!format.failsInStream?.(failure.code)) throw error
      this.#sendHead()
      this.#timer.clear()
    }
    call.error = failure
    call.report(error)
    await call.end('failed')
    const { body } = call.format.writeError(failure, call, call.id)
    this.#out.end((format.fail?.(body) ?? `data: ${JSON.stringify(body)}\n\n`) + format.last)
  }

  /** The first part is long in coming: the head goes out without it. */
  #open(): void {
    this.#sendHead()
    this.#out.flush()
    const events = this.#format.opening?.()
    if (events) void this.#out.write(events)
  }

  #sendHead(): void {
    const { keepAlive } = this.#call.runtime.config.server
    this.#call.status = 200
    this.#out.head(200, EVENT_HEADERS)
    this.#timer = this.#call.timeout(keepAlive * 1000, () => this.#sayAlive(keepAlive * 1000))
  }

  #sayAlive(intervalMs: number): void {
    this.#silences++
    void this.#out.write(this.#format.keepAlive?.(this.#silences * intervalMs) ?? KEEP_ALIVE)
    this.#timer.restart()
  }

  /** The parts of one batch go out in one write. */
  #textOf({ parts }: Batch<Part>): string {
    let events = ''
    for (let i = 0; i < parts.length; i++) events += this.#format.encode(parts[i]!)
    return events
  }
}
