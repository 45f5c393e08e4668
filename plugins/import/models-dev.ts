/** The list of models.dev: USD per million tokens, vendors with their models. */
import { VENDORS } from '../../providers/vendors.ts'
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../../src/plugin.ts'

type Row = Readonly<Record<string, unknown>>

/** Vendors by the names of models.dev. */
const NAMES: ReadonlyMap<string, string> = new Map(
  VENDORS.flatMap(({ name, also }) =>
    (also?.modelsDev ?? [name]).map((theirs) => [theirs, name] as const),
  ),
)

/** Prices for a million tokens. */
const PER_MILLION: Readonly<Record<string, string>> = {
  input: 'prompt',
  output: 'completion',
  cache_read: 'input_cache_read',
  cache_write: 'input_cache_write',
  reasoning: 'reasoning',
  input_audio: 'audio',
  output_audio: 'audio_output',
}
const MILLION = 1_000_000
const MINUTE = 60
/** Tokens from which an older member applies. */
const OVER_200K = '200001'

/** The list of models.dev. */
const source: PriceSource = {
  name: 'models.dev',
  url: 'https://models.dev/api.json',
  licence: 'MIT',
  matches: (file) =>
    isObject(file) &&
    Object.values(file).some(
      (vendor) => isObject(vendor) && isObject(vendor.models) && 'id' in vendor,
    ),
  *read(file) {
    if (!isObject(file)) return
    for (const [name, vendor] of Object.entries(file)) {
      if (!isObject(vendor) || !isObject(vendor.models)) continue
      for (const [model, row] of Object.entries(vendor.models)) {
        if (isObject(row)) yield rowOf(name, model, row)
      }
    }
  },
}
export default source

function rowOf(vendor: string, name: string, row: Row): PriceRow | SkippedRow {
  const prefix = NAMES.get(vendor)
  if (prefix === undefined) return { skipped: `of the vendor ${vendor}` }
  const { modalities, limit, cost } = row
  const [input, output] = [listIn(modalities, 'input'), listIn(modalities, 'output')]
  const modality = output.includes('text') ? 'chat' : output.includes('image') ? 'image' : undefined
  if (modality === undefined)
    return { skipped: `that answer with ${output.join(', ') || 'nothing'}` }
  if (!isObject(cost)) return { skipped: 'without prices' }
  const capabilities = [
    ...(modality === 'chat' ? ['STREAMING'] : []),
    ...(row.tool_call === true ? ['TOOLS'] : []),
    ...(row.reasoning === true ? ['REASONING'] : []),
    ...(row.structured_output === true ? ['STRUCTURED_OUTPUTS'] : []),
    ...(modality === 'chat' && input.includes('image') ? ['VISION'] : []),
    ...(input.includes('audio') ? ['AUDIO_INPUT'] : []),
    ...(input.includes('pdf') ? ['FILE_INPUT'] : []),
  ]
  const { last_updated: updated, status } = row
  return {
    id: `${prefix}/${name}`,
    modality,
    ...pricesOf(cost),
    ...(typeof row.name === 'string' && { name: row.name }),
    ...tokens('contextLength', isObject(limit) ? limit.context : undefined),
    ...tokens('maxOutputTokens', isObject(limit) ? limit.output : undefined),
    capabilities,
    ...(status === 'deprecated' && isDate(updated) && { deprecatedOn: updated }),
  }
}

function pricesOf(cost: Row): Pick<PriceRow, 'prices' | 'tiers' | 'unmapped'> {
  const tiers: Record<string, Record<string, PriceText>> = {}
  const unmapped: string[] = []
  for (const [member, value] of Object.entries(cost)) {
    if (member === 'tiers' && Array.isArray(value)) {
      for (const tier of value) {
        const from = isObject(tier) && isObject(tier.tier) ? tier.tier.size : undefined
        if (isObject(tier) && typeof from === 'string') tiers[from] = tokenPrices(tier)
        else unmapped.push('cost.tiers')
      }
    } else if (member === 'context_over_200k' && isObject(value)) {
      // It repeats a tier where there are some.
      if (!Array.isArray(cost.tiers)) tiers[OVER_200K] = tokenPrices(value)
    } else if (!Object.hasOwn(PER_MILLION, member) && member !== 'per_minute') {
      unmapped.push(`cost.${member}`)
    }
  }
  const { per_minute: minute } = cost
  const second = typeof minute === 'string' && { second: { text: minute, per: MINUTE } }
  return { prices: { ...tokenPrices(cost), ...second }, tiers, unmapped }
}

function tokenPrices(cost: Row): Record<string, PriceText> {
  return Object.fromEntries(
    Object.entries(PER_MILLION).flatMap(([member, name]) => {
      const text = cost[member]
      return typeof text === 'string' ? [[name, { text, per: MILLION }]] : []
    }),
  )
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const list = isObject(value) ? value[name] : undefined
  return Array.isArray(list) ? list : []
}

function tokens(name: 'contextLength' | 'maxOutputTokens', value: unknown) {
  const isCount = typeof value === 'string' && /^[1-9]\d{0,14}$/.test(value)
  return isCount ? { [name]: Number(value) } : {}
}

function isDate(value: unknown): value is string {
  return typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value)
}

function isObject(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
