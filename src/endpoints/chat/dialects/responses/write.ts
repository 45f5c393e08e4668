/** OpenAI's Responses API, without a store. */
import type { ErrorBody } from '../../../../errors/errors.ts'
import type { Outgoing } from '../../../../pipeline/http.ts'
import type { Call, Reply } from '../../../../pipeline/pipeline.ts'
import { randomId } from '../../../../state/ids.ts'
import { writeEvents, writeJson, type EventFormat } from '../../../shared/write.ts'
import type { BilledChunk } from '../../billing.ts'
import type { TokenCount } from '../../count.ts'
import { chatFormat } from '../../endpoint.ts'
import { countWriter } from '../shared/count.ts'
import { writeError } from './error.ts'
import { ResponseEvents } from './events.ts'
import type { ResponseEvent } from './items.ts'
import { readResponsesRequest, type AnswerOptions } from './read.ts'
import { resourceOf } from './resource.ts'

/** `POST /v1/responses`. */
export const responses = chatFormat({
  path: '/v1/responses',
  read: (body) => readResponsesRequest(body),
  write: writeResponse,
  writeError,
})

/** `POST /v1/responses/input_tokens`. */
export const responseTokens = chatFormat<TokenCount>({
  path: '/v1/responses/input_tokens',
  read: (body) => readResponsesRequest(body, true),
  write: countWriter((input_tokens) => ({ object: 'response.input_tokens', input_tokens })),
  writeError,
})

/** Writes a stream of events, or the answer in the last of them. */
async function writeResponse(call: Call, reply: Reply<BilledChunk>, out: Outgoing): Promise<void> {
  const answer = new ResponseAnswer(call)
  if (call.request.stream) return writeEvents(call, reply, out, answer)
  let response: unknown
  for (let last = false; !last;) {
    const batch = await reply.parts.next()
    for (const chunk of batch.parts) {
      for (const event of answer.events(chunk)) response = event.response ?? response
    }
    last = batch.last
  }
  await writeJson(call, out, JSON.stringify(response))
}

/** After so many ms without an event a client is told again that the answer is being made: some read no comments. */
const REPEAT_AFTER_MS = 120_000

/** One answer as events, and as their bytes. */
class ResponseAnswer implements EventFormat<BilledChunk> {
  readonly last = 'data: [DONE]\n\n'
  readonly #resource: Record<string, unknown>
  readonly #written: ResponseEvents
  #pending: ResponseEvent[] = []
  #begun = false
  #number = 0
  /** How often the answer was said to be made in this silence. */
  #repeated = 0

  constructor(call: Call) {
    const { request, outbound, startedAt } = call
    const options = request.answerOptions as AnswerOptions
    const limit: number | undefined = outbound?.max_completion_tokens
    const state = {
      id: randomId('resp_'),
      createdAt: Math.floor(startedAt / 1000),
      // As the client wrote it.
      model: request.model.replace(/:online$/, ''),
      maxOutputTokens: limit ?? null,
    }
    this.#resource = resourceOf(state, options.echo)
    this.#written = new ResponseEvents(
      this.#resource,
      options,
      () => call.outcome === 'refused',
      (event) => this.#pending.push(event),
    )
  }

  /** The events of a chunk; those of the first one follow the beginning of the answer. */
  events(chunk: BilledChunk): readonly ResponseEvent[] {
    this.#begin()
    this.#written.push(chunk)
    return this.#taken()
  }

  encode(chunk: BilledChunk): string {
    this.#repeated = 0
    return this.#textOf(this.events(chunk))
  }

  opening(): string {
    this.#begin()
    return this.#textOf(this.#taken())
  }

  keepAlive(quietMs: number): string {
    const due = Math.floor(quietMs / REPEAT_AFTER_MS)
    if (due <= this.#repeated || !this.#begun) return ': keep-alive\n\n'
    this.#repeated = due
    return this.#textOf([{ type: 'response.in_progress', response: this.#resource }])
  }

  fail(body: unknown): string {
    this.#begin()
    this.#written.fail(body as ErrorBody)
    return this.#textOf(this.#taken())
  }

  /** Clients that shorten a conversation when it is too long look for this failure in the stream only. */
  failsInStream(code: string | null): boolean {
    return code === 'context_length_exceeded'
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    for (const type of ['response.created', 'response.in_progress']) {
      this.#pending.push({ type, response: this.#resource })
    }
  }

  #taken(): ResponseEvent[] {
    const events = this.#pending
    this.#pending = []
    return events
  }

  #textOf(events: readonly ResponseEvent[]): string {
    let text = ''
    for (const { type, ...members } of events) {
      const data = JSON.stringify({ type, sequence_number: this.#number++, ...members })
      text += `event: ${type}\ndata: ${data}\n\n`
    }
    return text
  }
}
