/** LiteLLM's price map, `model_prices_and_context_window.json`: USD per token, one object for each model. */
import type { Vendor } from '../../providers/vendors.ts'
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../../src/plugin.ts'
import { MODALITIES } from './litellm/modes.ts'
import { secondPrices, TOKEN_PRICES } from './litellm/price-names.ts'
import { LINES } from './litellm/vendors.ts'

type Row = Readonly<Record<string, unknown>>

/** Models that run tools at their vendor, for fees that no usage tells. */
const WITH_FEES: Readonly<Record<string, RegExp>> = {
  openai: /-search-|-deep-research|^computer-use-/,
  groq: /^(groq\/)?compound/,
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

const WRITE_NOTHING: ReadonlySet<string> = new Set(['embedding', 'rerank', 'moderation'])
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
    const aliases = aliasesIn(file)
    for (const [key, row] of Object.entries(file)) {
      if (key === SAMPLE || !isObject(row)) continue
      if (isText(row.alias_of)) yield { skipped: 'that are other names' }
      else yield rowOf(key, row, aliases.get(key) ?? [])
    }
  },
}
export default source

/** Names of rows that stand for another row, by the key of that. */
function aliasesIn(file: Row): Map<string, string[]> {
  const aliases = new Map<string, string[]>()
  for (const [key, row] of Object.entries(file)) {
    if (!isObject(row) || !isText(row.alias_of)) continue
    aliases.set(row.alias_of, [...(aliases.get(row.alias_of) ?? []), key])
  }
  return aliases
}

function rowOf(key: string, row: Row, aliases: readonly string[]): PriceRow | SkippedRow {
  const provider = String(row.litellm_provider)
  const line = lineOf(provider)
  if (line === undefined) return { skipped: `of the vendor ${provider}` }
  const { name: vendor } = line
  const name = nameOf(key, line)
  if (WITH_FEES[vendor]?.test(name)) return { skipped: 'with fees for tools of the vendor' }
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
    ...(isText(row.successor_model) && { successor: nameOf(row.successor_model, line) }),
    ...(aliases.length > 0 && { aliases: aliases.map((alias) => nameOf(alias, line)) }),
  }
}

/** The vendor of a row. LiteLLM names kinds of models behind some vendors, such as `vertex_ai-llama_models`. */
function lineOf(provider: string): Vendor | undefined {
  return LINES.get(provider) ?? LINES.get(provider.replace(/-.*$/, ''))
}

/** The name of a model at its vendor. */
function nameOf(key: string, { name, also }: Vendor): string {
  const prefix = (also?.litellm ?? [name]).find((one) => key.startsWith(`${one}/`))
  if (prefix !== undefined) return key.slice(prefix.length + 1)
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
    // The list says of models that write nothing that this costs nothing.
    if (name === 'completion' && WRITE_NOTHING.has(modality) && Number(value) === 0) continue
    if (name === undefined || !isText(value)) unmapped.push(member)
    else if (thousands === undefined) prices[name] = { text: value }
    else (tiers[`${Number(thousands) * 1000 + 1}`] ??= {})[name] = { text: value }
  }
  const isFree = (name: string) =>
    [prices[name]?.text ?? '0'].flat().every((text) => !(Number(text) > 0))
  for (const name of secondPrices(isFree)) delete prices[name]
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
