/**
 * A conversation in Amazon's words: system text, and turns of two speakers who alternate. What Claude has to have back, and
 * the ids of calls, are the Messages API's business in either place.
 */
import { hash } from 'node:crypto'
import type { Host, ChatMessage } from '../../src/plugin.ts'
import {
  isBlank,
  markLast,
  type Block as ClaudeBlock,
  type TextBlock,
  type ToolUseBlock,
} from '../anthropic/blocks.ts'
import { CallIds } from '../anthropic/call-ids.ts'
import { toInput } from '../anthropic/exact-json.ts'
import { withThoughts } from '../anthropic/thoughts.ts'
import { audioBlock, fileBlock, imageBlock, type Block } from './media.ts'
import type { Traits } from './models.ts'

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

export interface Conversation {
  readonly system: Block[]
  /** Begins with a user's turn; roles alternate. */
  readonly turns: Turn[]
  /** Names of the tools that were called. */
  readonly called: ReadonlySet<string>
  /** The answer goes on after results, and what was thought before the calls is lost. */
  readonly thoughtless: boolean
}

/** What stands for words that have to be there and that nobody said. */
const NOTHING = '.'
/** Amazon's longest id of a call, less what makes one of several unlike. */
const MAX_ID_CHARACTERS = 60

/** @throws the failure class `bad_request` for what cannot be said to these models */
export function toConversation(
  messages: readonly ChatMessage[],
  traits: Traits,
  fail: Host['fail'],
): Conversation {
  const writer = new MessageBuilder(traits, fail)
  for (const [position, message] of messages.entries()) {
    writer.write(message, `messages[${position}]`)
  }
  return writer.finish()
}

/** Marks the place after the last block, up to which the prompt is to be cached, where the model lets it. */
export function mark(blocks: Block[], marker: unknown, traits: Traits): void {
  const last = blocks.at(-1)
  // After nothing there is nothing to cache.
  if (!marker || traits.cache === 'nowhere' || !last || last.cachePoint) return
  if (last.toolResult && traits.resultsAlone) return
  blocks.push(cachePoint(marker))
}

/** A place up to which the prompt is to be cached. */
export function cachePoint(marker: any): Block {
  // The other one there is, five minutes, is the default, and not every model knows that it has a name.
  return { cachePoint: { type: 'default', ...(marker.ttl === '1h' && { ttl: '1h' }) } }
}

class MessageBuilder {
  readonly #traits: Traits
  readonly #fail: Host['fail']
  readonly #ids = new CallIds()
  readonly #system: Block[] = []
  readonly #turns: Turn[] = []
  readonly #called = new Set<string>()
  #documents = 0

  constructor(traits: Traits, fail: Host['fail']) {
    this.#traits = traits
    this.#fail = fail
  }

  write(message: ChatMessage, path: string): void {
    switch (message.role) {
      case 'system':
      case 'developer':
        return this.#instruct(message)
      case 'assistant':
        return this.#answer(message)
      case 'tool':
      case 'function':
        return this.#result(message, path)
      default:
        return this.#say('user', this.#contentOf(message))
    }
  }

  finish(): Conversation {
    this.#answerRest()
    if (this.#turns[0]?.role !== 'user') {
      this.#turns.unshift({ role: 'user', content: [{ text: NOTHING }] })
    }
    for (const { content } of this.#turns) {
      // A document does not stand alone.
      if (content.some((block) => block.document) && !content.some((block) => block.text)) {
        content.unshift({ text: NOTHING })
      }
    }
    const turns = this.#traits.resultsAlone ? apart(this.#turns) : this.#turns
    const { role, content } = turns.at(-1)!
    // An answer that is to be continued must not end in white space.
    const last = content.at(-1)!
    if (role === 'assistant' && last.text) last.text = last.text.trimEnd()
    const goesOn = content[0]!.toolResult !== undefined
    return {
      system: this.#system,
      turns,
      called: this.#called,
      thoughtless: goesOn && turns.at(-2)!.content[0]!.reasoningContent === undefined,
    }
  }

  /** Later instructions stay where they are. */
  #instruct(message: ChatMessage): void {
    const content = this.#contentOf(message)
    if (this.#turns.length === 0 && !this.#traits.noSystem) this.#system.push(...content)
    else this.#say('user', content)
  }

  #answer(message: ChatMessage): void {
    this.#answerRest()
    const { content, refusal, reasoning_details, cache_control } = message
    const texts: TextBlock[] = partsOf(content ?? refusal).map((part) => ({
      type: 'text',
      text: String(part.text ?? part.refusal ?? ''),
      cache_control: part.cache_control,
    }))
    const calls = callsOf(message).map((call) => this.#call(call))
    const thoughts = this.#traits.seals ? (reasoning_details ?? []) : []
    const blocks = withThoughts(thoughts, texts, calls)
    const said = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(said, cache_control)
    const own: Block[] = []
    for (const block of said) {
      own.push(inAmazonsWords(block))
      if ('cache_control' in block) mark(own, block.cache_control, this.#traits)
    }
    this.#say('assistant', own)
  }

  #call({ id, name, text }: Call): ToolUseBlock {
    this.#called.add(name)
    return { type: 'tool_use', id: this.#ids.open(short(id), name), name, input: toInput(text) }
  }

  #result(message: ChatMessage, path: string): void {
    const { role, content, tool_call_id, name, is_error, cache_control } = message
    const id =
      role === 'tool' ? this.#ids.answer(short(tool_call_id)!) : this.#ids.answerNamed(name)
    if (id === undefined) {
      const param = `${path}.${role === 'tool' ? 'tool_call_id' : 'name'}`
      const expected = 'a call of the assistant message before it that has no result yet'
      const options = { code: 'invalid_value', param }
      throw this.#fail('bad_request', `Expected ${param} to name ${expected}.`, options)
    }
    const parts = partsOf(content)
    const blocks = parts.map((part) => this.#block(part))
    this.#insert(resultOf(id, blocks, is_error === true))
    const marker = cache_control ?? parts.find((part) => part.cache_control)?.cache_control
    mark(this.#turns.at(-1)!.content, marker, this.#traits)
  }

  /** Every call has its result at the head of the turn after it: anything else is refused. */
  #insert(result: Block): void {
    const last = this.#turns.at(-1)
    if (last?.role !== 'user') {
      this.#turns.push({ role: 'user', content: [result] })
      return
    }
    last.content.splice(last.content.findLastIndex((block) => block.toolResult) + 1, 0, result)
  }

  #answerRest(): void {
    for (const id of this.#ids.rest()) {
      this.#insert(resultOf(id, [{ text: '(There is no result.)' }], true))
    }
  }

  #say(role: Turn['role'], blocks: readonly Block[]): void {
    if (blocks.length === 0) return
    const last = this.#turns.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else this.#turns.push({ role, content: [...blocks] })
  }

  #contentOf({ content, cache_control }: ChatMessage): Block[] {
    const blocks: Block[] = []
    for (const part of partsOf(content)) {
      const block = this.#block(part)
      // A text without a word is refused; what marked it marks what stands before it.
      if (block.text === undefined || !isBlank(block.text)) blocks.push(block)
      mark(blocks, part.cache_control, this.#traits)
    }
    mark(blocks, cache_control, this.#traits)
    return blocks
  }

  #block(part: any): Block {
    switch (part.type) {
      case 'image_url':
        return imageBlock(part.image_url.url, this.#fail)
      case 'file':
        return fileBlock(part.file, () => `doc-${++this.#documents}`, this.#fail)
      case 'input_audio':
        return audioBlock(part.input_audio, this.#fail)
      default:
        return { text: String(part.text ?? part.refusal ?? '') }
    }
  }
}

function partsOf(content: ChatMessage['content']): readonly any[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
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
    text: called ? called.arguments : JSON.stringify({ input: custom.input }),
  }))
  if (function_call && calls.length === 0) {
    calls.push({ id: undefined, name: function_call.name, text: function_call.arguments })
  }
  return calls
}

/** The same id every time, so that calls and results still belong together. */
function short(id: string | undefined): string | undefined {
  return id === undefined || id.length <= MAX_ID_CHARACTERS
    ? id
    : hash('sha256', id, 'hex').slice(0, 32)
}

function resultOf(toolUseId: string, content: Block[], failed: boolean): Block {
  return { toolResult: { toolUseId, content, ...(failed && { status: 'error' }) } }
}

/** A block of an answer, from Anthropic's words. */
function inAmazonsWords(block: ClaudeBlock): Block {
  switch (block.type) {
    case 'tool_use': {
      const { id: toolUseId, name, input } = block
      return { toolUse: { toolUseId, name, input } }
    }
    case 'thinking': {
      const { thinking: text, signature } = block
      return { reasoningContent: { reasoningText: { text, signature } } }
    }
    case 'redacted_thinking':
      return { reasoningContent: { redactedContent: block.data } }
    default:
      return { text: (block as TextBlock).text }
  }
}

/** Results in turns of their own, with a word between them and whatever was said next. */
function apart(turns: readonly Turn[]): Turn[] {
  return turns.flatMap((turn) => {
    const results = turn.content.filter((block) => block.toolResult)
    const others = turn.content.filter((block) => !block.toolResult)
    if (results.length === 0 || others.length === 0) return [turn]
    return [
      { role: 'user', content: results },
      { role: 'assistant', content: [{ text: NOTHING }] },
      { role: 'user', content: others },
    ]
  })
}
