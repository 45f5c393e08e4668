/** The conversation in Google's form, and how its thoughts and their signatures go back to it. */
import type { Host, ChatMessage, ReasoningDetail } from '../../src/plugin.ts'
import { textOf, toParts, type Part } from './media.ts'
import { isBefore } from './thinking.ts'

/** One turn. */
export interface Content {
  readonly role: 'user' | 'model'
  readonly parts: Part[]
}

export interface Conversation {
  readonly contents: Content[]
  readonly systemInstruction?: { readonly parts: Part[] }
}

/** Marks thoughts and signatures of Google's models among those of others. */
export const FORMAT = 'google-gemini-v1'

/**
 * Models from 3 on refuse the first call of a step without the signature it came with. Clients lose it, and calls of
 * other vendors have none: this is taken in its place.
 */
const ANY_SIGNATURE = 'skip_thought_signature_validator'
/** Contents and parts must not be empty. */
const NOTHING = { text: ' ' }

type Fail = Host['fail']

/** @throws the failure class `bad_request` for messages that Google cannot be told */
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
        add(contents, 'user', parts.length > 0 ? parts : [NOTHING])
        break
      }
      case 'assistant':
        add(contents, 'model', toModelParts(message, model, calls))
        break
      default: {
        const results = [message]
        while (isResult(messages[i + 1])) results.push(messages[++i]!)
        add(contents, 'user', calls.answers(results, model))
      }
    }
  }
  // There has to be a turn, and the first cannot be a model's that calls.
  const [start] = contents
  if (!start || start.parts.some((part) => part.functionCall)) {
    contents.unshift({ role: 'user', parts: [NOTHING] })
  }
  if (system.length === 0) return { contents }
  if (!/image|gemma/.test(model)) return { contents, systemInstruction: { parts: system } }
  // These take no system instruction.
  const first = contents.find(({ role }) => role === 'user')
  if (first) first.parts.unshift(...system)
  else contents.unshift({ role: 'user', parts: system })
  return { contents }
}

function isResult(message: ChatMessage | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}

/** Neighbours of one role are one turn. */
function add(contents: Content[], role: Content['role'], parts: readonly Part[]): void {
  if (parts.length === 0) return
  const last = contents.at(-1)
  if (last?.role === role) last.parts.push(...parts)
  else contents.push({ role, parts: [...parts] })
}

/** Thoughts, text, calls; none for a message that says nothing. */
function toModelParts(message: ChatMessage, model: string, calls: Calls): Part[] {
  const { tool_calls = [], function_call, refusal } = message
  const blocks = blocksOf(message.reasoning_details ?? [])
  const parts: Part[] = blocks
    .filter(({ text }) => text)
    .map(({ text, signature }) => ({ text, thought: true, ...signed(signature) }))
  const seals = blocks.filter(({ type, data }) => type === 'reasoning.encrypted' && data)
  const text = textOf(message.content) || refusal
  const called = function_call ? [{ function: function_call }] : tool_calls
  if (!text && called.length === 0) return []
  // A signature of no call is that of the text.
  let loose = seals.findLast(({ id }) => !id)?.data
  if (text) {
    parts.push({ text, ...signed(loose) })
    loose = undefined
  }
  called.forEach((call: any, position: number) => {
    const own = seals.find(({ id }) => id && id === call.id)?.data
    const first = position === 0
    const rescue = first ? (loose ?? (isBefore(model, 3) ? undefined : ANY_SIGNATURE)) : undefined
    parts.push({ functionCall: calls.made(call, position), ...signed(own ?? rescue) })
  })
  return parts
}

function signed(thoughtSignature: string | null | undefined): Part {
  return thoughtSignature ? { thoughtSignature } : {}
}

/** Google's own, each block once: clients may hand back the fragments of a stream as they came. */
function blocksOf(details: readonly ReasoningDetail[]): ReasoningDetail[] {
  const blocks: { -readonly [Member in keyof ReasoningDetail]: ReasoningDetail[Member] }[] = []
  for (const detail of details) {
    const last = blocks.at(-1)
    const goesOn = detail.index !== undefined && last?.index === detail.index
    if (!goesOn || last.type !== detail.type) {
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

/** Remembers calls, for results name only the id of theirs. */
class Calls {
  readonly #byId = new Map<string, Call>()
  readonly #fail: Fail

  constructor(fail: Fail) {
    this.#fail = fail
  }

  /** A call of an earlier turn. */
  made({ id, function: called, custom }: any, position: number): Part {
    const name: string = (called ?? custom).name
    if (id) this.#byId.set(id, { name, position })
    const args = called ? toObject(called.arguments) : { input: custom.input }
    return { name, args, ...toId(id) }
  }

  /** The results of one turn, in the order of their calls. */
  answers(results: readonly ChatMessage[], model: string): Part[] {
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
    // As text, whatever it holds: as an object, numbers would be doubles there.
    const response = { result: textOf(content) }
    const media = toParts(content, this.#fail).filter((part) => part.text === undefined)
    const functionResponse: Part = { name, response, ...toId(id) }
    if (media.length === 0) return [{ functionResponse }]
    if (isBefore(model, 3)) return [{ functionResponse }, ...media]
    return [{ functionResponse: { ...functionResponse, parts: media } }]
  }
}

/** Ids of Google's own go back; those that were made up for a client mean nothing to it. */
function toId(id: string | undefined): Part {
  return id && !id.startsWith('call_') ? { id } : {}
}

/** Arguments as the object they have to be. */
function toObject(text: string): object {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // A model wrote it, and not always JSON.
  }
  return { input: text }
}
