/** Differences between vendors, one row each. An absent member means that the vendor behaves like OpenAI. */
import { OPENAI_AUDIO, XAI_AUDIO, type AudioQuirks } from './audio-quirks.ts'
import type { ImageQuirks } from './images-request.ts'
import { takeTurns, type MessageQuirks, type Outgoing, type Replay } from './request.ts'
import { toMistral } from './mistral.ts'
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
  effortLevels,
  type ToReasoning,
} from './reasoning.ts'
import type { UsageQuirks } from './members.ts'

/** Differences of one vendor from OpenAI. */
export interface Quirks extends MessageQuirks, UsageQuirks {
  /** All members that the vendor knows, for vendors that refuse unknown ones. */
  readonly knows?: ReadonlySet<string>
  /** Members of the request that this vendor does not have. */
  readonly drops?: readonly string[]
  /** Members that a model refuses, by its name. */
  readonly refuses?: (model: string, reasoningIsOff: boolean) => readonly string[]
  /** OpenAI's member names, and the vendor's. */
  readonly renames?: Readonly<Record<string, string>>
  /** Upper limits of numbers. */
  readonly caps?: Readonly<Record<string, number>>
  /** Members that ask for usage in a stream. */
  readonly streamed: Readonly<Record<string, unknown>>
  readonly toReasoning: ToReasoning
  /** Where earlier reasoning goes; it is removed when absent. */
  readonly replay?: Replay
  /** Replays reasoning only when the deployment's options ask for it, because other models of the vendor refuse it. */
  readonly replayOnRequest?: true
  /** Supports `json_object` only; a schema goes into the prompt. */
  readonly schemaInPrompt?: true
  /** Sends `session_id` as the prompt cache key. */
  readonly sessionAsCacheKey?: true
  readonly images?: ImageQuirks
  readonly audio?: AudioQuirks
  /** Final changes to the whole conversation. */
  readonly arrange?: (messages: readonly Outgoing[]) => Outgoing[]
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
/** Sampling parameters that OpenAI does not have. */
const SAMPLING = ['top_k', 'min_p', 'top_a', 'repetition_penalty']
const PENALTIES = ['presence_penalty', 'frequency_penalty']
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

/** Servers of open-weight models. */
export const OPEN_WEIGHTS = {
  streamed: WITH_USAGE,
  renames: AS_MAX_TOKENS,
  drops: [...ROUTER, ...OPENAI, 'top_a'],
} as const

const ROWS = {
  openai: {
    current: true,
    streamed: { stream_options: { include_usage: true, include_obfuscation: false } },
    drops: [...ROUTER, ...SAMPLING],
    sessionAsCacheKey: true,
    refuses: (model, reasoningIsOff) =>
      /^(o\d|gpt-([5-9]|\d\d)(?!.*-chat))/.test(model) && !reasoningIsOff
        ? ['temperature', 'top_p', ...PENALTIES, 'logprobs', 'top_logprobs']
        : [],
    toReasoning: effortLevels('none', 'minimal', 'low', 'medium', 'high', 'xhigh'),
    images: OPENAI_IMAGES,
    audio: OPENAI_AUDIO,
  },
  groq: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      'compound_custom',
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
    toReasoning: groqReasoning,
    replay: 'reasoning',
    replayOnRequest: true,
  },
  deepseek: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    drops: [...ROUTER, ...OPENAI, ...SAMPLING],
    schemaInPrompt: true,
    toReasoning: deepSeekReasoning,
    replay: 'reasoning_content',
  },
  xai: {
    streamed: WITH_USAGE,
    drops: [...ROUTER, ...OPENAI, ...SAMPLING],
    refuses: (model) =>
      /grok-(3-mini|[4-9])(?!.*non-reasoning)/.test(model) ? [...PENALTIES, 'stop'] : [],
    toReasoning: effortLevels('low', 'medium', 'high'),
    reasoningBeside: true,
    images: XAI_IMAGES,
    audio: XAI_AUDIO,
  },
  together: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    drops: [...ROUTER, ...OPENAI, 'top_a'],
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
    renames: { ...AS_MAX_TOKENS, seed: 'random_seed' },
    toReasoning: mistralReasoning,
    reasoningByShare: true,
    replay: 'thinking-parts',
    arrange: toMistral,
  },
  openrouter: {
    current: true,
    cacheControl: true,
    annotations: true,
    streamed: WITH_USAGE,
    toReasoning: reasoningAsIs,
    replay: 'reasoning_details',
    images: { paths: { generations: 'images' } },
  },
  perplexity: {
    streamed: {},
    renames: AS_MAX_TOKENS,
    drops: [
      ...ROUTER,
      ...OPENAI.filter((name) => name !== 'web_search_options'),
      'min_p',
      'top_a',
      'repetition_penalty',
      'tools',
      'tool_choice',
      'parallel_tool_calls',
    ],
    toReasoning: effortLevels('minimal', 'low', 'medium', 'high'),
    searchesAlways: true,
    arrange: takeTurns,
  },
  vllm: { ...OPEN_WEIGHTS, toReasoning: templateSwitch, replay: 'reasoning' },
  ollama: {
    ...OPEN_WEIGHTS,
    toReasoning: effortLevels('none', 'low', 'medium', 'high'),
    replay: 'reasoning',
  },
  llamacpp: { ...OPEN_WEIGHTS, toReasoning: templateSwitch },
  lmstudio: { ...OPEN_WEIGHTS, toReasoning: effortLevels('none', 'low', 'medium', 'high') },
  cerebras: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      'clear_thinking',
      'disable_reasoning',
      'logprobs',
      'max_completion_tokens',
      'prediction',
      'reasoning_format',
      'seed',
      'stream_options',
      'top_logprobs',
      'user',
    ]),
    toReasoning: cerebrasReasoning,
    replay: 'think-tags',
  },
  moonshot: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    drops: [...ROUTER, ...OPENAI, ...SAMPLING],
    caps: { temperature: 1 },
    toReasoning: thinkingSwitch,
    replay: 'reasoning_content',
  },
  alibaba: {
    streamed: WITH_USAGE,
    renames: AS_MAX_TOKENS,
    drops: [...ROUTER, ...OPENAI, 'min_p', 'top_a'],
    toReasoning: alibabaReasoning,
  },
  google: {
    streamed: WITH_USAGE,
    knows: new Set([
      ...COMMON,
      ...PENALTIES,
      'extra_body',
      'logprobs',
      'max_completion_tokens',
      'n',
      'seed',
      'stream_options',
      'top_logprobs',
    ]),
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
  cacheControl: true,
  streamed: WITH_USAGE,
  drops: ROUTER,
  toReasoning: ROWS.openai.toReasoning,
}

/** The row with this name, or the default. */
export function quirksOf(row: Row | undefined): Quirks {
  return row === undefined ? PLAIN : ROWS[row]
}
