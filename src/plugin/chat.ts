/**
 * Chat in the shapes of OpenAI's Chat Completions API, with `reasoning` and `annotations` as `docs/api/chat.md` describes them.
 * https://platform.openai.com/docs/api-reference/chat
 */

/**
 * A chat request, with the key's policy applied. It also has all members that the gateway does not know: send them to the
 * vendor. Nothing in it may be changed in place.
 */
export interface ChatInput {
  readonly messages: readonly ChatMessage[]
  /** Whether the answer should come in chunks. Either form is accepted, whatever was asked for. */
  readonly stream?: boolean
  /** Output limit in tokens; also holds the older `max_tokens`. */
  readonly max_completion_tokens?: number
  readonly reasoning?: Reasoning
  /** Entries of type `function` and `custom`; also holds the older `functions`. */
  readonly tools?: readonly any[]
  readonly [member: string]: unknown
}

/** One message of a conversation, in OpenAI's shape. */
export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | 'function'
  /** Text, or a list of parts with a `type`. */
  readonly content?: string | readonly any[] | null
  readonly [member: string]: any
}

/** Amount of thinking of a model. Also holds the older `reasoning_effort` and `include_reasoning`. */
export interface Reasoning {
  readonly effort?: 'max' | 'xhigh' | 'high' | 'medium' | 'low' | 'minimal' | 'none'
  /** Limit of the thinking in tokens; given in place of `effort`. */
  readonly max_tokens?: number
  /** Whether the client does not want to see the thinking. The gateway removes it where the vendor does not. */
  readonly exclude?: boolean
  readonly enabled?: boolean
  readonly summary?: 'auto' | 'concise' | 'detailed'
}

/** One entry of `reasoning_details`. In a stream, entries of one block have the same `index`, and their texts are joined. */
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

/** A part of a tool call in a stream. `arguments` and `input` of one call are joined. */
export interface ToolCallDelta {
  index?: number
  id?: string | null
  type?: string | null
  function?: { name?: string | null; arguments?: string | null }
  custom?: { name?: string | null; input?: string | null }
  /** All parts of this call have come. Absent where the vendor does not say: then the call ends with the choice. */
  done?: boolean
}

/** Additions of one chunk to a choice. */
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

/** One choice in a chunk. */
export interface ChatChunkChoice {
  /** Index of the choice; by default the position in the list. */
  index?: number
  delta?: ChatDelta | null
  finish_reason?: string | null
  /** The requested stop sequence that ended the answer, where the vendor reports it. */
  stop_sequence?: string | null
  logprobs?: any
}

/**
 * One object of a chat stream. The gateway corrects roles, indexes of tool calls, repeated finish reasons and missing members.
 * It relies on three rules: text is in `delta.content`, visible reasoning in `delta.reasoning`, and `usage` counts as
 * {@link OpenAIUsage} says. A stream that ends without a finish reason for every choice, without `usage` and without
 * `endOfStream` counts as cut and fails.
 */
export interface ChatChunk {
  id?: string
  object?: string
  created?: number
  model?: string
  choices: ChatChunkChoice[]
  usage?: OpenAIUsage | null
  /** It is set where `usage` covers the consumption so far. Otherwise `usage` means that the answer is complete. */
  usageIsPartial?: boolean
  /** It is set where the usage of every chunk covers the consumption so far: the last one counts, whatever follows it. */
  usageIsRunning?: true
  /** Web searches of the vendor that begin with this chunk. A negative number takes back what was none. */
  searches?: number
  /** UTF-8 bytes of search results in this chunk, which the vendor reads as a part of the prompt. */
  searchBytes?: number
  /** It is set where the vendor marked the end of the stream, for example with `[DONE]`. */
  endOfStream?: boolean
  /** The vendor's event in answers to {@link NativeInput}. The other members say what it means; `choices` may be empty. */
  native?: NativeEvent
  [member: string]: unknown
}

/** A chat answer that is not streamed, in OpenAI's shape. */
export interface ChatCompletion {
  choices: (Omit<ChatChunkChoice, 'delta'> & { message: any })[]
  usage?: OpenAIUsage | null
  /** The vendor's answer in answers to {@link NativeInput}. */
  native?: NativeEvent
  [member: string]: unknown
}

/**
 * OpenAI's usage object as the gateway reads it: `prompt_tokens` includes cached and written tokens, `completion_tokens`
 * includes reasoning. `total_tokens` is ignored. Counts are integers, at least 0.
 */
export interface OpenAIUsage {
  prompt_tokens?: number | null
  completion_tokens?: number | null
  prompt_tokens_details?: {
    cached_tokens?: number | null
    /** Audio tokens among `cached_tokens`. */
    cached_audio_tokens?: number | null
    /** Image tokens among `cached_tokens`. */
    cached_image_tokens?: number | null
    cache_write_tokens?: number | null
    /** Tokens among `cache_write_tokens` that are kept for an hour. */
    cache_write_1h_tokens?: number | null
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
  /** Web searches that the vendor ran. */
  searches?: number
  /** The vendor's figure of the cost, USD as decimal text; see {@link Usage}. */
  vendor_cost?: string
  [member: string]: unknown
}

/**
 * A chat request in a vendor's own form: as the client wrote it wherever the gateway has no reason to change it. The answer
 * is in chunks as always, each with what the vendor sent.
 */
export interface NativeInput {
  /** JSON text, ready to send. */
  readonly body: string
  /** Headers of the client that belong to the form, names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly stream: boolean
}

/** One event of a vendor's stream, or its whole answer. */
export interface NativeEvent {
  readonly event: string
  /** The JSON value; `JSON.stringify` of it has every number as the vendor wrote it. */
  readonly data: any
}
