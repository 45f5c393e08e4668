import type { ErrorBody } from '../../../../errors/errors.ts'
import type { Call, Done, Writer, Receipt } from '../../../../pipeline/pipeline.ts'
import { ownerOf } from '../../../../pipeline/caller.ts'
import type { Outgoing } from '../../../../pipeline/http.ts'
import type { ChatInput } from '../../../../plugin.ts'
import { isConfidential } from '../../../../pipeline/native.ts'
import { randomId } from '../../../../state/ids.ts'
import { EventWriter, WholeWriter, type EventFormat } from '../../../shared/write.ts'
import type { AnswerChunk } from '../../billing.ts'
import type { TokenCount } from '../../count.ts'
import { chatFormat } from '../../endpoint.ts'
import { countWriter } from '../shared/count.ts'
import { writeError } from './error.ts'
import { ResponseEvents, endingOf, type ResponseEvent } from './events.ts'
import { responseBody } from './fields.ts'
import { prepare } from './prepare.ts'
import { readResponsesRequest, type AnswerOptions } from './read.ts'
import { rememberedOf, withRecalled } from './references.ts'
import { isObject } from '../../../../errors/checks.ts'
import { SteadyEvents } from './steady.ts'
import { usageJson, vendorUsage } from './usage.ts'
import { countsIn, membersIn } from '../shared/known.ts'

// Events of a vendor with this API, as the client gets them: the gateway's id, the name that was asked for, the cost.

/** Terminal events of a vendor that are passed on; the gateway writes that of a failure. */
const TERMINAL = new Set(['response.completed', 'response.incomplete'])

class ForwardedResponse {
  /** Members of every resource that are not the vendor's. */
  readonly #own: Readonly<Record<string, unknown>>
  /** Members that some servers leave out of theirs. */
  readonly #base: Readonly<Record<string, unknown>>
  #resource: Record<string, unknown>
  readonly #steady = new SteadyEvents()
  #last: ResponseEvent | undefined

  readonly #isConfidential: boolean

  /** @param resource the gateway's own, for absent members. @param isConfidential see {@link knownEvent} */
  constructor(
    own: Readonly<Record<string, unknown>>,
    resource: Record<string, unknown>,
    isConfidential: boolean,
  ) {
    this.#isConfidential = isConfidential
    this.#own = own
    this.#base = resource
    this.#resource = resource
  }

  get resource(): Record<string, unknown> {
    return this.#resource
  }

  /** The events of a chunk. One without an event only repeats those of others, or ends the answer. */
  push({ native, choices, receipt }: AnswerChunk): ResponseEvent[] {
    const events = native ? this.#pass(eventOf(native.data)) : []
    return receipt ? [...events, ...this.#finish(choices[0]?.finish_reason, receipt)] : events
  }

  /** Ends the answer with an error. @param body the body, as for an answer that failed before its head */
  fail({ error: { code, message, usage } }: ErrorBody): ResponseEvent[] {
    return this.#end('failed', { error: { code, message }, usage: usage ?? null })
  }

  #pass(sent: ResponseEvent): ResponseEvent[] {
    const event = this.#isConfidential ? knownEvent(sent, this.#base) : sent
    if (!event) return []
    const { type, response, obfuscation: _obfuscation, ...others } = event
    if (response) this.#resource = { ...this.#base, ...response, ...this.#own }
    if (TERMINAL.has(type)) {
      const events = this.#steady.complete(this.#resource.output)
      this.#last = { type, response: { ...this.#resource, output: this.#steady.output } }
      return events
    }
    if (type === 'response.failed' || type === 'error' || type === 'keepalive') return []
    if (response) return [{ type, ...others, response: this.#resource }]
    return this.#steady.push({ type, ...others })
  }

  /** Ends the answer with the vendor's own end and the cost, or the gateway's where it cut the answer. */
  #finish(reason: string | null | undefined, receipt: Receipt): ResponseEvent[] {
    const { guard } = receipt
    const last = this.#last
    const reported: unknown = last?.response.usage
    const usage = isObject(reported) ? vendorUsage(reported, receipt) : usageJson(receipt)
    const billed = { usage, ...(guard && { guard }) }
    if (!last) {
      const cut = reason === 'content_filter' ? reason : 'max_output_tokens'
      return this.#end('incomplete', { ...endingOf(cut), ...billed })
    }
    return [{ type: last.type, response: { ...last.response, ...billed } }]
  }

  #end(status: string, ending: object): ResponseEvent[] {
    const events = this.#steady.close()
    const response = { ...this.#resource, output: this.#steady.output, status, ...ending }
    return [...events, { type: `response.${status}`, response }]
  }
}

/** Whether this is an answer that came whole, not an event of a stream. */
function isWhole(data: any): boolean {
  return isObject(data) && typeof data.type !== 'string' && Array.isArray(data.output)
}

function eventOf(data: any): ResponseEvent {
  if (!isWhole(data)) return data
  const response = { ...data, object: 'response' }
  return { type: `response.${data.status ?? 'completed'}`, response }
}

// The part of a vendor's events that this API describes.

const TYPES =
  /^response\.(created|queued|in_progress|completed|incomplete|failed|output_|content_part|reasoning|refusal|function_call_|custom_tool_call_|web_search_call)/
const OF_EVENT = new Set(
  (
    'type response item item_id part delta text refusal annotation arguments input name logprobs ' +
    'output_index content_index summary_index annotation_index sequence_number'
  ).split(' '),
)

/** @param resource the gateway's own, with all members. @returns undefined for an event of another type */
function knownEvent(event: ResponseEvent, resource: object): ResponseEvent | undefined {
  if (!TYPES.test(event.type)) return undefined
  const { response, ...others } = membersIn(event, OF_EVENT)
  const type = event.type
  if (!isObject(response)) return { ...others, type }
  const { usage, ...known } = membersIn(response, new Set(Object.keys(resource)))
  const counted = usage === undefined ? {} : { usage: isObject(usage) ? countsIn(usage) : null }
  return { ...others, type, response: { ...known, ...counted } }
}

/** Repeated members addressed to the gateway or a vendor: a vendor that got its own form gives others. */
const CLIENTS_OWN = [
  'instructions',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'metadata',
  'store',
  'service_tier',
] as const

/** Repeated members with the client's own values, which replace those of a vendor's answer. */
function clientsOwn(echo: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(CLIENTS_OWN.map((name) => [name, echo[name]]))
}

interface ResourceState {
  readonly id: string
  /** Unix seconds. */
  readonly createdAt: number
  readonly model: string
  readonly maxOutputTokens: number | null
}

export function resourceOf(
  { id, createdAt, model, maxOutputTokens }: ResourceState,
  echo: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return {
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status: 'in_progress',
    incomplete_details: null,
    error: null,
    model,
    output: [],
    ...echo,
    max_output_tokens: maxOutputTokens,
    usage: null,
  }
}

export const responses = chatFormat({
  path: '/v1/responses',
  body: responseBody,
  whole: withRecalled,
  read: (body) => readResponsesRequest(body),
  native: { method: 'responses', prepare },
  droppedNames: (what) => (what === 'reasoning' ? ['reasoning'] : ['input.reasoning']),
  write: writeResponse,
  writeError,
})

export const responseTokens = chatFormat<TokenCount>({
  path: '/v1/responses/input_tokens',
  body: responseBody,
  whole: withRecalled,
  read: (body) => readResponsesRequest(body, true),
  write: countWriter((input_tokens) => ({ object: 'response.input_tokens', input_tokens })),
  writeError,
})

function writeResponse(call: Call, out: Outgoing, done: Done): Writer<AnswerChunk> {
  const answer = new ResponseAnswer(call)
  if (call.request.stream) return new EventWriter(call, out, done, answer)
  return new WholeWriter<AnswerChunk>(call, out, done, (chunks) => {
    let response: unknown
    for (const chunk of chunks) {
      for (const event of answer.events(chunk)) response = event.response ?? response
    }
    return { text: JSON.stringify(response) }
  })
}

function failedEvent(
  resource: object,
  { error: { code, message, usage } }: ErrorBody,
): ResponseEvent {
  const ending = { status: 'failed', error: { code, message }, usage: usage ?? null }
  return { type: 'response.failed', response: { ...resource, ...ending } }
}

/** The ms without an event after which a client is told again that the answer is being made: some read no comments. */
const REPEAT_AFTER_MS = 120_000

class ResponseAnswer implements EventFormat<AnswerChunk> {
  readonly last = 'data: [DONE]\n\n'
  readonly #call: Call
  readonly #resource: Record<string, unknown>
  readonly #echo: AnswerOptions['echo']
  /** It is set once a vendor answers in this form. */
  #forwarded: ForwardedResponse | undefined
  readonly #written: ResponseEvents
  #pending: ResponseEvent[] = []
  #begun = false
  #number = 0
  #repeated = 0

  constructor(call: Call) {
    const { request, target, startedAt } = call
    const options = request.answerOptions as AnswerOptions
    this.#call = call
    this.#echo = options.echo
    const limit = (target.outbound as ChatInput).max_completion_tokens
    const state = {
      id: randomId('resp_'),
      createdAt: Math.floor(startedAt / 1000),
      // The model as the client wrote it.
      model: request.model.replace(/:online$/, ''),
      maxOutputTokens: limit ?? null,
    }
    this.#resource = resourceOf(state, options.echo)
    this.#written = new ResponseEvents(
      this.#resource,
      options,
      () => call.answer.outcome === 'refused',
      (event) => this.#pending.push(event),
    )
  }

  /** The events of a chunk; those of the first one follow the beginning of the answer. */
  events(chunk: AnswerChunk): readonly ResponseEvent[] {
    if (chunk.native && !this.#begun && !this.#comesWhole(chunk))
      this.#forwarded ??= this.#forward()
    const events = this.#forwarded?.push(chunk) ?? this.#write(chunk)
    if (chunk.receipt) this.#remember(events.at(-1)?.response?.output ?? [])
    return events
  }

  encode(chunk: AnswerChunk): string {
    this.#repeated = 0
    return this.#textOf(this.events(chunk))
  }

  /** It is empty where a vendor is asked whose own beginning is to go out. */
  opening(): string {
    if (this.#call.target.native) return ''
    this.#begin()
    return this.#textOf(this.#takePending())
  }

  keepAlive(quietMs: number): string {
    const due = Math.floor(quietMs / REPEAT_AFTER_MS)
    const response = this.#forwarded?.resource ?? (this.#begun ? this.#resource : undefined)
    if (due <= this.#repeated || !response) return ': keep-alive\n\n'
    this.#repeated = due
    return this.#textOf([{ type: 'response.in_progress', response }])
  }

  fail(body: unknown): string {
    const { error } = body as ErrorBody
    // The code by which clients of this API know that they should wait.
    const code = error.code === 'upstream_rate_limited' ? 'rate_limit_exceeded' : error.code
    const failure = { error: { ...error, code } }
    try {
      return this.#textOf(this.#failed(failure))
    } catch (thrown) {
      // What was written until then is in no state to be ended.
      this.#call.report(thrown)
      return this.#textOf([failedEvent(this.#resource, failure)])
    }
  }

  #failed(failure: ErrorBody): readonly ResponseEvent[] {
    if (this.#forwarded) return this.#forwarded.fail(failure)
    this.#begin()
    this.#written.fail(failure)
    return this.#takePending()
  }

  /** It is true for a conversation that is too long: clients that shorten it look for this failure in the stream only. */
  failsInStream(code: string | null): boolean {
    return code === 'context_length_exceeded'
  }

  #write(chunk: AnswerChunk): readonly ResponseEvent[] {
    this.#begin()
    this.#written.push(chunk)
    return this.#takePending()
  }

  /** Keeps the items of the answer once its last bytes are on their way. */
  #remember(output: readonly object[]): void {
    const call = this.#call
    const { items, config } = call.runtime
    const { remember } = config.responses
    if (!(call.request.answerOptions as AnswerOptions).remembers || remember === 0) return
    const owner = ownerOf(call)
    setImmediate(() => items.keep(owner, rememberedOf(output), remember))
  }

  /** Whether a vendor answers whole although a stream was asked for: its events are made here. */
  #comesWhole({ native }: AnswerChunk): boolean {
    return this.#call.request.stream && isWhole(native!.data)
  }

  #forward(): ForwardedResponse {
    const { id, model } = this.#resource
    const own = { id, model, ...clientsOwn(this.#echo) }
    return new ForwardedResponse(own, this.#resource, isConfidential(this.#call))
  }

  #begin(): void {
    if (this.#begun) return
    this.#begun = true
    for (const type of ['response.created', 'response.in_progress']) {
      this.#pending.push({ type, response: this.#resource })
    }
  }

  #takePending(): ResponseEvent[] {
    const events = this.#pending
    this.#pending = []
    return events
  }

  #textOf(events: readonly ResponseEvent[]): string {
    let text = ''
    for (const { type, ...members } of events) {
      const data = JSON.stringify({ type, ...members, sequence_number: this.#number++ })
      text += `event: ${type}\ndata: ${data}\n\n`
    }
    return text
  }
}
