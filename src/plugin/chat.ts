/** Chat in OpenAI's shapes (Chat Completions API); reasoning and annotations as in the wire contract. */

/** An OpenAI chat request, already constrained. Members we do not know are there too and belong upstream. */
export interface ChatInput {
  readonly messages: readonly ChatMessage[]
  readonly stream?: boolean
  readonly max_completion_tokens?: number
  readonly reasoning?: Reasoning
  readonly tools?: readonly any[]
  readonly [member: string]: unknown
}

export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | 'function'
  readonly content?: string | readonly any[] | null
  readonly [member: string]: any
}

export interface Reasoning {
  readonly effort?: 'max' | 'xhigh' | 'high' | 'medium' | 'low' | 'minimal' | 'none'
  readonly max_tokens?: number
  readonly exclude?: boolean
  readonly enabled?: boolean
  readonly summary?: 'auto' | 'concise' | 'detailed'
}

/** One entry of `reasoning_details`. In a stream, text of the same block repeats its `index`. */
export interface ReasoningDetail {
  readonly type: 'reasoning.text' | 'reasoning.summary' | 'reasoning.encrypted'
  readonly text?: string | null
  readonly signature?: string | null
  readonly summary?: string
  readonly data?: string
  readonly id?: string | null
  readonly format?: string | null
  readonly index?: number
}

export interface ToolCallDelta {
  index?: number
  id?: string | null
  type?: string | null
  function?: { name?: string | null; arguments?: string | null }
  custom?: { name?: string | null; input?: string | null }
}

export interface ChatDelta {
  role?: string | null
  content?: string | null
  refusal?: string | null
  reasoning?: string | null
  reasoning_details?: readonly ReasoningDetail[] | null
  tool_calls?: readonly ToolCallDelta[] | null
  annotations?: readonly any[] | null
  [member: string]: unknown
}

export interface ChatChunkChoice {
  index?: number
  delta?: ChatDelta | null
  finish_reason?: string | null
  logprobs?: any
}

/**
 * One object of a chat stream. Providers may be as careless as vendors are about roles, tool indexes, repeated finish
 * reasons and absent members: the gateway puts streams in order. It relies on this only: text is in `delta.content`,
 * visible reasoning in `delta.reasoning`, and `usage` counts as {@link OpenAIUsage} says.
 */
export interface ChatChunk {
  id?: string
  object?: string
  created?: number
  model?: string
  choices: ChatChunkChoice[]
  usage?: OpenAIUsage | null
  /** The usage is of what was consumed so far. Without this, usage says that the answer is complete. */
  usageIsPartial?: boolean
  /** The vendor said that this is all, with a mark of its own such as `[DONE]`. */
  endOfStream?: boolean
  [member: string]: unknown
}

/** A whole chat answer. */
export interface ChatCompletion {
  choices: { index?: number; message: any; finish_reason?: string | null; logprobs?: any }[]
  usage?: OpenAIUsage | null
  [member: string]: unknown
}

/**
 * OpenAI's usage object, in the gateway's sense: `prompt_tokens` includes everything cached, `completion_tokens`
 * includes reasoning. `total_tokens` is not read.
 */
export interface OpenAIUsage {
  prompt_tokens?: number | null
  completion_tokens?: number | null
  prompt_tokens_details?: {
    cached_tokens?: number | null
    cache_write_tokens?: number | null
    audio_tokens?: number | null
    image_tokens?: number | null
  } | null
  completion_tokens_details?: {
    reasoning_tokens?: number | null
    audio_tokens?: number | null
    image_tokens?: number | null
    accepted_prediction_tokens?: number | null
    rejected_prediction_tokens?: number | null
  } | null
  /** Searches the vendor ran itself. */
  searches?: number
  /** USD as the vendor reports it, decimal text. */
  vendor_cost?: string
  [member: string]: unknown
}
