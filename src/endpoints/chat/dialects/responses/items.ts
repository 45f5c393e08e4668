/** Items of an answer while they arrive: each knows the events about it. */
import type { ReasoningDetail } from '../../../../plugin.ts'
import { randomId } from '../../../../state/ids.ts'
import { SIGNED_FORMATS, isMarked, toCarrier } from '../shared/reasoning.ts'
import { OWN_FORMATS } from './conversation.ts'
import type { ToolName } from './names.ts'

/** An event; `type` is also its name. Its number is added where it is written. */
export interface ResponseEvent {
  readonly type: string
  readonly [member: string]: any
}

type Say = (type: string, members: object) => void

export interface OpenItem {
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

export class MessageItem implements OpenItem {
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

export class CallItem implements OpenItem {
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
export class ReasoningItem implements OpenItem {
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

  add({ type, index, id: _id, format: _format, ...said }: ReasoningDetail, say: Say): void {
    const { text, summary, signature, data } = said
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
