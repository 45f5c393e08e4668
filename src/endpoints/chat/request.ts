/**
 * The normal form of a chat request: its type, the capabilities and the web search it needs, and its form for providers.
 * Unknown members pass unchanged.
 */
import type { ChatInput, ChatMessage, Reasoning } from '../../plugin.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import { MAX_RESULTS, type SearchRequest } from '../../search/search.ts'
import { conversationOf, mapped, withoutInnerNulls, withoutNulls } from './conversation.ts'
import { neutralTool, type Typed } from './neutral.ts'

/**
 * A valid request as the client sent it, without top-level members that are null and without empty `tools`, `stop`
 * and `plugins`. Unknown members are kept.
 */
export interface ChatRequest {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean | null }
  readonly max_completion_tokens?: number
  readonly max_tokens?: number
  readonly n?: number
  readonly stop?: string | readonly string[]
  readonly logprobs?: boolean
  readonly top_logprobs?: number
  readonly response_format?: Typed
  readonly tools?: readonly Typed[]
  readonly tool_choice?: string | Typed
  readonly functions?: readonly { readonly name: string; readonly [member: string]: any }[]
  readonly function_call?: string | { readonly name: string }
  readonly reasoning?: { readonly [Member in keyof Reasoning]: Reasoning[Member] | null }
  readonly reasoning_effort?: Reasoning['effort']
  readonly include_reasoning?: boolean
  readonly session_id?: string
  readonly prompt_cache_key?: string
  readonly plugins?: readonly Plugin[]
  readonly web_search_tool?: WebSearchTool
  /** Texts of the body that are not among these members; they go to vendors that speak the client's own form. */
  readonly labels?: () => readonly string[]
  readonly policy?: Policy
  readonly [member: string]: unknown
}

interface Plugin {
  readonly id: string
  readonly enabled?: boolean | null
  /** The engine; a value that names no configured engine means the default. */
  readonly engine?: unknown
  /** The number as the client wrote it, out of bounds or not. */
  readonly max_results?: number | null
  readonly search_prompt?: string | null
  readonly include_domains?: readonly string[] | null
  readonly exclude_domains?: readonly string[] | null
}

/** A tool with which a vendor would search the web; the gateway may search in its place. */
interface WebSearchTool {
  readonly path: string
  readonly includeDomains: readonly string[]
  readonly excludeDomains: readonly string[]
  readonly maxResults?: number
}

/** Capabilities that a request may need, in the order in which a lack is reported. */
export const CAPABILITIES = [
  'TOOLS',
  'STRUCTURED_OUTPUTS',
  'VISION',
  'AUDIO_INPUT',
  'FILE_INPUT',
  'CHOICES',
  'LOGPROBS',
] as const

/** The path of the first parameter that needs a capability, for each capability. */
export type Needs = Partial<Record<(typeof CAPABILITIES)[number], string>>

/**
 * Top-level members that are left out or converted: the gateway's own, ignored ones, and those with another form
 * upstream. `__proto__` is among them because an assignment to it would make no member.
 */
const KEPT_BACK = new Set([
  'model',
  'policy',
  'plugins',
  'web_search_tool',
  'labels',
  'provider',
  'models',
  'route',
  'service_tier',
  'stream_options',
  'transforms',
  'debug',
  'usage',
  'store',
  'messages',
  'max_tokens',
  'max_completion_tokens',
  'reasoning',
  'reasoning_effort',
  'include_reasoning',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'functions',
  'function_call',
  '__proto__',
])

export function isPassed(name: string): boolean {
  return !KEPT_BACK.has(name)
}

/** JavaScript writes both ends of the 64-bit integers as numbers that are beyond them, which vendors refuse. */
const MOST_SEED = 2 ** 63 - 1024

const DEFAULT_RESULTS = 5

const KNOWN_TOOLS = new Set(['function', 'custom'])

/** The request for providers, in the newer of two forms: a new object that shares unchanged values with it. */
export function outboundChat(request: ChatRequest): ChatInput {
  const input: Record<string, unknown> = {}
  for (const member in request) if (!KEPT_BACK.has(member)) input[member] = request[member]
  const { seed } = request
  if (typeof seed === 'number' && Math.abs(seed) > MOST_SEED)
    input.seed = Math.sign(seed) * MOST_SEED
  input.messages = conversationOf(request.messages).messages
  const limit = request.max_completion_tokens ?? request.max_tokens
  if (limit !== undefined) input.max_completion_tokens = limit
  const reasoning = reasoningOf(request)
  if (reasoning) input.reasoning = reasoning
  const tools = toolsOf(request)
  if (tools?.length) input.tools = mapped(tools, (tool) => neutralTool(withoutInnerNulls(tool)))
  // Vendors refuse a tool choice without tools. A choice that requires a tool stays, so that the vendor reports the
  // error.
  const choice = toolChoiceOf(request)
  if (choice !== undefined && (tools?.length || (choice !== 'none' && choice !== 'auto'))) {
    input.tool_choice = choice
  }
  if (request.parallel_tool_calls !== undefined && tools?.length) {
    input.parallel_tool_calls = request.parallel_tool_calls
  }
  return input as ChatInput
}

/** The same request with its policy validated; dialects pass on what the client wrote. @throws InvalidRequest */
export function withPolicy(request: ChatRequest): ChatRequest {
  const policy: unknown = request.policy
  return policy === undefined ? request : { ...request, policy: readPolicy(policy) }
}

export function wantsUsageChunk({ stream, stream_options }: ChatRequest): boolean {
  return stream === true && stream_options?.include_usage === true
}

export function usesLegacyFunctions({ functions, tools }: ChatRequest): boolean {
  return functions !== undefined && tools === undefined
}

export function requiredCapabilities(request: ChatRequest): Needs {
  const { messages, response_format, logprobs, n = 1 } = request
  const needs: Needs = {}
  if (n > 1) needs.CHOICES = 'n'
  if (response_format?.type === 'json_schema') needs.STRUCTURED_OUTPUTS = 'response_format'
  if (logprobs) needs.LOGPROBS = 'logprobs'
  if (toolsOf(request)?.length && toolChoiceOf(request) !== 'none') {
    needs.TOOLS = usesLegacyFunctions(request) ? 'functions' : 'tools'
  }
  Object.assign(needs, conversationOf(messages).needs)
  return needs
}

/** The web search that a request asks for. @param online the model id carried `:online`, which means the same as the plugin */
export function searchRequest(input: ChatRequest, online: boolean): SearchRequest | undefined {
  const web = webPlugin(input)
  if (!web && !online) return toolSearch(input)
  const results = web?.max_results ?? DEFAULT_RESULTS
  return {
    question: questionOf(input.messages),
    engine: web?.engine,
    maxResults: Math.min(Math.max(results, 1), MAX_RESULTS),
    includeDomains: web?.include_domains ?? [],
    excludeDomains: web?.exclude_domains ?? [],
  }
}

function toolSearch({ web_search_tool: tool, messages }: ChatRequest): SearchRequest | undefined {
  if (!tool) return undefined
  const { path, includeDomains, excludeDomains, maxResults = DEFAULT_RESULTS } = tool
  const question = questionOf(messages)
  const domains = { includeDomains, excludeDomains }
  return { question, engine: undefined, maxResults, ...domains, tool: path }
}

export function webPlugin({ plugins }: ChatRequest): Plugin | undefined {
  return plugins?.find(({ id, enabled }) => id === 'web' && enabled !== false)
}

function questionOf(messages: readonly ChatMessage[]): string {
  const content = messages.findLast(({ role }) => role === 'user')?.content
  if (!Array.isArray(content)) return typeof content === 'string' ? content : ''
  return content
    .filter(({ type }) => type === 'text')
    .map(({ text }) => text)
    .join('\n')
}

/** Tools of known types, in the newer form. `tools` wins over `functions`. */
function toolsOf({ tools, functions }: ChatRequest): readonly Typed[] | undefined {
  if (tools === undefined) return functions?.map((item) => ({ type: 'function', function: item }))
  return tools.every(isKnownTool) ? tools : tools.filter(isKnownTool)
}

function isKnownTool({ type }: Typed): boolean {
  return KNOWN_TOOLS.has(type)
}

function toolChoiceOf(request: ChatRequest): ChatRequest['tool_choice'] {
  const { tools, tool_choice, function_call } = request
  if (tool_choice !== undefined || tools !== undefined || function_call === undefined) {
    return tool_choice
  }
  if (typeof function_call === 'string') return function_call
  return { type: 'function', function: { name: function_call.name } }
}

/**
 * One form for `reasoning` and its aliases. `reasoning.effort` wins over `reasoning_effort`, `max_tokens` over an
 * effort, and either way to hide reasoning is enough.
 */
function reasoningOf(request: ChatRequest): Reasoning | undefined {
  const { reasoning, reasoning_effort, include_reasoning } = request
  if (!reasoning && !reasoning_effort && include_reasoning !== false) return undefined
  const { effort = reasoning_effort, ...others } = withoutNulls(reasoning ?? {})
  const normal = {
    ...others,
    ...(effort !== undefined && others.max_tokens === undefined ? { effort } : {}),
    ...(include_reasoning === false ? { exclude: true } : {}),
  }
  return Object.keys(normal).length > 0 ? (normal as Reasoning) : undefined
}
