/** Builds the body of a chat request. Parameters that Google does not have are left out. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import { toConversation } from './contents.ts'
import { commonResolution } from './media.ts'
import { isBefore } from '../shared/gemini.ts'
import { toThinkingConfig, type Thinking } from './thinking.ts'
import { jsonInWords, responseFormat } from '../shared/schemas.ts'
import { isForced, nothingToCall } from '../shared/tool-calls.ts'

/** Options that change requests. */
interface RequestOptions {
  /** Threshold from which answers are blocked. The default is Google's own. */
  readonly safety?: string | undefined
  /** How the model is told to think. By default this follows from its name. */
  readonly thinking?: Thinking | undefined
}

/** A request body, and how to read its answer. */
interface GenerateRequest {
  readonly body: Record<string, any>
  /** Name of the function whose arguments are the answer. */
  readonly answerTool: string | undefined
}

const HARMS = [
  'HARM_CATEGORY_HARASSMENT',
  'HARM_CATEGORY_HATE_SPEECH',
  'HARM_CATEGORY_SEXUALLY_EXPLICIT',
  'HARM_CATEGORY_DANGEROUS_CONTENT',
  'HARM_CATEGORY_CIVIC_INTEGRITY',
]

/** Builds the body. @throws the failure class `bad_request` for what Google does not support */
export function toBody(
  input: ChatInput,
  model: string,
  { safety, thinking }: RequestOptions,
  fail: Host['fail'],
): GenerateRequest {
  const { tools, config, words, answerTool } = toForms(input, model, fail)
  const body: Record<string, any> = {
    ...toConversation(input.messages, model, words, fail),
    ...tools,
  }
  const generationConfig = { ...toConfig(input, model, thinking), ...config }
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig
  return { body: Object.assign(body, safetyOf(safety)), answerTool }
}

/** The safety settings of a request; none without a threshold. */
export function safetyOf(threshold: string | undefined): object | undefined {
  if (!threshold) return undefined
  return { safetySettings: HARMS.map((category) => ({ category, threshold })) }
}

/** OpenAI's parameter names, and Google's. */
const NAMES: Readonly<Record<string, string>> = {
  max_completion_tokens: 'maxOutputTokens',
  temperature: 'temperature',
  top_p: 'topP',
  n: 'candidateCount',
  presence_penalty: 'presencePenalty',
  frequency_penalty: 'frequencyPenalty',
  logprobs: 'responseLogprobs',
  top_logprobs: 'logprobs',
}

function toConfig(input: ChatInput, model: string, thinking: Thinking | undefined): object {
  const config: Record<string, unknown> = {}
  for (const name in NAMES) if (input[name] !== undefined) config[NAMES[name]!] = input[name]
  const { stop = [], seed, top_k: topK } = input as Record<string, any>
  const stops = [stop].flat().filter((text: string) => text !== '')
  if (stops.length > 0) config.stopSequences = stops
  // Google's seed has 32 bits. A reduced seed is still the same for every request.
  if (seed !== undefined) config.seed = seed % 2 ** 31
  // 0 usually means no limit.
  if (topK >= 1) config.topK = Math.round(topK)
  const mediaResolution = commonResolution(input.messages, model)
  if (mediaResolution) config.mediaResolution = mediaResolution
  const thinkingConfig = toThinkingConfig(input.reasoning, model, thinking)
  if (thinkingConfig) config.thinkingConfig = thinkingConfig
  return config
}

// Tools, tool choice, and the form of the answer, which exclude each other on models before Gemini 3.

/** What a request says about calls and about the form of the answer. */
interface Forms {
  /** `tools` and `toolConfig` of the request. */
  readonly tools?: { readonly tools?: object[]; readonly toolConfig?: object }
  /** Members of `generationConfig`. */
  readonly config?: object
  /** What the model is told in words. */
  readonly words?: string
  /** Name of the function whose arguments are the answer. */
  readonly answerTool?: string
}

const ANSWER_TOOL = 'final_answer'

/** Converts tools, tool choice and the form of the answer. @throws the failure class `bad_request` for a choice without tools */
function toForms(input: ChatInput, model: string, fail: Host['fail']): Forms {
  const { tools: allTools = [], tool_choice: choice } = input
  const format = responseFormat(input)
  if (isForced(choice) && allTools.length === 0) throw nothingToCall(fail)
  const hasFormat = format && format.type !== 'text'
  if (!hasFormat || allTools.length === 0 || !isBefore(model, 3)) {
    return { tools: toTools(allTools, choice), ...(hasFormat && { config: toToolConfig(format) }) }
  }
  // These models take functions or a form of the answer.
  if (choice === 'none') return { config: toToolConfig(format) }
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined
  if (format.type !== 'json_schema' || isForced(choice)) {
    return { tools: toTools(allTools, choice), words: jsonInWords(schema) }
  }
  const answer = { name: ANSWER_TOOL, description: 'Gives the answer.', parameters: schema }
  const tools = toTools([...allTools, { type: 'function', function: answer }], answering(choice))
  return { tools, answerTool: ANSWER_TOOL }
}

/** The model has to call: one of the tools that it may call, or the one that holds the answer. */
function answering(choice: any): unknown {
  if (choice?.type !== 'allowed_tools') return 'required'
  const tools = [...choice.allowed_tools.tools, { function: { name: ANSWER_TOOL } }]
  return { type: 'allowed_tools', allowed_tools: { mode: 'required', tools } }
}

function toToolConfig(format: any): object {
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined
  return {
    responseMimeType: 'application/json',
    ...(schema === undefined ? {} : { responseJsonSchema: schema }),
  }
}

function toTools(tools: readonly any[], choice: unknown): Forms['tools'] & object {
  const functionCallingConfig = toCallingConfig(choice, tools)
  return {
    ...(tools.length > 0 && { tools: [{ functionDeclarations: tools.map(toDeclaration) }] }),
    ...(functionCallingConfig && { toolConfig: { functionCallingConfig } }),
  }
}

/** `parametersJsonSchema` takes JSON Schema as it is; Google's own schema format would lose keywords. */
function toDeclaration({ function: { name, description, parameters } }: any): object {
  const hasParameters = parameters !== undefined && Object.keys(parameters).length > 0
  return {
    name,
    ...(description && { description }),
    ...(hasParameters && { parametersJsonSchema: parameters }),
  }
}

function toCallingConfig(choice: any, tools: readonly any[]): object | undefined {
  // VALIDATED lets the model choose, and guarantees that a call fits its schema.
  const mayCall = tools.some((tool) => tool.function.strict) ? 'VALIDATED' : 'AUTO'
  switch (typeof choice === 'object' ? choice.type : choice) {
    case 'auto':
      return { mode: mayCall }
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'function':
      return { mode: 'ANY', allowedFunctionNames: [choice.function.name] }
    case 'allowed_tools': {
      const { mode, tools: allowed } = choice.allowed_tools
      return {
        // AUTO does not take names.
        mode: mode === 'required' ? 'ANY' : 'VALIDATED',
        allowedFunctionNames: allowed.map((tool: any) => (tool.function ?? tool).name),
      }
    }
    default:
      return mayCall === 'VALIDATED' ? { mode: mayCall } : undefined
  }
}
