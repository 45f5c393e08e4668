/** Builds the input items of the Responses API from the messages of a chat. */
import { hash } from 'node:crypto'
import type { ChatMessage, Host } from '../../src/plugin.ts'
import { callSources, pairsIn, resultOf, type CallSource } from '../openai-compatible/content.ts'
import { NO_RESULT, thoughtsOf } from '../shared/conversations.ts'
import { notTaken, toInputPart, type InputPart } from './media.ts'
import { toReasoningItems, type Format, type ReasoningItem } from './replay.ts'

/** An input item. None has an `id`: the vendor stores nothing, so it would look for it and fail. */
export type Item = ReasoningItem | MessageItem | CallItem | OutputItem

type MessageItem =
  | {
      readonly type: 'message'
      readonly role: 'system' | 'developer' | 'user'
      readonly content: readonly InputPart[]
    }
  | {
      readonly type: 'message'
      readonly role: 'assistant'
      readonly status: 'completed'
      readonly content: readonly OutputPart[]
      readonly phase?: string
    }

type OutputPart =
  | { readonly type: 'output_text'; readonly text: string; readonly annotations: readonly [] }
  | { readonly type: 'refusal'; readonly refusal: string }

interface Named {
  readonly call_id: string
  readonly name: string
  readonly namespace?: string
}

type CallItem =
  | (Named & { readonly type: 'function_call'; readonly arguments: string })
  | (Named & { readonly type: 'custom_tool_call'; readonly input: string })

interface OutputItem {
  readonly type: 'function_call_output' | 'custom_tool_call_output'
  readonly call_id: string
  readonly output: string | readonly InputPart[]
}

/** Longer ids of calls, which other vendors make, are refused. */
const MAX_CALL_ID_CHARACTERS = 64

/**
 * The items of a conversation. A call without an output gets one after the others, because the vendor refuses a call
 * without it.
 * @param replay the format of reasoning that goes back; undefined sends none
 * @throws the failure class `bad_request` for content that this API does not have
 */
export function toItems(
  messages: readonly ChatMessage[],
  replay: Format | undefined,
  fail: Host['fail'],
): Item[] {
  const builder = new ItemsBuilder(messages, replay, fail)
  return builder.build()
}

/** A call of an assistant message. */
interface Call {
  readonly item: CallItem
  readonly isAnswered: boolean
}

class ItemsBuilder {
  readonly #messages: readonly ChatMessage[]
  readonly #replay: Format | undefined
  readonly #fail: Host['fail']
  readonly #items: Item[] = []
  /** The call that each result answers. */
  readonly #pairs: ReadonlyMap<ChatMessage, CallSource>
  readonly #answered: ReadonlySet<CallSource>
  readonly #calls = new Map<CallSource, CallItem>()
  /** Calls of the last answer that no later message answers. */
  #unanswered: readonly CallItem[] = []
  #legacyCalls = 0

  constructor(messages: readonly ChatMessage[], replay: Format | undefined, fail: Host['fail']) {
    this.#messages = messages
    this.#replay = replay
    this.#fail = fail
    this.#pairs = pairsIn(messages)
    this.#answered = new Set(this.#pairs.values())
  }

  build(): Item[] {
    this.#messages.forEach((message, index) => this.#add(message, index))
    this.#answerRest()
    return this.#items
  }

  #add(message: ChatMessage, index: number): void {
    const path = `messages[${index}]`
    const { role } = message
    if (role === 'tool' || role === 'function') {
      this.#items.push(this.#toOutput(message, path))
      return
    }
    this.#answerRest()
    if (role === 'assistant') this.#addAnswer(message, path)
    else this.#items.push({ type: 'message', role, content: this.#parts(message.content, path) })
  }

  #addAnswer(message: ChatMessage, path: string): void {
    const content = this.#said(message, path)
    const calls = this.#callsOf(message)
    // Reasoning that nothing follows is refused.
    if (content.length === 0 && calls.length === 0) return
    if (this.#replay && message.reasoning_details) {
      const thoughts = toReasoningItems(thoughtsOf(message), this.#replay)
      for (const thought of thoughts) this.#items.push(thought)
    }
    if (content.length > 0) {
      const { phase } = message
      const spoken = { type: 'message', role: 'assistant', status: 'completed', content } as const
      this.#items.push(phase ? { ...spoken, phase } : spoken)
    }
    for (const { item } of calls) this.#items.push(item)
    this.#unanswered = calls.filter(({ isAnswered }) => !isAnswered).map(({ item }) => item)
  }

  #toOutput(message: ChatMessage, path: string): OutputItem {
    const call = this.#calls.get(this.#pairs.get(message))
    const call_id = call?.call_id ?? toCallId(message.tool_call_id ?? message.name)
    const content = resultOf(message)
    const output = Array.isArray(content) ? this.#parts(content, path) : (content ?? '')
    return { type: outputTypeOf(call), call_id, output }
  }

  #answerRest(): void {
    for (const call of this.#unanswered) {
      this.#items.push({ type: outputTypeOf(call), call_id: call.call_id, output: NO_RESULT })
    }
    this.#unanswered = []
  }

  #callsOf(message: ChatMessage): Call[] {
    return callSources(message).map((source) => {
      const item =
        source === message
          ? toLegacyCall(message, `call_legacy_${this.#legacyCalls++}`)
          : toCallItem(source)
      this.#calls.set(source, item)
      return { item, isAnswered: this.#answered.has(source) }
    })
  }

  /** The content of a message. Empty texts are left out, unless there is nothing else. */
  #parts(content: ChatMessage['content'], path: string): InputPart[] {
    if (!Array.isArray(content)) return [{ type: 'input_text', text: (content as string) ?? '' }]
    const parts = content.map((part, i) => toInputPart(part, `${path}.content[${i}]`, this.#fail))
    const filled = parts.filter((part) => part.type !== 'input_text' || part.text !== '')
    return filled.length > 0 ? filled : parts.slice(0, 1)
  }

  /** What an assistant said. */
  #said({ content, refusal }: ChatMessage, path: string): OutputPart[] {
    const given: readonly any[] = Array.isArray(content)
      ? content
      : [{ type: 'text', text: content ?? '' }]
    const parts = given.map((part, i) => this.#toOutputPart(part, `${path}.content[${i}]`))
    if (typeof refusal === 'string') parts.push({ type: 'refusal', refusal })
    return parts.filter((part) => (part.type === 'refusal' ? part.refusal : part.text) !== '')
  }

  #toOutputPart(part: any, path: string): OutputPart {
    if (part.type === 'text') return { type: 'output_text', text: part.text, annotations: [] }
    if (part.type === 'refusal') return { type: 'refusal', refusal: part.refusal }
    throw notTaken(part.type, 'text or a refusal of the assistant', path, this.#fail)
  }
}

function toCallItem({ id, type, function: called, custom, namespace }: any): CallItem {
  const { name, namespace: own = namespace } = custom ?? called
  const named = { call_id: toCallId(id), name, ...(own && { namespace: own }) }
  return type === 'custom'
    ? { type: 'custom_tool_call', ...named, input: custom.input }
    : { type: 'function_call', ...named, arguments: called.arguments }
}

function outputTypeOf(call: CallItem | undefined): OutputItem['type'] {
  return call?.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output'
}

function toLegacyCall({ function_call }: ChatMessage, call_id: string): CallItem {
  const { name, arguments: text } = function_call
  return { type: 'function_call', call_id, name, arguments: text }
}

/** The same id always maps to the same result, so calls and results still match. */
function toCallId(id: unknown): string {
  const given = String(id)
  if (given.length <= MAX_CALL_ID_CHARACTERS) return given
  return `call_${hash('sha256', given, 'hex').slice(0, 32)}`
}
