/** One choice of an answer, from a vendor's dialect into the gateway's. */
import type { ChatDelta, ReasoningDetail } from '../../src/plugin.ts'
import { detailsOf, isText, textOf, toAnnotations, toToolCall } from './parts.ts'
import { ThinkSplitter, type ThinkTags } from '../shared/think-tags.ts'

/** What is remembered of one choice while it arrives. */
export class Choice {
  readonly #splitter: ThinkSplitter | undefined
  /** Index of the reasoning block that is being written. */
  #block = 0
  #thought = false
  /** Something else was said since. */
  #moved = false
  #summary: number | undefined

  constructor(tags: ThinkTags | undefined) {
    this.#splitter = tags && new ThinkSplitter(tags)
  }

  /** Undefined when the delta says nothing. */
  read(delta: any): ChatDelta | undefined {
    if (!this.#splitter && isText(delta)) {
      if (!delta.content) return undefined
      this.#moved = this.#thought
      return { content: delta.content }
    }
    const said: ChatDelta = {}
    let { content, reasoning } = textOf(delta)
    if (this.#splitter) {
      const thought = this.#splitter.push(content)
      content = thought.content
      reasoning ||= thought.reasoning
    }
    this.#reason(said, reasoning, detailsOf(delta))
    if (content) said.content = content
    if (delta.refusal && typeof delta.refusal === 'string') said.refusal = delta.refusal
    if (Array.isArray(delta.tool_calls) && delta.tool_calls.length > 0) {
      said.tool_calls = delta.tool_calls.map(toToolCall)
    }
    if (Array.isArray(delta.annotations)) {
      const annotations = toAnnotations(delta.annotations)
      if (annotations.length > 0) said.annotations = annotations
    }
    if (content || said.tool_calls) this.#moved = this.#thought
    return Object.keys(said).length > 0 ? said : undefined
  }

  /** What was held back, now that nothing follows. */
  end(): ChatDelta | undefined {
    const held = this.#splitter?.end()
    const said: ChatDelta = {}
    if (held?.reasoning) this.#reason(said, held.reasoning, [])
    if (held?.content) said.content = held.content
    return held?.reasoning || held?.content ? said : undefined
  }

  #reason(said: ChatDelta, text: string, given: readonly ReasoningDetail[]): void {
    const visible = given.some((detail) => detail.text || detail.summary)
    if (!text && given.length === 0) return
    if (this.#moved) {
      this.#block++
      this.#moved = false
    }
    const details: ReasoningDetail[] = []
    if (text && !visible) {
      details.push({ type: 'reasoning.text', text, format: 'unknown', index: this.#block })
      this.#thought = true
    }
    for (const detail of given) details.push(this.#placed(detail))
    said.reasoning_details = details
    const reasoning = visible ? details.map((one) => one.text ?? one.summary ?? '').join('') : text
    if (reasoning) said.reasoning = reasoning
  }

  /** With an index, and a blank line between the parts of a summary. */
  #placed(detail: ReasoningDetail): ReasoningDetail {
    const sealed = detail.index === undefined && detail.type === 'reasoning.encrypted'
    // A seal is a block of its own.
    if (sealed && this.#thought) this.#block++
    const index = detail.index ?? this.#block
    this.#thought = true
    this.#moved ||= sealed
    if (!detail.summary) return { ...detail, index }
    const next = this.#summary !== undefined && this.#summary !== index
    this.#summary = index
    return { ...detail, index, summary: next ? `\n\n${detail.summary}` : detail.summary }
  }
}
