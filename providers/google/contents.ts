/** Builds the conversation in Google's form, with earlier reasoning and its signatures. */
import type { Host, ChatMessage, ReasoningDetail } from '../../src/plugin.ts'
import { textOf, toParts, type Part } from './media.ts'
import { isBefore } from './thinking.ts'

/** One turn of a conversation. */
interface Content {
  readonly role: 'user' | 'model'
  readonly parts: Part[]
}

/** A conversation for Google. */
interface Conversation {
  readonly contents: Content[]
  readonly systemInstruction?: { readonly parts: Part[] }
}

/** Marks reasoning of Google's models. Reasoning of other vendors is ignored. */
export const FORMAT = 'google-gemini-v1'

/**
 * Gemini 3 and later refuse the first call of a step without its signature. Clients may have lost it, and calls of
 * other models never had one. Google documents this value as a replacement.
 */
const SKIP_SIGNATURE = 'skip_thought_signature_validator'
/** Google refuses empty contents and parts. */
const PLACEHOLDER = { text: ' ' }

type Fail = Host['fail']

/** Builds the conversation. @throws the failure class `bad_request` for messages that Google cannot take */
export function toConversation(
  messages: readonly ChatMessage[],
  model: string,
  fail: Fail,
): Conversation {
  const system: Part[] = []
  const contents: Content[] = []
  const calls = new Calls(fail)
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]!
    switch (message.role) {
      case 'system':
      case 'developer': {
        const text = textOf(message.content)
        if (text) system.push({ text })
        break
      }
      case 'user': {
        const parts = toParts(message.content, fail)
        add(contents, 'user', parts.length > 0 ? parts : [PLACEHOLDER])
        break
      }
      case 'assistant':
        add(contents, 'model', toModelParts(message, model, calls))
        break
      default: {
        const results = [message]
        while (isResult(messages[i + 1])) results.push(messages[++i]!)
        add(contents, 'user', calls.toResults(results, model))
      }
    }
  }
  // There must be a turn, and the first one cannot be a model turn with calls.
  const [start] = contents
  if (!start || start.parts.some((part) => part.functionCall)) {
    contents.unshift({ role: 'user', parts: [PLACEHOLDER] })
  }
  if (system.length === 0) return { contents }
  if (!/image|gemma/.test(model)) return { contents, systemInstruction: { parts: system } }
  // Image models and Gemma take no system instruction.
  const first = contents.find(({ role }) => role === 'user')
  if (first) first.parts.unshift(...system)
  else contents.unshift({ role: 'user', parts: system })
  return { contents }
}

function isResult(message: ChatMessage | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}

/** Appends parts. Adjacent turns of one role are merged. */
function add(contents: Content[], role: Content['role'], parts: readonly Part[]): void {
  if (parts.length === 0) return
  const last = contents.at(-1)
  if (last?.role === role) last.parts.push(...parts)
  else contents.push({ role, parts: [...parts] })
}

/** Reasoning, text and calls of an assistant message; empty for an empty message. */
function toModelParts(message: ChatMessage, model: string, calls: Calls): Part[] {
  const { tool_calls = [], function_call, refusal } = message
  const blocks = blocksOf(message.reasoning_details ?? [])
  const parts: Part[] = blocks
    .filter(({ text }) => text)
    .map(({ text, signature }) => ({ text, thought: true, ...signed(signature) }))
  const signatures = blocks.filter(({ type, data }) => type === 'reasoning.encrypted' && data)
  const text = textOf(message.content) || refusal
  const called = function_call ? [{ function: function_call }] : tool_calls
  if (!text && called.length === 0) return []
  // A signature without a call belongs to the text.
  let textSignature = signatures.findLast(({ id }) => !id)?.data
  if (text) {
    parts.push({ text, ...signed(textSignature) })
    textSignature = undefined
  }
  called.forEach((call: any, position: number) => {
    const own = signatures.find(({ id }) => id && id === call.id)?.data
    const first = position === 0
    const fallback = first
      ? (textSignature ?? (isBefore(model, 3) ? undefined : SKIP_SIGNATURE))
      : undefined
    parts.push({ functionCall: calls.toCall(call, position), ...signed(own ?? fallback) })
  })
  return parts
}

function signed(thoughtSignature: string | null | undefined): Part {
  return thoughtSignature ? { thoughtSignature } : {}
}

/** Reasoning blocks of Google's models. Clients may send the fragments of a stream unmerged. */
function blocksOf(details: readonly ReasoningDetail[]): ReasoningDetail[] {
  const blocks: { -readonly [Member in keyof ReasoningDetail]: ReasoningDetail[Member] }[] = []
  for (const detail of details) {
    const last = blocks.at(-1)
    const continues = detail.index !== undefined && last?.index === detail.index
    if (!continues || last.type !== detail.type) {
      blocks.push({ ...detail })
      continue
    }
    if (detail.text) last.text = (last.text ?? '') + detail.text
    if (detail.signature) last.signature = detail.signature
  }
  return blocks.filter(({ format }) => format === FORMAT)
}

interface Call {
  readonly name: string
  readonly position: number
}

/** Remembers calls by id, because a result only names the id of its call. */
class Calls {
  readonly #byId = new Map<string, Call>()
  readonly #fail: Fail

  constructor(fail: Fail) {
    this.#fail = fail
  }

  /** Converts a call of an earlier turn. */
  toCall({ id, function: called, custom }: any, position: number): Part {
    const name: string = (called ?? custom).name
    if (id) this.#byId.set(id, { name, position })
    const args = called ? toObject(called.arguments) : { input: custom.input }
    return { name, args, ...toId(id) }
  }

  /** Converts the results of one turn, in the order of their calls. */
  toResults(results: readonly ChatMessage[], model: string): Part[] {
    const known = results.map((result) => ({ result, ...this.#callOf(result) }))
    known.sort((a, b) => a.position - b.position)
    return known.flatMap(({ result, name }) => this.#toResponse(result, name, model))
  }

  #callOf({ role, tool_call_id: id, name }: ChatMessage): Call {
    const call = role === 'tool' ? this.#byId.get(id) : { name, position: 0 }
    if (call) return call
    const message = 'messages: a tool message answers a call that no assistant message makes.'
    throw this.#fail('bad_request', message, { code: 'invalid_value', param: 'messages' })
  }

  #toResponse({ content, tool_call_id: id }: ChatMessage, name: string, model: string): Part[] {
    // As text: in an object, large integers would lose digits.
    const response = { result: textOf(content) }
    const media = toParts(content, this.#fail).filter((part) => part.text === undefined)
    const functionResponse: Part = { name, response, ...toId(id) }
    if (media.length === 0) return [{ functionResponse }]
    if (isBefore(model, 3)) return [{ functionResponse }, ...media]
    return [{ functionResponse: { ...functionResponse, parts: media } }]
  }
}

/** Google's own ids go back. Ids that the gateway made up start with `call_` and are left out. */
function toId(id: string | undefined): Part {
  return id && !id.startsWith('call_') ? { id } : {}
}

/** A call's arguments as an object. */
function toObject(text: string): object {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Models do not always write valid JSON.
  }
  return { input: text }
}
