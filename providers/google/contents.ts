/** Builds the conversation in Google's form, with earlier reasoning and its signatures. */
import type { Host, ChatMessage, ReasoningDetail } from '../../src/plugin.ts'
import { OPENING, requireTexts, thoughtsOf, FAILED } from '../shared/conversations.ts'
import { toInput } from '../shared/http.ts'
import { callsOf, type Call, CallIds } from '../shared/tool-calls.ts'
import { isBlank, toParts, type Part } from './media.ts'
import { isBefore, SKIP_SIGNATURE } from '../shared/gemini.ts'

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

/** Google refuses empty contents and parts. */
const PLACEHOLDER = { text: ' ' }

type Fail = Host['fail']

/**
 * Builds the conversation.
 * @param words the words of the gateway, after the instructions of the client
 * @throws the failure class `bad_request` for messages that Google cannot take
 */
export function toConversation(
  messages: readonly ChatMessage[],
  model: string,
  words: string | undefined,
  fail: Fail,
): Conversation {
  const builder = new ContentBuilder(model, fail)
  messages.forEach((message, position) => builder.add(message, `messages[${position}]`))
  return builder.finish(words)
}

class ContentBuilder {
  readonly #model: string
  readonly #fail: Fail
  readonly #system: Part[] = []
  readonly #contents: Content[] = []
  readonly #results: CallResults
  /** The last message is a blank one of the user. */
  #endsBlank = false

  constructor(model: string, fail: Fail) {
    this.#model = model
    this.#fail = fail
    this.#results = new CallResults(model, fail)
  }

  add(message: ChatMessage, path: string): void {
    this.#endsBlank = false
    switch (message.role) {
      case 'system':
      case 'developer': {
        requireTexts(message, path, this.#fail)
        const parts = this.#partsOf(message, path)
        // Google has no instructions in the middle; there the user says them.
        if (this.#contents.length === 0) this.#system.push(...parts)
        else this.#extend('user', parts)
        break
      }
      case 'user': {
        const parts = this.#partsOf(message, path)
        this.#endsBlank = parts.length === 0
        this.#extend('user', parts)
        break
      }
      case 'assistant':
        this.#insertResults()
        this.#extend('model', this.#modelParts(message, path))
        break
      default:
        this.#results.answer(message, path)
    }
  }

  finish(words: string | undefined): Conversation {
    this.#insertResults()
    if (this.#endsBlank) this.#extend('user', [PLACEHOLDER])
    const contents = this.#contents
    const system = words ? [...this.#system, { text: words }] : this.#system
    // Image models and Gemma take no instructions; the user says them.
    const apart = system.length > 0 && !/image|gemma/.test(this.#model)
    if (!apart && system.length > 0) {
      if (contents[0]?.role === 'user') contents[0].parts.unshift(...system)
      else contents.unshift({ role: 'user', parts: system })
    }
    // There must be a turn, and the first one cannot be a model turn with calls.
    const [start] = contents
    if (!start || start.parts.some((part) => part.functionCall)) {
      contents.unshift({ role: 'user', parts: [{ text: OPENING }] })
    }
    return apart ? { contents, systemInstruction: { parts: system } } : { contents }
  }

  /** The parts of a message; none for a blank one. */
  #partsOf({ content }: ChatMessage, path: string): Part[] {
    const parts = toParts(content, { path, fail: this.#fail, model: this.#model })
    return parts.every(isBlank) ? [] : parts
  }

  /** Appends parts. Adjacent turns of one role are merged. */
  #extend(role: Content['role'], parts: readonly Part[]): void {
    if (parts.length === 0) return
    const last = this.#contents.at(-1)
    if (last?.role === role) last.parts.push(...parts)
    else this.#contents.push({ role, parts: [...parts] })
  }

  /** Puts the results of the last calls at the start of the turn after them. */
  #insertResults(): void {
    const parts = this.#results.take()
    if (parts.length === 0) return
    const at = this.#contents.findLastIndex(({ role }) => role === 'model') + 1
    const turn = this.#contents[at]
    if (turn) turn.parts.unshift(...parts)
    else this.#contents.push({ role: 'user', parts })
  }

  /** Reasoning, text and calls of an assistant message; empty for an empty message. */
  #modelParts(message: ChatMessage, path: string): Part[] {
    const blocks = blocksOf(thoughtsOf(message))
    const thoughts = blocks
      .filter(({ text }) => text)
      .map(({ text, signature }) => ({ text, thought: true, ...signed(signature) }))
    const signatures = blocks.filter(({ type, data }) => type === 'reasoning.encrypted' && data)
    const content = message.content === '' ? message.refusal : (message.content ?? message.refusal)
    const contentParts = this.#partsOf({ ...message, content }, path)
    const calls = callsOf(message)
    if (contentParts.length === 0 && calls.length === 0) return []
    // A signature without a call belongs to the end of the text.
    const signature = signed(signatures.findLast(({ id }) => !id)?.data)
    const last = contentParts.pop()
    if (last) contentParts.push({ ...last, ...signature })
    const fallback = isBefore(this.#model, 3) ? {} : signed(SKIP_SIGNATURE)
    const called = calls.map((call, position) => {
      const own = signed(signatures.find(({ id }) => id && id === call.id)?.data)
      const other = position > 0 ? {} : last ? fallback : { ...fallback, ...signature }
      return { functionCall: this.#toCall(call), ...other, ...own }
    })
    return [...thoughts, ...contentParts, ...called]
  }

  #toCall(call: Call): Part {
    this.#results.open(call)
    return { name: call.name, args: toInput(call.text), ...toId(call.id) }
  }
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

// Results of calls, in Google's form: as many as there are calls, and in their order.

/** The result of a call that was never answered. */
const MISSING = { error: 'no result' }

interface OpenCall {
  readonly call: Call
  response: Part
  media: readonly Part[]
}

/** The calls of one turn, and their results. */
class CallResults {
  readonly #model: string
  readonly #fail: Host['fail']
  readonly #ids = new CallIds()
  /** The calls of the last turn, by the ids that {@link CallIds} made. */
  readonly #calls = new Map<string, OpenCall>()

  constructor(model: string, fail: Host['fail']) {
    this.#model = model
    this.#fail = fail
  }

  /** Registers a call. */
  open(call: Call): void {
    this.#calls.set(this.#ids.open(call.id, call.name), { call, response: MISSING, media: [] })
  }

  /**
   * Takes a result.
   * @param path the path of the message, for the error
   * @throws the failure class `bad_request` when no such call waits
   */
  answer(message: ChatMessage, path: string): void {
    const open = this.#calls.get(this.#ids.answer(message, path, this.#fail))!
    const parts = toParts(message.content, { path, fail: this.#fail, model: '' })
    const texts = parts.filter(({ text }) => text !== undefined)
    // The result is text: in an object, large integers would lose digits.
    const result = texts.every(isBlank) ? '' : texts.map(({ text }) => text as string).join('\n')
    open.response = message.is_error === true ? { error: result || FAILED } : { result }
    open.media = parts.filter(({ text }) => text === undefined)
  }

  /** The results of the calls so far, which are then forgotten. */
  take(): Part[] {
    this.#ids.rest()
    const calls = [...this.#calls.values()]
    this.#calls.clear()
    const inside = !isBefore(this.#model, 3)
    const responses = calls.map(({ call, response, media }) => {
      const parts = inside && media.length > 0 ? { parts: media } : {}
      return { functionResponse: { name: call.name, response, ...toId(call.id), ...parts } }
    })
    return inside ? responses : [...responses, ...calls.flatMap(({ media }) => media)]
  }
}

/** Google's own ids go back. Ids that the gateway made up start with `call_` and are left out. */
function toId(id: string | undefined): Part {
  return id && !id.startsWith('call_') ? { id } : {}
}
