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
  type DocumentBlock,
  type ImageBlock,
} from './blocks.ts'
import { toInput } from '../shared/http.ts'
import { withThoughts } from './thoughts.ts'
import { CallIds, callsOf, type Call } from '../shared/tool-calls.ts'
import { EMPTY, NO_RESULT, OPENING, requireTexts, thoughtsOf } from '../shared/conversations.ts'
import { isAddress, isDataUrl } from '../shared/files.ts'

/** A conversation for the Messages API. */
interface Conversation {
  readonly system: readonly TextBlock[]
  /** Starts with a user turn. Roles alternate, but for instructions between a user and an assistant. */
  readonly turns: readonly Turn[]
  /** Names of all tools that the conversation calls. */
  readonly called: ReadonlySet<string>
}

/**
 * Builds the conversation.
 * @param systemTurns whether the model takes instructions in the middle as turns of their own
 * @throws the failure class `bad_request` for audio, unknown kinds of files and results without a call
 */
export function toConversation(
  messages: readonly ChatMessage[],
  systemTurns: boolean,
  fail: Host['fail'],
): Conversation {
  const builder = new ConversationBuilder(fail)
  messages.forEach((message, index) => builder.add(message, `messages[${index}]`))
  return builder.end(systemTurns)
}

class ConversationBuilder {
  readonly #fail: Host['fail']
  readonly #ids = new CallIds()
  readonly #system: TextBlock[] = []
  readonly #turns: Turn[] = []
  readonly #called = new Set<string>()
  /** The last message is a blank one of the user. */
  #endsBlank = false

  constructor(fail: Host['fail']) {
    this.#fail = fail
  }

  add(message: ChatMessage, path: string): void {
    const { role } = message
    this.#endsBlank = false
    if (role === 'tool' || role === 'function') this.#addResult(message, path)
    else if (role === 'assistant') this.#addAnswer(message, path)
    else if (role === 'user') {
      const blocks = this.#content(message, path)
      this.#endsBlank = blocks.length === 0
      this.#extend('user', blocks)
    } else {
      const texts = this.#texts(message, path)
      if (this.#turns.length === 0) this.#system.push(...texts)
      else this.#extend('system', texts)
    }
  }

  end(systemTurns: boolean): Conversation {
    this.#answerRest()
    // Without it, the answer before would count as the beginning of the next one.
    if (this.#endsBlank) this.#extend('user', [{ type: 'text', text: EMPTY }])
    if (this.#turns[0]?.role !== 'user') {
      this.#turns.unshift({ role: 'user', content: [{ type: 'text', text: OPENING }] })
    }
    const turns = placed(this.#turns, systemTurns)
    const { role, content } = turns.at(-1)!
    const last = content.at(-1)!
    // The vendor refuses an answer prefix that ends in white space.
    if (role === 'assistant' && last.type === 'text') last.text = last.text.trimEnd()
    return { system: this.#system, turns, called: this.#called }
  }

  #addAnswer(message: ChatMessage, path: string): void {
    this.#answerRest()
    const texts = this.#texts(message, path)
    if (texts.length === 0 && message.refusal) texts.push({ type: 'text', text: message.refusal })
    const calls = callsOf(message).map((call) => this.#toToolUse(call))
    const blocks = withThoughts(thoughtsOf(message), texts, calls)
    const kept = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(kept, message.cache_control)
    this.#extend('assistant', kept)
  }

  #toToolUse({ id, name, text, cache_control }: Call): ToolUseBlock {
    this.#called.add(name)
    const block = { type: 'tool_use', id: this.#ids.open(id, name), name } as const
    return { ...block, input: toInput(text), ...(cache_control !== undefined && { cache_control }) }
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

  /** Results stand at the start of the turn after their calls. */
  #insertResult(block: ToolResultBlock): void {
    const at = this.#turns.findLastIndex(({ role }) => role === 'assistant') + 1
    const turn = this.#turns[at]
    if (turn?.role !== 'user') {
      this.#turns.splice(at, 0, { role: 'user', content: [block] })
      return
    }
    const place = turn.content.findLastIndex(({ type }) => type === 'tool_result') + 1
    turn.content.splice(place, 0, block)
  }

  #answerRest(): void {
    for (const id of this.#ids.rest()) {
      const content = NO_RESULT
      this.#insertResult({ type: 'tool_result', tool_use_id: id, content, is_error: true })
    }
  }

  #extend(role: Turn['role'], blocks: readonly Block[]): void {
    append(this.#turns, role, blocks)
  }

  /** The content of a message that has only texts. */
  #texts(message: ChatMessage, path: string): TextBlock[] {
    requireTexts(message, path, this.#fail)
    return this.#content(message, path).filter((block) => block.type === 'text')
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

/**
 * Gives instructions in the middle their places. They stand between a user and an assistant, or last after a user; where
 * they do not, or the model takes none, the user says them.
 */
function placed(turns: readonly Turn[], systemTurns: boolean): Turn[] {
  const out: Turn[] = []
  for (const [at, { role, content }] of turns.entries()) {
    const fits = systemTurns && out.at(-1)?.role === 'user' && turns[at + 1]?.role !== 'user'
    append(out, role === 'system' && !fits ? 'user' : role, content)
  }
  return out
}

/** Adds blocks to the last turn if it has this role, else a turn. */
function append(turns: Turn[], role: Turn['role'], blocks: readonly Block[]): void {
  if (blocks.length === 0) return
  const last = turns.at(-1)
  if (last?.role === role) last.content.push(...blocks)
  else turns.push({ role, content: [...blocks] })
}

// Images and files as content blocks.

/** File types by their first bytes. The declared type is often wrong. */
const BEGINNINGS: readonly (readonly [type: string, looksLikeIt: (bytes: string) => boolean])[] = [
  ['image/jpeg', (bytes) => bytes.startsWith('\xff\xd8\xff')],
  ['image/png', (bytes) => bytes.startsWith('\x89PNG')],
  ['image/gif', (bytes) => bytes.startsWith('GIF8')],
  ['image/webp', (bytes) => bytes.startsWith('RIFF') && bytes.slice(8, 12) === 'WEBP'],
  ['application/pdf', (bytes) => bytes.startsWith('%PDF')],
]
const IMAGES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])
const PDF = 'application/pdf'
const TEXTS = /^(?:text\/|application\/(?:json|xml|yaml|x-ndjson)$)/

/**
 * Converts an `image_url` part.
 * @param path of the part, for the error
 * @throws the failure class `bad_request` for anything but JPEG, PNG, GIF and WebP
 */
function toImage(part: any, path: string, fail: Host['fail']): ImageBlock {
  const { url } = part.image_url as { url: string }
  if (!isDataUrl(url)) return { type: 'image', source: { type: 'url', url } }
  const { type, data } = split(url)
  if (IMAGES.has(type)) return image(type, data)
  throw fail('bad_request', `Expected a JPEG, PNG, GIF or WebP image at ${path}.`, {
    code: 'invalid_image',
    param: `${path}.image_url.url`,
  })
}

/**
 * Converts a `file` part: PDF and plain text become documents, images become images.
 * @param path of the part, for the error
 * @throws the failure class `bad_request` for other types
 */
function toFile(part: any, path: string, fail: Host['fail']): ContentBlock {
  const { file_data, filename } = part.file as { file_data: string; filename?: string }
  if (isAddress(file_data)) return document({ type: 'url', url: file_data }, filename)
  const { type, data } = split(file_data)
  if (IMAGES.has(type)) return image(type, data)
  if (type === PDF) return document({ type: 'base64', media_type: PDF, data }, filename)
  if (TEXTS.test(type)) {
    const text = Buffer.from(data, 'base64').toString('utf8')
    return document({ type: 'text', media_type: 'text/plain', data: text }, filename)
  }
  throw fail('bad_request', `Expected a PDF, a plain text or an image at ${path}.`, {
    code: 'invalid_document',
    param: `${path}.file.file_data`,
  })
}

function image(media_type: string, data: string): ImageBlock {
  return { type: 'image', source: { type: 'base64', media_type, data } }
}

function document(source: DocumentBlock['source'], title: string | undefined): DocumentBlock {
  return { type: 'document', source, ...(title ? { title } : {}) }
}

/** Type and base64 of a data URL. The first bytes count more than the declared type. */
function split(url: string): { type: string; data: string } {
  const comma = url.indexOf(',')
  const declared = url.slice(5, comma).split(';', 1)[0]!.trim().toLowerCase()
  const data = url.slice(comma + 1)
  const bytes = Buffer.from(data.slice(0, 24), 'base64').toString('latin1')
  const type = BEGINNINGS.find(([, looksLikeIt]) => looksLikeIt(bytes))?.[0]
  if (type) return { type, data }
  // The bytes contradict the declared type.
  const wrong = IMAGES.has(declared) || declared === 'image/jpg' || declared === PDF
  return { type: wrong ? 'unknown' : declared, data }
}
