/** The body of a chat request, as Google takes it. What Google has no word for is left out. */
import type { ChatInput, Host } from '../../src/plugin.ts'
import { toConversation } from './contents.ts'
import { toThinkingConfig, type Thinking } from './thinking.ts'
import { toTools } from './tools.ts'

/** What operators say about it. */
export interface RequestOptions {
  /** From when on answers are blocked; by default as Google does. */
  readonly safety?: string | undefined
  /** How the model is told to think; by default as its name says. */
  readonly thinking?: Thinking | undefined
}

const HARMS = [
  'HARM_CATEGORY_HARASSMENT',
  'HARM_CATEGORY_HATE_SPEECH',
  'HARM_CATEGORY_SEXUALLY_EXPLICIT',
  'HARM_CATEGORY_DANGEROUS_CONTENT',
  'HARM_CATEGORY_CIVIC_INTEGRITY',
]

/** @throws the failure class `bad_request` for what this vendor cannot be told */
export function toBody(
  input: ChatInput,
  model: string,
  { safety, thinking }: RequestOptions,
  fail: Host['fail'],
): Record<string, any> {
  const body: Record<string, any> = {
    ...toConversation(input.messages, model, fail),
    ...toTools(input.tools, input.tool_choice, fail),
  }
  const generationConfig = toConfig(input, model, thinking)
  if (Object.keys(generationConfig).length > 0) body.generationConfig = generationConfig
  return Object.assign(body, safetyOf(safety))
}

/** The member that says from when on answers are blocked; none without a threshold. */
export function safetyOf(threshold: string | undefined): object | undefined {
  if (!threshold) return undefined
  return { safetySettings: HARMS.map((category) => ({ category, threshold })) }
}

/** OpenAI's names, and Google's. */
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
  const { stop, seed, top_k: topK, response_format: format } = input as Record<string, any>
  if (stop !== undefined) config.stopSequences = [stop].flat()
  // 32 bits there; a larger one still means the same each time.
  if (seed !== undefined) config.seed = seed % 2 ** 31
  // 0 is a common way to say none.
  if (topK >= 1) config.topK = Math.round(topK)
  if (format && format.type !== 'text') config.responseMimeType = 'application/json'
  if (format?.type === 'json_schema') config.responseJsonSchema = format.json_schema.schema
  const thinkingConfig = toThinkingConfig(input.reasoning, model, thinking)
  if (thinkingConfig) config.thinkingConfig = thinkingConfig
  return config
}
