/**
 * Builds the conversation for Converse: system text, and alternating turns of user and assistant. Rules that Claude has
 * in both APIs, for reasoning and for ids of calls, come from `providers/anthropic/`.
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
import { toInput } from '../shared/http.ts'
import { withThoughts } from '../anthropic/thoughts.ts'
import { CallIds, callsOf, type Call } from '../shared/tool-calls.ts'
import {
  EMPTY,
  NO_RESULT,
  OPENING,
  RESULTS_ARE_IN,
  requireTexts,
  thoughtsOf,
} from '../shared/conversations.ts'
import { audioBlock, fileBlock, imageBlock, type Block } from './media.ts'
import type { Traits } from './models.ts'

/** One turn of a conversation. */
interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

/** A conversation for Converse, and what its request needs to know about it. */
export interface Conversation {
  readonly system: Block[]
  /** Starts with a user turn. Roles alternate. */
  readonly turns: Turn[]
  /** Names of all tools that the conversation calls. */
  readonly called: ReadonlySet<string>
  /** The last turn holds tool results, and the reasoning before their calls is missing. */
  readonly reasoningLost: boolean
}

/** Stands beside a document that came without a text: Converse requires one. */
const PLACEHOLDER = '.'
/** Amazon's limit for the id of a call, minus room for the suffix that makes ids unique. */
const MAX_ID_CHARACTERS = 60

/** Builds the conversation. @throws the failure class `bad_request` for messages that these models cannot take */
export function toConversation(
  messages: readonly ChatMessage[],
  traits: Traits,
  fail: Host['fail'],
): Conversation {
  const builder = new MessageBuilder(traits, fail)
  for (const [position, message] of messages.entries()) {
    builder.add(message, `messages[${position}]`)
  }
  return builder.finish()
}

/** Adds a cache point after the last block, where the model allows one. */
export function addCachePoint(blocks: Block[], marker: unknown, traits: Traits): void {
  const last = blocks.at(-1)
  // An empty prompt cannot be cached.
  if (!marker || traits.cache === 'nowhere' || !last || last.cachePoint) return
  if (last.toolResult && traits.resultsAlone) return
  blocks.push(cachePoint(marker))
}

/** Caches the prompt up to this place. */
export function cachePoint(marker: any): Block {
  // Five minutes is the default, and some models refuse it when it is named.
  return { cachePoint: { type: 'default', ...(marker.ttl === '1h' && { ttl: '1h' }) } }
}

class MessageBuilder {
  readonly #traits: Traits
  readonly #fail: Host['fail']
  readonly #ids = new CallIds(shortId)
  readonly #system: Block[] = []
  readonly #turns: Turn[] = []
  readonly #called = new Set<string>()
  #documents = 0
  /** The last message is a blank one of the user. */
  #endsBlank = false

  constructor(traits: Traits, fail: Host['fail']) {
    this.#traits = traits
    this.#fail = fail
  }

  add(message: ChatMessage, path: string): void {
    this.#endsBlank = false
    switch (message.role) {
      case 'system':
      case 'developer':
        return this.#addInstruction(message, path)
      case 'assistant':
        return this.#addAnswer(message, path)
      case 'tool':
      case 'function':
        return this.#addResult(message, path)
      default: {
        const content = this.#contentOf(message, path)
        this.#endsBlank = content.length === 0
        this.#extend('user', content)
      }
    }
  }

  finish(): Conversation {
    this.#answerRest()
    // Without it, the answer before would count as the beginning of the next one.
    if (this.#endsBlank) this.#extend('user', [{ text: EMPTY }])
    if (this.#turns[0]?.role !== 'user') {
      this.#turns.unshift({ role: 'user', content: [{ text: OPENING }] })
    }
    for (const { content } of this.#turns) {
      // Converse requires a text beside a document.
      if (content.some((block) => block.document) && !content.some((block) => block.text)) {
        content.unshift({ text: PLACEHOLDER })
      }
    }
    const turns = this.#traits.resultsAlone ? separateResults(this.#turns) : this.#turns
    const { role, content } = turns.at(-1)!
    // Converse refuses an answer prefix that ends in white space.
    const last = content.at(-1)!
    if (role === 'assistant' && last.text) last.text = last.text.trimEnd()
    const endsWithResults = content[0]!.toolResult !== undefined
    return {
      system: this.#system,
      turns,
      called: this.#called,
      reasoningLost: endsWithResults && turns.at(-2)!.content[0]!.reasoningContent === undefined,
    }
  }

  /** Instructions in the middle of a conversation stay where they are. */
  #addInstruction(message: ChatMessage, path: string): void {
    requireTexts(message, path, this.#fail)
    const content = this.#contentOf(message, path)
    if (this.#turns.length === 0 && !this.#traits.noSystem) this.#system.push(...content)
    else this.#extend('user', content)
  }

  #addAnswer(message: ChatMessage, path: string): void {
    requireTexts(message, path, this.#fail)
    this.#answerRest()
    const { content, refusal, cache_control } = message
    const texts: TextBlock[] = partsOf(content ?? refusal).map((part) => ({
      type: 'text',
      text: String(part.text ?? part.refusal ?? ''),
      cache_control: part.cache_control,
    }))
    const calls = callsOf(message).map((call) => this.#toToolUse(call))
    const thoughts = this.#traits.signsReasoning ? thoughtsOf(message) : []
    const blocks = withThoughts(thoughts, texts, calls)
    const kept = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(kept, cache_control)
    const converted: Block[] = []
    for (const block of kept) {
      converted.push(toConverseBlock(block))
      if ('cache_control' in block) addCachePoint(converted, block.cache_control, this.#traits)
    }
    this.#extend('assistant', converted)
  }

  #toToolUse({ id, name, text, cache_control }: Call): ToolUseBlock {
    this.#called.add(name)
    const block = { type: 'tool_use', id: this.#ids.open(id, name), name } as const
    return { ...block, input: toInput(text), ...(cache_control !== undefined && { cache_control }) }
  }

  #addResult(message: ChatMessage, path: string): void {
    const { content, is_error, cache_control } = message
    const id = this.#ids.answer(message, path, this.#fail)
    const parts = partsOf(content)
    const blocks = parts
      .map((part, position) => this.#toBlock(part, `${path}.content[${position}]`))
      .filter((block) => block.text === undefined || !isBlank(block.text))
    // Converse refuses results without content, again in every later request.
    if (blocks.length === 0) blocks.push({ text: EMPTY })
    this.#insertResult(toToolResult(id, blocks, is_error === true))
    const marker = cache_control ?? parts.find((part) => part.cache_control)?.cache_control
    addCachePoint(this.#turns.at(-1)!.content, marker, this.#traits)
  }

  /** Results have to stand at the start of the turn after their calls. */
  #insertResult(result: Block): void {
    const last = this.#turns.at(-1)
    if (last?.role !== 'user') {
      this.#turns.push({ role: 'user', content: [result] })
      return
    }
    last.content.splice(last.content.findLastIndex((block) => block.toolResult) + 1, 0, result)
  }

  #answerRest(): void {
    for (const id of this.#ids.rest()) {
      this.#insertResult(toToolResult(id, [{ text: NO_RESULT }], true))
    }
  }

  #extend(role: Turn['role'], blocks: readonly Block[]): void {
    if (blocks.length === 0) return
    const last = this.#turns.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else this.#turns.push({ role, content: [...blocks] })
  }

  #contentOf({ content, cache_control }: ChatMessage, path: string): Block[] {
    const blocks: Block[] = []
    for (const [position, part] of partsOf(content).entries()) {
      const block = this.#toBlock(part, `${path}.content[${position}]`)
      // Blank text blocks are refused. Their cache marker moves to the block before.
      if (block.text === undefined || !isBlank(block.text)) blocks.push(block)
      addCachePoint(blocks, part.cache_control, this.#traits)
    }
    addCachePoint(blocks, cache_control, this.#traits)
    return blocks
  }

  #toBlock(part: any, path: string): Block {
    const place = { path, fail: this.#fail }
    switch (part.type) {
      case 'image_url':
        return imageBlock(part.image_url.url, place)
      case 'file':
        return fileBlock(part.file, () => `doc-${++this.#documents}`, place)
      case 'input_audio':
        return audioBlock(part.input_audio)
      default:
        return { text: String(part.text ?? part.refusal ?? '') }
    }
  }
}

function partsOf(content: ChatMessage['content']): readonly any[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
}

/** Hashes long ids. Calls and results with the same id still match. */
function shortId(id: string): string {
  return id.length <= MAX_ID_CHARACTERS ? id : hash('sha256', id, 'hex').slice(0, 32)
}

function toToolResult(toolUseId: string, content: Block[], failed: boolean): Block {
  return { toolResult: { toolUseId, content, ...(failed && { status: 'error' }) } }
}

/** Converts a block of the Messages API. */
function toConverseBlock(block: ClaudeBlock): Block {
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

/** Moves tool results into their own turn, for models that refuse other content beside them. */
function separateResults(turns: readonly Turn[]): Turn[] {
  return turns.flatMap((turn) => {
    const results = turn.content.filter((block) => block.toolResult)
    const others = turn.content.filter((block) => !block.toolResult)
    if (results.length === 0 || others.length === 0) return [turn]
    return [
      { role: 'user', content: results },
      { role: 'assistant', content: [{ text: RESULTS_ARE_IN }] },
      { role: 'user', content: others },
    ]
  })
}
