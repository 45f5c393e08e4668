/** The list of genai-prices: USD per million tokens, with former prices beside those in force. */
import { VENDORS } from '../../providers/vendors.ts'
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../../src/plugin.ts'

type Row = Readonly<Record<string, unknown>>

/** Vendors by the names of genai-prices. */
const NAMES: ReadonlyMap<string, string> = new Map(
  VENDORS.flatMap(({ name, also }) =>
    (also?.genaiPrices ?? [name]).map((theirs) => [theirs, name] as const),
  ),
)

const MILLION = 1_000_000
const THOUSAND = 1000
/** Prices by the names of genai-prices, and for how many units each of them is. */
const PRICES: Readonly<Record<string, readonly [price: string, per: number]>> = {
  input_mtok: ['prompt', MILLION],
  output_mtok: ['completion', MILLION],
  cache_read_mtok: ['input_cache_read', MILLION],
  cache_write_mtok: ['input_cache_write', MILLION],
  cache_write_1h_mtok: ['input_cache_write_1h', MILLION],
  output_reasoning_mtok: ['reasoning', MILLION],
  input_audio_mtok: ['audio', MILLION],
  cache_audio_read_mtok: ['audio_cache_read', MILLION],
  output_audio_mtok: ['audio_output', MILLION],
  input_image_mtok: ['image_token', MILLION],
  cache_image_read_mtok: ['image_cache_read', MILLION],
  output_image_mtok: ['image_output', MILLION],
  requests_kcount: ['request', THOUSAND],
  web_searches_kcount: ['web_search', THOUSAND],
}

/** The list of genai-prices. */
const source: PriceSource = {
  name: 'genai-prices',
  url: 'https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json',
  licence: 'MIT',
  matches: (file) =>
    Array.isArray(file) && file.some((vendor) => isObject(vendor) && Array.isArray(vendor.models)),
  *read(file) {
    const today = new Date().toISOString().slice(0, 10)
    for (const vendor of Array.isArray(file) ? file : []) {
      if (!isObject(vendor) || !Array.isArray(vendor.models)) continue
      for (const row of vendor.models) if (isObject(row)) yield rowOf(vendor.id, row, today)
    }
  },
}
export default source

function rowOf(vendor: unknown, row: Row, today: string): PriceRow | SkippedRow {
  const prefix = typeof vendor === 'string' ? NAMES.get(vendor) : undefined
  if (prefix === undefined) return { skipped: `of the vendor ${String(vendor)}` }
  const { id, name, match, context_window: context } = row
  // A name of the list's own stands for names of the vendor that it only describes.
  if (typeof id !== 'string' || !isNameAtVendor(id, match))
    return { skipped: 'under a name that the vendor does not have' }
  if (prefix === 'openrouter' && !id.includes('/'))
    return { skipped: 'under a name that the vendor does not have' }
  if (id.endsWith(':batch')) return { skipped: 'that answer in batches alone' }
  const prices = pricesInForce(row.prices, today)
  if (!prices) return { skipped: 'with prices by the time of day' }
  // The list does not tell embeddings, images and speech from each other.
  if (!('input_mtok' in prices && 'output_mtok' in prices))
    return { skipped: 'without prices of both prompt and completion' }
  if (Object.keys(prices).some((one) => one.startsWith('output_') && !Object.hasOwn(PRICES, one)))
    return { skipped: 'that answer with more than text, images and sound' }
  return {
    id: `${prefix}/${id}`,
    modality: 'chat',
    ...mapped(prices),
    ...(typeof name === 'string' && { name }),
    ...(isTokens(context) && { contextLength: Number(context) }),
    capabilities: ['STREAMING'],
  }
}

/** Whether calls name a model by this id, letter by letter. */
function isNameAtVendor(id: string, match: unknown): boolean {
  if (!isObject(match)) return false
  const alternatives = Array.isArray(match.or) ? match.or : [match]
  return alternatives.some((one) => isObject(one) && one.equals === id)
}

/** The prices that are in force today; undefined where they depend on the hour. */
function pricesInForce(prices: unknown, today: string): Row | undefined {
  if (!Array.isArray(prices)) return isObject(prices) ? prices : undefined
  let last: { readonly from: string; readonly prices: Row } | undefined
  for (const one of prices) {
    if (!isObject(one) || !isObject(one.prices)) return undefined
    const { start_date: day = '', ...others } = isObject(one.constraint) ? one.constraint : {}
    if (typeof day !== 'string' || Object.keys(others).length > 0) return undefined
    if (day <= today && (!last || day >= last.from)) last = { from: day, prices: one.prices }
  }
  return last?.prices
}

function mapped(prices: Row): Pick<PriceRow, 'prices' | 'tiers' | 'unmapped'> {
  const base: Record<string, PriceText> = {}
  const tiers: Record<string, Record<string, PriceText>> = {}
  const unmapped: string[] = []
  for (const [member, value] of Object.entries(prices)) {
    const target = Object.hasOwn(PRICES, member) ? PRICES[member] : undefined
    const first = isObject(value) ? value.base : value
    if (!target || typeof first !== 'string') {
      unmapped.push(member)
      continue
    }
    const [price, per] = target
    base[price] = { text: first, per }
    for (const tier of isObject(value) && Array.isArray(value.tiers) ? value.tiers : []) {
      const from = isObject(tier) && isTokens(tier.start) ? Number(tier.start) + 1 : undefined
      if (isObject(tier) && from !== undefined && typeof tier.price === 'string') {
        ;(tiers[from] ??= {})[price] = { text: tier.price, per }
      } else unmapped.push(`${member}.tiers`)
    }
  }
  return { prices: base, tiers, unmapped }
}

function isTokens(value: unknown): boolean {
  return typeof value === 'string' && /^[1-9]\d{0,14}$/.test(value)
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
