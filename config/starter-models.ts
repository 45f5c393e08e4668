/**
 * Well-known models of well-known vendors, for a first start. Vendors change their prices: these are public list prices of
 * the month below. An own configuration should have its own prices.
 */
import type { UserConfig } from '../src/index.ts'

type Entry = Exclude<NonNullable<UserConfig['models']>, string>[string]

/** A model at its vendor: a catalog entry without its deployments. */
type StarterModel = Omit<Entry, 'deployments'> & {
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

/** Month of the prices below. */
export const PRICES_AS_OF = '2026-11'

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
    // The vendor charges double for input, and half as much again for output, from prompts above 272,000 tokens.
    models: {
      'openai/gpt-6-luna': {
        upstream: 'gpt-6-luna',
        name: 'GPT-6 Luna',
        pricing: perMillion('0.10', '0.50', '0.01', '0.125'),
        capabilities: [...BOTH],
        context_length: 1_050_000,
        max_output_tokens: 128_000,
      },
      'openai/gpt-6.1-terra': {
        upstream: 'gpt-6.1-terra',
        name: 'GPT-6.1 Terra',
        pricing: perMillion('1.00', '5.00', '0.05', '1.25'),
        capabilities: [...BOTH],
        context_length: 1_050_000,
        max_output_tokens: 128_000,
      },
      'openai/gpt-6-sol': {
        upstream: 'gpt-6-sol',
        name: 'GPT-6 Sol',
        pricing: perMillion('2.00', '10.00', '0.20', '2.50'),
        capabilities: [...BOTH],
        context_length: 1_050_000,
        max_output_tokens: 128_000,
      },
      'openai/gpt-image-1': {
        upstream: 'gpt-image-1',
        name: 'GPT Image 1',
        pricing: { prompt: '5e-6', image_token: '10e-6', image_output: '40e-6' },
        capabilities: ['STREAMING', 'REFERENCES'],
      },
      'openai/tts-1': {
        upstream: 'tts-1',
        name: 'TTS-1',
        pricing: { character: '0.000015' },
      },
      'openai/whisper-1': {
        upstream: 'whisper-1',
        name: 'Whisper',
        pricing: { second: '0.0001' },
        capabilities: ['TIMESTAMPS'],
      },
      'openai/gpt-4o-mini-transcribe': {
        upstream: 'gpt-4o-mini-transcribe',
        name: 'GPT-4o mini Transcribe',
        modality: 'transcription',
        pricing: { ...perMillion('1.25', '5.00'), audio: '1.25e-6' },
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
        name: 'Gemini 2.5 Flash-Lite',
        pricing: { ...perMillion('0.10', '0.40', '0.01'), audio: '0.30e-6' },
        capabilities: [...READING, 'AUDIO_INPUT'],
        context_length: 1_048_576,
        max_output_tokens: 65_536,
      },
      'google/gemini-3.5-flash-lite': {
        upstream: 'gemini-3.5-flash-lite',
        name: 'Gemini 3.5 Flash-Lite',
        pricing: perMillion('0.30', '2.50', '0.03'),
        capabilities: [...READING],
        context_length: 1_048_576,
        max_output_tokens: 65_536,
      },
      // The regular price; the vendor charges half of it until the end of 2026.
      'google/gemini-3.8-flash': {
        upstream: 'gemini-3.8-flash',
        name: 'Gemini 3.8 Flash',
        pricing: perMillion('1.50', '7.50', '0.15'),
        capabilities: [...READING],
        context_length: 1_048_576,
        max_output_tokens: 65_536,
      },
      'google/gemini-3.1-flash-lite-image': {
        upstream: 'gemini-3.1-flash-lite-image',
        name: 'Gemini 3.1 Flash-Lite Image',
        modality: 'image',
        pricing: { ...perMillion('0.25', '1.50'), image_token: '0.25e-6', image_output: '30e-6' },
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
        name: 'Ministral 3 8B',
        pricing: perMillion('0.15', '0.15', '0.015'),
        capabilities: [...SEEING],
        context_length: 262_144,
      },
      'mistral/mistral-small-2603': {
        upstream: 'mistral-small-2603',
        name: 'Mistral Small 4',
        pricing: perMillion('0.15', '0.60', '0.015'),
        capabilities: [...BOTH],
        context_length: 262_144,
      },
      'mistral/mistral-medium-3-5': {
        upstream: 'mistral-medium-3-5',
        name: 'Mistral Medium 3.5',
        pricing: perMillion('1.50', '7.50', '0.15'),
        capabilities: [...BOTH],
        context_length: 262_144,
      },
      'mistral/mistral-large-2512': {
        upstream: 'mistral-large-2512',
        name: 'Mistral Large 3',
        pricing: perMillion('0.50', '1.50', '0.05'),
        capabilities: [...SEEING],
        context_length: 262_144,
      },
      'mistral/codestral-2508': {
        upstream: 'codestral-2508',
        name: 'Codestral 25.08',
        pricing: perMillion('0.30', '0.90', '0.03'),
        capabilities: [...CHAT],
        context_length: 256_000,
      },
      // Price without annotations; the vendor charges more with them.
      'mistral/mistral-ocr-2512': {
        upstream: 'mistral-ocr-2512',
        name: 'Mistral OCR 3',
        pricing: { page: '0.002' },
        capabilities: [],
      },
    },
  },
  {
    provider: 'anthropic',
    variable: 'ANTHROPIC_API_KEY',
    use: 'anthropic',
    // Cache writes are priced for five minutes; the vendor charges twice the input price where a client asks for an hour.
    models: {
      // The vendor charges five times as much for prompts above 100,000 tokens.
      'anthropic/claude-haiku-5.5': {
        upstream: 'claude-haiku-5-5',
        name: 'Claude Haiku 5.5',
        pricing: perMillion('0.10', '0.50', '0.01', '0.125'),
        capabilities: [...READING],
        context_length: 1_000_000,
        max_output_tokens: 128_000,
      },
      'anthropic/claude-sonnet-5.5': {
        upstream: 'claude-sonnet-5-5',
        name: 'Claude Sonnet 5.5',
        pricing: perMillion('2.00', '10.00', '0.10', '2.50'),
        capabilities: [...READING],
        context_length: 1_000_000,
        max_output_tokens: 128_000,
      },
      'anthropic/claude-opus-5.5': {
        upstream: 'claude-opus-5-5',
        name: 'Claude Opus 5.5',
        pricing: perMillion('4.00', '20.00', '0.20', '5.00'),
        capabilities: [...READING],
        context_length: 1_000_000,
        max_output_tokens: 128_000,
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
        name: 'Claude Haiku 4.5',
        pricing: perMillion('1.00', '5.00', '0.10', '1.25'),
        capabilities: [...BOTH],
        context_length: 200_000,
        max_output_tokens: 64_000,
      },
      'anthropic/claude-sonnet-5': {
        upstream: 'anthropic/claude-sonnet-5',
        name: 'Claude Sonnet 5',
        pricing: perMillion('2.00', '10.00', '0.20', '2.50'),
        capabilities: [...BOTH],
        context_length: 1_000_000,
      },
      'anthropic/claude-opus-5': {
        upstream: 'anthropic/claude-opus-5',
        name: 'Claude Opus 5',
        pricing: perMillion('5.00', '25.00', '0.50', '6.25'),
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
        name: 'GPT-OSS 20B',
        pricing: perMillion('0.075', '0.30', '0.0375'),
        capabilities: [...THINKING],
        context_length: 131_072,
        max_output_tokens: 65_536,
      },
      'openai/gpt-oss-120b': {
        upstream: 'openai/gpt-oss-120b',
        name: 'GPT-OSS 120B',
        pricing: perMillion('0.15', '0.60', '0.075'),
        capabilities: [...THINKING],
        context_length: 131_072,
        max_output_tokens: 65_536,
      },
      'qwen/qwen3.6-27b': {
        upstream: 'qwen/qwen3.6-27b',
        // Without a request for reasoning, the model writes it between tags in its answer.
        options: { reasoning: 'tags' },
        name: 'Qwen3.6 27B',
        pricing: perMillion('0.60', '3.00'),
        capabilities: [...BOTH],
        context_length: 131_072,
        max_output_tokens: 16_384,
      },
    },
  },
]

/** Prices of tokens from USD per million, as vendors quote them. */
function perMillion(
  prompt: string,
  completion: string,
  cacheRead?: string,
  cacheWrite?: string,
): Entry['pricing'] {
  return {
    prompt: `${prompt}e-6`,
    completion: `${completion}e-6`,
    ...(cacheRead && { input_cache_read: `${cacheRead}e-6` }),
    ...(cacheWrite && { input_cache_write: `${cacheWrite}e-6` }),
  }
}
