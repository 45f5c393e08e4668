/** LiteLLM's price map, `model_prices_and_context_window.json`: USD per token, one object for each model. */
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../../src/plugin.ts'
import { MODALITIES } from './litellm/modes.ts'
import { TOKEN_PRICES } from './litellm/price-names.ts'

type Row = Readonly<Record<string, unknown>>

/** Vendors by LiteLLM's names. */
const VENDORS: Readonly<Record<string, string>> = {
  anthropic: 'anthropic',
  azure: 'azure',
  bedrock: 'bedrock',
  bedrock_converse: 'bedrock',
  cerebras: 'cerebras',
  dashscope: 'alibaba',
  deepgram: 'deepgram',
  deepseek: 'deepseek',
  elevenlabs: 'elevenlabs',
  gemini: 'google',
  groq: 'groq',
  mistral: 'mistral',
  moonshot: 'moonshot',
  openai: 'openai',
  openrouter: 'openrouter',
  perplexity: 'perplexity',
  together_ai: 'together',
  xai: 'xai',
}

/** Prices for something else, and the modality that pays them; any modality where it is absent. */
const OTHERS: readonly (readonly [member: string, name: string, modality?: string])[] = [
  ['input_cost_per_image', 'image', 'image'],
  ['output_cost_per_image', 'image', 'image'],
  ['ocr_cost_per_page', 'page', 'ocr'],
  ['input_cost_per_character', 'character', 'speech'],
  ['input_cost_per_second', 'second', 'transcription'],
  ['input_cost_per_request', 'request'],
  ['input_cost_per_query', 'search_unit', 'rerank'],
]

const CAPABILITIES: Readonly<Record<string, string>> = {
  supports_function_calling: 'TOOLS',
  supports_vision: 'VISION',
  supports_response_schema: 'STRUCTURED_OUTPUTS',
  supports_reasoning: 'REASONING',
  supports_audio_input: 'AUDIO_INPUT',
  supports_pdf_input: 'FILE_INPUT',
}

const ABOVE = /^(.+)_above_(\d{1,6})k_tokens$/
/** The explanation of the members, among the models. */
const SAMPLE = 'sample_spec'

/** LiteLLM's price map. */
const source: PriceSource = {
  name: 'litellm',
  url: 'https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json',
  licence: 'MIT',
  matches: (file) =>
    isObject(file) && Object.values(file).some((row) => isObject(row) && 'litellm_provider' in row),
  *read(file) {
    if (!isObject(file)) return
    for (const [key, row] of Object.entries(file)) {
      if (key !== SAMPLE && isObject(row)) yield rowOf(key, row)
    }
  },
}
export default source

function rowOf(key: string, row: Row): PriceRow | SkippedRow {
  const provider = String(row.litellm_provider)
  const vendor = Object.hasOwn(VENDORS, provider) ? VENDORS[provider] : undefined
  if (vendor === undefined) return { skipped: `of the vendor ${provider}` }
  const name = nameOf(key, provider)
  // These keys name a size of images or a region: the vendor has no model of that name.
  if (/\d-x-\d/.test(name)) return { skipped: 'with prices by the size of images' }
  if (name.includes('/') && ['azure', 'bedrock'].includes(vendor)) {
    return { skipped: 'with prices of one region' }
  }
  const mode = typeof row.mode === 'string' ? row.mode : 'chat'
  const modality = Object.hasOwn(MODALITIES, mode) ? MODALITIES[mode]! : mode
  const { input_cost_per_image: input, output_cost_per_image: output } = row
  const differ = modality === 'image' && input !== undefined && output !== undefined
  const capabilities = [
    ...(modality === 'chat' ? ['STREAMING'] : []),
    ...Object.entries(CAPABILITIES).flatMap(([member, one]) => (row[member] === true ? [one] : [])),
    ...(mode === 'image_edit' ? ['REFERENCES'] : []),
  ]
  return {
    id: `${vendor}/${name}`,
    modality,
    ...pricesOf(row, modality),
    ...(differ &&
      input !== output && { doubt: 'images have a price going in and another going out' }),
    ...tokens('contextLength', row.max_input_tokens),
    ...tokens('maxOutputTokens', row.max_output_tokens),
    capabilities,
    ...(isDate(row.deprecation_date) && { deprecatedOn: row.deprecation_date }),
  }
}

function nameOf(key: string, provider: string): string {
  for (const prefix of [`${provider}/`, 'bedrock/']) {
    if (key.startsWith(prefix)) return key.slice(prefix.length)
  }
  return key
}

function pricesOf(row: Row, modality: string): Pick<PriceRow, 'prices' | 'tiers' | 'unmapped'> {
  const prices: Record<string, PriceText> = {}
  const tiers: Record<string, Record<string, PriceText>> = {}
  const unmapped: string[] = []
  for (const [member, value] of Object.entries(row)) {
    if (member === 'tiered_pricing' && Array.isArray(value)) {
      addRanges(value, prices, tiers)
      continue
    }
    if (member === 'search_context_cost_per_query' && isObject(value)) {
      const texts = Object.values(value).filter(isText)
      if (texts.length > 0) prices.web_search = { text: texts }
      continue
    }
    if (!/cost|price/.test(member) || value === null) continue
    const [, base = member, thousands] = ABOVE.exec(member) ?? []
    const name = Object.hasOwn(TOKEN_PRICES, base) ? TOKEN_PRICES[base] : otherOf(member, modality)
    if (name === undefined || !isText(value)) unmapped.push(member)
    else if (thousands === undefined) prices[name] = { text: value }
    else (tiers[`${Number(thousands) * 1000 + 1}`] ??= {})[name] = { text: value }
  }
  return { prices, tiers, unmapped }
}

function otherOf(member: string, modality: string): string | undefined {
  return OTHERS.find(([one, , only = modality]) => one === member && only === modality)?.[1]
}

/** Prices by ranges of the prompt; the first range is the list itself. */
function addRanges(
  ranges: readonly unknown[],
  prices: Record<string, PriceText>,
  tiers: Record<string, Record<string, PriceText>>,
): void {
  for (const [index, range] of ranges.entries()) {
    if (!isObject(range) || !Array.isArray(range.range)) continue
    const from = String(range.range[0])
    const target = index === 0 ? prices : (tiers[`${Number(from) + 1}`] ??= {})
    for (const [member, name] of Object.entries(TOKEN_PRICES)) {
      const value = range[member]
      if (isText(value)) target[name] = { text: value }
    }
  }
}

function tokens(name: 'contextLength' | 'maxOutputTokens', value: unknown) {
  return isText(value) && /^[1-9]\d{0,14}$/.test(value) ? { [name]: Number(value) } : {}
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isDate(value: unknown): value is string {
  return isText(value) && /^\d{4}-\d\d-\d\d$/.test(value)
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
