/** Builds the body of a chat request. Parameters that Google does not have are left out. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import { toConversation } from './contents.ts'
import { commonResolution } from './media.ts'
import { toThinkingConfig, type Thinking } from './thinking.ts'
import { toForms } from './tools.ts'

/** Options that change requests. */
interface RequestOptions {
  /** Threshold from which answers are blocked. By default Google's own. */
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
