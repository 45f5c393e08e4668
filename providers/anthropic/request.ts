/** Builds the body of `POST /v1/messages`. Parameters that the vendor does not have are left out. */
import { hash } from 'node:crypto'
import type { ChatInput, Host, ChatMessage } from '../../src/plugin.ts'
import {
  isBlank,
  isThought,
  type Block,
  type Marked,
  type TextBlock,
  type Turn,
  markLast,
  type ContentBlock,
  type ToolResultBlock,
  type DocumentBlock,
  type ImageBlock,
} from './blocks.ts'
import type { Traits } from './models.ts'
import { toSupportedSchema } from './schema.ts'
import { toThinking, withoutThinking, type Thinking } from './thinking.ts'
import {
  hasMaps,
  jsonInWords,
  openSchema,
  responseFormat,
  withClosedSchema,
} from '../shared/schemas.ts'
import {
  cannotForce,
  isForced,
  nothingToCall,
  requireOneAnswer,
  allowedTools,
  CallIds,
  callsOf,
} from '../shared/tool-calls.ts'
import { withThoughts } from './thoughts.ts'
import { EMPTY, NO_RESULT, OPENING, requireTexts, thoughtsOf } from '../shared/conversations.ts'
import { isAddress, isDataUrl } from '../shared/files.ts'

/** A request body, and how to read its answer. */
interface MessagesRequest {
  readonly body: Readonly<Record<string, unknown>>
  /** The answer comes as the input of the tool {@link ANSWER_TOOL}. */
  readonly answersByTool: boolean
}

/** Tool that a model without structured output must call with its answer. */
export const ANSWER_TOOL = 'final_answer'

/**
 * A whole answer above this limit may take longer than the vendor's ten minutes (Anthropic's SDKs assume 128,000 tokens
 * per hour). Such requests are always streamed.
 */
const MAX_UNSTREAMED_TOKENS = 21_000

/** Builds the body. @throws the failure class `bad_request` for what the vendor does not support */
export function toRequest(
  input: ChatInput,
  model: string,
  traits: Traits,
  fail: Host['fail'],
): MessagesRequest {
  requireOneAnswer(input, fail)
  const { system, turns, called } = toConversation(input.messages, traits.systemTurns, fail)
  const limit = Math.min(input.max_completion_tokens ?? Infinity, traits.maxTokens)
  const tools = toTools(input, traits.schemas, fail)
  const forced = isForced(input.tool_choice)
  if (forced && tools.length === 0) throw nothingToCall(fail)
  if (forced && !canForce(traits)) throw cannotForce(fail)
  const answer = toAnswerForm(input, traits, fail)
  const thinking = thinkingFor(input, traits, limit, turns, forced || answer.tool !== undefined)
  const systemText = answer.words
    ? [...system, { type: 'text', text: answer.words } as const]
    : system
  const offered = offeredTools(input, tools, answer.tool, called)
  const stream = input.stream === true || limit > MAX_UNSTREAMED_TOKENS
  const whole: Marked = input.cache_control ? { cache_control: input.cache_control } : {}
  limitMarkers([...placesOf(offered.tools ?? [], systemText, turns), whole])
  const body: Record<string, unknown> = {
    model,
    max_tokens: limit,
    ...(systemText.length > 0 ? { system: systemText } : {}),
    messages: turns,
    ...offered,
    ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
    ...outputConfig(thinking, answer.schema),
    ...sampling(input, traits, thinking),
    ...stops(input.stop),
    ...whole,
    ...user(input),
    // Other tiers have other prices.
    service_tier: 'standard_only',
    ...(stream ? { stream } : {}),
  }
  return { body, answersByTool: answer.tool !== undefined }
}

/** How the model learns the form of its answer: from a schema, by a tool that it must call, or in words. */
interface AnswerForm {
  readonly schema?: unknown
  readonly tool?: Tool
  readonly words?: string
}

function toAnswerForm(input: ChatInput, traits: Traits, fail: Host['fail']): AnswerForm {
  const format = responseFormat(input)
  if (format?.type === 'json_object') return { words: jsonInWords() }
  if (format?.type !== 'json_schema') return {}
  const { schema = {}, strict } = format.json_schema
  const maps = hasMaps(schema)
  if (maps && strict === true) throw openSchema('response_format', 'response_format', fail)
  // The vendor would close the maps.
  if (traits.schemas && !maps) return { schema: toSupportedSchema(schema) }
  if (isForced(input.tool_choice) || !canForce(traits)) return { words: jsonInWords(schema) }
  return { tool: { name: ANSWER_TOOL, input_schema: { type: 'object', ...schema } } }
}

function canForce({ forcedTools, forcedToolsWithThinking }: Traits): boolean {
  return forcedTools || forcedToolsWithThinking
}

/**
 * The thinking of a request. A model with a budget refuses tool results whose turn has lost its thinking blocks, and one
 * that must call a tool does not think: the call was asked for, thinking is a hint.
 */
function thinkingFor(
  input: ChatInput,
  traits: Traits,
  limit: number,
  turns: readonly Turn[],
  forced: boolean,
): Thinking {
  const isLimited = input.max_completion_tokens !== undefined
  const wanted = toThinking(input.reasoning, traits, limit, isLimited)
  const excluded = forced && !traits.forcedToolsWithThinking
  if (!wanted.on) return wanted
  return excluded || lostThoughts(turns, traits) ? withoutThinking(traits) : wanted
}

function lostThoughts(turns: readonly Turn[], { thinking }: Traits): boolean {
  if (thinking !== 'budget') return false
  const at = turns.findLastIndex(({ role }) => role === 'assistant')
  return turns[at + 1]?.content[0]?.type === 'tool_result' && !isThought(turns[at]!.content[0]!)
}

function offeredTools(
  input: ChatInput,
  tools: readonly Tool[],
  answerTool: Tool | undefined,
  called: ReadonlySet<string>,
): { readonly tools?: readonly Tool[]; readonly tool_choice?: ToolChoice } {
  if (answerTool) {
    // The client's tools stay available: the model answers with one call, of any tool.
    const others = input.tool_choice === 'none' ? [] : tools
    const tool_choice = { type: 'any', disable_parallel_tool_use: true } as const
    return { tools: [...others, answerTool], tool_choice }
  }
  if (tools.length > 0) {
    const tool_choice = toToolChoice(input)
    return { tools, ...(tool_choice ? { tool_choice } : {}) }
  }
  // The vendor refuses calls in a conversation without any tools.
  if (called.size === 0) return {}
  return { tools: [...called].map(toEarlierTool), tool_choice: { type: 'none' } }
}

function outputConfig({ effort }: Thinking, schema: unknown): object {
  if (effort === undefined && schema === undefined) return {}
  const format = schema && { type: 'json_schema', schema }
  return { output_config: { ...(effort ? { effort } : {}), ...(format ? { format } : {}) } }
}

/** Sampling parameters are hints; those that the model refuses are dropped. */
function sampling(input: ChatInput, traits: Traits, thinking: Thinking): object {
  if (!traits.sampling || thinking.on) return {}
  const { temperature, top_p, top_k } = input
  const temperatures =
    typeof temperature === 'number' ? { temperature: Math.min(temperature, 1) } : {}
  const nucleus =
    typeof top_p === 'number' && (!('temperature' in temperatures) || traits.samplingTogether)
  return {
    ...temperatures,
    ...(nucleus ? { top_p } : {}),
    ...(typeof top_k === 'number' && top_k >= 1 ? { top_k: Math.floor(top_k) } : {}),
  }
}

function stops(stop: unknown): object {
  const sequences = (typeof stop === 'string' ? [stop] : ((stop ?? []) as string[])).filter(
    (text) => !isBlank(text),
  )
  return sequences.length > 0 ? { stop_sequences: sequences } : {}
}

/** An opaque id of the end user, which lets the vendor detect abuse. */
function user({ user, safety_identifier, metadata }: ChatInput): object {
  const id = user ?? safety_identifier ?? (metadata as { user_id?: unknown } | undefined)?.user_id
  if (typeof id !== 'string' || id === '') return {}
  return { metadata: { user_id: hash('sha256', id, 'hex') } }
}

/** Everything that may carry a cache marker, in the order of the prompt. */
function* placesOf(
  tools: readonly Tool[],
  system: readonly TextBlock[],
  turns: readonly Turn[],
): Generator<Marked, void, undefined> {
  yield* tools
  yield* system
  for (const { content } of turns) yield* markedIn(content)
}

function* markedIn(blocks: readonly Block[]): Generator<Marked, void, undefined> {
  for (const block of blocks) {
    if (isThought(block)) continue
    if (block.type === 'tool_result' && typeof block.content === 'object') {
      yield* markedIn(block.content)
    }
    yield block
  }
}

// Prompt caching. The client marks places; the vendor accepts four markers per request.

const MAX_MARKERS = 4

/**
 * Removes the first markers above the limit, because later ones cover the prompt before them. Markers of an hour after one
 * of five minutes become such: the vendor refuses that order.
 * @param places everything that may carry a marker, in the order of the prompt
 */
function limitMarkers(places: Iterable<Marked>): void {
  const marked = [...places].filter(({ cache_control }) => cache_control !== undefined)
  for (const place of marked.splice(0, Math.max(0, marked.length - MAX_MARKERS))) {
    delete place.cache_control
  }
  const firstShort = marked.findIndex(({ cache_control }) => !isLong(cache_control))
  if (firstShort < 0) return
  for (const place of marked.slice(firstShort)) {
    if (isLong(place.cache_control)) place.cache_control = { ...place.cache_control, ttl: '5m' }
  }
}

function isLong(marker: unknown): marker is { ttl: '1h' } {
  return Object(marker).ttl === '1h'
}

// Tools and tool choice.

/** A tool in the vendor's form. */
interface Tool extends Marked {
  readonly name: string
  readonly description?: string
  readonly input_schema: unknown
  readonly strict?: true
}

/** The vendor's form of a tool choice. */
interface ToolChoice {
  readonly type: 'auto' | 'none' | 'any' | 'tool'
  readonly name?: string
  readonly disable_parallel_tool_use?: true
}

/**
 * The tools of a request; with `allowed_tools` only those.
 * @param schemas whether the model supports structured output
 * @throws the failure class `bad_request` for strict tools that take maps
 */
function toTools(input: ChatInput, schemas: boolean, fail: Host['fail']): Tool[] {
  return allowedTools(input).map((tool) => {
    const strictly = tool.function.strict === true && schemas
    return toTool(withClosedSchema(tool, input.tools!.indexOf(tool), strictly, fail), strictly)
  })
}

/** A tool that a conversation calls, and that is not offered any more. */
function toEarlierTool(name: string): Tool {
  return { name, input_schema: { type: 'object', properties: {} } }
}

/** The tool choice of a request. */
function toToolChoice({ tool_choice, parallel_tool_calls }: ChatInput): ToolChoice | undefined {
  const choice = choiceOf(tool_choice)
  const serial = parallel_tool_calls === false
  if (!choice && !serial) return undefined
  if (choice?.type === 'none') return choice
  return { ...(choice ?? AUTO), ...(serial ? { disable_parallel_tool_use: true } : {}) }
}

const AUTO: ToolChoice = { type: 'auto' }

function choiceOf(choice: any): ToolChoice | undefined {
  if (choice === undefined) return undefined
  if (choice === 'none' || choice === 'auto') return { type: choice }
  if (choice.type === 'function') return { type: 'tool', name: choice.function.name }
  return isForced(choice) ? { type: 'any' } : AUTO
}

function toTool({ function: called, cache_control }: any, strictly: boolean): Tool {
  const { name, description, parameters } = called
  const schema = { type: 'object', properties: {}, ...parameters }
  const marker = cache_control ?? called.cache_control
  return {
    name,
    ...(description ? { description } : {}),
    input_schema: strictly ? toSupportedSchema(schema) : schema,
    ...(strictly ? { strict: true } : {}),
    ...(marker ? { cache_control: marker } : {}),
  }
}

// Builds the conversation for the Messages API: separate system text, alternating turns, and a result for every call at
// the start of the next turn. Independent of models and of HTTP.

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
function toConversation(
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
    return { system: this.#system, turns, called: this.#ids.called }
  }

  #addAnswer(message: ChatMessage, path: string): void {
    this.#answerRest()
    const texts = this.#texts(message, path)
    if (texts.length === 0 && message.refusal) texts.push({ type: 'text', text: message.refusal })
    const calls = callsOf(message).map((call) => this.#ids.toToolUse(call))
    const blocks = withThoughts(thoughtsOf(message), texts, calls)
    const kept = blocks.filter((block) => block.type !== 'text' || !isBlank(block.text))
    markLast(kept, message.cache_control)
    this.#extend('assistant', kept)
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
 * @param path the path of the part, for the error
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
 * @param path the path of the part, for the error
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
