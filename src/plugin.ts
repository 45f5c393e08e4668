/**
 * The public contract between the gateway and its plugins. Interface version 1: a breaking change is version 2, never an
 * edit here. A plugin is a plain object; `define…` only brands it and gives types, so nothing of the gateway has to be
 * imported at run time.
 */
import type { ConsolaInstance } from 'consola'
import type { $Fetch } from 'ofetch'

export const API_VERSION = 1

/** Any validator that speaks Standard Schema (valibot in the house). https://standardschema.dev */
export interface Schema<Output = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
  }
}
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}
export type Output<S extends Schema> = NonNullable<S['~standard']['types']>['output']

/**
 * Quantities, never money. Every member counts what its name says; a vendor's habits are undone in its plugin.
 * Integers, at least 0.
 */
export interface Usage {
  /** Everything that went in: cached, written, audio and image tokens included. */
  readonly promptTokens?: number
  /** Of these, read from a prompt cache; written to one (of any lifetime). */
  readonly cachedTokens?: number
  readonly cacheWriteTokens?: number
  readonly audioInputTokens?: number
  readonly imageInputTokens?: number
  /** Everything that came out: reasoning, audio and image tokens included. */
  readonly completionTokens?: number
  readonly reasoningTokens?: number
  /** Tokens of a predicted output that were used, or thrown away; billed as output like the rest. */
  readonly acceptedPredictionTokens?: number
  readonly rejectedPredictionTokens?: number
  readonly audioOutputTokens?: number
  readonly imageOutputTokens?: number
  readonly images?: number
  readonly pages?: number
  /** Unicode code points. */
  readonly characters?: number
  readonly seconds?: number
  /** Searches the vendor ran itself; on the gateway's own search line, searches the gateway ran. */
  readonly searches?: number
  /** The vendor reported nothing: characters ÷ 4. */
  readonly estimated?: boolean
  /** USD as the vendor reports it: a cross-check for the operator, never the charge. */
  readonly vendorCost?: string
}

/**
 * What went wrong, in the plugin's judgement. Status, code, retry and fail-over follow from it:
 * the first four are the client's fault or nobody's, the others are tried on another deployment.
 */
export type FailureClass =
  | 'bad_request'
  | 'context_length'
  | 'content_blocked'
  | 'payload_too_large'
  | 'not_found'
  | 'upstream_auth'
  | 'upstream_balance'
  | 'upstream_rate'
  | 'overloaded'
  | 'upstream_error'
  | 'timeout'

// --- chat: OpenAI's shapes (Chat Completions API), reasoning and annotations as in the wire contract ---

/** An OpenAI chat request, already constrained. Members we do not know are there too and belong upstream. */
export interface ChatInput {
  readonly messages: readonly Message[]
  readonly stream?: boolean
  readonly max_completion_tokens?: number
  readonly reasoning?: Reasoning
  readonly tools?: readonly any[]
  readonly [member: string]: unknown
}

export interface Message {
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

export interface Delta {
  role?: string | null
  content?: string | null
  refusal?: string | null
  reasoning?: string | null
  reasoning_details?: readonly ReasoningDetail[] | null
  tool_calls?: readonly ToolCallDelta[] | null
  annotations?: readonly any[] | null
  [member: string]: unknown
}

export interface ChunkChoice {
  index?: number
  delta?: Delta | null
  finish_reason?: string | null
  logprobs?: any
}

/**
 * One object of a chat stream. Providers may be as careless as vendors are about roles, tool indexes, repeated finish
 * reasons and absent members: the gateway puts streams in order. It relies on this only: text is in `delta.content`,
 * visible reasoning in `delta.reasoning`, and `usage` counts as {@link OpenAIUsage} says.
 */
export interface Chunk {
  id?: string
  object?: string
  created?: number
  model?: string
  choices: ChunkChoice[]
  usage?: OpenAIUsage | null
  /** The vendor said that this is all, with a mark of its own such as `[DONE]`. */
  done?: boolean
  [member: string]: unknown
}

/** A whole chat answer. */
export interface Completion {
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

// --- providers ---

/** One request to a provider. */
export interface Job<In> {
  /** OpenAI-shaped, already constrained and grounded; unknown members included. */
  readonly input: In
  /** The upstream's model name from the deployment. */
  readonly model: string
  /** The deployment's `options` from the catalog, as the provider's `deploymentOptions` schema put them out. */
  readonly options: Readonly<Record<string, unknown>>
  readonly requestId: string
  /** Must be handed to every request made. */
  readonly signal: AbortSignal
  readonly log: ConsolaInstance
}

/** A method that is present is a capability offered. */
export interface Provider {
  chat?(job: Job<ChatInput>): Promise<Completion | AsyncIterable<Chunk>>
  close?(): void | Promise<void>
}

/** A request on the hot path. */
export interface UpstreamRequest {
  readonly url: string
  /** Default `POST`. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  readonly signal: AbortSignal
  /** Whether the answer is read as it comes: then the head must arrive within `firstPartTimeout`, else within `timeout`. */
  readonly stream?: boolean
}

export interface UpstreamResponse {
  readonly status: number
  /** Lower-case names; a repeated header is joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Raw bytes with back-pressure. Iterate it once; leaving the loop early closes the connection. */
  readonly body: AsyncIterable<Uint8Array>
  /** The whole body as text. @throws the failure class `upstream_error` past `limit` bytes (default 64 MiB) */
  text(limit?: number): Promise<string>
}

/** What the gateway offers a plugin. */
export interface Host {
  /** The instance name from the configuration. */
  readonly name: string
  /** The hot path: status, headers, bytes. Network errors and timeouts are thrown as failures, HTTP statuses are not. */
  request(request: UpstreamRequest): Promise<UpstreamResponse>
  /** ofetch, for everything that is not hot; no retries. */
  readonly http: $Fetch
  readonly log: ConsolaInstance
  /**
   * The JSON payloads of a server-sent event stream, in order. `[DONE]` ends it, with a last `{ choices: [], done: true }`.
   * @throws the failure class `upstream_error` when a payload is not JSON
   */
  sse(body: AsyncIterable<Uint8Array>): AsyncGenerator<any, void, undefined>
  /** An error to throw. The message is shown to the client: name no account, key or host in it. */
  fail(
    failure: FailureClass,
    message: string,
    options?: { code?: string; param?: string | null; retryAfterMs?: number; cause?: unknown },
  ): Error
}

export interface ProviderPlugin<S extends Schema = Schema<any>, D extends Schema = Schema<any>> {
  readonly kind: 'provider'
  readonly api: number
  readonly name: string
  /** Validates `providers.<name>.options`. */
  readonly options: S
  /** Validates `models.<id>.deployments[].options`; without it a deployment has none. */
  readonly deploymentOptions?: D
  setup(options: Output<S>, host: Host): Provider | Promise<Provider>
}

/** Brands a provider plugin. @example see `providers/openai-compatible.ts` */
export function defineProvider<S extends Schema, D extends Schema = Schema<any>>(
  plugin: Omit<ProviderPlugin<S, D>, 'kind' | 'api'>,
): ProviderPlugin<S, D> {
  return { kind: 'provider', api: API_VERSION, ...plugin }
}
