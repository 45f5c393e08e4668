import type { Call, Done, Writer, WireFormat } from '../../../../pipeline/pipeline.ts'
import type { Outgoing } from '../../../../pipeline/http.ts'
import { isConfidential } from '../../../../pipeline/native.ts'
import { randomId } from '../../../../state/ids.ts'
import { EventWriter, WholeWriter, type EventFormat } from '../../../shared/write.ts'
import { type AnswerChunk, promptTokensOf } from '../../billing.ts'
import type { TokenCount } from '../../count.ts'
import { answerOf, chatFormat } from '../../endpoint.ts'
import type { ChatRequest } from '../../request.ts'
import { countWriter } from '../shared/count.ts'
import { MessageEvents, type MessageEvent } from './events.ts'
import { countedBody, messageBody } from './fields.ts'
import { ForwardedEvents } from './forward.ts'
import { prepare, knowsBetas } from './prepare.ts'
import { readMessagesRequest, type AnswerOptions } from './read.ts'
import { openingUsage, usageJson } from './usage.ts'
import type { GatewayError } from '../../../../errors/errors.ts'
import { messageFor } from '../shared/errors.ts'

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The header in which clients of this API look for the id of a request. */
const ID_HEADER = 'request-id'

const writeError: WireFormat['writeError'] = (error, call, id) => {
  const { code, param, receipt } = error
  const status = statusOf(error)
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error')
  const usage = receipt && call ? { usage: usageJson(receipt) } : {}
  return {
    status,
    headers: {
      ...error.headers,
      [ID_HEADER]: id,
      ...(receipt && call && { 'x-service-cost': receipt.bill.text }),
    },
    body: {
      type: 'error',
      error: { type, message: messageFor(error, call, true), code, param, ...usage },
      request_id: id,
    },
  }
}

function errorEvent(body: unknown): string {
  return `event: error\ndata: ${JSON.stringify(body)}\n\n`
}

function statusOf({ status, code }: GatewayError): number {
  // On a 403, coding assistants ask their users to log in again.
  if (code === 'key_limit_exceeded') return 402
  return code === 'provider_overloaded' ? 529 : status
}

export class MessageBuilder {
  /** Everything but the content, of which blocks are kept as JSON text. */
  #message: Record<string, unknown> = {}
  readonly #blocks: string[] = []
  #block: any
  /** The input of a call, as JSON text. */
  #input = ''

  add(event: MessageEvent): void {
    switch (event.type) {
      case 'message_start':
        this.#message = event.message
        break
      case 'content_block_start':
        this.#block = { ...event.content_block }
        this.#input = ''
        break
      case 'content_block_delta':
        this.#delta(event.delta)
        break
      case 'content_block_stop':
        this.#blocks.push(this.#blockText())
        break
      case 'message_delta': {
        const { type: _type, delta, ...others } = event
        // Vendors may leave counts out here that they gave at the beginning.
        const usage = { ...(this.#message.usage as object), ...others.usage }
        this.#message = { ...this.#message, ...delta, ...others, usage }
      }
    }
  }

  text(): string {
    const { content: _content, stop_reason, ...rest } = this.#message
    const { id, type, role, model, ...others } = rest
    const head = JSON.stringify({ id, type, role, model }).slice(0, -1)
    const tail = JSON.stringify({ stop_reason, ...others }).slice(1)
    return `${head},"content":[${this.#blocks.join(',')}],${tail}`
  }

  #delta(delta: any): void {
    const block = this.#block
    switch (delta.type) {
      case 'text_delta':
        block.text += delta.text
        break
      case 'thinking_delta':
        block.thinking += delta.thinking
        break
      case 'signature_delta':
        block.signature = delta.signature
        break
      case 'compaction_delta':
        if (delta.content) block.content = (block.content ?? '') + delta.content
        if (delta.encrypted_content) block.encrypted_content = delta.encrypted_content
        break
      // Absent without a citation: a client that validates answers takes no null here.
      case 'citations_delta':
        block.citations = [...(block.citations ?? []), delta.citation]
        break
      case 'input_json_delta':
        this.#input += delta.partial_json
    }
  }

  /**
   * The input of a call keeps the bytes that the model wrote: numbers may be larger than ours. A call that came whole has it
   * from its beginning.
   */
  #blockText(): string {
    const { input, ...block } = this.#block
    if (input === undefined || this.#input === '') return JSON.stringify(this.#block)
    return `${JSON.stringify(block).slice(0, -1)},"input":${inputText(this.#input)}}`
  }
}

/** An input has to be an object; any other value of a model is wrapped in one. */
function inputText(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text
  } catch {
    // Not JSON.
  }
  return JSON.stringify({ raw: text })
}

export const messages = chatFormat({
  path: '/v1/messages',
  body: messageBody,
  read: readMessagesRequest,
  native: { method: 'messages', prepare },
  droppedNames: (what, { answerOptions }) =>
    what === 'reasoning' ? (answerOptions as AnswerOptions).hints : ['messages.thinking'],
  write: writeMessage,
  writeError,
})

export const messageTokens = chatFormat<TokenCount>({
  path: '/v1/messages/count_tokens',
  body: countedBody,
  read: (body, header) => readMessagesRequest(body, header, true),
  write: (call, out, done) => {
    call.headers[ID_HEADER] = call.id
    return writeCount(call, out, done)
  },
  writeError,
})

const writeCount = countWriter((input_tokens) => ({ input_tokens }))

function writeMessage(call: Call, out: Outgoing, done: Done): Writer<AnswerChunk> {
  call.headers[ID_HEADER] = call.id
  const answer = new MessageAnswer(call)
  if (call.request.stream) return new EventWriter(call, out, done, answer)
  return new WholeWriter<AnswerChunk>(call, out, done, (chunks) => {
    const builder = new MessageBuilder()
    for (const chunk of chunks) for (const event of answer.events(chunk)) builder.add(event)
    return { text: builder.text() }
  })
}

class MessageAnswer implements EventFormat<AnswerChunk> {
  /** Streams of this API have no mark of their end other than the last event. */
  readonly last = ''
  readonly fail = errorEvent
  readonly #call: Call
  readonly #estimate: number
  readonly #id = randomId('msg_')
  readonly #written: MessageEvents
  /** It is set once a vendor answers in this form. */
  #forwarded: ForwardedEvents | undefined
  #pending: MessageEvent[] = []
  #begun = false

  constructor(call: Call) {
    const { input, bodyBytes = 0, answerOptions } = call.request
    this.#call = call
    // The content of the request is gone when the answer begins.
    this.#estimate = promptTokensOf(input as ChatRequest, bodyBytes)
    const options = answerOptions as AnswerOptions
    // A vendor may name a sequence that the client did not ask for, such as one of its template.
    const stopSequence = () =>
      options.stopSequences.find((one) => one === answerOf(call)?.stopSequence)
    this.#written = new MessageEvents(
      options,
      () => call.answer.outcome === 'refused',
      (event) => this.#pending.push(event),
      (index) => answerOf(call)?.unsigned.has(index) === true,
      stopSequence,
    )
  }

  /** The events of a chunk; those of the first one follow the beginning of the message. */
  events(chunk: AnswerChunk): readonly MessageEvent[] {
    if (chunk.native) this.#forwarded ??= this.#forward()
    if (this.#forwarded) return this.#forwarded.push(chunk)
    const opening = this.#begun ? [] : this.#begin()
    this.#written.push(chunk)
    const events = [...opening, ...this.#pending]
    this.#pending = []
    return events
  }

  encode(chunk: AnswerChunk): string {
    let text = ''
    for (const event of this.events(chunk)) text += textOf(event)
    return text
  }

  /** It is empty where a vendor is asked whose own beginning is to go out. */
  opening(): string {
    return this.#call.target.native ? '' : this.#begin().map(textOf).join('')
  }

  keepAlive(): string {
    return textOf(PING)
  }

  #forward(): ForwardedEvents {
    const { nativeHeaders } = this.#call.request
    const envelope = {
      opening: () => this.#begin(),
      knowsBetas: knowsBetas(nativeHeaders),
      isConfidential: isConfidential(this.#call),
    }
    return new ForwardedEvents(envelope, this.#begun)
  }

  get #model(): string {
    return this.#call.request.model.replace(/:online$/, '')
  }

  #begin(): MessageEvent[] {
    this.#begun = true
    const promptUsage = answerOf(this.#call)?.promptUsage
    const prompt = promptUsage?.promptTokens ? promptUsage : { promptTokens: this.#estimate }
    const message = {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.#model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      stop_details: null,
      container: null,
      usage: openingUsage(prompt),
    }
    return [{ type: 'message_start', message }, PING]
  }
}

const PING: MessageEvent = { type: 'ping' }

function textOf(event: MessageEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}
