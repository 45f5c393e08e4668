/** LiteLLM's prefixes of models, and the plugins that speak to the same vendors. */

/** How models with a prefix are served here. */
export interface Vendor {
  /** The plugin, and by default the name of the provider instance. */
  readonly plugin: string
  /** Name of the instance and beginning of model ids, where the plugin serves several vendors. */
  readonly vendor: string
  /** The vendor of its models in price lists, where it is not `vendor`. */
  readonly listed?: string
  /** The profile of the plugin for compatible vendors. */
  readonly quirks?: string
  /** The environment variable that LiteLLM reads without `api_key`. */
  readonly variable?: string
  /** The address without `api_base`; without either there is none. */
  readonly base?: string
  /** The environment variable that LiteLLM reads without `api_base`. */
  readonly baseVariable?: string
  /** Put behind `api_base`. */
  readonly path?: string
  /** Further options. */
  readonly options?: Readonly<Record<string, unknown>>
}

const compatible = (vendor: string, quirks: string, more: Partial<Vendor>): Vendor => ({
  plugin: 'openai-compatible',
  vendor,
  quirks,
  ...more,
})
const own = (plugin: string, variable: string): Vendor => ({ plugin, vendor: plugin, variable })

const OLLAMA = compatible('ollama', 'ollama', {
  base: 'http://localhost:11434',
  baseVariable: 'OLLAMA_API_BASE',
  path: '/v1',
})
const VLLM = compatible('vllm', 'vllm', { baseVariable: 'HOSTED_VLLM_API_BASE' })
const GOOGLE = own('google', 'GEMINI_API_KEY')
const BEDROCK: Vendor = { plugin: 'bedrock', vendor: 'bedrock' }

const VENDORS: Readonly<Record<string, Vendor>> = {
  openai: own('openai', 'OPENAI_API_KEY'),
  azure: { ...own('azure', 'AZURE_API_KEY'), baseVariable: 'AZURE_API_BASE' },
  azure_ai: {
    plugin: 'azure',
    vendor: 'azure-ai',
    variable: 'AZURE_AI_API_KEY',
    baseVariable: 'AZURE_AI_API_BASE',
    options: { surface: 'models' },
  },
  anthropic: own('anthropic', 'ANTHROPIC_API_KEY'),
  gemini: GOOGLE,
  vertex_ai: { plugin: 'google', vendor: 'vertex', listed: 'google' },
  bedrock: BEDROCK,
  'bedrock/converse': BEDROCK,
  mistral: own('mistral', 'MISTRAL_API_KEY'),
  codestral: {
    ...own('mistral', 'CODESTRAL_API_KEY'),
    vendor: 'codestral',
    listed: 'mistral',
    base: 'https://codestral.mistral.ai/v1',
  },
  groq: compatible('groq', 'groq', {
    variable: 'GROQ_API_KEY',
    base: 'https://api.groq.com/openai/v1',
  }),
  deepseek: compatible('deepseek', 'deepseek', {
    variable: 'DEEPSEEK_API_KEY',
    base: 'https://api.deepseek.com/v1',
  }),
  xai: compatible('xai', 'xai', { variable: 'XAI_API_KEY', base: 'https://api.x.ai/v1' }),
  together_ai: compatible('together', 'together', {
    variable: 'TOGETHERAI_API_KEY',
    base: 'https://api.together.xyz/v1',
  }),
  cerebras: compatible('cerebras', 'cerebras', {
    variable: 'CEREBRAS_API_KEY',
    base: 'https://api.cerebras.ai/v1',
  }),
  moonshot: compatible('moonshot', 'moonshot', {
    variable: 'MOONSHOT_API_KEY',
    base: 'https://api.moonshot.ai/v1',
  }),
  dashscope: compatible('alibaba', 'alibaba', {
    variable: 'DASHSCOPE_API_KEY',
    base: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
  }),
  perplexity: compatible('perplexity', 'perplexity', {
    variable: 'PERPLEXITYAI_API_KEY',
    base: 'https://api.perplexity.ai',
  }),
  openrouter: compatible('openrouter', 'openrouter', {
    variable: 'OPENROUTER_API_KEY',
    base: 'https://openrouter.ai/api/v1',
  }),
  ollama: OLLAMA,
  ollama_chat: OLLAMA,
  hosted_vllm: VLLM,
  vllm: VLLM,
  lm_studio: compatible('lmstudio', 'lmstudio', { baseVariable: 'LM_STUDIO_API_BASE' }),
  llamafile: compatible('llamacpp', 'llamacpp', {
    base: 'http://127.0.0.1:8080/v1',
    baseVariable: 'LLAMAFILE_API_BASE',
  }),
  deepgram: own('deepgram', 'DEEPGRAM_API_KEY'),
  elevenlabs: own('elevenlabs', 'ELEVENLABS_API_KEY'),
}

/** Names of OpenAI's models, which need no prefix. */
const OPENAI =
  /^(gpt-|chatgpt-|o\d|text-embedding-|dall-e|whisper|tts-|omni-moderation|computer-use|codex-|ft:)/

const OPENAI_ADDRESS = /^https:\/\/([a-z]+\.)?api\.openai\.com(\/|$)/

/** A model of the source, taken apart. */
export interface Target {
  readonly prefix: string
  readonly vendor: Vendor
  /** The name of the model at its vendor. */
  readonly model: string
  /** The vendor is not known, only that it has an address. */
  readonly guessed: boolean
}

/**
 * The vendor of a model and its name there.
 * @param name such as `groq/llama-3.3-70b`
 * @param provider `custom_llm_provider`, which takes the place of a prefix
 * @param base the address to ask
 * @returns a text that says why there is none
 */
export function targetOf(
  name: string,
  provider: string | undefined,
  base: string | undefined,
): Target | string {
  const slash = name.indexOf('/')
  const first = slash < 0 ? '' : name.slice(0, slash)
  const prefix =
    provider ??
    (slash >= 0
      ? first
      : OPENAI.test(name)
        ? 'openai'
        : name.startsWith('claude')
          ? 'anthropic'
          : '')
  const rest = first === prefix ? name.slice(slash + 1) : name
  if (prefix === 'bedrock') return bedrock(rest)
  const found = Object.hasOwn(VENDORS, prefix) ? VENDORS[prefix]! : undefined
  if (prefix === 'vertex_ai' && rest.startsWith('claude')) {
    const vendor = { plugin: 'anthropic', vendor: 'vertex-anthropic', listed: 'anthropic' }
    return { prefix, vendor, model: rest, guessed: false }
  }
  // A model that is asked at an address of its own is not at the vendor.
  if (found && prefix === 'openai' && base !== undefined && !OPENAI_ADDRESS.test(base)) {
    const vendor = { ...found, plugin: 'openai-compatible', vendor: 'openai-compatible' }
    return { prefix, vendor, model: rest, guessed: false }
  }
  if (found) return { prefix, vendor: found, model: rest, guessed: false }
  if (prefix === '') return 'the vendor is not known: the name has no prefix'
  if (base === undefined)
    return `the vendor ${JSON.stringify(prefix)} has no plugin here, and there is no api_base`
  const vendor = { plugin: 'openai-compatible', vendor: instanceName(prefix) }
  return { prefix, vendor, model: rest, guessed: true }
}

function bedrock(rest: string): Target | string {
  const model = rest.replace(/^converse\//, '')
  const other = /^(?!arn:)([a-z_]+)\//.exec(model)
  if (other) return `the route bedrock/${other[1]} has no counterpart`
  return { prefix: 'bedrock', vendor: BEDROCK, model, guessed: false }
}

function instanceName(prefix: string): string {
  const name = prefix
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
  return name.slice(0, 60) || 'vendor'
}
