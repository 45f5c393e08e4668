/** Builds the body of `POST /v1/messages`. Parameters that the vendor does not have are left out. */
import { hash } from 'node:crypto'
import type { ChatInput, Host } from '../../src/plugin.ts'
import { isBlank, isThought, type Block, type Marked, type TextBlock, type Turn } from './blocks.ts'
import { limitMarkers } from './cache.ts'
import { toConversation } from './conversation.ts'
import type { Traits } from './models.ts'
import { toSupportedSchema } from './schema.ts'
import { toThinking, type Thinking } from './thinking.ts'
import { toToolChoice, toTools, type Tool, type ToolChoice } from './tools.ts'

/** A request body, and how to read its answer. */
interface MessagesRequest {
  readonly body: Readonly<Record<string, unknown>>
  /** The answer comes as the input of the tool {@link ANSWER_TOOL}. */
  readonly answersByTool: boolean
}

/** Tool that a model without structured output must call with its answer. */
export const ANSWER_TOOL = 'final_answer'

const ANY_JSON = 'Answer with one JSON object, and nothing else.'
/**
 * Above this limit a whole answer may take longer than the vendor's ten minutes (Anthropic's SDKs assume 128,000 tokens
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
  const { system, turns } = toConversation(input.messages, fail)
  const limit = Math.min(input.max_completion_tokens ?? Infinity, traits.maxTokens)
  const format = input.response_format as any
  const schema = format?.type === 'json_schema' ? (format.json_schema.schema ?? {}) : undefined
  const answersByTool = schema !== undefined && !traits.schemas
  const thinking = mayThink(turns, traits, answersByTool)
    ? toThinking(input.reasoning, traits, limit, input.max_completion_tokens !== undefined)
    : { on: false }
  const tools = toTools(input, traits.schemas, fail)
  if (answersByTool) {
    if (input.tool_choice === 'none') tools.length = 0
    tools.push({ name: ANSWER_TOOL, input_schema: { type: 'object', ...schema } })
  }
  const systemText =
    format?.type === 'json_object' ? [...system, { type: 'text', text: ANY_JSON }] : system
  const stream = input.stream === true || limit > MAX_UNSTREAMED_TOKENS
  const automatic = input.cache_control
  limitMarkers(placesOf(tools, systemText as TextBlock[], turns), automatic !== undefined)
  const body: Record<string, unknown> = {
    model,
    max_tokens: limit,
    ...(systemText.length > 0 ? { system: systemText } : {}),
    messages: turns,
    ...(tools.length > 0 ? { tools, ...choice(input, traits, thinking, answersByTool) } : {}),
    ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
    ...outputConfig(thinking, traits.schemas ? schema : undefined),
    ...sampling(input, traits, thinking),
    ...stops(input.stop),
    ...(automatic ? { cache_control: automatic } : {}),
    ...user(input),
    // Other tiers have other prices.
    service_tier: 'standard_only',
    ...(stream ? { stream } : {}),
  }
  return { body, answersByTool }
}

/**
 * Whether the request may ask for thinking. A model with a budget refuses tool results whose turn has lost its thinking
 * blocks, and a model that must call a tool cannot think.
 */
function mayThink(turns: readonly Turn[], traits: Traits, answersByTool: boolean): boolean {
  if (answersByTool) return false
  const [answer, results] = turns.slice(-2)
  if (traits.thinking !== 'budget' || results?.content[0]?.type !== 'tool_result') return true
  return isThought(answer!.content[0]!)
}

function choice(
  input: ChatInput,
  traits: Traits,
  thinking: Thinking,
  answersByTool: boolean,
): { tool_choice?: ToolChoice } {
  if (answersByTool) {
    // The client's tools stay available: the model answers with one call, of any tool.
    const tool_choice = { type: 'any', disable_parallel_tool_use: true } as const
    return { tool_choice }
  }
  const noForcedTool = thinking.thinking?.type === 'enabled'
  const tool_choice = toToolChoice(input, traits.forcedTools && !noForcedTool)
  return tool_choice ? { tool_choice } : {}
}

function outputConfig({ effort }: Thinking, schema: unknown): object {
  if (effort === undefined && schema === undefined) return {}
  const format = schema && { type: 'json_schema', schema: toSupportedSchema(schema) }
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
