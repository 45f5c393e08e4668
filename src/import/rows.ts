/** The rows of a price list as entries of the gateway's own: prices as integers, and what could not be taken over. */
import {
  formatPrice,
  PRICE_NAMES,
  TIER_PRICE_NAMES,
  type PriceName,
  type Pricing,
} from '../money/prices.ts'
import {
  HIGHEST_PRICE,
  isModality,
  MAX_TIERS,
  missingPrices,
  type ListedModel,
  type Modality,
} from '../models/entry.ts'
import { isPriceList, type PriceList } from '../models/price-list.ts'
import type { PriceRow, PriceSource, PriceText, SkippedRow } from '../plugin.ts'

/** A model of a source. Prices of tiers have names such as `prompt@272001`. */
export interface SourcedModel {
  readonly id: string
  /** The entry without its prices. */
  readonly entry: Omit<ListedModel, 'pricing' | 'checked_at'>
  /** 10⁻¹⁸ USD per unit. */
  readonly prices: ReadonlyMap<string, bigint>
  /** Reasons why single prices are not trusted, by their names; by `''` why none is. */
  readonly doubts: ReadonlyMap<string, string>
}

/** What was read of a source. */
export interface SourcedModels {
  readonly models: ReadonlyMap<string, SourcedModel>
  /** Rows that were read. */
  readonly rows: number
  /** Number of rows by the reason for which they were left out. */
  readonly skipped: ReadonlyMap<string, number>
  /** Number of models by the name of a price that has no counterpart. */
  readonly unmapped: ReadonlyMap<string, number>
}

const TIER = '@'

/** The models of a parsed file. */
export function modelsOf(source: Pick<PriceSource, 'name' | 'read'>, file: unknown): SourcedModels {
  const models = new Map<string, SourcedModel>()
  const skipped = new Map<string, number>()
  const unmapped = new Map<string, number>()
  let rows = 0
  for (const row of source.read(file)) {
    rows++
    if (isSkipped(row)) {
      count(skipped, row.skipped)
      continue
    }
    const reason = unusable(row)
    if (reason !== undefined) {
      count(skipped, reason)
      continue
    }
    for (const name of row.unmapped ?? []) count(unmapped, name)
    const model = toModel(source.name, row)
    for (const name of Object.keys(row.prices)) if (!isPriceName(name)) count(unmapped, name)
    const modality = row.modality as Modality | undefined
    if (missingPrices({ modality, pricing: pricingOf(model.prices) }).length > 0) {
      count(skipped, 'without a price that they need')
      continue
    }
    const existing = models.get(row.id)
    models.set(row.id, existing ? merged(existing, model) : model)
  }
  return { models, rows, skipped, unmapped }
}

/** The rows of a list in the gateway's own form. */
export const OWN_FORM: Pick<PriceSource, 'name' | 'matches' | 'read'> = {
  name: 'list',
  matches: isPriceList,
  *read(file) {
    const { models } = file as PriceList
    for (const [id, { pricing, ...model }] of Object.entries(models)) {
      const { overrides = [], ...base } = pricing
      const tiers = overrides.map(({ min_prompt_tokens: from, ...own }) => [from, textsOf(own)])
      const { context_length: contextLength, max_output_tokens: maxOutputTokens } = model
      yield {
        id,
        ...(model.modality !== undefined && { modality: model.modality }),
        prices: textsOf(base),
        tiers: Object.fromEntries(tiers),
        ...(model.name !== undefined && { name: model.name }),
        ...(contextLength !== undefined && { contextLength }),
        ...(maxOutputTokens !== undefined && { maxOutputTokens }),
        ...(model.capabilities && { capabilities: model.capabilities }),
        ...(model.deprecated_on !== undefined && { deprecatedOn: model.deprecated_on }),
        ...(model.successor !== undefined && { successor: model.successor }),
        ...(model.aliases && { aliases: model.aliases }),
        ...(model.created !== undefined && { created: model.created }),
        source: model.source,
      }
    }
  },
}

/** Prices by name as the entry of a price list has them. */
export function pricingOf(prices: ReadonlyMap<string, bigint>): Pricing {
  const base: Record<string, string> = {}
  const tiers = new Map<number, Record<string, string>>()
  for (const [key, price] of prices) {
    const [name, from] = key.split(TIER) as [string, string?]
    if (from === undefined) base[name] = formatPrice(price)
    else {
      const tier = tiers.get(Number(from)) ?? {}
      tier[name] = formatPrice(price)
      tiers.set(Number(from), tier)
    }
  }
  const overrides = [...tiers]
    .toSorted(([a], [b]) => a - b)
    .map(([min_prompt_tokens, own]) => ({ min_prompt_tokens, ...own }))
  return { ...base, ...(overrides.length > 0 && { overrides }) }
}

/** Prices by name, those of tiers with the tokens from which they apply: `prompt@272001`. */
export function pricesByName({ overrides = [], ...base }: Pricing): Map<string, bigint> {
  const prices = new Map<string, bigint>()
  const add = (own: Readonly<Partial<Record<PriceName, string>>>, suffix: string) => {
    for (const name of PRICE_NAMES) {
      const text = own[name]
      const read = text === undefined ? undefined : readPrice({ text })
      if (read && 'price' in read) prices.set(name + suffix, read.price)
    }
  }
  add(base, '')
  for (const { min_prompt_tokens, ...own } of overrides) add(own, `${TIER}${min_prompt_tokens}`)
  return prices
}

function toModel(source: string, row: PriceRow): SourcedModel {
  const prices = new Map<string, bigint>()
  const doubts = new Map<string, string>()
  if (row.doubt !== undefined) doubts.set('', row.doubt)
  const add = (
    own: Readonly<Record<string, PriceText>>,
    suffix: string,
    names: readonly string[],
  ) => {
    for (const [name, text] of Object.entries(own)) {
      if (!names.includes(name)) continue
      const read = readPrice(text)
      const price = 'price' in read ? read.price : 'proposal' in read ? read.proposal : undefined
      if (price !== undefined && price <= HIGHEST_PRICE) prices.set(name + suffix, price)
      if ('wrong' in read) doubts.set(name + suffix, read.wrong)
      if (price !== undefined && price > HIGHEST_PRICE) {
        doubts.set(name + suffix, `${formatPrice(price)} USD for one unit is above 1000 USD`)
      }
      if ('found' in read) doubts.set(name + suffix, `${read.found} has more digits than a price`)
    }
  }
  add(row.prices, '', PRICE_NAMES)
  const tiers = Object.entries(row.tiers ?? {})
  for (const [from, own] of tiers) {
    if (/^[1-9]\d{0,14}$/.test(from)) add(own, `${TIER}${from}`, TIER_PRICE_NAMES)
    else doubts.set('', `a price applies from ${JSON.stringify(from)} tokens, which is no number`)
  }
  if (tiers.length > MAX_TIERS)
    doubts.set('', `it has ${tiers.length} tiers, more than ${MAX_TIERS}`)
  const { modality, name, contextLength, maxOutputTokens, capabilities, deprecatedOn } = row
  const { successor, aliases, created } = row
  const entry = {
    ...(modality !== undefined && { modality }),
    ...(name !== undefined && { name }),
    ...(contextLength !== undefined && { context_length: contextLength }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(created !== undefined && { created }),
    ...(deprecatedOn !== undefined && { deprecated_on: deprecatedOn }),
    ...(successor !== undefined && { successor }),
    ...(aliases && aliases.length > 0 && { aliases: [...aliases] }),
    ...(capabilities && capabilities.length > 0 && { capabilities: [...capabilities] }),
    source: row.source ?? source,
  }
  return { id: row.id, entry, prices, doubts }
}

/** Two rows for one id: a doubt where their prices differ. */
function merged(first: SourcedModel, second: SourcedModel): SourcedModel {
  const names = new Set([...first.prices.keys(), ...second.prices.keys()])
  if ([...names].every((name) => first.prices.get(name) === second.prices.get(name))) return first
  const doubts = new Map(first.doubts).set('', 'the list has it twice, with different prices')
  return { ...first, doubts }
}

function textsOf(prices: Readonly<Record<string, unknown>>): Record<string, PriceText> {
  const texts = Object.entries(prices).flatMap(([name, text]) =>
    typeof text === 'string' ? [[name, { text }] as const] : [],
  )
  return Object.fromEntries(texts)
}

function unusable({ id, modality }: PriceRow): string | undefined {
  if (!/^[^/\s:]+\/\S+$/.test(id) || id.endsWith(':online') || id.endsWith('/*')) {
    return 'without a name that a model can have'
  }
  return modality === undefined || isModality(modality) ? undefined : `of the kind ${modality}`
}

function isSkipped(row: PriceRow | SkippedRow): row is SkippedRow {
  return 'skipped' in row
}

function isPriceName(name: string): boolean {
  return PRICE_NAMES.some((one) => one === name)
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}

// Numbers of price lists from their source text to integers. No floating-point number is used on the way.

/** Fractional digits of a price. */
const DIGITS = 18
const DECIMAL = /^(\d{1,40})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,2}))?$/
/** Digits of a proposal for a number with noise at its end. */
const SIGNIFICANT = 12n

/** A price that was read: exactly, or with a proposal because it has digits that no price has. */
type ReadPrice =
  | { readonly price: bigint }
  | { readonly proposal: bigint; readonly found: string }
  | { readonly wrong: string }

/** A price for one unit, 10⁻¹⁸ USD. It is exact, or the reason why it cannot be. */
export function readPrice({ text, per = 1 }: PriceText): ReadPrice {
  if (typeof text === 'string') return readOne(text, per)
  const read = text.map((one) => readOne(one, per))
  const unread = read.find((one) => !('price' in one))
  if (unread) return unread
  const prices = read.flatMap((one) => ('price' in one ? [one.price] : []))
  return { price: prices.reduce((highest, one) => (one > highest ? one : highest), 0n) }
}

function readOne(text: string, per: number): ReadPrice {
  const match = DECIMAL.exec(text.trim())
  if (!match) return { wrong: `expected a number of at least 0, found ${JSON.stringify(text)}` }
  const [, whole = '', fraction = '', exponent = '0'] = match
  const shift = DIGITS + Number(exponent) - fraction.length
  const digits = BigInt(whole + fraction)
  const numerator = shift >= 0 ? digits * 10n ** BigInt(shift) : digits
  const divisor = (shift >= 0 ? 1n : 10n ** BigInt(-shift)) * BigInt(per)
  if (numerator % divisor === 0n) return { price: numerator / divisor }
  return { proposal: rounded(numerator, divisor), found: text }
}

/** The quotient with twelve significant digits, or as many as a price can have. */
function rounded(numerator: bigint, divisor: bigint): bigint {
  const price = (2n * numerator + divisor) / (2n * divisor)
  const surplus = BigInt(String(price).length) - SIGNIFICANT
  if (surplus <= 0n) return price
  const unit = 10n ** surplus
  return ((price + unit / 2n) / unit) * unit
}

/** How a price moved, for people: `+20 %`, or a factor from ten on; empty without a price before. */
export function moveOf(from: bigint | undefined, to: bigint | undefined): string {
  if (!from || to === undefined) return ''
  if (to >= 10n * from) return `×${to / from}`
  if (to > 0n && from >= 10n * to) return `÷${from / to}`
  // The nearest whole percent.
  const twice = ((to - from) * 200n) / from
  const percent = (twice + (twice < 0n ? -1n : 1n)) / 2n
  return `${percent < 0n ? '−' : '+'}${percent < 0n ? -percent : percent} %`
}

/** A price for people; `none` where there is none. */
export function shownPrice(price: bigint | undefined): string {
  return price === undefined ? 'none' : formatPrice(price)
}
