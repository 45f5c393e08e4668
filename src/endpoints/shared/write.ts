/**
 * Writers of answers. The call ends before the last byte is written: a client that has read the end finds its balance charged
 * and its concurrency slot free.
 */
import { Buffer } from 'node:buffer'
import { toErrorBody, toGatewayError, type ErrorBody } from '../../errors/errors.ts'
import type { Timeout } from '../../lifetime/scope.ts'
import {
  ClientDisconnected,
  type Call,
  type Done,
  type Outgoing,
  type Receipt,
  type WireFormat,
  type Writer,
} from '../../pipeline/pipeline.ts'

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

/** One body, as it goes to the client. */
export interface WholeBody {
  /** Bytes where they are compressed. */
  readonly text: string | Buffer
  /** By default that of JSON. */
  readonly type?: string
  /** By default 200. One of 304 has no content. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** Writes an answer as one body, made of all its parts. What fails is told by a status. */
export class WholeWriter<Part> implements Writer<Part> {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  readonly #print: (parts: readonly Part[]) => WholeBody
  readonly #parts: Part[] = []

  constructor(call: Call, out: Outgoing, done: Done, print: (parts: readonly Part[]) => WholeBody) {
    this.#call = call
    this.#out = out
    this.#done = done
    this.#print = print
  }

  push(part: Part): void {
    this.#parts.push(part)
  }

  batchEnd(): boolean {
    return true
  }

  end(): void {
    let body: WholeBody
    try {
      body = this.#print(this.#parts)
    } catch (error) {
      return this.#done(error)
    }
    this.#call.answer.status = body.status ?? 200
    endWith(this.#call, this.#done, () => sendBody(this.#call, this.#out, body))
  }

  fail(error: unknown): void {
    this.#done(error)
  }
}

/** Makes writers of one JSON body. @param print the value of the body */
export function jsonWriter<Part>(
  print: (parts: readonly Part[], call: Call) => object,
): WireFormat<any, Part>['write'] {
  return (call, out, done) =>
    new WholeWriter<Part>(call, out, done, (parts) => ({
      text: JSON.stringify(print(parts, call)),
    }))
}

function sendBody(
  { answer: { bill } }: Call,
  out: Outgoing,
  { text, type = 'application/json', status = 200, headers }: WholeBody,
): void {
  if (status === 304) {
    out.head(status, { ...headers })
    return out.end()
  }
  const bytes = Buffer.byteLength(text)
  out.head(status, {
    ...headers,
    'content-type': type,
    'content-length': String(bytes),
    ...(bill && { 'x-service-cost': bill.text }),
  })
  out.end(text, bytes === text.length)
}

/** Ends a call that is complete, then sends the last bytes. */
function endWith(call: Call, done: Done, send: () => void): void {
  const last = () => {
    // A client that left meanwhile gets nothing.
    if (call.answer.outcome !== 'cancelled') send()
    done()
  }
  const ending = call.end('completed')
  if (ending) ending.then(last, done)
  else last()
}

/**
 * Sends bytes as they come. The head waits for the first of them; a failure after the head breaks the connection, the only
 * sign of failure in a byte stream.
 */
export class BytesWriter implements Writer<{ readonly bytes: Uint8Array }> {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  readonly #type: string
  #begun = false
  #room = true

  /** @param type of the content */
  constructor(call: Call, out: Outgoing, done: Done, type: string) {
    this.#call = call
    this.#out = out
    this.#done = done
    this.#type = type
  }

  onRoom(resume: () => void): void {
    this.#out.onDrain(resume)
  }

  push({ bytes }: { readonly bytes: Uint8Array }): void {
    if (!this.#begun) this.#begin()
    this.#room = this.#out.write(bytes)
  }

  batchEnd(): boolean {
    const room = this.#room
    this.#room = true
    return room
  }

  end(): void {
    endWith(this.#call, this.#done, () => this.#out.end())
  }

  fail(error: unknown): void {
    this.#done(error)
  }

  #begin(): void {
    const call = this.#call
    this.#begun = true
    call.marks.firstMs = call.elapsedMs
    call.answer.status = 200
    this.#out.head(200, { 'content-type': this.#type })
    call.deadline(call.runtime.config.server.streamTimeout)
  }
}

/** The form of a stream's events. */
export interface EventFormat<Part> {
  /** The events of one part, blank lines included; may be none. */
  encode(part: Part): string
  /** Events that go out with the head where the first part is long in coming; those of the first part follow. */
  opening?(): string
  /** What is said in a silence; by default a comment. @param quietMs ms without an event */
  keepAlive?(quietMs: number): string
  /** Events that end an answer which is complete. */
  closing?(): string
  /** Text after the last event, also after an error. */
  readonly last: string
  /** The head waits for the first part, however long it is in coming. */
  readonly headWaits?: boolean
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
 * get a status; an error after the head becomes one event. The parts of one turn go out in one write.
 */
export class EventWriter<Part> implements Writer<Part> {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  readonly #format: EventFormat<Part>
  /** For the head; after it, for signs of life. Undefined before a head that waits for the first part. */
  #timer: Timeout | undefined
  /** Signs of life since the last event. */
  #silences = 0
  /** Events that go out when the turn ends. */
  #events = ''
  #begun = false

  constructor(call: Call, out: Outgoing, done: Done, format: EventFormat<Part>) {
    const { headTimeout } = call.runtime.config.server
    this.#call = call
    this.#out = out
    this.#done = done
    this.#format = format
    if (!format.headWaits) {
      // Bound, not closures: see `lifetime/README.md`.
      this.#timer = call.timeout(headTimeout * 1000, this.#open.bind(this))
    }
  }

  onRoom(resume: () => void): void {
    this.#out.onDrain(resume)
  }

  push(part: Part): void {
    if (!this.#begun) this.#begin()
    this.#events += this.#format.encode(part)
  }

  batchEnd(): boolean {
    const events = this.#events
    if (events === '') return true
    this.#events = ''
    this.#silences = 0
    this.#timer!.restart()
    return this.#out.write(events)
  }

  end(): void {
    this.#timer?.clear()
    if (!this.#begun) this.#begin()
    this.#events += this.#format.closing?.() ?? ''
    endWith(this.#call, this.#done, () => {
      this.#timer?.clear()
      this.#out.end(this.#events + this.#format.last)
    })
  }

  fail(error: unknown): void {
    const call = this.#call
    const format = this.#format
    this.#timer?.clear()
    // Its connection is gone, and the call ends with it.
    if (error instanceof ClientDisconnected || call.answer.outcome === 'cancelled') return
    const failure = toGatewayError(error)
    if (!this.#out.headSent) {
      if (!format.failsInStream?.(failure.code)) return this.#done(error)
      this.#sendHead()
      this.#timer?.clear()
    }
    call.answer.error = failure
    call.report(error)
    const last = () => {
      const { body } = call.format.writeError(failure, call, call.id)
      const event = format.fail?.(body) ?? `data: ${JSON.stringify(body)}\n\n`
      this.#out.end(this.#events + event + format.last)
      this.#done()
    }
    const ending = call.end('failed')
    if (ending) ending.then(last, this.#done)
    else last()
  }

  #begin(): void {
    const call = this.#call
    this.#begun = true
    call.marks.firstMs = call.elapsedMs
    if (!this.#out.headSent) {
      this.#timer?.clear()
      this.#sendHead()
    }
    call.deadline(call.runtime.config.server.streamTimeout)
  }

  /** The first part is long in coming: the head goes out without it. */
  #open(): void {
    this.#sendHead()
    this.#out.flush()
    const events = this.#format.opening?.()
    if (events) this.#out.write(events)
  }

  #sendHead(): void {
    const { keepAlive } = this.#call.runtime.config.server
    this.#call.answer.status = 200
    this.#out.head(200, EVENT_HEADERS)
    this.#timer = this.#call.timeout(keepAlive * 1000, this.#sayAlive.bind(this, keepAlive * 1000))
  }

  #sayAlive(intervalMs: number): void {
    this.#silences++
    this.#out.write(this.#format.keepAlive?.(this.#silences * intervalMs) ?? KEEP_ALIVE)
    this.#timer!.restart()
  }
}
