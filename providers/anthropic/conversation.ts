/**
 * Builds the conversation for the Messages API: separate system text, alternating turns, and a result for every call at
 * the start of the next turn. Independent of models and of HTTP.
 */
import type { Host, ChatMessage } from '../../src/plugin.ts'
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
import { CallIds, callsOf, NO_RESULT, type Call } from './tool-calls.ts'

/** A conversation for the Messages API. */
interface Conversation {
  readonly system: readonly TextBlock[]
  /** Starts with a user turn. Roles alternate. */
  readonly turns: readonly Turn[]
}

/** Placeholder, because the vendor requires a user turn first. */
const OPENING = '(The conversation begins.)'

/**
 * Builds the conversation.
 * @throws the failure class `bad_request` for audio, unknown kinds of files and results without a call
 */
export function toConversation(messages: readonly ChatMessage[], fail: Host['fail']): Conversation {
  const builder = new ConversationBuilder(fail)
  messages.forEach((message, index) => builder.add(message, `messages[${index}]`))
  return builder.end()
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
    // The vendor refuses an answer prefix that ends in white space.
    if (role === 'assistant' && last.type === 'text') last.text = last.text.trimEnd()
    return { system: this.#system, turns: this.#turns }
  }

  #addAnswer(message: ChatMessage, path: string): void {
    this.#answerRest()
    const texts = this.#content(message, path).filter(isText)
    if (texts.length === 0 && message.refusal) texts.push({ type: 'text', text: message.refusal })
    const calls = callsOf(message, (input) => input).map((call) => this.#toToolUse(call))
    const blocks = withThoughts(message.reasoning_details ?? [], texts, calls)
    const kept = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(kept, message.cache_control)
    this.#extend('assistant', kept)
  }

  #toToolUse({ id, name, text }: Call): ToolUseBlock {
    return { type: 'tool_use', id: this.#ids.open(id, name), name, input: toInput(text) }
  }

  #addResult(message: ChatMessage, path: string): void {
    const { content, is_error } = message
    const id = this.#ids.answer(message, path, this.#fail)
    const result = typeof content === 'string' ? content : this.#content(message, path, true)
    const block: ToolResultBlock = {
      type: 'tool_result',
      tool_use_id: id,
      ...(result.length > 0 ? { content: result } : {}),
      ...(is_error === true ? { is_error } : {}),
    }
    if (message.cache_control) block.cache_control = message.cache_control
    this.#insertResult(block)
  }

  /** Results stand at the start of their turn. */
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

  /** The content of a message. @param inner whether the message's cache marker goes on an enclosing block */
  #content({ content, cache_control }: ChatMessage, path: string, inner = false): ContentBlock[] {
    const blocks: ContentBlock[] = []
    if (typeof content === 'string') {
      if (!isBlank(content)) blocks.push({ type: 'text', text: content })
    } else {
      content?.forEach((part, index) => {
        const block = this.#toBlock(part, `${path}.content[${index}]`)
        if (block) blocks.push(block)
        // A marker on a dropped text moves to the block before.
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

function isText(block: ContentBlock): block is TextBlock {
  return block.type === 'text'
}
