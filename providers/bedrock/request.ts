/** Builds the request body for Converse. */
import type { ChatInput, Host, ChatMessage } from '../../src/plugin.ts'
import {
  hasMaps,
  jsonInWords,
  openSchema,
  responseFormat,
  withClosedSchema,
} from '../shared/schemas.ts'
import {
  allowedTools,
  cannotForce,
  isForced,
  nothingToCall,
  requireOneAnswer,
  CallIds,
  callsOf,
} from '../shared/tool-calls.ts'
import { type Block, audioBlock, fileBlock, imageBlock } from './media.ts'
import {
  NO_REASONING,
  type ReasoningRequest,
  type Sampling,
  type SchemaForm,
  type Traits,
} from './models.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'
import { hash } from 'node:crypto'
import {
  isBlank,
  markLast,
  type Block as ClaudeBlock,
  type TextBlock,
} from '../anthropic/blocks.ts'
import { withThoughts } from '../anthropic/thoughts.ts'
import {
  EMPTY,
  NO_RESULT,
  OPENING,
  RESULTS_ARE_IN,
  requireTexts,
  thoughtsOf,
} from '../shared/conversations.ts'

/** Options of a deployment that change its requests. */
interface RequestOptions {
  readonly cache?: boolean | undefined
  readonly schema?: SchemaForm | undefined
  readonly fields?: Readonly<Record<string, unknown>> | undefined
  readonly omit?: readonly string[] | undefined
}

/** A request body, and how to read its answer. */
interface ConverseRequest {
  readonly body: Record<string, unknown>
  /** Name of the tool whose arguments are the answer. */
  readonly answerTool: string | undefined
}

/** Amazon's limit per request. */
const MAX_CACHE_POINTS = 4
const ANSWER_TOOL = 'json_answer'

/** Builds the body. @throws the failure class `bad_request` for what these models do not support */
export function toConverse(
  request: ChatInput,
  baseTraits: Traits,
  options: RequestOptions,
  fail: Host['fail'],
): ConverseRequest {
  const traits = withOptions(baseTraits, options)
  const input = without(request, options.omit)
  requireOneAnswer(input, fail)
  const limit = input.max_completion_tokens
  const conversation = toConversation(input.messages, traits, fail)
  const { system, turns } = conversation
  addCachePoint(turns.at(-1)!.content, input.cache_control, traits)
  const tools = toolsOf(input, traits, conversation, fail)
  const schema = schemaOf(input, traits, tools !== undefined, fail)
  const forced = isForced(input.tool_choice) || schema.toolConfig !== undefined
  const reasoning = reasoningFor(input, traits, conversation, forced)
  if (schema.words) system.push({ text: schema.words })
  if (traits.noSystem && system.length > 0) turns[0]!.content.unshift(...system.splice(0))
  const toolConfig = tools ?? schema.toolConfig
  limitCachePoints([
    ...(toolConfig ? [toolConfig.tools] : []),
    system,
    ...turns.map((t) => t.content),
  ])
  const config = configOf(input, traits, reasoning)
  const topK = input.top_k !== undefined && !traits.refuses(reasoning.thinks).includes('topK')
  const fields = {
    ...reasoning.fields,
    ...(topK && traits.topK?.(input.top_k)),
    ...options.fields,
  }
  return {
    body: {
      messages: turns,
      ...(system.length > 0 && { system }),
      inferenceConfig: { ...(limit !== undefined && { maxTokens: limit }), ...config },
      ...(toolConfig && { toolConfig }),
      ...(schema.outputConfig && { outputConfig: schema.outputConfig }),
      ...(Object.keys(fields).length > 0 && { additionalModelRequestFields: fields }),
      ...('stopSequences' in config &&
        traits.stopPath && { additionalModelResponseFieldPaths: [traits.stopPath] }),
    },
    answerTool: schema.toolConfig && ANSWER_TOOL,
  }
}

function withOptions(traits: Traits, { cache, schema }: RequestOptions): Traits {
  const { cache: cachePlaces } = traits
  const places = cache === true && cachePlaces === 'nowhere' ? 'messages' : cachePlaces
  return {
    ...traits,
    cache: cache === false ? 'nowhere' : places,
    schema: schema ?? traits.schema,
  }
}

function without(input: ChatInput, names: readonly string[] = []): ChatInput {
  const entries = Object.entries(input).filter(
    ([name]) => name === 'messages' || !names.includes(name),
  )
  return Object.fromEntries(entries) as ChatInput
}

/**
 * The reasoning of a request. It is dropped when the model would refuse it because earlier reasoning is missing from the
 * conversation, or beside a call that is required: the call was asked for, reasoning is a hint.
 */
function reasoningFor(
  input: ChatInput,
  traits: Traits,
  { reasoningLost }: Conversation,
  forced: boolean,
): ReasoningRequest {
  if (!input.reasoning) return NO_REASONING
  const limit = input.max_completion_tokens
  const reasoning = traits.toReasoning(input.reasoning, limit)
  if (forced && reasoning.excludesForcedTools) return traits.toReasoning({ enabled: false }, limit)
  return reasoning.needsPriorReasoning && reasoningLost ? NO_REASONING : reasoning
}

interface ToolConfig {
  readonly tools: Block[]
  readonly toolChoice?: object
}

/** Amazon requires the definitions of all tools that the conversation mentions, even when no call is allowed. */
function toolsOf(
  input: ChatInput,
  traits: Traits,
  { called }: Conversation,
  fail: Host['fail'],
): ToolConfig | undefined {
  const choice = input.tool_choice
  const allowed = allowedTools(input)
  if (isForced(choice) && allowed.length === 0) throw nothingToCall(fail)
  if (isForced(choice) && !traits.forcedTools) throw cannotForce(fail)
  if (called.size === 0 && (allowed.length === 0 || choice === 'none')) return undefined
  const tools: Block[] = []
  for (const tool of allowed) {
    const { function: definition, cache_control } = tool
    // Models with native schemas also have strict tools.
    const strictly = definition.strict === true && traits.schema === 'native'
    const flat = withClosedSchema(tool, input.tools!.indexOf(tool), strictly, fail)
    tools.push(specOf(flat.function, strictly, traits))
    if (cache_control && traits.cache === 'everywhere') tools.push(cachePoint(cache_control))
  }
  const names = new Set(allowed.map((tool) => tool.function.name))
  for (const name of called) if (!names.has(name)) tools.push(specOf({ name }, false, traits))
  const toolChoice = allowed.length > 0 ? choiceOf(choice) : undefined
  return { tools, ...(toolChoice && { toolChoice }) }
}

function specOf(tool: any, strict: boolean, traits: Traits): Block {
  const { name, description, parameters } = tool
  const json = { type: 'object', properties: {}, ...parameters }
  return {
    toolSpec: {
      name,
      ...(description?.trim() && { description }),
      inputSchema: { json: strict ? traits.narrow(json) : json },
      ...(strict && { strict }),
    },
  }
}

function choiceOf(choice: any): object | undefined {
  if (choice === undefined || choice === 'none') return undefined
  if (choice.type === 'function') return { tool: { name: choice.function.name } }
  return isForced(choice) ? { any: {} } : { auto: {} }
}

interface Schema {
  readonly outputConfig?: object
  readonly toolConfig?: ToolConfig
  readonly words?: string
}

/** @param hasTools whether the request has tools of its own, beside which the tool of the answer has no place */
function schemaOf(input: ChatInput, traits: Traits, hasTools: boolean, fail: Host['fail']): Schema {
  const format = responseFormat(input)
  if (format?.type === 'json_object') return { words: jsonInWords() }
  if (format?.type !== 'json_schema') return {}
  const { name, description, schema = {}, strict } = format.json_schema
  const maps = hasMaps(schema)
  if (maps && strict === true) throw openSchema('response_format', 'response_format', fail)
  // Native schemas have no maps.
  if (traits.schema === 'native' && !maps) {
    const text = JSON.stringify(traits.narrow(schema))
    const jsonSchema = { schema: text, name, ...(description && { description }) }
    return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } }
  }
  if (traits.schema === 'prompt' || hasTools || !traits.forcedTools) {
    return { words: jsonInWords(schema) }
  }
  const about = description ?? 'Gives the answer.'
  const answer = { name: ANSWER_TOOL, description: about, parameters: schema }
  const toolChoice = { tool: { name: ANSWER_TOOL } }
  return { toolConfig: { tools: [specOf(answer, false, traits)], toolChoice } }
}

function configOf(input: ChatInput, traits: Traits, { thinks }: ReasoningRequest): object {
  const refused: readonly Sampling[] = traits.refuses(thinks)
  const { temperature, top_p: topP } = input as { temperature?: number; top_p?: number }
  const sequences = [input.stop ?? []].flat() as string[]
  const stops = sequences.filter((stop) => (traits.visibleStops ? stop.trim() : stop))
  const config: Record<string, unknown> = {}
  if (temperature !== undefined && !refused.includes('temperature')) {
    config.temperature = Math.min(1, temperature)
  }
  // A model that refuses two parameters together accepts one of them.
  const alone = config.temperature === undefined && refused.length === 1
  if (topP !== undefined && (alone || !refused.includes('topP'))) config.topP = topP
  if (stops.length > 0) config.stopSequences = stops
  return config
}

/**
 * Removes the first cache points above the limit: the last ones cover most of the prompt. Points of an hour after one of
 * five minutes become such, because the models refuse that order.
 */
function limitCachePoints(lists: readonly Block[][]): void {
  const isPoint = (block: Block) => block.cachePoint !== undefined
  let surplus = lists.flat().filter(isPoint).length - MAX_CACHE_POINTS
  let short = false
  for (const list of lists) {
    for (let i = 0; i < list.length; i++) {
      if (!isPoint(list[i]!)) continue
      if (surplus-- > 0) list.splice(i--, 1)
      else if (list[i]!.cachePoint.ttl !== '1h') short = true
      else if (short) list[i] = cachePoint({})
    }
  }
}

// Counts of prompts, by Amazon, of the models that it counts for.

/** What is said of a model that Amazon has no counter for. */
export const NO_COUNT = 'Amazon does not count tokens for this model.'

/** The request for a count. @param body the body for Converse */
export function toCounted(body: Readonly<Record<string, unknown>>): object {
  const { messages, system, toolConfig, additionalModelRequestFields } = body
  return { input: { converse: { messages, system, toolConfig, additionalModelRequestFields } } }
}

/** The count in an answer. @throws the failure class `upstream_error` for an answer without one */
export function readCount(answer: unknown, fail: Host['fail']): number {
  const { inputTokens } = Object(answer)
  const tokens = countOrNone(inputTokens)
  if (tokens === null) throw notAnAnswer(fail)
  return tokens
}

// Builds the conversation for Converse: system text, and alternating turns of user and assistant. Rules that Claude has
// in both APIs, for reasoning and for ids of calls, come from `providers/anthropic/`.

/** One turn of a conversation. */
interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: Block[]
}

/** A conversation for Converse, and what its request needs to know about it. */
interface Conversation {
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
function toConversation(
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
function addCachePoint(blocks: Block[], marker: unknown, traits: Traits): void {
  const last = blocks.at(-1)
  // An empty prompt cannot be cached.
  if (!marker || traits.cache === 'nowhere' || !last || last.cachePoint) return
  if (last.toolResult && traits.resultsAlone) return
  blocks.push(cachePoint(marker))
}

/** Caches the prompt up to this place. */
function cachePoint(marker: any): Block {
  // Five minutes is the default, and some models refuse it when it is named.
  return { cachePoint: { type: 'default', ...(marker.ttl === '1h' && { ttl: '1h' }) } }
}

class MessageBuilder {
  readonly #traits: Traits
  readonly #fail: Host['fail']
  readonly #ids = new CallIds(shortId)
  readonly #system: Block[] = []
  readonly #turns: Turn[] = []
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
      called: this.#ids.called,
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
    const calls = callsOf(message).map((call) => this.#ids.toToolUse(call))
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
