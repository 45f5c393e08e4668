/** Builds the request body for Converse. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import type { Block } from './media.ts'
import { cachePoint, addCachePoint, toConversation, type Conversation } from './messages.ts'
import {
  NO_REASONING,
  type ReasoningRequest,
  type Sampling,
  type SchemaForm,
  type Traits,
} from './models.ts'

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
  refuse(input, fail)
  const limit = input.max_completion_tokens
  const conversation = toConversation(input.messages, traits, fail)
  const { system, turns } = conversation
  addCachePoint(turns.at(-1)!.content, input.cache_control, traits)
  const reasoning = reasoningFor(input, traits, conversation)
  const tools = toolsOf(input, traits, conversation, reasoning)
  const schema = schemaOf(input, traits, tools === undefined && isFree(traits, reasoning))
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

/** Refuses parameters that cannot be dropped without changing the answer. */
function refuse({ n, tools = [] }: ChatInput, fail: Host['fail']): void {
  if (Number(n) > 1) {
    const message = 'This model gives one answer to a request: expected n to be 1.'
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'n' })
  }
  const position = tools.findIndex((tool) => tool.type !== 'function')
  if (position < 0) return
  const message = 'This model takes tools of the type "function" only.'
  throw fail('bad_request', message, {
    code: 'unsupported_value',
    param: `tools[${position}].type`,
  })
}

/** Drops reasoning when the model would refuse it because earlier reasoning is missing from the conversation. */
function reasoningFor(
  input: ChatInput,
  traits: Traits,
  { reasoningLost }: Conversation,
): ReasoningRequest {
  if (!input.reasoning) return NO_REASONING
  const reasoning = traits.toReasoning(input.reasoning, input.max_completion_tokens)
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
  reasoning: ReasoningRequest,
): ToolConfig | undefined {
  const choice = input.tool_choice as any
  const allowed = choice?.allowed_tools?.tools?.map((tool: any) => tool.function?.name)
  const given = (input.tools ?? []).filter((tool) => allowed?.includes(tool.function.name) ?? true)
  if (called.size === 0 && (given.length === 0 || choice === 'none')) return undefined
  const tools: Block[] = []
  for (const { function: tool, cache_control } of given) {
    tools.push(specOf(tool, traits))
    if (cache_control && traits.cache === 'everywhere') tools.push(cachePoint(cache_control))
  }
  const names = new Set(given.map((tool) => tool.function.name))
  for (const name of called) if (!names.has(name)) tools.push(specOf({ name }, traits))
  const toolChoice = given.length > 0 ? choiceOf(choice, isFree(traits, reasoning)) : undefined
  return { tools, ...(toolChoice && { toolChoice }) }
}

function specOf(tool: any, traits: Traits): Block {
  const { name, description, parameters, strict } = tool
  const json = { type: 'object', properties: {}, ...parameters }
  // Models with native schemas also have strict tools.
  const strictly = strict === true && traits.schema === 'native'
  return {
    toolSpec: {
      name,
      ...(description?.trim() && { description }),
      inputSchema: { json: strictly ? traits.narrow(json) : json },
      ...(strictly && { strict }),
    },
  }
}

/** Whether the model can be forced to call a tool. */
function isFree({ forcedTools }: Traits, { choosesTools }: ReasoningRequest): boolean {
  return forcedTools && !choosesTools
}

function choiceOf(choice: any, free: boolean): object | undefined {
  const mode = choice?.allowed_tools?.mode ?? choice
  if (mode === undefined || mode === 'none') return undefined
  if (mode === 'auto' || !free) return { auto: {} }
  return choice.function ? { tool: { name: choice.function.name } } : { any: {} }
}

interface Schema {
  readonly outputConfig?: object
  readonly toolConfig?: ToolConfig
  readonly words?: string
}

/** @param free whether the model can be forced to call the tool that holds the answer */
function schemaOf({ response_format }: ChatInput, traits: Traits, free: boolean): Schema {
  const format = response_format as any
  if (format?.type === 'json_object') return { words: 'Answer with one JSON object, nothing else.' }
  if (format?.type !== 'json_schema') return {}
  const { name, description, schema = {} } = format.json_schema ?? {}
  if (traits.schema === 'native') {
    const text = JSON.stringify(traits.narrow(schema))
    const jsonSchema = { schema: text, name, ...(description && { description }) }
    return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } }
  }
  if (traits.schema === 'tool' && free) {
    const about = description ?? 'Gives the answer.'
    const tool = specOf({ name: ANSWER_TOOL, description: about, parameters: schema }, traits)
    return { toolConfig: { tools: [tool], toolChoice: { tool: { name: ANSWER_TOOL } } } }
  }
  return {
    words: `Answer with one JSON object, nothing else. It must be valid under this JSON Schema:\n${JSON.stringify(schema)}`,
  }
}

function configOf(input: ChatInput, traits: Traits, { thinks }: ReasoningRequest): object {
  const refused: readonly Sampling[] = traits.refuses(thinks)
  const { temperature, top_p: topP } = input as { temperature?: number; top_p?: number }
  const stops = [input.stop ?? []].flat().filter((stop) => stop !== '')
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

/** Removes the first cache points above the limit. The last ones cover most of the prompt. */
function limitCachePoints(lists: readonly Block[][]): void {
  const isPoint = (block: Block) => block.cachePoint !== undefined
  let surplus = lists.flat().filter(isPoint).length - MAX_CACHE_POINTS
  for (const list of lists) {
    for (let i = 0; i < list.length && surplus > 0; i++) {
      if (!isPoint(list[i]!)) continue
      list.splice(i--, 1)
      surplus--
    }
  }
}
