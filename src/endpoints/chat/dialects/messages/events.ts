/** Chunks of the normal form as events of Anthropic's Messages API: blocks that open and close one after the other. */
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { ChatDelta, ReasoningDetail, ToolCallDelta } from '../../../../plugin.ts'
import { randomId } from '../../../../state/ids.ts'
import { interruptedCall } from '../../answer.ts'
import type { AnswerChunk } from '../../billing.ts'
import { isMarked, toCarrier } from '../shared/reasoning.ts'
import { OWN_FORMAT } from './conversation.ts'
import type { AnswerOptions } from './read.ts'
import { usageJson } from './usage.ts'

export interface MessageEvent {
  readonly type: string
  readonly [member: string]: any
}

type Emit = (event: MessageEvent) => void

type OpenBlock =
  | { readonly kind: 'text' }
  | { readonly kind: 'call'; readonly call: number; readonly isCustom: boolean }
  | { readonly kind: 'thinking'; detail: ReasoningDetail }

const CUSTOM_INPUT = '{"input":"'
const MAX_CITED_CHARACTERS = 150
const THINKING = { type: 'thinking', thinking: '', signature: '' }

export const STOP_REASONS: Readonly<Record<string, string>> = {
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
}

export class MessageEvents {
  readonly #options: Pick<AnswerOptions, 'hidesThinking' | 'hidesRefusals'>
  readonly #isRefused: () => boolean
  readonly #emit: Emit
  readonly #isUnsigned: (index: number) => boolean
  readonly #stopSequence: () => string | undefined
  /** Blocks of thinking that went out without a signature. */
  readonly #left = new Set<number>()
  #index = 0
  #open: OpenBlock | undefined
  #hasRefusal = false
  /** The text of a refusal, which some clients show in place of the answer. */
  #explanation = ''
  readonly #waiting: ChatDelta[] = []

  /**
   * @param isUnsigned whether the vendor has left a block of thinking without a signature
   * @param stopSequence the stop sequence of the answer, read at its end
   */
  constructor(
    options: Pick<AnswerOptions, 'hidesThinking' | 'hidesRefusals'>,
    isRefused: () => boolean,
    emit: Emit,
    isUnsigned: (index: number) => boolean = () => false,
    stopSequence: () => string | undefined = () => undefined,
  ) {
    this.#stopSequence = stopSequence
    this.#isUnsigned = isUnsigned
    this.#options = options
    this.#isRefused = isRefused
    this.#emit = emit
  }

  push({ choices, receipt }: AnswerChunk): void {
    const choice = choices[0]
    if (choice?.delta) this.#delta(choice.delta)
    if (choice?.finish_reason && receipt) this.#finish(choice.finish_reason, receipt)
  }

  #delta(delta: ChatDelta): void {
    if (this.#awaitsSignature && !delta.reasoning_details) this.#waiting.push(delta)
    else this.#write(delta)
    if (!this.#awaitsSignature) this.#writeWaiting()
  }

  /**
   * A guard that reads thinking retains its end, and with it the signature, while it agrees to the text behind it. A block
   * goes out with its signature, so the text waits.
   */
  get #awaitsSignature(): boolean {
    const open = this.#open
    if (open?.kind !== 'thinking' || open.detail.format !== OWN_FORMAT) return false
    return !open.detail.signature && !this.#isUnsigned(open.detail.index ?? 0)
  }

  #writeWaiting(): void {
    for (const delta of this.#waiting.splice(0)) this.#write(delta)
  }

  #write(delta: ChatDelta): void {
    const { reasoning_details, content, refusal, tool_calls, annotations } = delta
    if (reasoning_details) for (const detail of reasoning_details) this.#think(detail)
    if (content) this.#say(content)
    // A refusal of a whole answer stands in both members.
    if (refusal) {
      this.#hasRefusal = true
      if (!this.#isRefused()) this.#explanation += refusal
      if (refusal !== content) this.#say(refusal)
    }
    if (tool_calls) for (const call of tool_calls) this.#call(call)
    if (annotations && this.#open?.kind === 'text') annotations.forEach((one) => this.#cite(one))
  }

  #say(text: string): void {
    let shown = text
    if (this.#isRefused()) this.#explanation += text
    if (this.#open?.kind !== 'text') {
      // The blank line before a refusal parts it from text in the same block.
      if (this.#isRefused()) shown = text.trimStart()
      this.#begin({ kind: 'text' }, { type: 'text', text: '' })
    }
    this.#deltaOf({ type: 'text_delta', text: shown })
  }

  #cite({ url_citation: { url, title, content } }: any): void {
    const citation = {
      type: 'web_search_result_location',
      url,
      title,
      cited_text: content?.slice(0, MAX_CITED_CHARACTERS) ?? '',
      encrypted_index: '',
    }
    this.#deltaOf({ type: 'citations_delta', citation })
  }

  #think(detail: ReasoningDetail): void {
    const open = this.#open
    const { type, index, text, summary, signature } = detail
    if (type === 'reasoning.encrypted') return this.#encrypted(detail)
    // Too late: the block has gone out.
    if (!text && !summary && open?.kind !== 'thinking' && this.#left.has(index ?? 0)) return
    if (open?.kind !== 'thinking' || open.detail.index !== index) {
      this.#writeWaiting()
      this.#beginThinking(detail)
    } else if (signature) open.detail = { ...open.detail, signature }
    const thinking = text || summary
    if (thinking && !this.#options.hidesThinking) {
      this.#deltaOf({ type: 'thinking_delta', thinking })
    }
  }

  /** A hidden block begins when it closes: it goes out only with a signature. */
  #beginThinking({ text: _text, summary: _summary, ...detail }: ReasoningDetail): void {
    this.#close()
    this.#open = { kind: 'thinking', detail }
    if (!this.#options.hidesThinking) this.#start(THINKING)
  }

  #endThinking(detail: ReasoningDetail): void {
    if (!detail.signature) this.#left.add(detail.index ?? 0)
    if (this.#options.hidesThinking) {
      if (!detail.signature && !detail.data) return
      this.#start(THINKING)
    }
    this.#deltaOf({ type: 'signature_delta', signature: signatureOf(detail) })
    this.#stop()
  }

  #encrypted(detail: ReasoningDetail): void {
    if (detail.format !== OWN_FORMAT || isMarked(detail)) {
      this.#beginThinking(detail)
      return this.#close()
    }
    this.#close()
    this.#start({ type: 'redacted_thinking', data: detail.data })
    this.#stop()
  }

  #call({ index = 0, id, function: called, custom }: ToolCallDelta): void {
    const name = (called ?? custom)?.name
    if (name) {
      const block = {
        type: 'tool_use',
        id: id && /^[a-zA-Z0-9_-]+$/.test(id) ? id : randomId('toolu_'),
        name,
        input: {},
      }
      this.#begin({ kind: 'call', call: index, isCustom: custom !== undefined }, block)
      // The input of a tool of another kind is a text; here it has to be an object.
      if (custom) this.#inputOf(CUSTOM_INPUT)
    }
    const text = called?.arguments ?? custom?.input
    if (!text) return
    const open = this.#open
    if (open?.kind !== 'call' || open.call !== index) throw interruptedCall()
    this.#inputOf(open.isCustom ? JSON.stringify(text).slice(1, -1) : text)
  }

  #inputOf(partial_json: string): void {
    this.#deltaOf({ type: 'input_json_delta', partial_json })
  }

  #begin(open: OpenBlock, block: object): void {
    this.#close()
    this.#open = open
    this.#start(block)
  }

  #start(content_block: object): void {
    this.#emit({ type: 'content_block_start', index: this.#index, content_block })
  }

  #deltaOf(delta: object): void {
    this.#emit({ type: 'content_block_delta', index: this.#index, delta })
  }

  #stop(): void {
    this.#emit({ type: 'content_block_stop', index: this.#index })
    this.#index++
  }

  #close(): void {
    const open = this.#open
    if (!open) return
    this.#open = undefined
    if (open.kind === 'thinking') return this.#endThinking(open.detail)
    if (open.kind === 'call' && open.isCustom) this.#inputOf('"}')
    this.#stop()
  }

  #finish(reason: string, receipt: Receipt): void {
    this.#writeWaiting()
    this.#close()
    const refused = this.#hasRefusal ? 'refusal' : (STOP_REASONS[reason] ?? 'end_turn')
    const isShown = this.#options.hidesRefusals && this.#isRefused()
    const stop = isShown ? 'end_turn' : refused
    const sequence = stop === 'end_turn' ? this.#stopSequence() : undefined
    const ended = sequence === undefined ? stop : 'stop_sequence'
    endEvents(ended, receipt, sequence, this.#explanation.trim() || null).forEach(this.#emit)
  }
}

export function endEvents(
  stop_reason: string,
  receipt: Receipt,
  stop_sequence: string | null = null,
  explanation: string | null = null,
): MessageEvent[] {
  const { guard } = receipt
  const refused = { type: 'refusal', category: null, explanation }
  const stop_details = stop_reason === 'refusal' ? refused : null
  return [
    {
      type: 'message_delta',
      delta: { stop_reason, stop_sequence, stop_details },
      usage: usageJson(receipt),
      ...(guard && { guard }),
    },
    { type: 'message_stop' },
  ]
}

/** The opaque string of a block of reasoning: the vendor's own, else a carrier. */
function signatureOf(detail: ReasoningDetail): string {
  const { format, signature } = detail
  const isOwn = format === OWN_FORMAT && !isMarked(detail)
  return isOwn && signature ? signature : toCarrier(detail)
}
