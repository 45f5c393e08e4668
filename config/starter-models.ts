/**
 * Well-known models of well-known vendors, for a first start. Their prices, names and sizes are in the price list,
 * `prices.json`, under the name of the provider and the name of the model at the vendor.
 */
import type { UserConfig } from '../src/index.ts'

type Entry = Exclude<NonNullable<UserConfig['models']>, string>[string]

/** A model at its vendor. */
type StarterModel = Pick<Entry, 'capabilities'> & {
  /** Name of the model at the vendor. */
  readonly upstream: string
  /** Options of the deployment. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** A vendor that is offered when its API key is set. */
export interface StarterVendor {
  /** Name of the provider instance. */
  readonly provider: string
  /** The environment variable that holds the API key; the vendor is left out without it. */
  readonly variable: string
  /** The plugin; by default the one for compatible vendors, which needs `baseURL` and `quirks`. */
  readonly use?: string
  readonly baseURL?: string
  /** Name of the vendor in the table of differences between compatible vendors. */
  readonly quirks?: string
  /** Models by catalog id. */
  readonly models: Readonly<Record<string, StarterModel>>
}

const CHAT = ['STREAMING', 'TOOLS', 'STRUCTURED_OUTPUTS'] as const
const THINKING = [...CHAT, 'REASONING'] as const
const SEEING = [...CHAT, 'VISION'] as const
const BOTH = [...THINKING, 'VISION'] as const
const READING = [...BOTH, 'FILE_INPUT'] as const

/** The vendors of a first start. */
export const VENDORS: readonly StarterVendor[] = [
  {
    provider: 'openai',
    variable: 'OPENAI_API_KEY',
    use: 'openai',
    models: {
      'openai/gpt-6-luna': {
        upstream: 'gpt-6-luna',
        capabilities: [...BOTH],
      },
      'openai/gpt-6.1-terra': {
        upstream: 'gpt-6.1-terra',
        capabilities: [...BOTH],
      },
      'openai/gpt-6-sol': {
        upstream: 'gpt-6-sol',
        capabilities: [...BOTH],
      },
      'openai/gpt-image-1': {
        upstream: 'gpt-image-1',
        capabilities: ['STREAMING', 'REFERENCES'],
      },
      'openai/tts-1': {
        upstream: 'tts-1',
      },
      'openai/whisper-1': {
        upstream: 'whisper-1',
        capabilities: ['TIMESTAMPS'],
      },
      'openai/gpt-4o-mini-transcribe': {
        upstream: 'gpt-4o-mini-transcribe',
        capabilities: ['STREAMING', 'LOGPROBS'],
      },
    },
  },
  {
    provider: 'google',
    variable: 'GEMINI_API_KEY',
    use: 'google',
    models: {
      'google/gemini-2.5-flash-lite': {
        upstream: 'gemini-2.5-flash-lite',
        capabilities: [...READING, 'AUDIO_INPUT'],
      },
      'google/gemini-3.5-flash-lite': {
        upstream: 'gemini-3.5-flash-lite',
        capabilities: [...READING],
      },
      'google/gemini-3.8-flash': {
        upstream: 'gemini-3.8-flash',
        capabilities: [...READING],
      },
      'google/gemini-3.1-flash-lite-image': {
        upstream: 'gemini-3.1-flash-lite-image',
        capabilities: ['REFERENCES'],
      },
    },
  },
  {
    provider: 'mistral',
    variable: 'MISTRAL_API_KEY',
    use: 'mistral',
    models: {
      'mistral/ministral-8b-2512': {
        upstream: 'ministral-8b-2512',
        capabilities: [...SEEING],
      },
      'mistral/mistral-small-2603': {
        upstream: 'mistral-small-2603',
        capabilities: [...BOTH],
      },
      'mistral/mistral-medium-3-5': {
        upstream: 'mistral-medium-3-5',
        capabilities: [...BOTH],
      },
      'mistral/mistral-large-2512': {
        upstream: 'mistral-large-2512',
        capabilities: [...SEEING],
      },
      'mistral/codestral-2508': {
        upstream: 'codestral-2508',
        capabilities: [...CHAT],
      },
      'mistral/mistral-ocr-2512': {
        upstream: 'mistral-ocr-2512',
        capabilities: [],
      },
    },
  },
  {
    provider: 'anthropic',
    variable: 'ANTHROPIC_API_KEY',
    use: 'anthropic',
    models: {
      'anthropic/claude-haiku-5.5': {
        upstream: 'claude-haiku-5-5',
        capabilities: [...READING],
      },
      'anthropic/claude-sonnet-5.5': {
        upstream: 'claude-sonnet-5-5',
        capabilities: [...READING],
      },
      'anthropic/claude-opus-5.5': {
        upstream: 'claude-opus-5-5',
        capabilities: [...READING],
      },
    },
  },
  {
    provider: 'openrouter',
    variable: 'OPENROUTER_API_KEY',
    baseURL: 'https://openrouter.ai/api/v1',
    quirks: 'openrouter',
    models: {
      'anthropic/claude-haiku-4.5': {
        upstream: 'anthropic/claude-haiku-4.5',
        capabilities: [...BOTH],
      },
      'anthropic/claude-sonnet-5': {
        upstream: 'anthropic/claude-sonnet-5',
        capabilities: [...BOTH],
      },
      'anthropic/claude-opus-5': {
        upstream: 'anthropic/claude-opus-5',
        capabilities: [...BOTH],
      },
    },
  },
  {
    provider: 'groq',
    variable: 'GROQ_API_KEY',
    baseURL: 'https://api.groq.com/openai/v1',
    quirks: 'groq',
    models: {
      'openai/gpt-oss-20b': {
        upstream: 'openai/gpt-oss-20b',
        capabilities: [...THINKING],
      },
      'openai/gpt-oss-120b': {
        upstream: 'openai/gpt-oss-120b',
        capabilities: [...THINKING],
      },
      'qwen/qwen3.6-27b': {
        upstream: 'qwen/qwen3.6-27b',
        // Without a request for reasoning, the model writes it between tags in its answer.
        options: { reasoning: 'tags' },
        capabilities: [...BOTH],
      },
    },
  },
]
