/**
 * Writers of answers. The call ends before the last byte is written: a client that has read the end finds its balance charged
 * and its concurrency slot free.
 */
import { isOfModel } from '../../money/money.ts'
import { Buffer } from 'node:buffer'
import {
  cannotBook,
  GatewayError,
  toErrorBody,
  toGatewayError,
  UpstreamFailure,
  type ErrorBody,
} from '../../errors/errors.ts'
import type { Timeout } from '../../lifetime/scope.ts'
import {
  ClientDisconnected,
  type Call,
  type Done,
  type Receipt,
  type WireFormat,
  type Writer,
} from '../../pipeline/pipeline.ts'
import type { Outgoing } from '../../pipeline/http.ts'

const EVENT_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}
const JSON_TYPE = 'application/json'
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

export interface WholeBody {
  readonly text: string | Buffer
  /** The content type; by default that of JSON. */
  readonly type?: string
  /** The status; by default 200. One of 304 has no content. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** Writes an answer as one body, made of all its parts. A failure has its status. */
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
      return this.#done(unwritable(this.#call, error))
    }
    const { status = 200, type = JSON_TYPE, text } = body
    this.#call.answer.status = status
    this.#call.copy?.head(status, type)
    this.#call.copy?.add(text)
    const send = () => {
      sendBody(this.#call, this.#out, body)
      this.#done()
    }
    endWith(this.#call, this.#done, send, this.#done)
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
  { text, type = JSON_TYPE, status = 200, headers }: WholeBody,
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

/** Puts the receipt on an error in place of an answer, where the call costs something all the same. */
export function tellCost({ charge, answer }: Call, error: GatewayError): void {
  const receipt = charge?.price(error, true)
  const hasBought = answer.meter.some(isOfModel)
  error.receipt = receipt && (receipt.bill.cost > 0n || hasBought) ? receipt : undefined
}

/** The failure of an answer that a writer cannot print. The cause is logged: the vendor, or the gateway, is at fault. */
function unwritable(call: Call, error: unknown): unknown {
  if (GatewayError.is(error)) return error
  call.report(error)
  const message = 'The answer of the model could not be written in the form of this API.'
  return new UpstreamFailure('upstream_error', message, { cause: error })
}

/**
 * Ends a call that is complete, and with that books it, then sends the last bytes.
 * @param refuse called in place of `send` where the charge could not be booked
 */
function endWith(call: Call, done: Done, send: () => void, refuse: (error: unknown) => void): void {
  const last = () => {
    const { outcome, unbooked } = call.answer
    // A client that left meanwhile gets nothing.
    if (outcome === 'cancelled') done()
    else if (unbooked) refuse(cannotBook())
    else send()
  }
  const ending = call.end('completed')
  if (ending) ending.then(last, done)
  else last()
}

/**
 * Sends bytes as they come. The head waits for the first of them; a failure after the head breaks the connection,
 * the only sign of failure in a byte stream.
 */
export class BytesWriter implements Writer<{ readonly bytes: Uint8Array }> {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  readonly #type: string
  #begun = false
  #room = true

  /** @param type the content type */
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
    this.#call.answer.written = true
    this.#room = this.#out.write(bytes)
  }

  batchEnd(): boolean {
    const room = this.#room
    this.#room = true
    return room
  }

  end(): void {
    const send = () => {
      this.#out.end()
      this.#done()
    }
    endWith(this.#call, this.#done, send, this.#done)
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

function hasReceipt(part: unknown): boolean {
  return (part as { readonly receipt?: Receipt }).receipt !== undefined
}

export interface EventFormat<Part> {
  /** The events of one part, blank lines included; may be none. */
  encode(part: Part): string
  /** Events that go out with the head when the first part is late; those of the first part follow. */
  opening?(): string
  /** A sign of life in a silence; by default a comment. @param quietMs ms without an event */
  keepAlive?(quietMs: number): string
  closing?(): string
  /** Text after the last event, also after an error. */
  readonly last: string
  /** Whether the head waits for the first part, however late it is. */
  readonly headWaits?: boolean
  /** An error after the head as an event; by default, its body alone. */
  fail?(body: unknown): string
  /** Whether a failure before the head is an event too, as one after it; by default it has its status. */
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
  /** Runs until the head is due, then until a sign of life is. Undefined while the head waits for the first part. */
  #timer: Timeout | undefined
  #silences = 0
  #events = ''
  /** Events with the cost: they go out once it is booked. */
  #priced = ''
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
    const text = this.#encoded(part)
    if (!this.#begun) this.#begin()
    if (hasReceipt(part) && !this.#call.answer.bill) this.#priced += text
    else this.#events += text
  }

  #encoded(part: Part): string {
    try {
      return this.#format.encode(part)
    } catch (error) {
      throw unwritable(this.#call, error)
    }
  }

  batchEnd(): boolean {
    const events = this.#events
    if (events === '') return true
    this.#events = ''
    this.#silences = 0
    this.#timer!.restart()
    this.#call.answer.written = true
    return this.#out.write(events)
  }

  end(): void {
    this.#timer?.clear()
    try {
      this.#priced += this.#format.closing?.() ?? ''
    } catch (error) {
      return this.fail(unwritable(this.#call, error))
    }
    const last = this.#events + this.#priced + this.#format.last
    this.#call.copy?.head(200, EVENT_HEADERS['content-type'])
    this.#call.copy?.add(last)
    const send = () => {
      if (!this.#begun) this.#begin()
      this.#timer?.clear()
      this.#out.end(last)
      this.#done()
    }
    endWith(this.#call, this.#done, send, this.fail.bind(this))
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
    const stopping = call.stop()
    if (stopping) void stopping.then(() => this.#endWith(failure))
    else this.#endWith(failure)
  }

  /** Books what the failed answer costs, and tells of both. */
  #endWith(failure: GatewayError): void {
    const call = this.#call
    tellCost(call, failure)
    let event = this.#eventOf(failure)
    const last = () => {
      if (call.answer.unbooked && failure.receipt?.bill.cost) event = this.#eventOf(cannotBook())
      this.#timer?.clear()
      this.#out.end(this.#events + event + this.#format.last)
      this.#done()
    }
    const ending = call.end('failed')
    if (ending) ending.then(last, this.#done)
    else last()
  }

  /** Never throws: a client that is charged gets an end. */
  #eventOf(failure: GatewayError): string {
    const call = this.#call
    try {
      const { body } = call.format.writeError(failure, call, call.id)
      return this.#format.fail?.(body) ?? `data: ${JSON.stringify(body)}\n\n`
    } catch (error) {
      call.report(error)
      return `data: ${JSON.stringify(toErrorBody(failure))}\n\n`
    }
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
