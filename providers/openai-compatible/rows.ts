/**
 * Differences between vendors, one row each: one table whatever its length. An absent member means that the vendor behaves like
 * OpenAI.
 */
import { hash } from 'node:crypto'
import { OPENAI_ROOTS } from '../shared/schemas.ts'
import { OPENAI_AUDIO, XAI_AUDIO } from './audio.ts'
import {
  type TakenParts,
  withBridges,
  isBlank,
  type Outgoing,
  joinedContent,
  type Content,
} from './content.ts'
import { DEEPSEEK_COMPLETIONS, MISTRAL_COMPLETIONS } from './completions.ts'
import { MISTRAL_EMBEDDINGS, OPENAI_EMBEDDINGS } from './embeddings.ts'
import type { ImageQuirks } from './images.ts'
import { formWith } from './known.ts'
import type { Quirks } from './quirks.ts'
import {
  reasoningAsIs,
  effortLevels,
  nearestEffort,
  type Effort,
  type ToReasoning,
  isOff,
} from './reasoning.ts'
import type { Reasoning } from '../../src/plugin.ts'
import { EMPTY } from '../shared/conversations.ts'

/** Groq: an effort for gpt-oss, on or off for Qwen, and a format that separates reasoning from the text. */
const groqReasoning: ToReasoning = (reasoning, model, limit) => {
  const hidden = reasoning.exclude ? { include_reasoning: false } : undefined
  if (model.includes('gpt-oss')) return { ...lowToHigh(reasoning, model, limit), ...hidden }
  const effort = model.includes('qwen')
    ? { reasoning_effort: isOff(reasoning) ? 'none' : 'default' }
    : {}
  // Without it, these models write their reasoning into the answer. The API refuses both members together.
  return { ...effort, ...(hidden ?? { reasoning_format: 'parsed' }) }
}

/** DeepSeek: `thinking`, with an effort when it is on. */
const deepSeekReasoning: ToReasoning = (reasoning, model, limit) =>
  isOff(reasoning)
    ? thinkingSwitch(reasoning, model, limit)
    : {
        ...thinkingSwitch(reasoning, model, limit),
        ...effortLevels('low', 'high', 'max')(reasoning, model, limit),
      }

/** `thinking: {type}`, on or off. */
const thinkingSwitch: ToReasoning = (reasoning) => ({
  thinking: { type: isOff(reasoning) ? 'disabled' : 'enabled' },
})

/**
 * xAI: an effort for the models that have levels, by their names. `grok-4.20` is older than `grok-4.3`. The others refuse
 * the member, whatever its value.
 */
const xaiReasoning: ToReasoning = (reasoning, model, limit) => {
  if (model.startsWith('grok-3-mini')) return effortLevels('low', 'high')(reasoning, model, limit)
  if (!/^grok-(4\.[3-9](?!\d)|[5-9]|[1-9]\d|latest)|-multi-agent/.test(model)) return {}
  const noneToHigh = ['none', 'low', 'medium', 'high'] as const
  return /^grok-(4\.[6-9](?!\d)|[5-9]|[1-9]\d)/.test(model)
    ? effortLevels(...noneToHigh, 'xhigh')(reasoning, model, limit)
    : effortLevels(...noneToHigh)(reasoning, model, limit)
}

/** Together: an effort for gpt-oss, on or off for other models. */
const togetherReasoning: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { reasoning: { enabled: !isOff(reasoning) } }

/** Servers of open-weight models, where the chat template decides; gpt-oss takes an effort. */
const templateSwitch: ToReasoning = (reasoning, model, limit) =>
  model.includes('gpt-oss')
    ? lowToHigh(reasoning, model, limit)
    : { chat_template_kwargs: { enable_thinking: !isOff(reasoning) } }

/** Alibaba: on or off, with a token budget. */
const alibabaReasoning: ToReasoning = (reasoning) => {
  if (isOff(reasoning)) return { enable_thinking: false }
  const budget = reasoning.max_tokens
  return { enable_thinking: true, ...(budget === undefined ? {} : { thinking_budget: budget }) }
}

/** Cerebras: an effort for gpt-oss, off for other models. */
const cerebrasReasoning: ToReasoning = (reasoning, model, limit) => {
  if (model.includes('gpt-oss')) return lowToHigh(reasoning, model, limit)
  return isOff(reasoning) ? { disable_reasoning: true } : {}
}

/** Mistral: a prompt mode for Magistral, an effort for other models. */
const mistralReasoning: ToReasoning = (reasoning, model) => {
  if (!model.includes('magistral')) return { reasoning_effort: isOff(reasoning) ? 'none' : 'high' }
  return isOff(reasoning) ? {} : { prompt_mode: 'reasoning' }
}

const lowToHigh = effortLevels('low', 'medium', 'high')

// Conversations for Mistral.

/** Members that Mistral accepts per role. Others are refused. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls'],
  tool: ['role', 'content', 'tool_call_id', 'name'],
}

/**
 * Removes unknown members, gives tool calls ids of nine letters and digits, converts content parts, fills blank messages
 * of the user, puts an answer between results and the next message, and marks an answer that is to be continued.
 */
function toMistral(messages: readonly Outgoing[]): Outgoing[] {
  const names = new Map<string, string>()
  const kept: readonly Outgoing[] = withBridges(messages.filter((message) => !isNothing(message)))
  const arranged = kept.map((message, position) => {
    const out: Outgoing = {}
    for (const name of MEMBERS[message.role] ?? Object.keys(message)) {
      if (message[name] !== undefined) out[name] = message[name]
    }
    if (out.role === 'user' && isBlank(out.content)) out.content = EMPTY
    if (Array.isArray(out.content)) out.content = out.content.map(toPart)
    if (out.tool_calls) {
      out.tool_calls = out.tool_calls.map((call: any) => {
        names.set(call.id, call.function?.name)
        return { id: toCallId(call.id), type: call.type, function: call.function }
      })
    }
    if (typeof out.tool_call_id === 'string') {
      // Older models require the name of the tool again.
      out.name ??= names.get(out.tool_call_id)
      out.tool_call_id = toCallId(out.tool_call_id)
    }
    if (out.role === 'assistant' && position === kept.length - 1) out.prefix = true
    return out
  })
  return endedByUser(arranged)
}

/** An answer without text and calls, which Mistral refuses. */
function isNothing({ role, content, tool_calls }: Outgoing): boolean {
  return role === 'assistant' && !tool_calls && isBlank(content)
}

/** Mistral does not answer a system message, nor nothing at all, so the last message becomes the user's. */
function endedByUser(messages: Outgoing[]): Outgoing[] {
  const last = messages.at(-1)
  if (!last) return [{ role: 'user', content: EMPTY }]
  if (last.role !== 'system') return messages
  const content = isBlank(last.content) ? EMPTY : last.content
  return [...messages.slice(0, -1), { role: 'user', content }]
}

/** The same id always maps to the same result, so calls and results still match. */
function toCallId(id: unknown): string {
  const text = String(id)
  if (/^[a-zA-Z0-9]{9}$/.test(text)) return text
  const digest = BigInt(`0x${hash('sha256', text, 'hex').slice(0, 16)}`)
  return digest.toString(36).padStart(9, '0').slice(-9)
}

function toPart(part: any): any {
  if (part.type === 'input_audio') return { type: part.type, input_audio: part.input_audio?.data }
  if (part.type !== 'file') return part
  const { file_data, filename } = part.file
  return {
    type: 'document_url',
    document_url: file_data,
    ...(filename ? { document_name: filename } : {}),
  }
}

/** The tools as Mistral requires them, with parameters. */
function toMistralTools(tools: readonly any[]): readonly any[] {
  return tools.map((tool) => {
    const { parameters, ...rest } = tool.function
    const hasParameters = parameters && Object.keys(parameters).length > 0
    return hasParameters
      ? tool
      : { ...tool, function: { ...rest, parameters: { type: 'object', properties: {} } } }
  })
}

// What the names of OpenAI's models tell about them.

/** GPT-5.4 and later, and models that have no chat completions. `gpt-35` is GPT-3.5 in Azure's spelling. */
const RESPONSES = /^(ft:)?(gpt-5\.([4-9]|\d\d)|gpt-(?!35)([6-9]|\d\d)|gpt-[\d.]+-(pro|codex))/

/** Whether a model needs the Responses API for tools, or for everything. */
export function needsResponses(model: string): boolean {
  return RESPONSES.test(model)
}

/** Whether the name tells that a model has the Responses API. */
export function hasResponses(model: string): boolean {
  return /^(ft:)?(gpt-(?!.*(audio|search|realtime))|o\d|chatgpt-|codex-)/.test(model)
}

/**
 * Whether a model may reason. A name that tells nothing, such as that of a deployment at Azure, counts as one that may.
 */
export function mayReason(model: string): boolean {
  return !/^(ft:)?(gpt-[34]|chatgpt-|gpt-.*-chat)/.test(model)
}

/** Whether the name tells that a model reasons, so that it refuses sampling options. */
function isReasoning(model: string): boolean {
  return /^(ft:)?(o\d|gpt-(?!35)([5-9]|\d\d)(?!.*-chat))/.test(model)
}

const LEVELS: readonly (readonly [model: RegExp, levels: readonly [Effort, ...Effort[]]])[] = [
  [/^o\d/, ['low', 'medium', 'high']],
  [/^gpt-5-pro/, ['high']],
  [/^gpt-[\d.]+-pro/, ['medium', 'high', 'xhigh']],
  [/^gpt-5(\.1)?-codex(?!-max)/, ['low', 'medium', 'high']],
  [/^gpt-[\d.]+-codex/, ['low', 'medium', 'high', 'xhigh']],
  [/^gpt-5(?!\.)/, ['minimal', 'low', 'medium', 'high']],
  [/^gpt-5\.1/, ['none', 'low', 'medium', 'high']],
  [/^gpt-/, ['none', 'low', 'medium', 'high', 'xhigh']],
]

const ALL: readonly [Effort, ...Effort[]] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']

/**
 * The effort for a request, in the nearest level that the model has; undefined where the request names none.
 * @param limit most tokens of the answer
 * @param own levels of the model, lowest first, where its name does not tell them
 */
export function effortFor(
  model: string,
  reasoning: Reasoning,
  limit: number | undefined,
  own?: readonly Effort[],
): Effort | undefined {
  const base = model.replace(/^ft:/, '')
  const [lowest, ...others] = own ?? LEVELS.find(([name]) => name.test(base))?.[1] ?? ALL
  return lowest && nearestEffort(reasoning, limit, [lowest, ...others])
}

/** Members of the newer image models. Bytes need not be requested from them. */
const OPENAI_IMAGES: ImageQuirks = {
  bytes: (model) => (isDallE(model) ? 'b64_json' : undefined),
  single: (model) => model.startsWith('dall-e-3'),
  drops: (model) => (isDallE(model) ? [] : ['style']),
  knows: new Set([
    'background',
    'input_fidelity',
    'moderation',
    'n',
    'output_compression',
    'output_format',
    'partial_images',
    'prompt',
    'quality',
    'size',
    'stream',
    'style',
    'user',
  ]),
}

const XAI_IMAGES: ImageQuirks = {
  bytes: () => 'b64_json',
  knows: new Set(['aspect_ratio', 'n', 'prompt', 'quality', 'resolution', 'user']),
  referenceAsUrl: true,
}

const isDallE = (model: string): boolean => model.startsWith('dall-e')

/** The members that routers of models take, and no other server. */
const ROUTER = ['session_id']
/** Settings of the operator's account with a router, and a mode of another price. */
const PRESETS = ['preset', 'speed']
/** Members of OpenAI only. */
const OPENAI = [
  'metadata',
  'moderation',
  'prediction',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'safety_identifier',
  'user',
  'verbosity',
  'web_search_options',
]
const PENALTIES = ['presence_penalty', 'frequency_penalty']
const LOGPROBS = ['logprobs', 'top_logprobs']
const COMMON = [
  'messages',
  'model',
  'parallel_tool_calls',
  'reasoning_effort',
  'response_format',
  'stop',
  'stream',
  'temperature',
  'tool_choice',
  'tools',
  'top_p',
]

/** Asks for usage in a stream. */
export const WITH_USAGE = { stream_options: { include_usage: true } }
/** The older name of the token limit. */
export const AS_MAX_TOKENS = { max_completion_tokens: 'max_tokens' }

/** Servers of open-weight models, which may know members that no row lists. */
export const OPEN_WEIGHTS = {
  streamed: WITH_USAGE,
  renames: AS_MAX_TOKENS,
  drops: [...ROUTER, ...OPENAI, 'top_a'],
} as const

/** The form that hosted vendors know. */
const HOSTED = formWith([], [])
/** What hosted vendors take in messages that are not the user's. */
const TEXT = new Set(['text', 'refusal'])
const PICTURES = new Set(['text', 'refusal', 'image_url'])
const USUAL_PARTS: TakenParts = { system: TEXT, developer: TEXT, assistant: TEXT, tool: PICTURES }
const TEXT_RESULTS: TakenParts = { ...USUAL_PARTS, tool: TEXT }

/** Hosts of models about which nothing more is known: the members that all of them take, and OpenAI's form. */
const HOST: Quirks = {
  replay: 'as-given',
  streamed: WITH_USAGE,
  renames: AS_MAX_TOKENS,
  knows: new Set([
    ...COMMON,
    ...PENALTIES,
    ...LOGPROBS,
    'logit_bias',
    'max_tokens',
    'min_p',
    'n',
    'repetition_penalty',
    'seed',
    'stream_options',
    'top_k',
  ]),
  form: HOSTED,
  takes: TEXT_RESULTS,
  texts: 'results',
  toReasoning: effortLevels('none', 'low', 'medium', 'high'),
}

const ROWS = {
  openai: {
    current: true,
    customTools: true,
    refusedRoots: OPENAI_ROOTS,
    calls: 'passed',
    allowedTools: true,
    streamed: { stream_options: { include_usage: true, include_obfuscation: false } },
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      ...LOGPROBS,
      ...OPENAI,
      'audio',
      'logit_bias',
      'max_completion_tokens',
      'max_tokens',
      'modalities',
      'n',
      'seed',
      'stream_options',
    ]),
    form: formWith(['prompt_cache_breakpoint'], ['audio']),
    takes: USUAL_PARTS,
    sessionAsCacheKey: true,
    refuses: (model, { reasoning_effort: effort }) =>
      isReasoning(model) && effort !== 'none'
        ? ['temperature', 'top_p', ...PENALTIES, ...LOGPROBS]
        : [],
    toReasoning: (reasoning, model, limit) => {
      const effort = mayReason(model) ? effortFor(model, reasoning, limit) : undefined
      return effort ? { reasoning_effort: effort } : {}
    },
    images: OPENAI_IMAGES,
    audio: OPENAI_AUDIO,
    embeddings: OPENAI_EMBEDDINGS,
  },
  groq: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      'disable_tool_validation',
      'documents',
      'include_reasoning',
      'max_completion_tokens',
      'n',
      'reasoning_format',
      'search_settings',
      'seed',
      'stream_options',
      'user',
    ]),
    form: HOSTED,
    takes: USUAL_PARTS,
    lacks: ['n', 'logprobs'],
    toReasoning: groqReasoning,
    replay: 'reasoning',
    replayOnRequest: true,
  },
  deepseek: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    knows: new Set([
      ...COMMON.filter((name) => name !== 'parallel_tool_calls'),
      ...PENALTIES,
      ...LOGPROBS,
      'max_tokens',
      'stream_options',
      'thinking',
    ]),
    form: formWith([], ['prefix']),
    takes: { ...TEXT_RESULTS, user: TEXT },
    texts: 'all',
    lacks: ['n'],
    jsonInPrompt: 'schema',
    forcedTools: 'unreasoned',
    alwaysReasons: /reasoner|-r1/i,
    toReasoning: deepSeekReasoning,
    completions: DEEPSEEK_COMPLETIONS,
    replay: 'reasoning_content',
  },
  xai: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      ...LOGPROBS,
      'logit_bias',
      'max_completion_tokens',
      'max_tokens',
      'n',
      'seed',
      'stream_options',
    ]),
    form: HOSTED,
    takes: USUAL_PARTS,
    refuses: (model) =>
      /grok-(3-mini|[4-9])(?!.*non-reasoning)/.test(model) ? [...PENALTIES, 'stop'] : [],
    toReasoning: xaiReasoning,
    reasoningBeside: true,
    images: XAI_IMAGES,
    audio: XAI_AUDIO,
  },
  together: {
    replay: 'as-given',
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      ...LOGPROBS,
      'chat_template_kwargs',
      'compliance',
      'context_length_exceeded_behavior',
      'echo',
      'logit_bias',
      'max_tokens',
      'min_p',
      'n',
      'reasoning',
      'repetition_penalty',
      'safety_model',
      'seed',
      'stream_options',
      'top_k',
    ]),
    form: HOSTED,
    takes: TEXT_RESULTS,
    texts: 'results',
    toReasoning: togetherReasoning,
  },
  mistral: {
    streamed: {},
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      'guardrails',
      'max_tokens',
      'n',
      'prediction',
      'prompt_mode',
      'random_seed',
      'safe_prompt',
    ]),
    form: HOSTED,
    takes: TEXT_RESULTS,
    texts: 'results',
    fetches: [],
    lacks: ['logprobs'],
    refusesStray: true,
    jsonInPrompt: 'word',
    caps: { temperature: 1.5 },
    renames: { ...AS_MAX_TOKENS, seed: 'random_seed' },
    toReasoning: mistralReasoning,
    replay: 'thinking-parts',
    toTools: toMistralTools,
    arrange: toMistral,
    embeddings: MISTRAL_EMBEDDINGS,
    completions: MISTRAL_COMPLETIONS,
  },
  openrouter: {
    current: true,
    cacheControl: true,
    annotations: true,
    fetches: [],
    streamed: WITH_USAGE,
    toReasoning: reasoningAsIs,
    replay: 'reasoning_details',
    drops: PRESETS,
    images: { paths: { generations: 'images' } },
  },
  perplexity: {
    streamed: {},
    renames: AS_MAX_TOKENS,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      'country',
      'disable_search',
      'enable_search_classifier',
      'image_domain_filter',
      'image_format_filter',
      'language_preference',
      'last_updated_after_filter',
      'last_updated_before_filter',
      'max_tokens',
      'media_response',
      'num_search_results',
      'return_images',
      'return_related_questions',
      'search_after_date_filter',
      'search_before_date_filter',
      'search_domain_filter',
      'search_language_filter',
      'search_mode',
      'search_recency_filter',
      'top_k',
      'web_search_options',
    ]),
    form: HOSTED,
    takes: { ...USUAL_PARTS, tool: PICTURES },
    lacks: ['n', 'logprobs'],
    noTools: true,
    toReasoning: effortLevels('minimal', 'low', 'medium', 'high'),
    searchesAlways: true,
    arrange: takeTurns,
  },
  vllm: { ...OPEN_WEIGHTS, toReasoning: templateSwitch, replay: 'reasoning' },
  ollama: {
    ...OPEN_WEIGHTS,
    fetches: ['image_url', 'file'],
    lacks: ['n'],
    forcedTools: 'ignored',
    toReasoning: effortLevels('none', 'low', 'medium', 'high'),
    replay: 'reasoning',
  },
  llamacpp: { ...OPEN_WEIGHTS, replay: 'as-given', lacks: ['n'], toReasoning: templateSwitch },
  lmstudio: {
    replay: 'as-given',
    ...OPEN_WEIGHTS,
    lacks: ['n'],
    toReasoning: effortLevels('none', 'low', 'medium', 'high'),
  },
  cerebras: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...LOGPROBS,
      'clear_thinking',
      'disable_reasoning',
      'max_completion_tokens',
      'prediction',
      'reasoning_format',
      'seed',
      'stream_options',
      'user',
    ]),
    form: HOSTED,
    takes: TEXT_RESULTS,
    texts: 'all',
    lacks: ['n'],
    toReasoning: cerebrasReasoning,
    replay: 'think-tags',
  },
  moonshot: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    knows: new Set([...COMMON, ...PENALTIES, 'max_tokens', 'n', 'stream_options', 'thinking']),
    form: formWith([], ['partial']),
    takes: TEXT_RESULTS,
    texts: 'results',
    lacks: ['logprobs'],
    caps: { temperature: 1 },
    forcedTools: 'unreasoned',
    alwaysReasons: /thinking/i,
    toReasoning: thinkingSwitch,
    replay: 'reasoning_content',
  },
  alibaba: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    knows: new Set([
      ...COMMON,
      ...LOGPROBS,
      'enable_thinking',
      'max_tokens',
      'n',
      'presence_penalty',
      'preserve_thinking',
      'repetition_penalty',
      'seed',
      'stream_options',
      'thinking_budget',
      'top_k',
      'translation_options',
      'vl_high_resolution_images',
    ]),
    form: formWith([], ['partial']),
    takes: TEXT_RESULTS,
    texts: 'results',
    forcedTools: 'unreasoned',
    alwaysReasons: /thinking|qwq|-r1/i,
    toReasoning: alibabaReasoning,
    embeddings: { batch: 10 },
  },
  hosted: HOST,
  // Its answers say what they have cost.
  deepinfra: HOST,
  zai: {
    ...HOST,
    knows: new Set([...HOST.knows!, 'thinking']),
    toReasoning: thinkingSwitch,
    replay: 'reasoning_content',
  },
  google: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      ...LOGPROBS,
      'extra_body',
      'max_completion_tokens',
      'n',
      'seed',
      'stream_options',
    ]),
    form: formWith([], [], ['extra_content']),
    takes: USUAL_PARTS,
    toReasoning: effortLevels('none', 'minimal', 'low', 'medium', 'high'),
    reasoningIsTheRest: true,
    replay: 'thought-signature',
  },
} satisfies Record<string, Quirks>

/** Name of a row. */
type Row = keyof typeof ROWS

/** Values of the option `quirks`. */
export const ROW_NAMES = Object.keys(ROWS) as [Row, ...Row[]]

/** A server without a row has OpenAI's names, and all unknown members pass. */
const PLAIN: Quirks = {
  replay: 'as-given',
  cacheControl: true,
  customTools: true,
  calls: 'renamed',
  streamed: WITH_USAGE,
  drops: ROUTER,
  toReasoning: effortLevels('none', 'minimal', 'low', 'medium', 'high', 'xhigh'),
}

/** The row with this name, or the default. */
export function quirksOf(row: Row | undefined): Quirks {
  return row === undefined ? PLAIN : ROWS[row]
}

// Conversations for Perplexity, which knows three roles in turns, and no tools.

/**
 * Merges adjacent messages of one role. Calls and results of other models become text of their turns, and system messages
 * after the first turn become the user's.
 */
function takeTurns(messages: readonly Outgoing[]): Outgoing[] {
  const turns: Outgoing[] = []
  for (const message of messages) {
    const turn = toTurn(message, turns)
    const last = turns.at(-1)
    if (last?.role === turn.role) last!.content = joinedContent(last!.content, turn.content, '\n\n')
    else turns.push(turn)
  }
  return turns
}

function toTurn(
  { role, content, tool_calls }: Outgoing,
  before: readonly Outgoing[],
): { role: string; content: Content } {
  if (role === 'tool') return { role: 'user', content: marked('result', content) }
  if (role === 'system') {
    const isFirst = before.every((turn) => turn.role === 'system')
    return { role: isFirst ? 'system' : 'user', content }
  }
  if (!tool_calls) return { role, content }
  const calls = tool_calls.map(({ function: called, custom }: any) => {
    const { name, arguments: text = custom?.input } = called ?? custom
    return `[called ${name} ${text}]`
  })
  return { role, content: joinedContent(content, calls.join('\n'), '\n\n') }
}

function marked(what: string, content: Content): Content {
  if (!Array.isArray(content)) return `[${what} ${content as string}]`
  if (isBlank(content)) return `[${what} ]`
  return [{ type: 'text', text: `[${what}` }, ...content, { type: 'text', text: ']' }]
}
