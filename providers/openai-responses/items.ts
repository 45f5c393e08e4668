/** Builds the input items of the Responses API from the messages of a chat. */
import { hash } from 'node:crypto'
import type { ChatMessage, Host } from '../../src/plugin.ts'
import { NO_RESULT } from '../shared/conversations.ts'
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

/** Calls of one function. Their results name no id, so they come in the order of the calls. */
interface Line {
  readonly calls: CallItem[]
  next: number
}

class ItemsBuilder {
  readonly #messages: readonly ChatMessage[]
  readonly #replay: Format | undefined
  readonly #fail: Host['fail']
  readonly #items: Item[] = []
  readonly #byId = new Map<unknown, CallItem>()
  readonly #byName = new Map<unknown, Line>()
  readonly #answered: ReadonlySet<unknown>
  /** Calls of the last answer that no later message answers. */
  #unanswered: readonly CallItem[] = []
  #legacyCalls = 0

  constructor(messages: readonly ChatMessage[], replay: Format | undefined, fail: Host['fail']) {
    this.#messages = messages
    this.#replay = replay
    this.#fail = fail
    this.#answered = answeredCalls(messages)
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
      this.#items.push(...toReasoningItems(message.reasoning_details, this.#replay))
    }
    if (content.length > 0) {
      const { phase } = message
      const spoken = { type: 'message', role: 'assistant', status: 'completed', content } as const
      this.#items.push(phase ? { ...spoken, phase } : spoken)
    }
    this.#items.push(...calls.map(({ item }) => item))
    this.#unanswered = calls.filter(({ isAnswered }) => !isAnswered).map(({ item }) => item)
  }

  #toOutput(message: ChatMessage, path: string): OutputItem {
    const call = this.#callOf(message)
    const call_id = call?.call_id ?? toCallId(message.tool_call_id ?? message.name)
    const { content } = message
    const output = Array.isArray(content) ? this.#parts(content, path) : (content ?? '')
    return { type: outputTypeOf(call), call_id, output }
  }

  #answerRest(): void {
    for (const call of this.#unanswered) {
      this.#items.push({ type: outputTypeOf(call), call_id: call.call_id, output: NO_RESULT })
    }
    this.#unanswered = []
  }

  /** The call that a result answers. */
  #callOf({ role, tool_call_id, name }: ChatMessage): CallItem | undefined {
    if (role === 'tool') return this.#byId.get(tool_call_id)
    const line = this.#byName.get(name)
    return line?.calls[line.next++]
  }

  #callsOf(message: ChatMessage): Call[] {
    const { tool_calls = [], function_call } = message
    if (tool_calls.length === 0 && function_call) return [this.#legacyCall(message)]
    return tool_calls.map((call: any) => {
      const item = toCallItem(call)
      this.#byId.set(call.id, item)
      return { item, isAnswered: this.#answered.has(call) }
    })
  }

  #legacyCall(message: ChatMessage): Call {
    const { name, arguments: text } = message.function_call
    const call_id = `call_legacy_${this.#legacyCalls++}`
    const item = { type: 'function_call', call_id, name, arguments: text } as const
    const line = this.#byName.get(name)
    if (line) line.calls.push(item)
    else this.#byName.set(name, { calls: [item], next: 0 })
    return { item, isAnswered: this.#answered.has(message) }
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

/** The entries of `tool_calls`, and the messages with a `function_call`, that a later message answers. */
function answeredCalls(messages: readonly ChatMessage[]): ReadonlySet<unknown> {
  const answered = new Set<unknown>()
  /** Results that no call has claimed, by the id or the name of their call. */
  const results = new Map<string, number>()
  const claim = (key: string, call: unknown) => {
    const left = results.get(key) ?? 0
    if (left === 0) return
    results.set(key, left - 1)
    answered.add(call)
  }
  for (const message of messages.toReversed()) {
    const { role, tool_call_id, name, tool_calls = [], function_call } = message
    if (role === 'tool' || role === 'function') {
      const key = role === 'tool' ? `id:${tool_call_id}` : `name:${name}`
      results.set(key, (results.get(key) ?? 0) + 1)
    } else if (role === 'assistant') {
      for (const call of tool_calls) claim(`id:${call.id}`, call)
      if (tool_calls.length === 0 && function_call) claim(`name:${function_call.name}`, message)
    }
  }
  return answered
}

/** The same id always maps to the same result, so calls and results still match. */
function toCallId(id: unknown): string {
  const given = String(id)
  if (given.length <= MAX_CALL_ID_CHARACTERS) return given
  return `call_${hash('sha256', given, 'hex').slice(0, 32)}`
}
