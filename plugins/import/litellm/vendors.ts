/** LiteLLM's prefixes of models, and what serves the same vendors here. */
import { VENDORS, type Vendor } from '../../../providers/vendors.ts'

/** A model of the source, taken apart. */
export interface Target {
  readonly prefix: string
  /** Name of the provider instance and beginning of model ids. */
  readonly vendor: string
  /** A vendor or a plugin. */
  readonly use: string
  /** Which members of LiteLLM the instance is made of. */
  readonly kind: 'azure' | 'bedrock' | 'vertex' | 'hosted'
  /** Its line in the table of vendors. */
  readonly line?: Vendor
  /** The name of the model at its vendor. */
  readonly model: string
  /** Its ids in price lists, the most exact first. */
  readonly listed: readonly string[]
  /** Options of the instance. */
  readonly options?: Readonly<Record<string, unknown>>
  /** It is asked by the Responses API. */
  readonly responses: boolean
  /** The vendor is not known, only that it has an address. */
  readonly guessed: boolean
}

/** Lines of the table of vendors by LiteLLM's prefixes. */
export const LINES: ReadonlyMap<string, Vendor> = new Map(
  VENDORS.flatMap((line) =>
    (line.also?.litellm ?? [line.name]).map((prefix) => [prefix, line] as const),
  ),
)

/** Names of OpenAI's models, which need no prefix. */
const OPENAI =
  /^(gpt-|chatgpt-|o\d|text-embedding-|dall-e|whisper|tts-|omni-moderation|computer-use|codex-|ft:)/
const OPENAI_ADDRESS = /^https:\/\/([a-z]+\.)?api\.openai\.com(\/|$)/
/** Makers whose models on Vertex AI have OpenAI's API. */
const VERTEX_MAKERS = /^(meta|deepseek-ai|qwen|openai|moonshotai|minimaxai|zai-org)\//
/** Models on Vertex AI with an API of their own, and endpoints of the customer. */
const VERTEX_OTHERS = /^(mistral|codestral|jamba|\d+$)|\//
const RESPONSES = 'responses/'

/**
 * The vendor of a model and its name there.
 * @param name the name, such as `groq/llama-3.3-70b`
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
  const prefix = provider ?? (slash >= 0 ? first : vendorOfBare(name))
  const rest = first === prefix ? name.slice(slash + 1) : name
  if (prefix === 'bedrock' || prefix === 'bedrock_converse') return bedrock(rest)
  if (prefix === 'vertex_ai') return vertex(rest)
  const responses = rest.startsWith(RESPONSES)
  const model = responses ? rest.slice(RESPONSES.length) : rest
  const common = { prefix, model, responses, guessed: false } as const
  if (prefix === 'azure' || prefix === 'azure_text') {
    const listed = [`azure/${model}`, `openai/${model}`]
    return { ...common, vendor: 'azure', use: 'azure', kind: 'azure', listed }
  }
  if (prefix === 'azure_ai') {
    const options = { surface: 'models' }
    const listed = [`azure-ai/${model}`]
    return { ...common, vendor: 'azure-ai', use: 'azure', kind: 'azure', listed, options }
  }
  if (prefix === 'codestral') return codestral(common)
  const line = LINES.get(prefix)
  // A model that is asked at an address of its own is not at the vendor.
  const isElsewhere = prefix === 'openai' && base !== undefined && !OPENAI_ADDRESS.test(base)
  if (line && !isElsewhere) {
    const { name: vendor } = line
    return { ...common, vendor, use: vendor, kind: 'hosted', line, listed: [`${vendor}/${model}`] }
  }
  const compatible = { ...common, use: 'openai-compatible', kind: 'hosted', listed: [] } as const
  if (isElsewhere) return { ...compatible, vendor: 'openai-compatible' }
  if (prefix === '') return 'its vendor is not known, because its name has no prefix'
  if (base !== undefined) return { ...compatible, vendor: instanceName(prefix), guessed: true }
  return `the vendor ${JSON.stringify(shortened(prefix))} is not known here, and there is no api_base`
}

/** The vendor of a name without a prefix; empty where LiteLLM knows none either. */
export function vendorOfBare(name: string): string {
  if (OPENAI.test(name)) return 'openai'
  return name.startsWith('claude') ? 'anthropic' : ''
}

type Common = Pick<Target, 'prefix' | 'model' | 'responses' | 'guessed'>

function codestral(common: Common): Target {
  const listed = [`mistral/${common.model}`]
  const options = { baseURL: 'https://codestral.mistral.ai/v1' }
  const line: Vendor = { name: 'codestral', variables: ['CODESTRAL_API_KEY'] }
  return { ...common, vendor: 'codestral', use: 'mistral', kind: 'hosted', line, listed, options }
}

function bedrock(rest: string): Target | string {
  const model = rest.replace(/^converse\//, '')
  const other = /^(?!arn:)([a-z_]+)\//.exec(model)
  if (other) return `the route bedrock/${other[1]} has no counterpart`
  return {
    prefix: 'bedrock',
    vendor: 'bedrock',
    use: 'bedrock',
    kind: 'bedrock',
    model,
    listed: [`bedrock/${model}`],
    responses: false,
    guessed: false,
  }
}

function vertex(model: string): Target | string {
  const use = VERTEX_MAKERS.test(model)
    ? 'openai-compatible'
    : model.startsWith('claude')
      ? 'anthropic'
      : 'google'
  if (use === 'google' && VERTEX_OTHERS.test(model)) {
    return 'this model of a partner on Vertex AI has an API that is not spoken here'
  }
  return {
    prefix: 'vertex_ai',
    vendor: 'vertex',
    use,
    kind: 'vertex',
    model,
    // Google's own models cost the same on both of its services.
    listed: [`vertex/${model}`, ...(use === 'google' ? [`google/${model}`] : [])],
    responses: false,
    guessed: false,
  }
}

function instanceName(prefix: string): string {
  const name = prefix
    .toLowerCase()
    .replaceAll(/[^a-z0-9_-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
  return name.slice(0, 60) || 'vendor'
}

/** What stands where a prefix should be may be anything. */
function shortened(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text
}

/** Ids in price lists of a base model. @param vendor whose models have no prefix */
export function priceIdsOf(base: string, vendor: string): string[] {
  const [, prefix, model] = /^([^/]+)\/(.+)$/.exec(base) ?? []
  if (prefix === undefined || model === undefined) {
    return [...new Set([`${vendor}/${base}`, `openai/${base}`])]
  }
  const target = targetOf(base, undefined, undefined)
  return typeof target === 'string' ? [base] : [...target.listed]
}
