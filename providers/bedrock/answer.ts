/** Turns answers of Converse, whole or streamed, into chunks. */
import type {
  ChatChunk,
  ChatDelta,
  Host,
  OpenAIUsage,
  ReasoningDetail,
  Step,
} from '../../src/plugin.ts'
import { FORMAT, toId } from '../anthropic/thoughts.ts'
import { notAnAnswer, countWith, textOf, tokenCount } from '../shared/http.ts'
import { ThinkSplitter, type ThinkTags } from '../shared/think-tags.ts'
import { frameFailure } from './errors.ts'
import type { Frame } from './frames.ts'

/** What the request says about how to read its answer. */
export interface AnswerContext {
  /** The model writes its reasoning into its text, in these tags. */
  readonly tags: ThinkTags | undefined
  /** Reasoning comes with a signature. */
  readonly signsReasoning: boolean
  /** Name of the tool whose arguments are the answer. */
  readonly answerTool: string | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure an exception in the stream stands for
 */
export function readStream(context: AnswerContext): Step<Frame, ChatChunk> {
  const answer = new AnswerState(context)
  return {
    push(frame, emit) {
      if (frame.kind !== 'event') throw frameFailure(context.fail, frame)
      const chunk = answer.push(frame.name, frame.payload)
      if (chunk) emit(chunk)
    },
    end(emit) {
      answer.end(emit)
    },
  }
}

/**
 * The chunks of a whole answer.
 * @throws the failure class `upstream_error` when the payload is not an answer
 */
export function readWhole(payload: any, context: AnswerContext): ChatChunk[] {
  const content = payload?.output?.message?.content
  if (!Array.isArray(content)) throw notAnAnswer(context.fail)
  const answer = new AnswerState(context)
  const chunks: ChatChunk[] = []
  const push = (name: string, event: object) => {
    const chunk = answer.push(name, event)
    if (chunk) chunks.push(chunk)
  }
  for (const [contentBlockIndex, block] of content.entries()) {
    const { start, deltas } = toEvents(block)
    if (start) push('contentBlockStart', { contentBlockIndex, start })
    for (const delta of deltas) push('contentBlockDelta', { contentBlockIndex, delta })
    push('contentBlockStop', { contentBlockIndex })
  }
  push('messageStop', payload)
  push('metadata', payload)
  answer.end((chunk) => void chunks.push(chunk))
  return chunks
}

/** Amazon's stop reasons as OpenAI's finish reasons. All others become `stop`. */
const REASONS: Readonly<Record<string, string>> = {
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
}

/** State of one answer while it arrives. */
class AnswerState {
  readonly #context: AnswerContext
  readonly #splitter: ThinkSplitter | undefined
  /** What a block is: a tool call, or the call that holds the answer. */
  readonly #calls = new Map<number, { readonly index: number; empty: boolean } | 'answer'>()
  /** Index of a reasoning block, and an id that tells its position in the answer. */
  readonly #thoughts = new Map<number, { readonly index: number; readonly id: string | null }>()
  #called = 0
  /** UTF-16 units of text so far. */
  #characters = 0
  /** Text of a model that should answer by a tool call. It becomes the answer when there is no such call. */
  #sideText = ''
  #failure: Error | undefined

  constructor(context: AnswerContext) {
    this.#context = context
    this.#splitter = context.tags && new ThinkSplitter(context.tags)
  }

  /** It is undefined for an event without content. */
  push(name: string, event: any): ChatChunk | undefined {
    const { contentBlockIndex: block = 0, start, delta, usage } = Object(event)
    switch (name) {
      case 'contentBlockStart':
        return toChunk(this.#open(block, start?.toolUse))
      case 'contentBlockDelta':
        return toChunk(this.#read(block, Object(delta)))
      case 'contentBlockStop':
        return toChunk(this.#close(block))
      case 'messageStop':
        return this.#stop(Object(event))
      case 'metadata': {
        const counted = toUsage(usage)
        return counted && { choices: [], usage: counted }
      }
      default:
        return undefined
    }
  }

  /** Emits what was held back. @throws the failure of a broken answer, after everything before it was emitted */
  end(emit: (chunk: ChatChunk) => void): void {
    const rest = this.#splitter?.end()
    const chunk = rest && toChunk(this.#text(rest.content, rest.reasoning))
    if (chunk) emit(chunk)
    const answered = [...this.#calls.values()].includes('answer')
    if (this.#sideText && !answered)
      emit({ choices: [{ index: 0, delta: { content: this.#sideText } }] })
    if (this.#failure) throw this.#failure
  }

  #open(block: number, tool: any): ChatDelta | undefined {
    if (!tool) return undefined
    const { answerTool } = this.#context
    if (answerTool !== undefined && tool.name === answerTool) {
      this.#calls.set(block, 'answer')
      return undefined
    }
    const index = this.#called++
    this.#calls.set(block, { index, empty: true })
    const { toolUseId: id, name } = tool
    return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
  }

  #read(block: number, delta: any): ChatDelta | undefined {
    if (typeof delta.text === 'string') {
      const thought = this.#splitter?.push(delta.text)
      return this.#text(thought?.content ?? delta.text, thought?.reasoning ?? '')
    }
    if (delta.toolUse) return this.#arguments(block, textOf(delta.toolUse.input))
    if (delta.reasoningContent) return this.#think(block, delta.reasoningContent)
    return toAnnotation(delta.citation)
  }

  #text(text: string, reasoning: string): ChatDelta | undefined {
    this.#characters += text.length
    if (this.#context.answerTool) this.#sideText += text
    const content = this.#context.answerTool ? '' : text
    if (!reasoning) return content ? { content } : undefined
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: reasoning,
      format: 'unknown',
      index: 0,
    }
    return { ...(content && { content }), reasoning, reasoning_details: [detail] }
  }

  #arguments(block: number, text: string): ChatDelta | undefined {
    const call = this.#calls.get(block)
    if (!text || !call) return undefined
    if (call === 'answer') return { content: text }
    call.empty = false
    return { tool_calls: [{ index: call.index, function: { arguments: text } }] }
  }

  #think(block: number, { text, signature, redactedContent }: any): ChatDelta | undefined {
    if (!text && !signature && !redactedContent) return undefined
    let place = this.#thoughts.get(block)
    if (!place) {
      const id = toId({ characters: this.#characters, calls: this.#called })
      this.#thoughts.set(block, (place = { index: this.#thoughts.size, id }))
    }
    const origin = this.#context.signsReasoning
      ? { format: FORMAT, id: place.id }
      : { format: 'unknown' }
    const detail: ReasoningDetail = {
      ...(redactedContent
        ? { type: 'reasoning.encrypted', data: redactedContent }
        : { type: 'reasoning.text' }),
      ...(text && { text }),
      ...(signature && { signature }),
      ...origin,
      index: place.index,
    }
    return { ...(text && { reasoning: text }), reasoning_details: [detail] }
  }

  #close(block: number): ChatDelta | undefined {
    const call = this.#calls.get(block)
    if (!call || call === 'answer') return undefined
    const { index, empty } = call
    const rest = empty ? { function: { arguments: '{}' } } : {}
    return { tool_calls: [{ index, ...rest, done: true }] }
  }

  #stop({ stopReason: reason, additionalModelResponseFields: own }: any): ChatChunk | undefined {
    if (typeof reason === 'string' && reason.startsWith('malformed_')) {
      // The model itself produced an invalid answer, so another attempt may succeed.
      this.#failure = this.#context.fail(
        'upstream_error',
        'The model provider gave up on this answer.',
      )
      return undefined
    }
    const mapped = (typeof reason === 'string' && REASONS[reason]) || 'stop'
    const finish_reason = mapped === 'tool_calls' && this.#called === 0 ? 'stop' : mapped
    const stop_sequence = textOf(own?.stop_sequence)
    const choice = { index: 0, delta: {}, finish_reason, ...(stop_sequence && { stop_sequence }) }
    return { choices: [choice] }
  }
}

/** The events that a streamed block would have consisted of. */
function toEvents(block: any): { start?: object; deltas: object[] } {
  if (block?.toolUse) {
    const { toolUseId, name, input } = block.toolUse
    const text = JSON.stringify(input ?? {})
    return { start: { toolUse: { toolUseId, name } }, deltas: [{ toolUse: { input: text } }] }
  }
  if (block?.reasoningContent) {
    const { reasoningText, redactedContent } = block.reasoningContent
    return { deltas: [{ reasoningContent: { ...reasoningText, redactedContent } }] }
  }
  if (block?.citationsContent) {
    const { content, citations } = block.citationsContent
    const cited = listOf(citations).map((citation) => ({ citation }))
    return { deltas: [...listOf(content), ...cited] }
  }
  return { deltas: [block ?? {}] }
}

function listOf(value: unknown): any[] {
  return Array.isArray(value) ? value : []
}

/** A citation of a web page. Other sources have no OpenAI form. */
function toAnnotation(citation: any): ChatDelta | undefined {
  const url = citation?.location?.web?.url
  if (typeof url !== 'string') return undefined
  const title = citation.title ?? ''
  const page = { url, title, start_index: 0, end_index: 0 }
  return { annotations: [{ type: 'url_citation', url_citation: page }] }
}

/** Amazon counts cached input separately, under one of two names. */
function toUsage(reported: any): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const read = tokenCount(reported.cacheReadInputTokens ?? reported.cacheReadInputTokenCount)
  const written = tokenCount(reported.cacheWriteInputTokens ?? reported.cacheWriteInputTokenCount)
  const hour = listOf(reported.cacheDetails).find((detail) => detail?.ttl === '1h')
  const writtenForAnHour = Math.min(tokenCount(hour?.inputTokens), written)
  return {
    prompt_tokens: countWith(reported.inputTokens, read + written),
    completion_tokens: countWith(reported.outputTokens, 0),
    prompt_tokens_details: {
      cached_tokens: read,
      cache_write_tokens: written,
      ...(writtenForAnHour > 0 && { cache_write_1h_tokens: writtenForAnHour }),
    },
  }
}

function toChunk(delta: ChatDelta | undefined): ChatChunk | undefined {
  return delta && { choices: [{ index: 0, delta }] }
}
