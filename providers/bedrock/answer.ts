/** Answers of Converse, whole or in events, as chunks. */
import type {
  ChatChunk,
  ChatDelta,
  Host,
  OpenAIUsage,
  ReasoningDetail,
  Step,
} from '../../src/plugin.ts'
import { FORMAT, toId } from '../anthropic/thoughts.ts'
import { notAnAnswer } from '../shared/http.ts'
import { ThinkSplitter, type ThinkTags } from '../shared/think-tags.ts'
import { tokenCount } from '../shared/values.ts'
import { frameFailure } from './errors.ts'
import type { Frame } from './frames.ts'

/** What is known of an answer beforehand. */
export interface Expected {
  /** The model thinks inside its text. */
  readonly tags: ThinkTags | undefined
  /** It seals its reasoning. */
  readonly seals: boolean
  /** The call of this tool is the answer. */
  readonly answerTool: string | undefined
  readonly fail: Host['fail']
}

/**
 * The chunks of a stream.
 * @throws the failure an exception in the stream stands for
 */
export function readStream(expected: Expected): Step<Frame, ChatChunk> {
  const answer = new Answer(expected)
  return {
    push(frame, emit) {
      if (frame.kind !== 'event') throw frameFailure(expected.fail, frame)
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
 * @throws the failure class `upstream_error` when it is none
 */
export function readWhole(payload: any, expected: Expected): ChatChunk[] {
  const content = payload?.output?.message?.content
  if (!Array.isArray(content)) throw notAnAnswer(expected.fail)
  const answer = new Answer(expected)
  const chunks: ChatChunk[] = []
  const push = (name: string, event: object) => {
    const chunk = answer.push(name, event)
    if (chunk) chunks.push(chunk)
  }
  for (const [contentBlockIndex, block] of content.entries()) {
    const { start, deltas } = eventsOf(block)
    if (start) push('contentBlockStart', { contentBlockIndex, start })
    for (const delta of deltas) push('contentBlockDelta', { contentBlockIndex, delta })
    push('contentBlockStop', { contentBlockIndex })
  }
  push('messageStop', payload)
  push('metadata', payload)
  answer.end((chunk) => void chunks.push(chunk))
  return chunks
}

/** Amazon's reasons, in OpenAI's words. Unknown ones mean stop. */
const REASONS: Readonly<Record<string, string>> = {
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
}

/** What is remembered of an answer while it arrives. */
class Answer {
  readonly #expected: Expected
  readonly #splitter: ThinkSplitter | undefined
  /** The call a block is, or that it is the answer. */
  readonly #calls = new Map<number, { readonly index: number; silent: boolean } | 'answer'>()
  /** The place of a block among those that are reasoning; and what was said before it. */
  readonly #thoughts = new Map<number, { readonly index: number; readonly id: string | null }>()
  #called = 0
  /** UTF-16 units of text. */
  #characters = 0
  /** Text of a model that was to answer by a call: the answer only if there is no such call. */
  #aside = ''
  #failure: Error | undefined

  constructor(expected: Expected) {
    this.#expected = expected
    this.#splitter = expected.tags && new ThinkSplitter(expected.tags)
  }

  /** Nothing for an event that says nothing to anybody. */
  push(name: string, event: any): ChatChunk | undefined {
    const { contentBlockIndex: block = 0, start, delta, stopReason, usage } = Object(event)
    switch (name) {
      case 'contentBlockStart':
        return said(this.#open(block, start?.toolUse))
      case 'contentBlockDelta':
        return said(this.#read(block, Object(delta)))
      case 'contentBlockStop':
        return said(this.#close(block))
      case 'messageStop':
        return this.#stop(stopReason)
      case 'metadata': {
        const counted = toUsage(usage)
        return counted && { choices: [], usage: counted }
      }
      default:
        return undefined
    }
  }

  /** @throws what went wrong with the answer, once everything that was produced has been said */
  end(emit: (chunk: ChatChunk) => void): void {
    const held = this.#splitter?.end()
    const rest = held && said(this.#speak(held.content, held.reasoning))
    if (rest) emit(rest)
    const answered = [...this.#calls.values()].includes('answer')
    if (this.#aside && !answered) emit({ choices: [{ index: 0, delta: { content: this.#aside } }] })
    if (this.#failure) throw this.#failure
  }

  #open(block: number, tool: any): ChatDelta | undefined {
    if (!tool) return undefined
    const { answerTool } = this.#expected
    if (answerTool !== undefined && tool.name === answerTool) {
      this.#calls.set(block, 'answer')
      return undefined
    }
    const index = this.#called++
    this.#calls.set(block, { index, silent: true })
    const { toolUseId: id, name } = tool
    return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
  }

  #read(block: number, delta: any): ChatDelta | undefined {
    if (typeof delta.text === 'string') {
      const thought = this.#splitter?.push(delta.text)
      return this.#speak(thought?.content ?? delta.text, thought?.reasoning ?? '')
    }
    if (delta.toolUse) return this.#argue(block, textOf(delta.toolUse.input))
    if (delta.reasoningContent) return this.#think(block, delta.reasoningContent)
    return cite(delta.citation)
  }

  #speak(text: string, reasoning: string): ChatDelta | undefined {
    this.#characters += text.length
    if (this.#expected.answerTool) this.#aside += text
    const content = this.#expected.answerTool ? '' : text
    if (!reasoning) return content ? { content } : undefined
    const detail: ReasoningDetail = {
      type: 'reasoning.text',
      text: reasoning,
      format: 'unknown',
      index: 0,
    }
    return { ...(content && { content }), reasoning, reasoning_details: [detail] }
  }

  #argue(block: number, text: string): ChatDelta | undefined {
    const call = this.#calls.get(block)
    if (!text || !call) return undefined
    if (call === 'answer') return { content: text }
    call.silent = false
    return { tool_calls: [{ index: call.index, function: { arguments: text } }] }
  }

  #think(block: number, { text, signature, redactedContent }: any): ChatDelta | undefined {
    if (!text && !signature && !redactedContent) return undefined
    let place = this.#thoughts.get(block)
    if (!place) {
      const id = toId({ characters: this.#characters, calls: this.#called })
      this.#thoughts.set(block, (place = { index: this.#thoughts.size, id }))
    }
    const whose = this.#expected.seals ? { format: FORMAT, id: place.id } : { format: 'unknown' }
    const detail: ReasoningDetail = {
      ...(redactedContent
        ? { type: 'reasoning.encrypted', data: redactedContent }
        : { type: 'reasoning.text' }),
      ...(text && { text }),
      ...(signature && { signature }),
      ...whose,
      index: place.index,
    }
    return { ...(text && { reasoning: text }), reasoning_details: [detail] }
  }

  #close(block: number): ChatDelta | undefined {
    const call = this.#calls.get(block)
    if (!call || call === 'answer' || !call.silent) return undefined
    return { tool_calls: [{ index: call.index, function: { arguments: '{}' } }] }
  }

  #stop(reason: unknown): ChatChunk | undefined {
    if (typeof reason === 'string' && reason.startsWith('malformed_')) {
      // The model wrote something that is no answer: its fault, and worth another try.
      this.#failure = this.#expected.fail(
        'upstream_error',
        'The model provider gave up on this answer.',
      )
      return undefined
    }
    const mapped = (typeof reason === 'string' && REASONS[reason]) || 'stop'
    const finish_reason = mapped === 'tool_calls' && this.#called === 0 ? 'stop' : mapped
    return { choices: [{ index: 0, delta: {}, finish_reason }] }
  }
}

/** The events a whole block would have come in. */
function eventsOf(block: any): { start?: object; deltas: object[] } {
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

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function listOf(value: unknown): any[] {
  return Array.isArray(value) ? value : []
}

/** Sources that are pages; of the others there is no form. */
function cite(citation: any): ChatDelta | undefined {
  const url = citation?.location?.web?.url
  if (typeof url !== 'string') return undefined
  const title = citation.title ?? ''
  const page = { url, title, start_index: 0, end_index: 0 }
  return { annotations: [{ type: 'url_citation', url_citation: page }] }
}

/** What is cached stands beside the input, and comes under two names. */
function toUsage(reported: any): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const read = tokenCount(reported.cacheReadInputTokens ?? reported.cacheReadInputTokenCount)
  const written = tokenCount(reported.cacheWriteInputTokens ?? reported.cacheWriteInputTokenCount)
  return {
    prompt_tokens: tokenCount(reported.inputTokens) + read + written,
    completion_tokens: tokenCount(reported.outputTokens),
    prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written },
  }
}

function said(delta: ChatDelta | undefined): ChatChunk | undefined {
  return delta && { choices: [{ index: 0, delta }] }
}
