/** The chat request as `POST /v1/messages` takes it. Members that the vendor does not have are left out. */
import { hash } from 'node:crypto'
import type { ChatInput, Host } from '../../src/plugin.ts'
import { isBlank, isThought, type Block, type Marked, type TextBlock, type Turn } from './blocks.ts'
import { limitMarkers } from './cache.ts'
import { toConversation } from './conversation.ts'
import type { Traits } from './models.ts'
import { toSupportedSchema } from './schema.ts'
import { toThinking, type Thinking } from './thinking.ts'
import { toToolChoice, toTools, type Tool, type ToolChoice } from './tools.ts'

/** A request, and how its answer has to be read. */
export interface Outgoing {
  readonly body: Readonly<Record<string, unknown>>
  /** The answer itself comes as the input of {@link ANSWER_TOOL}. */
  readonly answersByTool: boolean
}

/** What a model that cannot be held to a schema is made to call with its answer. */
export const ANSWER_TOOL = 'final_answer'

const ANY_JSON = 'Answer with one JSON object, and nothing else.'
/**
 * Above this the vendor may need more than the ten minutes it gives an answer in one piece (its own libraries reckon with
 * 128,000 tokens an hour), so even then it is asked for a stream.
 */
const MOST_TOKENS_AT_ONCE = 21_000

/** @throws bad_request for what the vendor has no form for */
export function toRequest(
  input: ChatInput,
  model: string,
  traits: Traits,
  fail: Host['fail'],
): Outgoing {
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
  const said =
    format?.type === 'json_object' ? [...system, { type: 'text', text: ANY_JSON }] : system
  const stream = input.stream === true || limit > MOST_TOKENS_AT_ONCE
  const automatic = input.cache_control
  limitMarkers(placesOf(tools, said as TextBlock[], turns), automatic !== undefined)
  const body: Record<string, unknown> = {
    model,
    max_tokens: limit,
    ...(said.length > 0 ? { system: said } : {}),
    messages: turns,
    ...(tools.length > 0 ? { tools, ...choice(input, traits, thinking, answersByTool) } : {}),
    ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
    ...outputConfig(thinking, traits.schemas ? schema : undefined),
    ...sampling(input, traits, thinking),
    ...stops(input.stop),
    ...(automatic ? { cache_control: automatic } : {}),
    ...user(input),
    // A model has one price list.
    service_tier: 'standard_only',
    ...(stream ? { stream } : {}),
  }
  return { body, answersByTool }
}

/**
 * Where an answer goes on after a result, a model with a budget wants to see how its thoughts began; a client that has
 * lost them gets the rest without. And a model that is made to call a tool cannot think first.
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
    // Its own tools stay open to the model: it answers with one call, of one kind or the other.
    const tool_choice = { type: 'any', disable_parallel_tool_use: true } as const
    return { tool_choice }
  }
  const bound = thinking.thinking?.type === 'enabled'
  const tool_choice = toToolChoice(input, traits.forcedTools && !bound)
  return tool_choice ? { tool_choice } : {}
}

function outputConfig({ effort }: Thinking, schema: unknown): object {
  if (effort === undefined && schema === undefined) return {}
  const format = schema && { type: 'json_schema', schema: toSupportedSchema(schema) }
  return { output_config: { ...(effort ? { effort } : {}), ...(format ? { format } : {}) } }
}

/** Hints; what a model refuses is dropped. */
function sampling(input: ChatInput, traits: Traits, thinking: Thinking): object {
  if (!traits.sampling || thinking.on) return {}
  const { temperature, top_p, top_k } = input
  const warmth = typeof temperature === 'number' ? { temperature: Math.min(temperature, 1) } : {}
  const nucleus =
    typeof top_p === 'number' && (!('temperature' in warmth) || traits.samplingTogether)
  return {
    ...warmth,
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

/** Who asks, so that the vendor can tell abuse apart; not readable. */
function user({ user, safety_identifier, metadata }: ChatInput): object {
  const id = user ?? safety_identifier ?? (metadata as { user_id?: unknown } | undefined)?.user_id
  if (typeof id !== 'string' || id === '') return {}
  return { metadata: { user_id: hash('sha256', id, 'hex') } }
}

/** Everything that may carry a marker, in the order in which the vendor reads it. */
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
