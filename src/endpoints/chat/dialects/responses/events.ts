/** Chunks of the normal form as events of the Responses API: items that open and close one after the other. */
import type { ErrorBody } from '../../../../errors/errors.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { ChatChunkChoice, ReasoningDetail, ToolCallDelta } from '../../../../plugin.ts'
import { interruptedCall } from '../../answer.ts'
import type { AnswerChunk } from '../../billing.ts'
import type { AnswerOptions } from './read.ts'
import { usageJson } from './usage.ts'
import { randomId } from '../../../../state/ids.ts'
import { SIGNED_FORMATS, isMarked, toCarrier } from '../shared/reasoning.ts'
import { OWN_FORMATS } from './conversation.ts'
import type { ToolName } from './names.ts'

// Items of an answer while they arrive: each knows the events about it.

/** An event; `type` is also its name. Its number is added where it is written. */
export interface ResponseEvent {
  readonly type: string
  readonly [member: string]: any
}

type Say = (type: string, members: object) => void

interface OpenItem {
  readonly start: Record<string, unknown>
  /** Ends the open parts of the item. @returns its members as a whole */
  close(say: Say): Record<string, unknown>
}

type Part =
  | { type: 'output_text'; text: string; annotations: object[]; logprobs: object[] }
  | { type: 'refusal'; refusal: string }

const EMPTY = {
  output_text: () => ({ type: 'output_text', text: '', annotations: [], logprobs: [] }) as const,
  refusal: () => ({ type: 'refusal', refusal: '' }) as const,
}

class MessageItem implements OpenItem {
  readonly start = { id: randomId('msg_'), type: 'message', role: 'assistant', content: [] }
  phase: string | undefined
  readonly #parts: Part[] = []
  #open: Part | undefined

  get hasText(): boolean {
    return this.#open?.type === 'output_text'
  }

  text(delta: string, logprobs: object[], say: Say): void {
    const part = this.#part('output_text', say)
    if (part.type !== 'output_text') return
    part.text += delta
    part.logprobs.push(...logprobs)
    say('response.output_text.delta', { content_index: this.#index, delta, logprobs })
  }

  refusal(delta: string, say: Say): void {
    const part = this.#part('refusal', say)
    if (part.type !== 'refusal') return
    part.refusal += delta
    say('response.refusal.delta', { content_index: this.#index, delta })
  }

  annotate(annotation: object, say: Say): void {
    const part = this.#open
    if (part?.type !== 'output_text') return
    const annotation_index = part.annotations.push(annotation) - 1
    const content_index = this.#index
    say('response.output_text.annotation.added', { content_index, annotation_index, annotation })
  }

  close(say: Say): Record<string, unknown> {
    this.#closePart(say)
    return { content: this.#parts, ...(this.phase !== undefined && { phase: this.phase }) }
  }

  get #index(): number {
    return this.#parts.length - 1
  }

  #part(type: Part['type'], say: Say): Part {
    if (this.#open?.type === type) return this.#open
    this.#closePart(say)
    const part: Part = EMPTY[type]() as Part
    this.#open = part
    this.#parts.push(part)
    const content_index = this.#index
    say('response.content_part.added', { content_index, part: EMPTY[type]() })
    return part
  }

  #closePart(say: Say): void {
    const part = this.#open
    if (!part) return
    this.#open = undefined
    const content_index = this.#index
    if (part.type === 'refusal') {
      say('response.refusal.done', { content_index, refusal: part.refusal })
    } else {
      const { text, logprobs } = part
      say('response.output_text.done', { content_index, text, logprobs })
    }
    say('response.content_part.done', { content_index, part })
  }
}

class CallItem implements OpenItem {
  readonly start: Record<string, unknown>
  readonly call: number
  readonly #tool: ToolName
  readonly #isCustom: boolean
  #text = ''

  /** @param id the id of the call, by which its result names it */
  constructor(call: number, id: string, tool: ToolName, isCustom: boolean) {
    this.call = call
    this.#tool = tool
    this.#isCustom = isCustom
    this.start = {
      id: randomId(isCustom ? 'ctc_' : 'fc_'),
      type: isCustom ? 'custom_tool_call' : 'function_call',
      call_id: id,
      name: tool.name,
      ...(tool.namespace !== undefined && { namespace: tool.namespace }),
      [isCustom ? 'input' : 'arguments']: '',
    }
  }

  add(delta: string, say: Say): void {
    if (delta === '') return
    this.#text += delta
    if (this.#isCustom) {
      say('response.custom_tool_call_input.delta', { call_id: this.start.call_id, delta })
    } else say('response.function_call_arguments.delta', { delta })
  }

  close(say: Say): Record<string, unknown> {
    const text = this.#text
    if (this.#isCustom) {
      say('response.custom_tool_call_input.done', { input: text })
      return { input: text }
    }
    say('response.function_call_arguments.done', { arguments: text, name: this.#tool.name })
    return { arguments: text }
  }
}

/** The text between blocks of reasoning that one text shows, but not between parts of a summary. */
const SEPARATOR = '\n\n'

/** Reasoning, with the opaque text that the client has to send back. It waits for that text until the next item begins. */
class ReasoningItem implements OpenItem {
  readonly start: Record<string, unknown>
  readonly #includesEncrypted: boolean
  readonly #parts: { readonly type: 'summary_text'; text: string }[] = []
  /** Index of the block whose text is open; undefined between two. */
  #block: number | undefined
  /** The entry that began the item, with the opaque text once it has come. */
  #detail: ReasoningDetail

  constructor(first: ReasoningDetail, includesEncrypted: boolean) {
    const { text: _text, summary: _summary, ...detail } = first
    this.#detail = detail
    this.#includesEncrypted = includesEncrypted
    this.start = {
      id: detail.id?.startsWith('rs_') ? detail.id : randomId('rs_'),
      type: 'reasoning',
      summary: [],
    }
  }

  get awaitsSignature(): boolean {
    const { format, signature, data } = this.#detail
    return SIGNED_FORMATS.has(format) && !signature && !data
  }

  /** Whether an entry goes on with this item: its block, or another block of the item that the vendor made. */
  takes({ id, index }: ReasoningDetail): boolean {
    const own = this.#detail
    if (index === own.index || index === this.#block) return true
    return typeof id === 'string' && id === own.id && !own.data
  }

  add({ type, index, id: _id, format: _format, ...fields }: ReasoningDetail, say: Say): void {
    const { text, summary, signature, data } = fields
    const opaque = { ...(signature && { signature }), ...(data && { data }) }
    if (signature || data) this.#detail = { ...this.#detail, type, ...opaque }
    const shown = text || summary
    if (shown) this.#show(shown, index, say)
  }

  close(say: Say): Record<string, unknown> {
    this.#closePart(say)
    const encrypted_content = this.#opaque()
    return { summary: this.#parts, ...(encrypted_content !== undefined && { encrypted_content }) }
  }

  #show(text: string, index: number | undefined, say: Say): void {
    let delta = text
    if (this.#block === undefined || this.#block !== index) {
      this.#closePart(say)
      this.#block = index ?? 0
      if (delta.startsWith(SEPARATOR)) delta = delta.slice(SEPARATOR.length)
      const part = { type: 'summary_text', text: '' } as const
      this.#parts.push({ ...part })
      say('response.reasoning_summary_part.added', { summary_index: this.#index, part })
    }
    this.#parts.at(-1)!.text += delta
    say('response.reasoning_summary_text.delta', { summary_index: this.#index, delta })
  }

  get #index(): number {
    return this.#parts.length - 1
  }

  #closePart(say: Say): void {
    if (this.#block === undefined) return
    this.#block = undefined
    const summary_index = this.#index
    const part = this.#parts.at(-1)!
    say('response.reasoning_summary_text.done', { summary_index, text: part.text })
    say('response.reasoning_summary_part.done', { summary_index, part })
  }

  /** The vendor's own text where it is of this form, else a carrier; undefined where nothing has to come back. */
  #opaque(): string | undefined {
    const { data, signature, format } = this.#detail
    const isReturned = isMarked(this.#detail)
    if (!this.#includesEncrypted || !(data || signature || isReturned)) return undefined
    return data && OWN_FORMATS.has(format) && !isReturned ? data : toCarrier(this.#detail)
  }
}

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
  #text = ''
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

  /** Ends the answer with an error. @param body the body, as for an answer that failed before its head */
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
    const list: unknown = logprobs?.content
    const tokens: unknown[] = Array.isArray(list) ? list : []
    if (content) this.#say(content, tokens.map(toLogprob))
    // A guard's refusal of a whole answer stands in both members.
    if (refusal && refusal !== content) this.#refuse(refusal)
    if (tool_calls) for (const call of tool_calls) this.#call(call)
    if (annotations) annotations.forEach((one) => this.#cite(one))
    if (typeof phase === 'string' && this.#open instanceof MessageItem) this.#open.phase = phase
  }

  #say(text: string, logprobs: object[]): void {
    const message = this.#message()
    // The blank line before a refusal parts it from text in the same part.
    const shown = this.#isRefused() && !message.hasText ? text.trimStart() : text
    this.#text += shown
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
    this.#points += [...this.#text].length
    this.#text = ''
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

function toLogprob(entry: any): object {
  const { token, logprob, bytes, top_logprobs } = Object(entry)
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
