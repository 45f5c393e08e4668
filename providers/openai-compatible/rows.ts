/**
 * Differences between vendors, one row each: one table whatever its length. An absent member means that the vendor behaves like
 * OpenAI.
 */
import { OPENAI_ROOTS } from '../shared/schemas.ts'
import { OPENAI_AUDIO, XAI_AUDIO } from './audio-quirks.ts'
import type { TakenParts } from './content.ts'
import { DEEPSEEK_COMPLETIONS, MISTRAL_COMPLETIONS } from './completions.ts'
import { MISTRAL_EMBEDDINGS, OPENAI_EMBEDDINGS } from './embeddings.ts'
import type { ImageQuirks } from './images-request.ts'
import { formWith } from './known.ts'
import { toMistral, toMistralTools } from './mistral.ts'
import { takeTurns } from './perplexity.ts'
import type { Quirks } from './quirks.ts'
import {
  alibabaReasoning,
  reasoningAsIs,
  templateSwitch,
  thinkingSwitch,
  cerebrasReasoning,
  deepSeekReasoning,
  groqReasoning,
  mistralReasoning,
  togetherReasoning,
  xaiReasoning,
  effortLevels,
  nearestEffort,
  type Effort,
} from './reasoning.ts'
import type { Reasoning } from '../../src/plugin.ts'

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

/** For routers of models only. */
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
    form: HOSTED,
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

/** Without a row: OpenAI's names, and all unknown members pass. */
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
