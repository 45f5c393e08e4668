/** Anthropic's Messages API. */
import type { Outgoing, Call, Reply } from '../../../../pipeline/pipeline.ts'
import { isConfidential } from '../../../../pipeline/native.ts'
import { randomId } from '../../../../state/ids.ts'
import { writeEvents, writeJson, type EventFormat } from '../../../shared/write.ts'
import { type BilledChunk, promptTokensOf } from '../../billing.ts'
import type { TokenCount } from '../../count.ts'
import { chatFormat } from '../../endpoint.ts'
import { countWriter } from '../shared/count.ts'
import { errorEvent, ID_HEADER, writeError } from './error.ts'
import { MessageEvents, type MessageEvent } from './events.ts'
import { countedBody, messageBody } from './fields.ts'
import { ForwardedEvents } from './forward.ts'
import { prepare } from './prepare.ts'
import { readMessagesRequest, type AnswerOptions } from './read.ts'
import { openingUsage } from './usage.ts'
import { knowsBetas } from './vendor.ts'
import { MessageBuilder } from './whole.ts'

/** `POST /v1/messages`. */
export const messages = chatFormat({
  path: '/v1/messages',
  body: messageBody,
  read: readMessagesRequest,
  native: { method: 'messages', prepare },
  write: writeMessage,
  writeError,
})

/** `POST /v1/messages/count_tokens`. */
export const messageTokens = chatFormat<TokenCount>({
  path: '/v1/messages/count_tokens',
  body: countedBody,
  read: (body, header) => readMessagesRequest(body, header, true),
  write: (call, reply, out) => {
    call.headers[ID_HEADER] = call.id
    return writeCount(call, reply, out)
  },
  writeError,
})

const writeCount = countWriter((input_tokens) => ({ input_tokens }))

/** Writes a stream of events, or the message that they make. */
async function writeMessage(call: Call, reply: Reply<BilledChunk>, out: Outgoing): Promise<void> {
  call.headers[ID_HEADER] = call.id
  const answer = new MessageAnswer(call)
  if (call.request.stream) return writeEvents(call, reply, out, answer)
  const builder = new MessageBuilder()
  for (let last = false; !last;) {
    const batch = await reply.parts.next()
    for (const chunk of batch.parts) for (const event of answer.events(chunk)) builder.add(event)
    last = batch.last
  }
  await writeJson(call, out, builder.text())
}

/** One answer as events, and as their bytes. */
class MessageAnswer implements EventFormat<BilledChunk> {
  /** Streams of this API have no mark of their end beside the last event. */
  readonly last = ''
  readonly fail = errorEvent
  readonly #call: Call
  readonly #estimate: number
  readonly #id = randomId('msg_')
  readonly #written: MessageEvents
  /** Set once a vendor answers in this form. */
  #forwarded: ForwardedEvents | undefined
  #pending: MessageEvent[] = []
  #begun = false

  constructor(call: Call) {
    const { input, bodyBytes = 0, answerOptions } = call.request
    this.#call = call
    // The content of the request is gone when the answer begins.
    this.#estimate = promptTokensOf(input, bodyBytes)
    const options = answerOptions as AnswerOptions
    // A vendor may name a sequence that the client did not ask for, such as one of its template.
    const stopSequence = () => options.stopSequences.find((one) => one === call.stopSequence)
    this.#written = new MessageEvents(
      options,
      () => call.outcome === 'refused',
      (event) => this.#pending.push(event),
      (index) => call.unsignedReasoning?.has(index) === true,
      stopSequence,
    )
  }

  /** The events of a chunk; those of the first one follow the beginning of the message. */
  events(chunk: BilledChunk): readonly MessageEvent[] {
    if (chunk.native) this.#forwarded ??= this.#forward()
    if (this.#forwarded) return this.#forwarded.push(chunk)
    const opening = this.#begun ? [] : this.#begin()
    this.#written.push(chunk)
    const events = [...opening, ...this.#pending]
    this.#pending = []
    return events
  }

  encode(chunk: BilledChunk): string {
    let text = ''
    for (const event of this.events(chunk)) text += textOf(event)
    return text
  }

  /** Nothing where a vendor is asked whose own beginning is to go out. */
  opening(): string {
    return this.#call.native ? '' : this.#begin().map(textOf).join('')
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

  /** The name of the model as the client wrote it. */
  get #model(): string {
    return this.#call.request.model.replace(/:online$/, '')
  }

  #begin(): MessageEvent[] {
    this.#begun = true
    const { promptUsage } = this.#call
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
