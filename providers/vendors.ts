/** The vendors that are known by name: what serves them, where they are, and which variable holds the API key. One line a vendor. */

/** A vendor. Its name is a value of `use`, the name of its provider and the beginning of the ids of its models. */
export interface Vendor {
  readonly name: string
  /** Environment variables with the API key; the first that is set counts. */
  readonly variables: readonly string[]
  /** The plugin that serves it; `openai-compatible` where it is absent. */
  readonly plugin?: string
  readonly baseURL?: string
  /** Row of the quirk table of `openai-compatible`; `hosted` where it is absent. */
  readonly row?: string
  /** It makes the models that it serves. */
  readonly maker?: true
  /** A server of the operator's own, which costs nothing. */
  readonly local?: true
  /** Its answers say what they have cost. */
  readonly reportsCost?: true
  /** Environment variables with the address of such a server. */
  readonly address?: readonly string[]
  /** Short names of its models, and the names that they stand for. */
  readonly short?: Readonly<Record<string, string>>
  /** Its names in other programs and price lists, where they differ. */
  readonly also?: {
    readonly litellm?: readonly string[]
    readonly modelsDev?: readonly string[]
    readonly genaiPrices?: readonly string[]
    readonly bifrost?: string
    /** Numbers of channel types. */
    readonly newApi?: readonly number[]
  }
}

/** Adds the lines that only map rows of price lists: they have no key and no address of their own. */
const ROWS_ALONE: readonly Vendor[] = [
  { name: 'azure', variables: [], also: { litellm: ['azure', 'azure_text'], newApi: [3] } },
  { name: 'azure-ai', variables: [], also: { litellm: ['azure_ai'] } },
  {
    name: 'bedrock',
    variables: [],
    also: {
      litellm: ['bedrock', 'bedrock_converse'],
      modelsDev: ['amazon-bedrock'],
      newApi: [33],
    },
  },
  {
    name: 'vertex',
    variables: [],
    also: {
      litellm: ['vertex_ai'],
      modelsDev: ['google-vertex', 'google-vertex-anthropic'],
      newApi: [41],
    },
  },
]

/** A vendor with a plugin of its own. */
function plugin(
  name: string,
  variables: readonly string[],
  baseURL: string,
  more: Partial<Vendor> = {},
): Vendor {
  return { name, variables, baseURL, plugin: name, maker: true, ...more }
}

/** A vendor that speaks OpenAI's API. */
function compatible(
  name: string,
  variables: readonly string[],
  baseURL: string,
  more: Partial<Vendor> = {},
): Vendor {
  return { name, variables, baseURL, ...more }
}

/** A server that operators run themselves. */
function local(
  name: string,
  address: readonly string[],
  litellm: readonly string[],
  more: Partial<Vendor> = {},
): Vendor {
  return { name, variables: [], row: name, local: true, address, also: { litellm }, ...more }
}

const MAKER = { maker: true } as const

/** All vendors. The order of makers and resellers has no meaning. */
export const VENDORS: readonly Vendor[] = [
  plugin('openai', ['OPENAI_API_KEY'], 'https://api.openai.com/v1', {
    also: { litellm: ['openai', 'text-completion-openai'], newApi: [1, 57] },
  }),
  plugin('anthropic', ['ANTHROPIC_API_KEY'], 'https://api.anthropic.com/v1', {
    short: {
      opus: 'claude-opus-latest',
      sonnet: 'claude-sonnet-latest',
      haiku: 'claude-haiku-latest',
      fable: 'claude-fable-latest',
    },
    also: { newApi: [14] },
  }),
  plugin(
    'google',
    ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
    'https://generativelanguage.googleapis.com/v1beta',
    {
      also: { litellm: ['gemini'], bifrost: 'gemini', newApi: [24] },
    },
  ),
  plugin('mistral', ['MISTRAL_API_KEY'], 'https://api.mistral.ai/v1', { also: { newApi: [42] } }),
  plugin('deepgram', ['DEEPGRAM_API_KEY'], 'https://api.deepgram.com'),
  plugin('elevenlabs', ['ELEVENLABS_API_KEY'], 'https://api.elevenlabs.io'),
  compatible('groq', ['GROQ_API_KEY'], 'https://api.groq.com/openai/v1', { row: 'groq' }),
  compatible('deepseek', ['DEEPSEEK_API_KEY'], 'https://api.deepseek.com', {
    row: 'deepseek',
    maker: true,
    also: { newApi: [43] },
  }),
  compatible('xai', ['XAI_API_KEY'], 'https://api.x.ai/v1', {
    row: 'xai',
    reportsCost: true,
    maker: true,
    also: { genaiPrices: ['x-ai'], newApi: [48] },
  }),
  compatible(
    'together',
    ['TOGETHER_API_KEY', 'TOGETHERAI_API_KEY', 'TOGETHER_AI_API_KEY'],
    'https://api.together.xyz/v1',
    { row: 'together', also: { litellm: ['together_ai'], modelsDev: ['togetherai'] } },
  ),
  compatible('cerebras', ['CEREBRAS_API_KEY'], 'https://api.cerebras.ai/v1', { row: 'cerebras' }),
  compatible('moonshot', ['MOONSHOT_API_KEY'], 'https://api.moonshot.ai/v1', {
    row: 'moonshot',
    maker: true,
    also: { modelsDev: ['moonshotai'], genaiPrices: ['moonshotai'], newApi: [25] },
  }),
  compatible(
    'alibaba',
    ['DASHSCOPE_API_KEY'],
    'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    { row: 'alibaba', maker: true, also: { litellm: ['dashscope'], newApi: [17] } },
  ),
  compatible(
    'perplexity',
    ['PERPLEXITY_API_KEY', 'PERPLEXITYAI_API_KEY'],
    'https://api.perplexity.ai',
    { row: 'perplexity', reportsCost: true, maker: true, also: { newApi: [27] } },
  ),
  compatible('openrouter', ['OPENROUTER_API_KEY'], 'https://openrouter.ai/api/v1', {
    row: 'openrouter',
    reportsCost: true,
    short: {
      opus: '~anthropic/claude-opus-latest',
      sonnet: '~anthropic/claude-sonnet-latest',
      haiku: '~anthropic/claude-haiku-latest',
      fable: '~anthropic/claude-fable-latest',
    },
    also: { newApi: [20] },
  }),
  compatible('zai', ['ZAI_API_KEY', 'ZHIPU_API_KEY'], 'https://api.z.ai/api/paas/v4', {
    row: 'zai',
    maker: true,
  }),
  compatible('bigmodel', ['ZHIPUAI_API_KEY'], 'https://open.bigmodel.cn/api/paas/v4', {
    row: 'zai',
    maker: true,
    also: { modelsDev: ['zhipuai'], newApi: [16, 26] },
  }),
  compatible(
    'volcengine',
    ['VOLCENGINE_API_KEY', 'ARK_API_KEY'],
    'https://ark.cn-beijing.volces.com/api/v3',
    { row: 'zai', maker: true, also: { newApi: [45] } },
  ),
  compatible('minimax', ['MINIMAX_API_KEY'], 'https://api.minimax.io/v1', {
    maker: true,
    also: { newApi: [35] },
  }),
  compatible('cohere', ['COHERE_API_KEY', 'CO_API_KEY'], 'https://api.cohere.ai/compatibility/v1', {
    maker: true,
    also: { litellm: ['cohere', 'cohere_chat'], newApi: [34] },
  }),
  compatible('voyage', ['VOYAGE_API_KEY'], 'https://api.voyageai.com/v1', {
    maker: true,
    also: { genaiPrices: ['voyageai'] },
  }),
  compatible('jina', ['JINA_API_KEY', 'JINA_AI_API_KEY'], 'https://api.jina.ai/v1', {
    maker: true,
    also: { litellm: ['jina_ai'], newApi: [38] },
  }),
  compatible(
    'fireworks',
    ['FIREWORKS_API_KEY', 'FIREWORKS_AI_API_KEY'],
    'https://api.fireworks.ai/inference/v1',
    { also: { litellm: ['fireworks_ai'], modelsDev: ['fireworks-ai'] } },
  ),
  compatible('deepinfra', ['DEEPINFRA_API_KEY'], 'https://api.deepinfra.com/v1/openai', {
    row: 'deepinfra',
    reportsCost: true,
  }),
  compatible(
    'nvidia',
    ['NVIDIA_API_KEY', 'NVIDIA_NIM_API_KEY'],
    'https://integrate.api.nvidia.com/v1',
    { also: { litellm: ['nvidia_nim'] } },
  ),
  compatible('sambanova', ['SAMBANOVA_API_KEY'], 'https://api.sambanova.ai/v1'),
  compatible(
    'github',
    ['GITHUB_MODELS_TOKEN', 'GITHUB_API_KEY'],
    'https://models.github.ai/inference',
    { also: { modelsDev: ['github-models'] } },
  ),
  compatible('novita', ['NOVITA_API_KEY'], 'https://api.novita.ai/openai/v1', {
    also: { modelsDev: ['novita-ai'] },
  }),
  compatible('nebius', ['NEBIUS_API_KEY'], 'https://api.tokenfactory.nebius.com/v1'),
  compatible('hyperbolic', ['HYPERBOLIC_API_KEY'], 'https://api.hyperbolic.xyz/v1'),
  compatible('siliconflow', ['SILICONFLOW_API_KEY'], 'https://api.siliconflow.com/v1', {
    row: 'alibaba',
    also: { litellm: [], newApi: [40] },
  }),
  compatible('huggingface', ['HUGGINGFACE_API_KEY'], 'https://router.huggingface.co/v1'),
  compatible(
    'vercel',
    ['AI_GATEWAY_API_KEY', 'VERCEL_AI_GATEWAY_API_KEY'],
    'https://ai-gateway.vercel.sh/v1',
    { also: { litellm: ['vercel_ai_gateway'] } },
  ),
  compatible('baseten', ['BASETEN_API_KEY'], 'https://inference.baseten.co/v1'),
  compatible(
    'friendli',
    ['FRIENDLI_TOKEN', 'FRIENDLIAI_API_KEY'],
    'https://api.friendli.ai/serverless/v1',
    { also: { litellm: ['friendliai'] } },
  ),
  compatible('scaleway', ['SCALEWAY_API_KEY'], 'https://api.scaleway.ai/v1'),
  compatible('ovhcloud', ['OVHCLOUD_API_KEY'], 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1'),
  compatible('nscale', ['NSCALE_API_KEY'], 'https://inference.api.nscale.com/v1'),
  compatible('lambda', ['LAMBDA_API_KEY'], 'https://api.lambda.ai/v1', {
    also: { litellm: ['lambda_ai'] },
  }),
  compatible('featherless', ['FEATHERLESS_API_KEY'], 'https://api.featherless.ai/v1', {
    also: { litellm: ['featherless_ai'] },
  }),
  compatible('gmi', ['GMI_API_KEY'], 'https://api.gmi-serving.com/v1'),
  compatible('chutes', ['CHUTES_API_KEY'], 'https://llm.chutes.ai/v1'),
  compatible('crusoe', ['CRUSOE_API_KEY'], 'https://api.inference.crusoecloud.com/v1'),
  compatible('ai21', ['AI21_API_KEY'], 'https://api.ai21.com/studio/v1', {
    maker: true,
    also: { litellm: ['ai21', 'ai21_chat'] },
  }),
  compatible('meta', ['LLAMA_API_KEY'], 'https://api.llama.com/compat/v1', {
    maker: true,
    also: { litellm: ['meta_llama'], modelsDev: ['llama'] },
  }),
  compatible('inception', ['INCEPTION_API_KEY'], 'https://api.inceptionlabs.ai/v1', MAKER),
  compatible('morph', ['MORPH_API_KEY'], 'https://api.morphllm.com/v1', MAKER),
  compatible('v0', ['V0_API_KEY'], 'https://api.v0.dev/v1', MAKER),
  compatible('xiaomi', ['XIAOMI_MIMO_API_KEY'], 'https://api.xiaomimimo.com/v1', {
    maker: true,
    also: { litellm: ['xiaomi_mimo'] },
  }),
  compatible('aihubmix', ['AIHUBMIX_API_KEY'], 'https://aihubmix.com/v1'),
  compatible('poe', ['POE_API_KEY'], 'https://api.poe.com/v1'),
  compatible('venice', ['VENICE_AI_API_KEY'], 'https://api.venice.ai/api/v1', {
    also: { litellm: ['veniceai'] },
  }),
  local('ollama', ['OLLAMA_HOST', 'OLLAMA_API_BASE'], ['ollama', 'ollama_chat'], {
    baseURL: 'http://127.0.0.1:11434/v1',
    also: { litellm: ['ollama', 'ollama_chat'], newApi: [4] },
  }),
  local('vllm', ['VLLM_API_BASE', 'HOSTED_VLLM_API_BASE'], ['hosted_vllm', 'vllm']),
  local('llamacpp', ['LLAMACPP_API_BASE', 'LLAMAFILE_API_BASE'], ['llamafile']),
  local('lmstudio', ['LM_STUDIO_API_BASE'], ['lm_studio']),
  ...ROWS_ALONE,
]

const BY_NAME: ReadonlyMap<string, Vendor> = new Map(VENDORS.map((one) => [one.name, one]))

/** The vendor of a name that `use` can have; a line that only maps rows of price lists is none. */
export function vendorOf(name: string): Vendor | undefined {
  const vendor = BY_NAME.get(name)
  return vendor && canServe(vendor) ? vendor : undefined
}

/** Whether a line is more than a name in price lists. */
function canServe({ plugin: own, baseURL, address }: Vendor): boolean {
  return own !== undefined || baseURL !== undefined || address !== undefined
}

/** The plugin that serves a vendor. */
export function pluginOf({ plugin: own = 'openai-compatible' }: Vendor): string {
  return own
}

/** Names of the vendors that make the models which they serve. */
export const MAKERS: ReadonlySet<string> = new Set(
  VENDORS.filter(({ maker }) => maker).map(({ name }) => name),
)

/** Values of environment variables. */
type Variables = Readonly<Record<string, string | undefined>>

/** The variable that holds the key of a vendor: the first that is set. */
export function keyVariableOf({ variables }: Vendor, env: Variables): string | undefined {
  return variables.find((name) => env[name])
}

/**
 * The address of a server of the operator's own, below which its API is; undefined where no variable has it.
 * @throws Error that names the variable whose value is no address
 */
export function addressOf({ address = [], name }: Vendor, env: Variables): string | undefined {
  const variable = address.find((one) => env[one])
  if (variable === undefined) return undefined
  const text = env[variable]!
  // OLLAMA_HOST may be an address to listen on, and may lack scheme, host or port.
  const whole = text.startsWith(':') ? `127.0.0.1${text}` : text
  const written = /^https?:\/\//.test(whole) ? whole : `http://${whole}`
  if (!URL.canParse(written)) {
    throw new Error(
      `expected ${variable} to be an address such as 127.0.0.1:11434, found "${text}"`,
    )
  }
  const url = new URL(written)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (name === 'ollama' && url.port === '' && url.protocol === 'http:') url.port = '11434'
  const path = url.pathname.replace(/\/+$/, '')
  return `${url.origin}${path === '' ? '/v1' : path}`
}

/**
 * The options that a vendor gives its plugin: address, row and key. A key is a reference to its variable, also where none is set,
 * so that a message names it.
 * @throws Error for an address that is none
 */
export function vendorOptions(vendor: Vendor, env: Variables): Record<string, unknown> {
  const baseURL = addressOf(vendor, env) ?? vendor.baseURL
  const variable = keyVariableOf(vendor, env) ?? vendor.variables[0]
  return {
    ...(baseURL !== undefined && { baseURL }),
    ...(vendor.plugin === undefined && { quirks: vendor.row ?? 'hosted' }),
    ...(variable !== undefined && { apiKey: `\${${variable}}` }),
  }
}
