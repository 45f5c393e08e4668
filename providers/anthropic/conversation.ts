/**
 * The conversation as the Messages API takes it: system text apart, turns of users and assistants one after the other,
 * every call answered at the head of the next turn. Knows nothing of models, and nothing of HTTP.
 */
import type { Host, ChatMessage } from '../../src/plugin.ts'
import { CallIds } from './call-ids.ts'
import {
  isBlank,
  markLast,
  type Block,
  type ContentBlock,
  type TextBlock,
  type ToolResultBlock,
  type ToolUseBlock,
  type Turn,
} from './blocks.ts'
import { toInput } from './exact-json.ts'
import { toFile, toImage } from './media.ts'
import { withThoughts } from './thoughts.ts'

export interface Conversation {
  readonly system: readonly TextBlock[]
  /** Begins with a user's turn; roles alternate. */
  readonly turns: readonly Turn[]
}

/** Stands where the vendor wants a user to have spoken first. */
const OPENING = '(The conversation begins.)'
/** Stands for the result of a call that was never answered: the vendor refuses a call without one. */
const NO_RESULT = '(There is no result.)'

/** @throws bad_request for what the vendor has no form for: audio, unknown files, results of unknown calls */
export function toConversation(messages: readonly ChatMessage[], fail: Host['fail']): Conversation {
  const talk = new ConversationBuilder(fail)
  messages.forEach((message, index) => talk.add(message, `messages[${index}]`))
  return talk.end()
}

class ConversationBuilder {
  readonly #fail: Host['fail']
  readonly #ids = new CallIds()
  readonly #system: TextBlock[] = []
  readonly #turns: Turn[] = []

  constructor(fail: Host['fail']) {
    this.#fail = fail
  }

  add(message: ChatMessage, path: string): void {
    const { role } = message
    if (role === 'tool' || role === 'function') this.#addResult(message, path)
    else if (role === 'assistant') this.#addAnswer(message, path)
    else {
      const blocks = this.#content(message, path)
      if (role === 'user') this.#extend('user', blocks)
      else if (this.#turns.length === 0) this.#system.push(...blocks.filter(isText))
      else this.#extend('user', blocks.filter(isText))
    }
  }

  end(): Conversation {
    this.#answerRest()
    if (this.#turns[0]?.role !== 'user') {
      this.#turns.unshift({ role: 'user', content: [{ type: 'text', text: OPENING }] })
    }
    const { role, content } = this.#turns.at(-1)!
    const last = content.at(-1)!
    // Words put into the model's mouth must not end with a space.
    if (role === 'assistant' && last.type === 'text') last.text = last.text.trimEnd()
    return { system: this.#system, turns: this.#turns }
  }

  #addAnswer(message: ChatMessage, path: string): void {
    this.#answerRest()
    const texts = this.#content(message, path).filter(isText)
    if (texts.length === 0 && message.refusal) texts.push({ type: 'text', text: message.refusal })
    const calls = callsOf(message).map((call) => this.#toToolUse(call))
    const blocks = withThoughts(message.reasoning_details ?? [], texts, calls)
    const said = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(said, message.cache_control)
    this.#extend('assistant', said)
  }

  #toToolUse({ id, name, text }: Call): ToolUseBlock {
    return { type: 'tool_use', id: this.#ids.open(id, name), name, input: toInput(text) }
  }

  #addResult(message: ChatMessage, path: string): void {
    const { role, content, tool_call_id, name, is_error } = message
    const id = role === 'tool' ? this.#ids.answer(tool_call_id) : this.#ids.answerNamed(name)
    if (id === undefined) {
      const param = `${path}.${role === 'tool' ? 'tool_call_id' : 'name'}`
      const expected = 'a call of the assistant message before it that has no result yet'
      throw this.#fail('bad_request', `Expected ${param} to name ${expected}.`, {
        code: 'invalid_value',
        param,
      })
    }
    const said = typeof content === 'string' ? content : this.#content(message, path, true)
    const block: ToolResultBlock = {
      type: 'tool_result',
      tool_use_id: id,
      ...(said.length > 0 ? { content: said } : {}),
      ...(is_error === true ? { is_error } : {}),
    }
    if (message.cache_control) block.cache_control = message.cache_control
    this.#insertResult(block)
  }

  /** Results stand first in their turn, whatever was said before they came. */
  #insertResult(block: ToolResultBlock): void {
    const last = this.#turns.at(-1)
    if (last?.role !== 'user') {
      this.#turns.push({ role: 'user', content: [block] })
      return
    }
    const at = last.content.findLastIndex(({ type }) => type === 'tool_result') + 1
    last.content.splice(at, 0, block)
  }

  #answerRest(): void {
    for (const id of this.#ids.rest()) {
      const content = NO_RESULT
      this.#insertResult({ type: 'tool_result', tool_use_id: id, content, is_error: true })
    }
  }

  #extend(role: Turn['role'], blocks: readonly Block[]): void {
    if (blocks.length === 0) return
    const last = this.#turns.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else this.#turns.push({ role, content: [...blocks] })
  }

  /** @param inner the marker of the message goes on the block around these */
  #content({ content, cache_control }: ChatMessage, path: string, inner = false): ContentBlock[] {
    const blocks: ContentBlock[] = []
    if (typeof content === 'string') {
      if (!isBlank(content)) blocks.push({ type: 'text', text: content })
    } else {
      content?.forEach((part, index) => {
        const block = this.#toBlock(part, `${path}.content[${index}]`)
        if (block) blocks.push(block)
        // A marker on a text that is not sent moves to what stands before it.
        markLast(block ? [block] : blocks, part.cache_control)
      })
    }
    if (!inner) markLast(blocks, cache_control)
    return blocks
  }

  #toBlock(part: any, path: string): ContentBlock | undefined {
    switch (part.type) {
      case 'image_url':
        return toImage(part, path, this.#fail)
      case 'file':
        return toFile(part, path, this.#fail)
      case 'text':
      case 'refusal': {
        const text: string = part.text ?? part.refusal
        return isBlank(text) ? undefined : { type: 'text', text }
      }
      default:
        throw this.#fail(
          'bad_request',
          `Expected text, an image or a file at ${path}: this model takes no ${part.type}.`,
          { code: 'unsupported_value', param: path },
        )
    }
  }
}

interface Call {
  readonly id: string | undefined
  readonly name: string
  readonly text: string
}

/** Calls in any of OpenAI's three forms. */
function callsOf({ tool_calls, function_call }: ChatMessage): Call[] {
  const calls: Call[] = (tool_calls ?? []).map(({ id, function: called, custom }: any) => ({
    id,
    name: (called ?? custom).name,
    text: called ? called.arguments : custom.input,
  }))
  if (function_call && calls.length === 0) {
    calls.push({ id: undefined, name: function_call.name, text: function_call.arguments })
  }
  return calls
}

function isText(block: ContentBlock): block is TextBlock {
  return block.type === 'text'
}
