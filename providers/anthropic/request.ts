/** Builds the body of `POST /v1/messages`. Parameters that the vendor does not have are left out. */
import { hash } from 'node:crypto'
import type { ChatInput, Host } from '../../src/plugin.ts'
import { isBlank, isThought, type Block, type Marked, type TextBlock, type Turn } from './blocks.ts'
import { toConversation } from './conversation.ts'
import type { Traits } from './models.ts'
import { toSupportedSchema } from './schema.ts'
import { toThinking, withoutThinking, type Thinking } from './thinking.ts'
import {
  hasMaps,
  jsonInWords,
  openSchema,
  responseFormat,
  withFlatRoot,
} from '../shared/schemas.ts'
import {
  cannotForce,
  isForced,
  nothingToCall,
  requireOneAnswer,
  allowedTools,
} from '../shared/tool-calls.ts'

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
  const asked = input.max_completion_tokens !== undefined
  const wanted = toThinking(input.reasoning, traits, limit, asked)
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
  const given = (typeof stop === 'string' ? [stop] : ((stop ?? []) as string[])).filter(
    (text) => !isBlank(text),
  )
  return given.length > 0 ? { stop_sequences: given } : {}
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
    const { name, parameters, strict } = tool.function
    const strictly = strict === true && schemas
    if (strictly && hasMaps(parameters ?? {})) {
      const position = input.tools!.indexOf(tool)
      throw openSchema(`function '${name}'`, `tools[${position}].function.parameters`, fail)
    }
    return toTool(withFlatRoot(tool, input.tools!.indexOf(tool), fail), strictly)
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
