/** Calls of tools and their results in a conversation: which belong together, and an order that all vendors accept. */
import type { ChatMessage } from '../../src/plugin.ts'
import { NO_RESULT, RESULTS_ARE_IN } from '../shared/conversations.ts'
import { joinedContent } from './content.ts'

/** What a call is read from: an entry of `tool_calls`, or a message with a `function_call`. */
export type CallSource = any

/** The calls of a message, in either form. */
export function callSources(message: ChatMessage): readonly CallSource[] {
  const { role, tool_calls = [], function_call } = message
  if (role !== 'assistant') return []
  return tool_calls.length === 0 && function_call ? [message] : tool_calls
}

/** Calls that no result has answered, and the last one of all. */
interface Waiting {
  readonly calls: CallSource[]
  next: number
  last: CallSource
}

/**
 * Which result answers which call. An id names the last call with it. A name, which is all that results of functions
 * have, names the first call that waits.
 */
export function pairsIn(messages: readonly ChatMessage[]): ReadonlyMap<ChatMessage, CallSource> {
  const pairs = new Map<ChatMessage, CallSource>()
  const byKey = new Map<string, Waiting>()
  for (const message of messages) {
    const { role, tool_call_id, name } = message
    for (const source of callSources(message)) {
      const key = source === message ? `name:${message.function_call.name}` : `id:${source.id}`
      const waiting = byKey.get(key)
      if (waiting) {
        waiting.calls.push(source)
        waiting.last = source
      } else byKey.set(key, { calls: [source], next: 0, last: source })
    }
    if (role === 'function') {
      const waiting = byKey.get(`name:${name}`)
      const call = waiting?.calls[waiting.next]
      if (!call) continue
      waiting!.next++
      pairs.set(message, call)
    } else if (role === 'tool') {
      const waiting = byKey.get(`id:${tool_call_id}`)
      if (waiting) pairs.set(message, waiting.calls.pop() ?? waiting.last)
    }
  }
  return pairs
}

/**
 * What a vendor expects of calls: `passed` nothing; `renamed` no functions of the older form; `answered` besides a result
 * for each call, directly after the calls.
 */
export type CallRules = 'passed' | 'renamed' | 'answered'

/** Receives the number of a message whose result belongs to no call. May throw. */
type OnStray = (index: number) => void

/**
 * The conversation as a vendor expects it; the same list where it is so already. A call that was never answered gets a
 * result that says so, after the others.
 */
export function withOrderedCalls(
  messages: readonly ChatMessage[],
  rules: CallRules,
  onStray: OnStray = () => {},
): readonly ChatMessage[] {
  if (rules === 'passed' || !messages.some(hasCalls)) return messages
  const order = new CallOrder(messages, onStray)
  const next = rules === 'answered' ? order.answered() : order.renamed()
  return next.every((message, i) => message === messages[i]) ? messages : next
}

const BRIDGE = { role: 'assistant', content: RESULTS_ARE_IN } as const

/** The conversation with an answer between results and the next message, for models that require it. */
export function withBridges<Message extends { readonly role?: string }>(
  messages: readonly Message[],
): readonly (Message | typeof BRIDGE)[] {
  const isGap = ({ role }: Message, i: number) => {
    const next = messages[i + 1]?.role
    return role === 'tool' && next !== undefined && next !== 'tool' && next !== 'assistant'
  }
  if (!messages.some(isGap)) return messages
  return messages.flatMap((message, i) => (isGap(message, i) ? [message, BRIDGE] : [message]))
}

function hasCalls({ role, tool_calls, function_call }: ChatMessage): boolean {
  if (role === 'assistant') return tool_calls !== undefined || function_call !== undefined
  return role === 'tool' || role === 'function'
}

class CallOrder {
  readonly #messages: readonly ChatMessage[]
  readonly #onStray: OnStray
  readonly #pairs: ReadonlyMap<ChatMessage, CallSource>
  readonly #results = new Map<CallSource, ChatMessage[]>()
  /** Ids of calls of the older form, by their messages. */
  readonly #ids = new Map<ChatMessage, string>()

  constructor(messages: readonly ChatMessage[], onStray: OnStray) {
    this.#messages = messages
    this.#onStray = onStray
    this.#pairs = pairsIn(messages)
    for (const [result, call] of this.#pairs) {
      const known = this.#results.get(call)
      if (known) known.push(result)
      else this.#results.set(call, [result])
    }
  }

  renamed(): ChatMessage[] {
    return this.#messages.map((message) => this.#renamed(message))
  }

  answered(): ChatMessage[] {
    const next: ChatMessage[] = []
    const position = new Map(this.#messages.map((message, i) => [message, i]))
    this.#messages.forEach((message, i) => {
      if (isResult(message)) {
        if (this.#pairs.has(message)) return
        this.#onStray(i)
      }
      next.push(this.#renamed(message))
      const calls = callSources(message)
      if (calls.length === 0) return
      const results = calls.flatMap((call) => {
        const [first, ...others] = this.#results.get(call) ?? []
        return first ? [[first, ...others] as const] : []
      })
      results.sort(([one], [other]) => position.get(one)! - position.get(other)!)
      for (const [first, ...others] of results) {
        next.push(others.reduce(withContentOf, this.#renamed(first)))
      }
      for (const call of calls) {
        if (this.#results.has(call)) continue
        const tool_call_id = call === message ? this.#idOf(message) : call.id
        next.push({ role: 'tool', tool_call_id, content: NO_RESULT })
      }
    })
    return next
  }

  /** The message with `tool_calls`, or with the role `tool`. */
  #renamed(message: ChatMessage): ChatMessage {
    const { role, name, function_call, ...rest } = message
    if (role === 'function') {
      const call = this.#pairs.get(message) ?? message
      const tool_call_id = call.role ? this.#idOf(call) : call.id
      return { role: 'tool', tool_call_id, name, content: message.content ?? '' }
    }
    if (role !== 'assistant' || !function_call) return message
    const named = { role, ...(name === undefined ? {} : { name }), ...rest }
    if (rest.tool_calls?.length) return named
    const call = { id: this.#idOf(message), type: 'function', function: function_call }
    return { ...named, tool_calls: [call] }
  }

  #idOf(message: ChatMessage): string {
    let id = this.#ids.get(message)
    if (id === undefined) this.#ids.set(message, (id = `call_legacy_${this.#ids.size}`))
    return id
  }
}

/** One result for two of the same call: vendors take as many results as there are calls. */
function withContentOf(result: ChatMessage, { content }: ChatMessage): ChatMessage {
  return { ...result, content: joinedContent(result.content, content, '\n') }
}

function isResult({ role }: ChatMessage): boolean {
  return role === 'tool' || role === 'function'
}
