/** Chunks of the normal form as events of the Responses API: items that open and close one after the other. */
import type { ErrorBody } from '../../../../errors/errors.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { ChatChunkChoice, ReasoningDetail, ToolCallDelta } from '../../../../plugin.ts'
import { interruptedCall } from '../../answer.ts'
import type { AnswerChunk } from '../../billing.ts'
import { CallItem, MessageItem, ReasoningItem, type OpenItem, type ResponseEvent } from './items.ts'
import type { AnswerOptions } from './read.ts'
import { usageJson } from './usage.ts'

interface Ending {
  readonly status: 'completed' | 'incomplete' | 'failed'
  readonly [member: string]: unknown
}

const CUTS: Readonly<Record<string, string>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
}

export class ResponseEvents {
  readonly #resource: Record<string, unknown>
  readonly #options: AnswerOptions
  readonly #isRefused: () => boolean
  readonly #emit: (event: ResponseEvent) => void
  readonly #output: object[] = []
  #open: OpenItem | undefined
  /** Code points of the texts of earlier messages: places of citations count from the first. */
  #points = 0
  #said = ''
  #hasRefusal = false
  readonly #waiting: ChatChunkChoice[] = []

  /** @param resource the answer as it begins */
  constructor(
    resource: Record<string, unknown>,
    options: AnswerOptions,
    isRefused: () => boolean,
    emit: (event: ResponseEvent) => void,
  ) {
    this.#resource = resource
    this.#options = options
    this.#isRefused = isRefused
    this.#emit = emit
  }

  push({ choices, receipt }: AnswerChunk): void {
    const choice = choices[0]
    if (choice) this.#delta(choice)
    if (choice?.finish_reason && receipt) this.#finish(choice.finish_reason, receipt)
  }

  /** Ends the answer with an error. @param body as for an answer that failed before its head */
  fail({ error: { code, message, usage } }: ErrorBody): void {
    this.#writeWaiting()
    this.#close('incomplete')
    this.#end({ status: 'failed', error: { code, message }, usage: usage ?? null })
  }

  #delta(choice: ChatChunkChoice): void {
    if (this.#awaitsSignature && !choice.delta?.reasoning_details) this.#waiting.push(choice)
    else this.#write(choice)
    if (!this.#awaitsSignature) this.#writeWaiting()
  }

  /** A guard that reads reasoning retains its end, and with it the signature, while it agrees to the text behind it. */
  get #awaitsSignature(): boolean {
    return this.#open instanceof ReasoningItem && this.#open.awaitsSignature
  }

  #writeWaiting(): void {
    for (const choice of this.#waiting.splice(0)) this.#write(choice)
  }

  #write({ delta, logprobs }: ChatChunkChoice): void {
    if (!delta) return
    const { reasoning_details, content, refusal, tool_calls, annotations, phase } = delta
    if (reasoning_details) for (const detail of reasoning_details) this.#think(detail)
    const given: unknown = logprobs?.content
    const tokens: unknown[] = Array.isArray(given) ? given : []
    if (content) this.#say(content, tokens.map(toLogprob))
    // A guard's refusal of a whole answer is said in both members.
    if (refusal && refusal !== content) this.#refuse(refusal)
    if (tool_calls) for (const call of tool_calls) this.#call(call)
    if (annotations) annotations.forEach((one) => this.#cite(one))
    if (typeof phase === 'string' && this.#open instanceof MessageItem) this.#open.phase = phase
  }

  #say(text: string, logprobs: object[]): void {
    const message = this.#message()
    // The blank line before a refusal parts it from text in the same part.
    const shown = this.#isRefused() && !message.hasText ? text.trimStart() : text
    this.#said += shown
    message.text(shown, logprobs, this.#sayOf(message))
  }

  #refuse(text: string): void {
    this.#hasRefusal = true
    const message = this.#message()
    message.refusal(text, this.#sayOf(message))
  }

  #message(): MessageItem {
    const open = this.#open
    return open instanceof MessageItem ? open : this.#begin(new MessageItem())
  }

  #cite({ url_citation: { url, title, start_index = 0, end_index = 0 } }: any): void {
    const open = this.#open
    if (!(open instanceof MessageItem)) return
    const place = (at: number) => Math.max(0, at - this.#points)
    const annotation = {
      type: 'url_citation',
      url,
      title,
      start_index: place(start_index),
      end_index: place(end_index),
    }
    open.annotate(annotation, this.#sayOf(open))
  }

  #think(detail: ReasoningDetail): void {
    const open = this.#open
    const goesOn = open instanceof ReasoningItem && open.takes(detail)
    if (!goesOn) this.#writeWaiting()
    const item = goesOn
      ? open
      : this.#begin(new ReasoningItem(detail, this.#options.includesEncrypted))
    item.add(detail, this.#sayOf(item))
  }

  #call({ index = 0, id, function: called, custom }: ToolCallDelta): void {
    const part: { name?: string | null; arguments?: string | null; input?: string | null } =
      custom ?? called ?? {}
    if (part.name) {
      const tool = this.#options.toolNames.get(part.name) ?? { name: part.name }
      this.#begin(new CallItem(index, id ?? '', tool, custom !== undefined))
    }
    const open = this.#open
    if (!(open instanceof CallItem) || open.call !== index) throw interruptedCall()
    open.add(part.arguments ?? part.input ?? '', this.#sayOf(open))
  }

  #begin<Item extends OpenItem>(item: Item): Item {
    this.#close('completed')
    this.#open = item
    const announced = { ...item.start, status: 'in_progress' }
    const output_index = this.#output.length
    this.#emit({ type: 'response.output_item.added', output_index, item: announced })
    return item
  }

  #sayOf({ start }: OpenItem) {
    const output_index = this.#output.length
    return (type: string, members: object) =>
      this.#emit({ type, item_id: start.id, output_index, ...members })
  }

  #close(status: 'completed' | 'incomplete'): void {
    const open = this.#open
    if (!open) return
    this.#open = undefined
    const item = { ...open.start, ...open.close(this.#sayOf(open)), status }
    const output_index = this.#output.push(item) - 1
    this.#emit({ type: 'response.output_item.done', output_index, item })
    this.#points += [...this.#said].length
    this.#said = ''
  }

  #finish(reason: string, receipt: Receipt): void {
    this.#writeWaiting()
    const isSaid = this.#isRefused() || this.#hasRefusal
    const cut = isSaid ? undefined : CUTS[reason]
    this.#close(cut ? 'incomplete' : 'completed')
    this.#end({ ...endingOf(cut), ...billed(receipt) })
  }

  #end(ending: Ending): void {
    const response = { ...this.#resource, output: this.#output, ...ending }
    this.#emit({ type: `response.${ending.status}`, response })
  }
}

/** The ending of an answer. @param cut why it is not complete */
export function endingOf(cut: string | undefined): Ending {
  return cut === undefined
    ? { status: 'completed', completed_at: Math.floor(Date.now() / 1000) }
    : { status: 'incomplete', incomplete_details: { reason: cut } }
}

function billed(receipt: Receipt): object {
  const { guard } = receipt
  return { usage: usageJson(receipt), ...(guard && { guard }) }
}

function toLogprob(given: any): object {
  const { token, logprob, bytes, top_logprobs } = Object(given)
  const others = Array.isArray(top_logprobs) ? top_logprobs.map(Object) : []
  return {
    token,
    logprob,
    bytes: bytes ?? [],
    top_logprobs: others.map((one: any) => ({
      token: one.token,
      logprob: one.logprob,
      bytes: one.bytes ?? [],
    })),
  }
}
