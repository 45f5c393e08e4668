/** Answers, from the events of the Messages API into chunks. A whole message is read as the events it stands for. */
import type { ChatChunk, ChatDelta, Host, ReasoningDetail, Step } from '../../src/plugin.ts'
import { notAnAnswer } from '../shared/http.ts'
import { inbandFailure } from './errors.ts'
import { ANSWER_TOOL } from './request.ts'
import { FORMAT, toId } from './thoughts.ts'
import { toUsage, withLater, type Counts } from './usage.ts'

/** How an answer has to be read. */
export interface Reading {
  /** The answer itself comes as the input of {@link ANSWER_TOOL}. */
  readonly answersByTool: boolean
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure an error event stands for, and `upstream_error` for a stream that was cut; in both cases after a
 * chunk with the usage until then, if anything was said
 */
export function readEvents(reading: Reading): Step<any, ChatChunk> {
  return new Answer(reading)
}

/**
 * The chunks of a whole message.
 * @throws the failure that an error in its place stands for
 */
export function readMessage(message: any, reading: Reading): ChatChunk[] {
  if (message?.type !== 'message' && !message?.error) throw notAnAnswer(reading.fail)
  const chunks: ChatChunk[] = []
  const answer = new Answer(reading)
  const push = (event: object) => answer.push(event, (chunk) => chunks.push(chunk))
  if (message.error) push({ type: 'error', error: message.error })
  const { content, stop_reason, stop_details, usage } = message
  const blocks: any[] = Array.isArray(content) ? content : []
  blocks.forEach((content_block, index) => {
    push({ type: 'content_block_start', index, content_block })
    push({ type: 'content_block_stop', index })
  })
  push({ type: 'message_delta', delta: { stop_reason, stop_details }, usage })
  push({ type: 'message_stop' })
  return chunks
}

/** Reasons to stop, in OpenAI's words; all others are `stop`. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

type Emit = (chunk: ChatChunk) => void

/** A block of the message that is being written. */
interface OpenBlock {
  readonly kind: 'text' | 'thought' | 'call' | 'other'
  /** Position among the blocks of its kind. */
  readonly index: number
  /** Its input, for when it does not come in pieces. */
  readonly input: unknown
  /** Something of it was said. */
  said: boolean
  /** Of a thought: where it stands. */
  readonly id: string | null
  /** Of a text: where it begins, and what it cites. */
  readonly start: number
  readonly citations: any[]
}

class Answer implements Step<any, ChatChunk> {
  done = false
  readonly #reading: Reading
  readonly #open = new Map<number, OpenBlock>()
  readonly #annotations: object[] = []
  #counts: Counts | undefined
  #reason: string | undefined
  #refusal: string | undefined
  #text = ''
  /** UTF-16 units of everything that counts as output. */
  #output = 0
  #thoughts = 0
  #calls = 0

  constructor(reading: Reading) {
    this.#reading = reading
  }

  push(event: any, emit: Emit): void {
    switch (event?.type) {
      case 'message_start':
        this.#counts = withLater(this.#counts, event.message?.usage)
        // What went in is known from here on, whatever becomes of the answer.
        if (this.#counts) emit({ choices: [], usage: toUsage(this.#counts), usageIsPartial: true })
        break
      case 'content_block_start':
        this.#start(event.index, event.content_block ?? {}, emit)
        break
      case 'content_block_delta':
        this.#delta(event.index, event.delta ?? {}, emit)
        break
      case 'content_block_stop':
        this.#stop(event.index, emit)
        break
      case 'message_delta':
        this.#counts = withLater(this.#counts, event.usage)
        this.#reason = textIn(event.delta?.stop_reason) ?? this.#reason
        this.#refusal = textIn(event.delta?.stop_details?.explanation) ?? this.#refusal
        break
      case 'message_stop':
        this.#finish(emit)
        this.done = true
        break
      default:
        if (event?.error) this.#break(inbandFailure(this.#reading.fail, event.error), emit)
    }
  }

  end(emit: Emit): void {
    if (this.done) return
    // The reason was said: only the mark of the end is missing.
    if (this.#reason !== undefined) return this.#finish(emit)
    const { fail } = this.#reading
    this.#break(fail('upstream_error', 'The model provider closed the stream early.'), emit)
  }

  #start(position: number, content: any, emit: Emit): void {
    const kind = this.#kindOf(content)
    const block: OpenBlock = {
      kind,
      index: kind === 'call' ? this.#calls : this.#thoughts,
      input: content.input,
      said: false,
      id: toId({ characters: this.#text.length, calls: this.#calls }),
      start: this.#text.length,
      citations: [...(content.citations ?? [])],
    }
    this.#open.set(position, block)
    if (content.type === 'text') this.#say(block, content.text, emit)
    else if (kind === 'call') {
      const { id, name } = content
      this.#calls++
      const call = { index: block.index, id, type: 'function', function: { name, arguments: '' } }
      this.#emit({ tool_calls: [call] }, emit)
    } else if (kind === 'thought') {
      this.#thoughts++
      const { data, thinking, signature } = content
      if (data) this.#think(block, { type: 'reasoning.encrypted', data }, emit)
      else if (thinking || signature) this.#thinkAloud(block, thinking, signature, emit)
    }
  }

  #kindOf({ type, name }: any): OpenBlock['kind'] {
    if (type === 'text') return 'text'
    if (type === 'thinking' || type === 'redacted_thinking') return 'thought'
    if (type !== 'tool_use') return 'other'
    return this.#reading.answersByTool && name === ANSWER_TOOL ? 'text' : 'call'
  }

  #delta(position: number, delta: any, emit: Emit): void {
    const block = this.#open.get(position)
    if (!block) return
    switch (delta.type) {
      case 'text_delta':
        return this.#say(block, delta.text, emit)
      case 'input_json_delta':
        return this.#say(block, delta.partial_json, emit)
      case 'thinking_delta':
        if (delta.thinking) this.#thinkAloud(block, delta.thinking, undefined, emit)
        return
      case 'signature_delta':
        if (delta.signature) this.#thinkAloud(block, undefined, delta.signature, emit)
        return
      case 'citations_delta':
        if (delta.citation) block.citations.push(delta.citation)
    }
  }

  /** Text of the answer, or a piece of a call's input. */
  #say(block: OpenBlock, text: string | undefined, emit: Emit): void {
    if (!text) return
    block.said = true
    this.#output += text.length
    if (block.kind === 'text') {
      this.#text += text
      this.#emit({ content: text }, emit)
    } else if (block.kind === 'call') {
      this.#emit({ tool_calls: [{ index: block.index, function: { arguments: text } }] }, emit)
    }
  }

  #thinkAloud(block: OpenBlock, text = '', signature: string | undefined, emit: Emit): void {
    this.#output += text.length
    const detail = {
      type: 'reasoning.text',
      ...(text || !block.said ? { text } : {}),
      ...(signature ? { signature } : {}),
    } as const
    this.#think(block, detail, emit, text)
  }

  #think(block: OpenBlock, detail: ReasoningDetail, emit: Emit, reasoning?: string): void {
    const whose = block.said ? {} : { format: FORMAT, id: block.id }
    block.said = true
    const reasoning_details = [{ ...detail, ...whose, index: block.index }]
    this.#emit(reasoning ? { reasoning, reasoning_details } : { reasoning_details }, emit)
  }

  #stop(position: number, emit: Emit): void {
    const block = this.#open.get(position)
    if (!block) return
    this.#open.delete(position)
    // Without arguments, or with all of them at once.
    if (!block.said && (block.kind === 'call' || block.input !== undefined)) {
      this.#say(block, JSON.stringify(block.input ?? {}), emit)
    }
    this.#cite(block)
  }

  /** Pages that a text rests on; the text is all that the block says. */
  #cite({ start, citations }: OpenBlock): void {
    for (const { url, title, cited_text } of citations) {
      if (typeof url !== 'string') continue
      const start_index = codePoints(this.#text.slice(0, start))
      const end_index = start_index + codePoints(this.#text.slice(start))
      const content = cited_text ? { content: cited_text } : {}
      const url_citation = { url, title: title ?? '', start_index, end_index, ...content }
      this.#annotations.push({ type: 'url_citation', url_citation })
    }
  }

  #finish(emit: Emit): void {
    const delta: ChatDelta = {}
    if (this.#annotations.length > 0) delta.annotations = this.#annotations
    if (this.#reason === 'refusal' && this.#refusal) delta.refusal = this.#refusal
    const finish_reason = FINISH_REASONS[this.#reason ?? ''] ?? 'stop'
    const chunk: ChatChunk = { choices: [{ index: 0, delta, finish_reason }], endOfStream: true }
    if (this.#counts) chunk.usage = toUsage(this.#counts)
    emit(chunk)
  }

  /** What was said is charged; before that, another deployment may still be asked. */
  #break(failure: Error, emit: Emit): never {
    if (this.#counts && this.#output > 0) {
      emit({ choices: [], usage: toUsage(this.#counts, this.#output) })
    }
    throw failure
  }

  #emit(delta: ChatDelta, emit: Emit): void {
    emit({ choices: [{ index: 0, delta }] })
  }
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function codePoints(text: string): number {
  let count = 0
  for (const _character of text) count++
  return count
}
