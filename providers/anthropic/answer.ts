/** Turns the events of the Messages API into chunks. A whole message is read as the equivalent events. */
import type {
  ChatChunk,
  ChatChunkChoice,
  ChatDelta,
  Host,
  ReasoningDetail,
  Step,
  OpenAIUsage,
} from '../../src/plugin.ts'
import { notAnAnswer, partOf, tokenCount, countWith } from '../shared/http.ts'
import { inbandFailure } from './errors.ts'
import { ANSWER_TOOL } from './request.ts'
import { FORMAT, toId } from './thoughts.ts'

/** What the request says about how to read its answer. */
interface AnswerContext {
  /** The answer comes as the input of the tool {@link ANSWER_TOOL}. */
  readonly answersByTool: boolean
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure of an error event, and `upstream_error` for a truncated stream; in both cases after a chunk
 *   with the usage so far, if there was output
 */
export function readEvents(context: AnswerContext): Step<any, ChatChunk> {
  return new AnswerState(context)
}

/**
 * The chunks of a whole message.
 * @throws the failure for an error in place of a message
 */
export function readMessage(message: any, context: AnswerContext): ChatChunk[] {
  if (message?.type !== 'message' && !message?.error) throw notAnAnswer(context.fail)
  const chunks: ChatChunk[] = []
  const answer = new AnswerState(context)
  const push = (event: object) => answer.push(event, (chunk) => chunks.push(chunk))
  if (message.error) push({ type: 'error', error: message.error })
  const { content, stop_reason, stop_sequence, stop_details, usage } = message
  const blocks: any[] = Array.isArray(content) ? content : []
  blocks.forEach((content_block, index) => {
    push({ type: 'content_block_start', index, content_block })
    push({ type: 'content_block_stop', index })
  })
  push({ type: 'message_delta', delta: { stop_reason, stop_sequence, stop_details }, usage })
  push({ type: 'message_stop' })
  return chunks
}

/** Anthropic's stop reasons as OpenAI's finish reasons. All others become `stop`. */
const FINISH_REASONS: Readonly<Record<string, string>> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  // The vendor expects the answer back to go on with it, which chat cannot say. It is not complete.
  pause_turn: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

type Emit = (chunk: ChatChunk) => void

/** A content block that is open. */
interface OpenBlock {
  readonly kind: 'text' | 'thought' | 'call' | 'other'
  /** Index among the blocks of its kind. */
  readonly index: number
  /** The complete input of a call that is not streamed. */
  readonly input: unknown
  /** Part of the block was emitted. */
  emitted: boolean
  /** The id that tells the position of reasoning. */
  readonly id: string | null
  /** The offset of a text in the answer, and its citations. */
  readonly start: number
  readonly citations: any[]
}

class AnswerState implements Step<any, ChatChunk> {
  done = false
  readonly #context: AnswerContext
  readonly #open = new Map<number, OpenBlock>()
  readonly #annotations: object[] = []
  #counts: Counts | undefined
  #id: string | undefined
  /** The vendor has counted the whole output. */
  #isCounted = false
  #reason: string | undefined
  #stopSequence: string | undefined
  #refusal: string | undefined
  #text = ''
  /** UTF-16 units of everything that counts as output. */
  #output = 0
  #thoughts = 0
  #calls = 0

  constructor(context: AnswerContext) {
    this.#context = context
  }

  push(event: any, emit: Emit): void {
    // Events that arrive together with the last one are no part of the message.
    if (this.done) return
    switch (event?.type) {
      case 'message_start':
        this.#begin(event.message?.id, emit)
        this.#counts = withLater(this.#counts, event.message?.usage)
        // The input is charged even if the answer breaks off.
        if (this.#counts) emit({ choices: [], usage: toUsage(this.#counts), usageIsPartial: true })
        break
      case 'content_block_start':
        if (typeof event.content_block !== 'object' || event.content_block === null) break
        this.#start(event.index, event.content_block, emit)
        break
      case 'content_block_delta':
        this.#delta(event.index, event.delta ?? {}, emit)
        break
      case 'content_block_stop':
        this.#stop(event.index, emit)
        break
      case 'message_delta':
        this.#counts = withLater(this.#counts, event.usage)
        if (tokenCount(event.usage?.output_tokens) > 0) this.#isCounted = true
        this.#reason = textIn(event.delta?.stop_reason) ?? this.#reason
        this.#stopSequence = textIn(event.delta?.stop_sequence) ?? this.#stopSequence
        this.#refusal = textIn(event.delta?.stop_details?.explanation) ?? this.#refusal
        // The output is counted even if the client leaves before the last event.
        if (this.#counts) emit({ choices: [], usage: toUsage(this.#counts), usageIsPartial: true })
        break
      case 'message_stop':
        this.#finish(emit)
        this.done = true
        break
      default:
        if (event?.error) this.#breakOff(inbandFailure(this.#context.fail, event.error), emit)
    }
  }

  end(emit: Emit): void {
    if (this.done) return
    // Only the final event is missing.
    if (this.#reason !== undefined) return this.#finish(emit)
    const { fail } = this.#context
    this.#breakOff(fail('upstream_error', 'The model provider closed the stream early.'), emit)
  }

  /** Proxies repeat the first event. One of another message means that a second answer is in the stream. */
  #begin(id: unknown, emit: Emit): void {
    if (typeof id !== 'string') return
    if (this.#id !== undefined && id !== this.#id) {
      this.#breakOff(notAnAnswer(this.#context.fail), emit)
    }
    this.#id = id
  }

  #start(position: number, content: any, emit: Emit): void {
    const kind = this.#kindOf(content)
    const block: OpenBlock = {
      kind,
      index: kind === 'call' ? this.#calls : this.#thoughts,
      input: content.input,
      emitted: false,
      id: toId({ characters: this.#text.length, calls: this.#calls }),
      start: this.#text.length,
      citations: Array.isArray(content.citations) ? content.citations.filter(Boolean) : [],
    }
    this.#open.set(position, block)
    if (content.type === 'text') this.#emitText(block, content.text, emit)
    else if (kind === 'call') {
      const [id, name] = [this.#textOf(content.id), this.#textOf(content.name)]
      if (!id || !name) throw notAnAnswer(this.#context.fail)
      this.#calls++
      const call = { index: block.index, id, type: 'function', function: { name, arguments: '' } }
      this.#emit({ tool_calls: [call] }, emit)
    } else if (kind === 'thought') {
      this.#thoughts++
      // A summary of the conversation is read as reasoning: it is output, and no part of the answer.
      const { data, content: summary, thinking = summary, signature } = content
      if (data) this.#emitDetail(block, { type: 'reasoning.encrypted', data }, emit)
      else if (thinking || signature) this.#emitThinking(block, thinking, signature, emit)
    } else if (content.type === 'server_tool_use' && content.name === 'web_search') {
      emit({ choices: [], searches: 1 })
    } else if (content.type === 'web_search_tool_result') {
      emit({ choices: [], searchBytes: resultBytes(content.content) })
    }
  }

  #kindOf({ type, name }: any): OpenBlock['kind'] {
    if (type === 'text') return 'text'
    if (type === 'thinking' || type === 'redacted_thinking' || type === 'compaction') {
      return 'thought'
    }
    if (type !== 'tool_use') return 'other'
    return this.#context.answersByTool && name === ANSWER_TOOL ? 'text' : 'call'
  }

  #delta(position: number, delta: any, emit: Emit): void {
    const block = this.#open.get(position) ?? this.#unannounced(position, delta, emit)
    if (!block) return
    switch (delta.type) {
      case 'text_delta':
        return this.#emitText(block, delta.text, emit)
      case 'input_json_delta':
        return this.#emitText(block, delta.partial_json, emit)
      case 'thinking_delta':
        if (delta.thinking) this.#emitThinking(block, delta.thinking, undefined, emit)
        return
      case 'compaction_delta':
        if (delta.content) this.#emitThinking(block, delta.content, undefined, emit)
        return
      case 'signature_delta':
        if (delta.signature) this.#emitThinking(block, undefined, delta.signature, emit)
        return
      case 'citations_delta':
        if (delta.citation) block.citations.push(delta.citation)
    }
  }

  /**
   * Opens the block of a part that came without its beginning: some servers leave it out.
   * @throws UpstreamFailure for a part of a call, whose name is not known
   */
  #unannounced(position: number, { type }: any, emit: Emit): OpenBlock | undefined {
    if (type === 'input_json_delta') throw notAnAnswer(this.#context.fail)
    if (type === 'text_delta') this.#start(position, { type: 'text' }, emit)
    if (type === 'thinking_delta') this.#start(position, { type: 'thinking' }, emit)
    return this.#open.get(position)
  }

  /** @throws UpstreamFailure for what is no text: in a native answer no later check would find it */
  #textOf(value: unknown): string {
    if (typeof value === 'string') return value
    if (value === undefined || value === null) return ''
    throw notAnAnswer(this.#context.fail)
  }

  /** Emits text, or a part of a call's input. */
  #emitText(block: OpenBlock, value: unknown, emit: Emit): void {
    const text = this.#textOf(value)
    if (!text) return
    block.emitted = true
    this.#output += text.length
    if (block.kind === 'text') {
      this.#text += text
      this.#emit({ content: text }, emit)
    } else if (block.kind === 'call') {
      this.#emit({ tool_calls: [{ index: block.index, function: { arguments: text } }] }, emit)
    }
  }

  #emitThinking(block: OpenBlock, thought: unknown, signed: unknown, emit: Emit): void {
    const [text, signature] = [this.#textOf(thought), this.#textOf(signed)]
    this.#output += text.length
    const detail = {
      type: 'reasoning.text',
      ...(text || !block.emitted ? { text } : {}),
      ...(signature ? { signature } : {}),
    } as const
    this.#emitDetail(block, detail, emit, text)
  }

  #emitDetail(block: OpenBlock, detail: ReasoningDetail, emit: Emit, reasoning?: string): void {
    const origin = block.emitted ? {} : { format: FORMAT, id: block.id }
    block.emitted = true
    const reasoning_details = [{ ...detail, ...origin, index: block.index }]
    this.#emit(reasoning ? { reasoning, reasoning_details } : { reasoning_details }, emit)
  }

  #stop(position: number, emit: Emit): void {
    const block = this.#open.get(position)
    if (!block) return
    this.#open.delete(position)
    // The call has no arguments, or all of them came at once.
    if (!block.emitted && (block.kind === 'call' || block.input !== undefined)) {
      this.#emitText(block, JSON.stringify(block.input ?? {}), emit)
    }
    if (block.kind === 'call') {
      this.#emit({ tool_calls: [{ index: block.index, done: true }] }, emit)
    }
    this.#cite(block)
  }

  /** Citations apply to the whole text of their block. */
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
    const choice: ChatChunkChoice = { index: 0, delta }
    if (this.#reason !== undefined) choice.finish_reason = FINISH_REASONS[this.#reason] ?? 'stop'
    if (this.#stopSequence) choice.stop_sequence = this.#stopSequence
    const chunk: ChatChunk = { choices: [choice], endOfStream: true }
    if (this.#counts) chunk.usage = toUsage(this.#counts)
    // The gateway counts the text where the vendor did not.
    if (this.#counts && !this.#isCounted) chunk.usageIsPartial = true
    emit(chunk)
  }

  /** Output that was produced is charged. Before the first output another deployment can still be tried. */
  #breakOff(failure: Error, emit: Emit): never {
    if (this.#counts && this.#output > 0) {
      emit({ choices: [], usage: toUsage(this.#counts), usageIsPartial: true })
    }
    throw failure
  }

  #emit(delta: ChatDelta, emit: Emit): void {
    emit({ choices: [{ index: 0, delta }] })
  }
}

/** UTF-8 bytes of search results. Their pages are encrypted, in base64. */
function resultBytes(results: unknown): number {
  if (!Array.isArray(results)) return 0
  let bytes = 0
  for (const result of results) {
    const { title, url, encrypted_content: page } = result ?? {}
    for (const text of [title, url]) if (typeof text === 'string') bytes += Buffer.byteLength(text)
    if (typeof page === 'string') bytes += Math.ceil((page.length * 3) / 4)
  }
  return bytes
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function codePoints(text: string): number {
  let count = 0
  for (const _character of text) count++
  return count
}

// Converts usage. Anthropic counts cached input separately; the gateway's prompt tokens include it.

/** Counts as reported. Each report of a stream covers everything so far. */
type Counts = Readonly<Record<string, any>>

/** Merges a later report into earlier ones. Counts that are absent or zero in the later report keep their value. */
function withLater(counts: Counts | undefined, later: unknown): Counts | undefined {
  if (typeof later !== 'object' || later === null) return counts
  const reported = Object.entries(later).filter(
    ([name, value]) => value || counts?.[name] === undefined,
  )
  return { ...counts, ...Object.fromEntries(reported) }
}

/** Usage in the gateway's form. */
export function toUsage(reported: Counts): OpenAIUsage {
  const counts = withOthers(reported)
  const read = tokenCount(counts.cache_read_input_tokens)
  const { ephemeral_5m_input_tokens, ephemeral_1h_input_tokens } = counts.cache_creation ?? {}
  const hour = tokenCount(ephemeral_1h_input_tokens)
  const written = Math.max(
    tokenCount(ephemeral_5m_input_tokens) + hour,
    tokenCount(counts.cache_creation_input_tokens),
  )
  const output = tokenCount(counts.output_tokens)
  const searches = counts.server_tool_use?.web_search_requests
  return {
    prompt_tokens: countWith(counts.input_tokens, read + written),
    completion_tokens: output || countWith(counts.output_tokens, 0),
    prompt_tokens_details: {
      cached_tokens: partOf(counts.cache_read_input_tokens),
      cache_write_tokens:
        written || partOf(counts.cache_creation_input_tokens ?? ephemeral_5m_input_tokens),
      ...(hour > 0 && { cache_write_1h_tokens: hour }),
    },
    completion_tokens_details: {
      reasoning_tokens: partOf(counts.output_tokens_details?.thinking_tokens, output),
    },
    ...(searches === undefined ? {} : { searches: tokenCount(searches) }),
  }
}

const TOTALS = [
  'input_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'output_tokens',
]
const WRITTEN = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens']
/** Types of the entries that the totals include. */
const INCLUDED: ReadonlySet<unknown> = new Set(['message', 'fallback_message'])

/**
 * The totals leave out what the vendor made beside the answer, such as a summary of a long conversation, and bills all the
 * same. Decision: these tokens count as those of one prompt and one answer, and the sum decides about the tier of prices.
 */
function withOthers(counts: Counts): Counts {
  const entries: readonly any[] = Array.isArray(counts.iterations) ? counts.iterations : []
  const others = entries.filter((one) => one && !INCLUDED.has(one.type))
  if (others.length === 0) return counts
  const sums = (names: readonly string[], own: Counts, more: readonly (Counts | undefined)[]) =>
    Object.fromEntries(
      names.map((name) => {
        const added = more.reduce((sum, one) => sum + tokenCount(one?.[name]), 0)
        return [name, countWith(own[name], added)]
      }),
    )
  const written = others.map((one) => one.cache_creation)
  return {
    ...counts,
    ...sums(TOTALS, counts, others),
    cache_creation: sums(WRITTEN, counts.cache_creation ?? {}, written),
  }
}
