/** Builds the request body for Converse. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import {
  hasMaps,
  jsonInWords,
  openSchema,
  responseFormat,
  withFlatRoot,
} from '../shared/schemas.ts'
import {
  allowedTools,
  cannotForce,
  isForced,
  nothingToCall,
  requireOneAnswer,
} from '../shared/tool-calls.ts'
import type { Block } from './media.ts'
import { cachePoint, addCachePoint, toConversation, type Conversation } from './messages.ts'
import {
  NO_REASONING,
  type ReasoningRequest,
  type Sampling,
  type SchemaForm,
  type Traits,
} from './models.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'

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
  given: ChatInput,
  known: Traits,
  options: RequestOptions,
  fail: Host['fail'],
): ConverseRequest {
  const traits = withOptions(known, options)
  const input = without(given, options.omit)
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
  const { cache: known } = traits
  const places = cache === true && known === 'nowhere' ? 'messages' : known
  return {
    ...traits,
    cache: cache === false ? 'nowhere' : places,
    schema: schema ?? traits.schema,
  }
}

function without(input: ChatInput, names: readonly string[] = []): ChatInput {
  const given = Object.entries(input).filter(
    ([name]) => name === 'messages' || !names.includes(name),
  )
  return Object.fromEntries(given) as ChatInput
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
  const given = allowedTools(input)
  if (isForced(choice) && given.length === 0) throw nothingToCall(fail)
  if (isForced(choice) && !traits.forcedTools) throw cannotForce(fail)
  if (called.size === 0 && (given.length === 0 || choice === 'none')) return undefined
  const tools: Block[] = []
  for (const tool of given) {
    const { function: definition, cache_control } = tool
    const { name, parameters, strict } = definition
    // Models with native schemas also have strict tools.
    const strictly = strict === true && traits.schema === 'native'
    if (strictly && hasMaps(parameters ?? {})) {
      const position = input.tools!.indexOf(tool)
      throw openSchema(`function '${name}'`, `tools[${position}].function.parameters`, fail)
    }
    const flat = withFlatRoot(tool, input.tools!.indexOf(tool), fail)
    tools.push(specOf(flat.function, strictly, traits))
    if (cache_control && traits.cache === 'everywhere') tools.push(cachePoint(cache_control))
  }
  const names = new Set(given.map((tool) => tool.function.name))
  for (const name of called) if (!names.has(name)) tools.push(specOf({ name }, false, traits))
  const toolChoice = given.length > 0 ? choiceOf(choice) : undefined
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
  const given = [input.stop ?? []].flat() as string[]
  const stops = given.filter((stop) => (traits.visibleStops ? stop.trim() : stop))
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

/** The request for a count. @param body for Converse */
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
