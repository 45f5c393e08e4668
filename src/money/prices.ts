/** Prices of a model: their names, substitutes for absent ones, and tiers for long prompts. Two tables here assign prices to quantities. */
import { hash } from 'node:crypto'
import type { Usage } from '../plugin.ts'
import { formatDecimal, parseDecimal } from './amounts.ts'

/** The names of prices for one token, and of the fee of a call: the prices that a tier may replace. */
export const TIER_PRICE_NAMES = [
  'prompt',
  'completion',
  'input_cache_read',
  'input_cache_write',
  'input_cache_write_1h',
  'audio',
  'audio_cache_read',
  'audio_output',
  'image_token',
  'image_cache_read',
  'image_output',
  'reasoning',
  'request',
] as const
/** The names of all prices, as in the configuration and in `GET /v1/models`. */
export const PRICE_NAMES = [
  ...TIER_PRICE_NAMES,
  'image',
  'page',
  'character',
  'second',
  'web_search',
  'search_unit',
  'vendor_usd',
] as const
/** A pico-dollar in the unit of compiled prices. */
export const PRICE_PER_PICO = 1_000_000n
/** The quantity of `vendor_usd` is counted in pico-dollars, and its price is one for a dollar. */
export const PICO_PER_USD = 1_000_000_000_000n

export type PriceName = (typeof PRICE_NAMES)[number]

/** Prices for prompts from this many tokens on. Absent prices are those of the list. */
type TierPricing = Readonly<Partial<Record<(typeof TIER_PRICE_NAMES)[number], string>>> & {
  readonly min_prompt_tokens: number
}

/** Prices of a model as the operator writes them: USD per unit, as decimal strings. */
export type Pricing = Readonly<Partial<Record<PriceName, string>>> & {
  /** The order is ascending by `min_prompt_tokens`. */
  readonly overrides?: readonly TierPricing[]
}

/** {@link Pricing} compiled once, when the catalog loads: integers of 10⁻¹⁸ USD per unit. */
export type Prices = Readonly<Partial<Record<PriceName, bigint>>> & {
  /** The prices by length of the prompt, ascending, the first from 0. Absent without overrides. */
  readonly tiers?: readonly Tier[]
  /** It is absent with tiers, each of which has its own, and for prices that are no whole pico-dollars. */
  readonly plain?: PlainPrices
}

/** Factors of a plain usage (`money.ts`), in whole pico-dollars for a token and for a request. */
interface PlainPrices {
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  readonly request: number
}

interface Tier {
  /** Least tokens of the prompt. */
  readonly from: number
  /** All prices; they have no tiers of their own. */
  readonly prices: Prices
}

/** Members of `usage.cost_details` in a response. */
export type CostMember =
  | 'prompt_cost'
  | 'cache_read_cost'
  | 'cache_write_cost'
  | 'completion_cost'
  | 'image_cost'
  | 'page_cost'
  | 'character_cost'
  | 'second_cost'
  | 'web_search_cost'
  | 'guard_cost'

/** A price above 0 of a list, and its quantity. */
export interface Term {
  readonly name: PriceName
  /** Part of the bill to which the product is added. */
  readonly member: CostMember
  readonly unit: bigint
  /** The name of the price that applies: that of a substitute where the list has none of this name. */
  readonly pricedAs: PriceName
}

/** Compiles the prices of one model. @throws RangeError that names the bad value; the caller adds the path */
export function compilePrices({ overrides = [], ...pricing }: Pricing): Prices {
  const base = parseAll(pricing)
  if (overrides.length === 0) return withPlain(base)
  const tiers: Tier[] = [{ from: 0, prices: withPlain(base) }]
  for (const { min_prompt_tokens: from, ...own } of overrides) {
    tiers.push({ from, prices: withPlain({ ...base, ...parseAll(own) }) })
  }
  return { ...base, tiers }
}

function withPlain(prices: Prices): Prices {
  if (prices.vendor_usd !== undefined) return prices
  const { prompt = 0n, input_cache_read = prompt, completion = 0n, request = 0n } = prices
  const isWhole = (unit: bigint) => unit % PRICE_PER_PICO === 0n
  if (![prompt, input_cache_read, completion, request].every(isWhole)) return prices
  const inPico = (unit: bigint) => Number(unit / PRICE_PER_PICO)
  const plain = {
    prompt: inPico(prompt),
    cached: inPico(input_cache_read),
    completion: inPico(completion),
    request: inPico(request),
  }
  return { ...prices, plain }
}

/** A price as `formatPrice` prints it, which those of price lists are. */
const PLAIN = /^(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/

/** Prices without the exponents and leading zeros that a person may write. */
export function plainPricing({ overrides, ...pricing }: Pricing): Pricing {
  const plain = (prices: Readonly<Partial<Record<PriceName, string>>>) =>
    Object.fromEntries(
      PRICE_NAMES.flatMap((name) => {
        const text = prices[name]
        if (text === undefined) return []
        return [[name, PLAIN.test(text) ? text : formatPrice(parsePrice(text))]]
      }),
    )
  if (!overrides?.length) return plain(pricing)
  const tiers = overrides.map(({ min_prompt_tokens, ...own }) => ({
    min_prompt_tokens,
    ...plain(own),
  }))
  return { ...plain(pricing), overrides: tiers }
}

/** The prices of a call by the number of prompt tokens. */
export function pricesAt(prices: Prices, promptTokens: number): Prices {
  const { tiers } = prices
  if (!tiers) return prices
  const tokens = wholes(promptTokens)
  return tiers.findLast(({ from }) => from <= tokens)!.prices
}

/** The tokens from which the prices of such a prompt apply; 0 for those of the list. */
export function tierOf({ tiers }: Prices, promptTokens: number): number {
  return tiers?.findLast(({ from }) => from <= wholes(promptTokens))?.from ?? 0
}

/** All prices that a prompt of at most this many tokens can have. */
export function pricesUpTo(prices: Prices, promptTokens: number): readonly Prices[] {
  const { tiers } = prices
  if (!tiers) return [prices]
  return tiers.filter(({ from }) => from <= wholes(promptTokens)).map((tier) => tier.prices)
}

/** The terms of a price list without tiers that have a price above 0, computed once for each list. */
export function termsOf(prices: Prices): readonly Term[] {
  let terms = knownTerms.get(prices)
  if (terms) return terms
  terms = TABLE.flatMap(([name, member, ...fallbacks]) => {
    const applying = [name, ...fallbacks].find((one) => prices[one] !== undefined)
    const unit = applying && prices[applying]
    return unit ? [{ name, member, unit, pricedAs: applying }] : []
  })
  knownTerms.set(prices, terms)
  return terms
}

/**
 * The quantity of each price: every token of a usage counts for exactly one price. The parts that vendors report are subtracted
 * from their totals in this order, each at most the rest: read from a cache, written to one, sound, images; and for the output
 * reasoning, sound, images.
 */
export function quantitiesOf(usage: Usage): Readonly<Record<PriceName, number>> {
  const prompt = wholes(usage.promptTokens)
  const completion = wholes(usage.completionTokens)
  // Parts of a total that was not reported are not bounded by it.
  let input = prompt || Infinity
  let output = completion || Infinity
  const read = atMost(input, usage.cachedTokens)
  input -= read
  const written = atMost(input, usage.cacheWriteTokens)
  input -= written
  const audio = atMost(input, usage.audioInputTokens)
  input -= audio
  const image_token = atMost(input, usage.imageInputTokens)
  input -= image_token
  const audio_cache_read = atMost(read, usage.cachedAudioTokens)
  const image_cache_read = atMost(read - audio_cache_read, usage.cachedImageTokens)
  const input_cache_write_1h = atMost(written, usage.cacheWrite1hTokens)
  const reasoning = atMost(output, usage.reasoningTokens)
  output -= reasoning
  const audio_output = atMost(output, usage.audioOutputTokens)
  output -= audio_output
  const image_output = atMost(output, usage.imageOutputTokens)
  output -= image_output
  return {
    input_cache_write_1h,
    input_cache_write: written - input_cache_write_1h,
    audio_cache_read,
    image_cache_read,
    input_cache_read: read - audio_cache_read - image_cache_read,
    audio,
    image_token,
    prompt: prompt && input,
    reasoning,
    audio_output,
    image_output,
    completion: completion && output,
    image: wholes(usage.images),
    page: wholes(usage.pages),
    character: wholes(usage.characters),
    second: wholes(usage.seconds),
    web_search: wholes(usage.searches),
    search_unit: wholes(usage.searchUnits),
    vendor_usd: picoOf(usage.vendorCost),
    request: 1,
  }
}

const knownTerms = new WeakMap<Prices, readonly Term[]>()

/** The order of a bill: each price, the part that shows it, and its substitutes where it is absent, the first one first. */
const TABLE: readonly (readonly [name: PriceName, member: CostMember, ...PriceName[]])[] = [
  ['prompt', 'prompt_cost'],
  ['input_cache_read', 'cache_read_cost', 'prompt'],
  ['audio_cache_read', 'cache_read_cost', 'input_cache_read', 'prompt'],
  ['image_cache_read', 'cache_read_cost', 'input_cache_read', 'prompt'],
  ['input_cache_write', 'cache_write_cost', 'prompt'],
  ['input_cache_write_1h', 'cache_write_cost', 'input_cache_write', 'prompt'],
  ['audio', 'prompt_cost', 'prompt'],
  ['image_token', 'prompt_cost', 'prompt'],
  ['request', 'prompt_cost'],
  ['completion', 'completion_cost'],
  ['reasoning', 'completion_cost', 'completion'],
  ['audio_output', 'completion_cost', 'completion'],
  ['image_output', 'image_cost', 'completion'],
  ['image', 'image_cost'],
  ['page', 'page_cost'],
  ['character', 'character_cost'],
  ['second', 'second_cost'],
  ['web_search', 'web_search_cost'],
  ['search_unit', 'prompt_cost'],
  ['vendor_usd', 'completion_cost'],
]

/** Whether a usage is charged by the amount that its vendor reports, and by nothing else. */
export function isByVendor({ vendorCost }: Usage, { vendor_usd: price }: Prices): boolean {
  return price !== undefined && vendorCost !== undefined
}

/** An amount in USD as whole pico-dollars, rounded up; 0 for what is no amount. */
function picoOf(usd: string | undefined): number {
  if (usd === undefined) return 0
  try {
    const price = parsePrice(usd)
    const pico = (price + PRICE_PER_PICO - 1n) / PRICE_PER_PICO
    return Number(pico < MAX_PICO ? pico : MAX_PICO)
  } catch {
    return 0
  }
}

const MAX_PICO = BigInt(Number.MAX_SAFE_INTEGER)

/** A part of a total, at most the rest of it. */
function atMost(left: number, part: number | undefined): number {
  return Math.min(wholes(part), left)
}

/** A count in the form that is charged: rounded up; 0 for anything that is no number above 0. */
export function wholes(count: number | undefined): number {
  return count !== undefined && count > 0 ? Math.ceil(Math.min(count, Number.MAX_SAFE_INTEGER)) : 0
}

function parseAll(pricing: Readonly<Record<string, unknown>>): Prices {
  const prices: Partial<Record<PriceName, bigint>> = {}
  for (const [name, text] of Object.entries(pricing)) {
    if (text !== undefined) prices[name as PriceName] = parsePrice(text as string)
  }
  return prices
}

// Versions of prices: they distinguish price lists, so that rows of the ledger can name the one they were charged by.

const DIGITS = 16

const knownVersions = new WeakMap<Prices, string>()

/** The version of prices: equal for prices that charge the same, on every machine. */
export function versionOf(prices: Prices): string {
  let version = knownVersions.get(prices)
  if (version === undefined) {
    const text = JSON.stringify(pricingOf(prices))
    version = hash('sha256', text).slice(0, DIGITS)
    knownVersions.set(prices, version)
  }
  return version
}

/** Prices as text again, in one form: names sorted, and in a tier only the prices that differ from the list. */
export function pricingOf({ tiers = [], ...base }: Prices): Pricing {
  const names = PRICE_NAMES.toSorted()
  const textsOf = (prices: Prices, than: Prices) =>
    Object.fromEntries(
      names.flatMap((name: PriceName) => {
        const price = prices[name]
        return price === undefined || price === than[name] ? [] : [[name, formatPrice(price)]]
      }),
    )
  // A tier repeats those of the list; it cannot lack one of them.
  const overrides = tiers
    .filter(({ from }) => from > 0)
    .map(({ from, prices }) => ({ min_prompt_tokens: from, ...textsOf(prices, base) }))
  return { ...textsOf(base, {}), ...(overrides.length > 0 && { overrides }) }
}

const PRICE_DIGITS = 18

/** Reads a price in USD per unit, as an integer of 10⁻¹⁸ USD. @throws RangeError see {@link parseDecimal} */
export const parsePrice = (text: string): bigint => parseDecimal(text, PRICE_DIGITS)

/** Plain decimal notation of a price in USD per unit. */
export function formatPrice(price: bigint): string {
  return formatDecimal(price, PRICE_DIGITS)
}
