/** Reads one choice of an answer. */
import type { ChatDelta, ReasoningDetail } from '../../src/plugin.ts'
import { detailsOf, isText, textOf, toAnnotations, toToolCall } from './parts.ts'
import { ThinkSplitter, type ThinkTags } from '../shared/think-tags.ts'

/** State of one choice while it arrives. */
export class ChoiceState {
  readonly #splitter: ThinkSplitter | undefined
  /** Index of the current reasoning block. */
  #block = 0
  #hasReasoning = false
  /** Other content followed the last reasoning, so the next reasoning starts a new block. */
  #interrupted = false
  #summary: number | undefined

  constructor(tags: ThinkTags | undefined) {
    this.#splitter = tags && new ThinkSplitter(tags)
  }

  /** The content of a delta; undefined for none. */
  read(delta: any): ChatDelta | undefined {
    if (!this.#splitter && isText(delta)) {
      if (!delta.content) return undefined
      this.#interrupted = this.#hasReasoning
      return { content: delta.content }
    }
    const out: ChatDelta = {}
    let { content, reasoning } = textOf(delta)
    if (this.#splitter) {
      const thought = this.#splitter.push(content)
      content = thought.content
      reasoning ||= thought.reasoning
    }
    this.#addReasoning(out, reasoning, detailsOf(delta))
    if (content) out.content = content
    if (delta.refusal && typeof delta.refusal === 'string') out.refusal = delta.refusal
    if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) {
      out.tool_calls = delta.tool_calls.map(toToolCall)
    }
    if (Array.isArray(delta.annotations)) {
      const annotations = toAnnotations(delta.annotations)
      if (annotations.length > 0) out.annotations = annotations
    }
    if (content || out.tool_calls) this.#interrupted = this.#hasReasoning
    return Object.keys(out).length > 0 ? out : undefined
  }

  /** What was held back at the end. */
  end(): ChatDelta | undefined {
    const held = this.#splitter?.end()
    const out: ChatDelta = {}
    if (held?.reasoning) this.#addReasoning(out, held.reasoning, [])
    if (held?.content) out.content = held.content
    return held?.reasoning || held?.content ? out : undefined
  }

  #addReasoning(out: ChatDelta, text: string, given: readonly ReasoningDetail[]): void {
    const visible = given.some((detail) => detail.text || detail.summary)
    if (!text && given.length === 0) return
    if (this.#interrupted) {
      this.#block++
      this.#interrupted = false
    }
    const details: ReasoningDetail[] = []
    if (text && !visible) {
      details.push({ type: 'reasoning.text', text, format: 'unknown', index: this.#block })
      this.#hasReasoning = true
    }
    for (const detail of given) details.push(this.#withIndex(detail))
    out.reasoning_details = details
    const reasoning = visible ? details.map((one) => one.text ?? one.summary ?? '').join('') : text
    if (reasoning) out.reasoning = reasoning
  }

  /** Adds an index, and a blank line between the parts of a summary. */
  #withIndex(detail: ReasoningDetail): ReasoningDetail {
    const encrypted = detail.index === undefined && detail.type === 'reasoning.encrypted'
    // Encrypted reasoning is a block of its own.
    if (encrypted && this.#hasReasoning) this.#block++
    const index = detail.index ?? this.#block
    this.#hasReasoning = true
    this.#interrupted ||= encrypted
    if (!detail.summary) return { ...detail, index }
    const next = this.#summary !== undefined && this.#summary !== index
    this.#summary = index
    return { ...detail, index, summary: next ? `\n\n${detail.summary}` : detail.summary }
  }
}
