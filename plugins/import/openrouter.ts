/** The models of OpenRouter, `GET /api/v1/models`: USD per unit, as text. The licence of the list is not stated. */
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../../src/plugin.ts'

type Row = Readonly<Record<string, unknown>>

const VENDOR = 'openrouter'

/** Prices by OpenRouter's names. */
const PRICES: Readonly<Record<string, string>> = {
  prompt: 'prompt',
  completion: 'completion',
  input_cache_read: 'input_cache_read',
  input_cache_write: 'input_cache_write',
  input_cache_write_1h: 'input_cache_write_1h',
  internal_reasoning: 'reasoning',
  audio: 'audio',
  audio_output: 'audio_output',
  input_audio_cache: 'audio_cache_read',
  image_token: 'image_token',
  image_output: 'image_output',
  request: 'request',
  web_search: 'web_search',
}
/** Prices for which 0 means 0. Of the others it means that the model has none. */
const BASE: ReadonlySet<string> = new Set(['prompt', 'completion'])

/** Capabilities by `supported_parameters`. */
const PARAMETERS: Readonly<Record<string, string>> = {
  tools: 'TOOLS',
  structured_outputs: 'STRUCTURED_OUTPUTS',
  reasoning: 'REASONING',
  logprobs: 'LOGPROBS',
}
/** Capabilities by what a model takes. */
const INPUTS: Readonly<Record<string, string>> = {
  image: 'VISION',
  audio: 'AUDIO_INPUT',
  file: 'FILE_INPUT',
}

/** The models of OpenRouter. */
const source: PriceSource = {
  name: 'openrouter',
  url: 'https://openrouter.ai/api/v1/models',
  licence: 'not stated',
  matches: (file) => rowsOf(file).some((row) => isObject(row) && isObject(row.pricing)),
  *read(file) {
    for (const row of rowsOf(file)) if (isObject(row)) yield rowOf(row)
  },
}
export default source

function rowOf(row: Row): PriceRow | SkippedRow {
  const { id, pricing, architecture, top_provider: top } = row
  if (typeof id !== 'string' || !isObject(pricing)) return { skipped: 'without a name or prices' }
  const [input, output] = [
    listIn(architecture, 'input_modalities'),
    listIn(architecture, 'output_modalities'),
  ]
  const modality = output.includes('text') ? 'chat' : output.includes('image') ? 'image' : undefined
  if (modality === undefined)
    return { skipped: `that answer with ${output.join(', ') || 'nothing'}` }
  const parameters = listIn(row, 'supported_parameters')
  const { expiration_date: expires } = row
  return {
    id: `${VENDOR}/${id}`,
    modality,
    ...pricesOf(pricing, modality),
    ...(typeof row.name === 'string' && { name: row.name }),
    ...tokens('contextLength', row.context_length),
    ...tokens('maxOutputTokens', isObject(top) ? top.max_completion_tokens : undefined),
    capabilities: [
      ...(modality === 'chat' ? ['STREAMING'] : []),
      ...named(PARAMETERS, parameters),
      ...(modality === 'chat' ? named(INPUTS, input) : []),
    ],
    ...(isDate(expires) && { deprecatedOn: expires.slice(0, 10) }),
  }
}

function pricesOf(pricing: Row, modality: string): Pick<PriceRow, 'prices' | 'tiers' | 'unmapped'> {
  const { prices, unmapped } = mapped(pricing, modality)
  const tiers: Record<string, Readonly<Record<string, PriceText>>> = {}
  const { overrides } = pricing
  for (const one of Array.isArray(overrides) ? overrides : []) {
    if (!isObject(one)) continue
    const { min_prompt_tokens: from, ...own } = one
    const tier = mapped(own, modality)
    // Another condition, such as the time of day, is not known here.
    if (typeof from !== 'string' || tier.unmapped.length > 0) unmapped.push('overrides')
    else tiers[from] = tier.prices
  }
  return { prices, tiers, unmapped }
}

function mapped(pricing: Row, modality: string) {
  const prices: Record<string, PriceText> = {}
  const unmapped: string[] = []
  for (const [member, text] of Object.entries(pricing)) {
    if (member === 'overrides' || member === 'discount') continue
    if (typeof text !== 'string') {
      unmapped.push(member)
      continue
    }
    const name = Object.hasOwn(PRICES, member) ? PRICES[member]! : undefined
    if (/^0(?:\.0*)?$/.test(text) && !BASE.has(member)) continue
    if (name !== undefined) prices[name] = { text }
    else if (member === 'image' && modality === 'image') prices.image = { text }
    else unmapped.push(member)
  }
  return { prices, unmapped }
}

function rowsOf(file: unknown): readonly unknown[] {
  return isObject(file) && Array.isArray(file.data) ? file.data : []
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const list = isObject(value) ? value[name] : undefined
  return Array.isArray(list) ? list : []
}

function named(names: Readonly<Record<string, string>>, words: readonly unknown[]): string[] {
  return Object.entries(names).flatMap(([word, name]) => (words.includes(word) ? [name] : []))
}

function tokens(name: 'contextLength' | 'maxOutputTokens', value: unknown) {
  const isCount = typeof value === 'string' && /^[1-9]\d{0,14}$/.test(value)
  return isCount ? { [name]: Number(value) } : {}
}

function isDate(value: unknown): value is string {
  return typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value)
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
