/**
 * Money. Amounts are integers of 10⁻¹² USD (`Pico`), prices integers of 10⁻¹⁸ USD per unit.
 * No float ever stands between a price and the ledger; the wire gets decimal text.
 */
import type { Usage } from '../plugin.ts'

declare global {
  interface JSON {
    /** Text that `JSON.stringify` prints as it is (ECMAScript proposal "JSON.parse source text access", in Node 24). */
    rawJSON(text: string): object
  }
}

/** An amount in units of 10⁻¹² USD. */
export type Pico = bigint

/** The names of prices, as in the configuration and in `GET /v1/models` (wire contract, D25). */
export const PRICE_NAMES = [
  'prompt',
  'completion',
  'input_cache_read',
  'input_cache_write',
  'image',
  'image_token',
  'image_output',
  'audio',
  'audio_output',
  'page',
  'character',
  'second',
  'request',
  'web_search',
] as const
export type PriceName = (typeof PRICE_NAMES)[number]

/** USD per unit as decimal strings. */
export type Pricing = Readonly<Partial<Record<PriceName, string>>>

/** The same, compiled once when the catalog loads: integers of 10⁻¹⁸ USD per unit. */
export type Prices = Readonly<Partial<Record<PriceName, bigint>>>

/** Members of `usage.cost_details` (wire contract, D52). */
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

/** One line of the meter: what was used, at whose prices. */
export interface UsageLine {
  readonly source: 'model' | 'search' | 'guard'
  readonly usage: Usage
  readonly prices: Prices
}

/** What a call costs: the whole and its parts, which sum to it exactly. */
export class Bill {
  readonly cost: Pico
  /** What it is made of; every amount is above 0. */
  readonly details: readonly BillItem[]
  #text: string | undefined = undefined

  constructor(cost: Pico, details: readonly BillItem[]) {
    this.cost = cost
    this.details = details
  }

  /** The cost in USD as plain decimal text. Body, header and log all say it. */
  get text(): string {
    return (this.#text ??= formatPico(this.cost))
  }
}

export interface BillItem {
  readonly member: CostMember
  readonly amount: Pico
}

export const NO_COST = new Bill(0n, [])

/** One top-up may not pass this many pico-dollars (4 million USD): sums must fit a signed 64-bit integer. */
export const MAX_AMOUNT: Pico = 4_000_000n * 1_000_000_000_000n

const PICO_DIGITS = 12
const PRICE_DIGITS = 18
const PRICE_PER_PICO = 1_000_000n
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/

/**
 * Reads a decimal string as an integer of 10^-digits.
 * @throws RangeError for a sign, an empty string, anything but digits, or more fractional digits than fit
 */
export function parseDecimal(text: string, digits: number): bigint {
  const match = DECIMAL.exec(text)
  if (!match)
    throw new RangeError(
      `expected a decimal string such as "0.0000025", found ${JSON.stringify(text)}`,
    )
  const [, whole = '', fraction = '', exponent = '0'] = match
  const scale = digits + Number(exponent) - fraction.length
  const value = BigInt(whole + fraction)
  if (scale >= 0) return value * 10n ** BigInt(scale)
  const divisor = 10n ** BigInt(-scale)
  if (value % divisor)
    throw new RangeError(
      `expected at most ${digits} fractional digits, found ${JSON.stringify(text)}`,
    )
  return value / divisor
}

/** A USD amount as text, to pico-dollars. @throws RangeError see {@link parseDecimal} */
export const parsePico = (text: string): Pico => parseDecimal(text, PICO_DIGITS)

/** A price in USD per unit as text, to 10⁻¹⁸ USD. @throws RangeError see {@link parseDecimal} */
export const parsePrice = (text: string): bigint => parseDecimal(text, PRICE_DIGITS)

/** Plain decimal notation of an amount in USD: no exponent, no trailing zeros. */
export function formatPico(amount: Pico): string {
  return isPlain(amount) ? String(Number(amount) / 1e12) : formatDecimal(amount, PICO_DIGITS)
}

/** Plain decimal notation of a price in USD per unit. */
export function formatPrice(price: bigint): string {
  return formatDecimal(price, PRICE_DIGITS)
}

/**
 * An amount as a value that `JSON.stringify` prints as an exact JSON number of USD.
 * Typed as number because that is what a reader of the JSON sees.
 */
export function usdJson(amount: Pico): number {
  if (isPlain(amount)) return Number(amount) / 1e12
  return JSON.rawJSON(formatDecimal(amount, PICO_DIGITS)) as unknown as number
}

/** The `cost` and `cost_details` members that stand in every `usage` object (wire contract, section 6). */
export function costJson(bill: Bill): {
  cost: number
  cost_details: Partial<Record<CostMember, number>>
} {
  const details: Partial<Record<CostMember, number>> = {}
  for (const { member, amount } of bill.details) details[member] = usdJson(amount)
  return { cost: usdJson(bill.cost), cost_details: details }
}

/** @throws RangeError naming the bad value; the caller knows the path */
export function compilePrices(pricing: Pricing): Prices {
  const prices: Partial<Record<PriceName, bigint>> = {}
  for (const [name, text] of Object.entries(pricing)) prices[name as PriceName] = parsePrice(text)
  return prices
}

/**
 * Multiplies quantities by prices, adds, and rounds up to a pico-dollar once.
 * The parts are rounded down; the last one takes what the one rounding added, so that they sum to the whole.
 */
export function priceUsage(lines: readonly UsageLine[]): Bill {
  const items: Item[] = []
  let sum = 0n
  for (let i = 0; i < lines.length; i++) {
    const { source, usage, prices } = lines[i]!
    const terms = termsOf(prices)
    for (let j = 0; j < terms.length; j++) {
      const { member, price, quantity, unit } = terms[j]!
      const count = price === 'request' ? Number(source === 'model') : quantity(usage)
      if (!(count > 0)) continue
      const product = BigInt(Math.ceil(count)) * unit
      sum += product
      const shownAs = SHOWN_AS[source] ?? member
      const item = itemOf(items, shownAs)
      if (item) item.amount += product
      else items.push({ member: shownAs, amount: product })
    }
  }
  if (sum === 0n) return NO_COST
  const cost = (sum + PRICE_PER_PICO - 1n) / PRICE_PER_PICO
  let left = cost
  for (let i = 0; i < items.length; i++) {
    const item = items[i]!
    item.amount = i === items.length - 1 ? left : item.amount / PRICE_PER_PICO
    left -= item.amount
  }
  return new Bill(cost, items.every(isAboveZero) ? items : items.filter(isAboveZero))
}

function itemOf(items: readonly Item[], member: CostMember): Item | undefined {
  for (let i = 0; i < items.length; i++) if (items[i]!.member === member) return items[i]
  return undefined
}

/** A bill's item while it is added up. */
interface Item {
  readonly member: CostMember
  amount: bigint
}

function isAboveZero({ amount }: BillItem): boolean {
  return amount > 0n
}

/** The terms that cost something at these prices. */
function termsOf(prices: Prices): readonly PricedTerm[] {
  let terms = pricedTerms.get(prices)
  if (terms) return terms
  terms = TERMS.flatMap((term) => {
    const unit = prices[term.price] ?? (term.fallback && prices[term.fallback])
    return unit ? [{ ...term, unit }] : []
  })
  pricedTerms.set(prices, terms)
  return terms
}

interface PricedTerm extends Term {
  readonly unit: bigint
}
const pricedTerms = new WeakMap<Prices, readonly PricedTerm[]>()

/** Whatever the gateway's own searches and judges use is one item of the bill. */
const SHOWN_AS: Partial<Record<UsageLine['source'], CostMember>> = {
  search: 'web_search_cost',
  guard: 'guard_cost',
}

interface Term {
  /** Where the product is shown. */
  readonly member: CostMember
  readonly price: PriceName
  /** The price that counts where that one is absent. */
  readonly fallback?: PriceName
  readonly quantity: (usage: Usage) => number
}

const plainInput = (usage: Usage): number =>
  (usage.promptTokens ?? 0) -
  (usage.cachedTokens ?? 0) -
  (usage.cacheWriteTokens ?? 0) -
  (usage.audioInputTokens ?? 0) -
  (usage.imageInputTokens ?? 0)
const plainOutput = (usage: Usage): number =>
  (usage.completionTokens ?? 0) - (usage.audioOutputTokens ?? 0) - (usage.imageOutputTokens ?? 0)

/** Which quantity meets which price (state design, section 3). `request` counts calls, not a quantity of theirs. */
const TERMS: readonly Term[] = [
  { member: 'prompt_cost', price: 'prompt', quantity: plainInput },
  {
    member: 'cache_read_cost',
    price: 'input_cache_read',
    fallback: 'prompt',
    quantity: (usage) => usage.cachedTokens ?? 0,
  },
  {
    member: 'cache_write_cost',
    price: 'input_cache_write',
    fallback: 'prompt',
    quantity: (usage) => usage.cacheWriteTokens ?? 0,
  },
  {
    member: 'prompt_cost',
    price: 'audio',
    fallback: 'prompt',
    quantity: (usage) => usage.audioInputTokens ?? 0,
  },
  {
    member: 'prompt_cost',
    price: 'image_token',
    fallback: 'prompt',
    quantity: (usage) => usage.imageInputTokens ?? 0,
  },
  { member: 'prompt_cost', price: 'request', quantity: () => 0 },
  { member: 'completion_cost', price: 'completion', quantity: plainOutput },
  {
    member: 'completion_cost',
    price: 'audio_output',
    fallback: 'completion',
    quantity: (usage) => usage.audioOutputTokens ?? 0,
  },
  {
    member: 'image_cost',
    price: 'image_output',
    fallback: 'completion',
    quantity: (usage) => usage.imageOutputTokens ?? 0,
  },
  { member: 'image_cost', price: 'image', quantity: (usage) => usage.images ?? 0 },
  { member: 'page_cost', price: 'page', quantity: (usage) => usage.pages ?? 0 },
  { member: 'character_cost', price: 'character', quantity: (usage) => usage.characters ?? 0 },
  { member: 'second_cost', price: 'second', quantity: (usage) => usage.seconds ?? 0 },
  { member: 'web_search_cost', price: 'web_search', quantity: (usage) => usage.searches ?? 0 },
]

/**
 * Whether the number nearest to an amount in USD is written as exactly this amount, without an exponent: a double keeps
 * fifteen digits, and a millionth is the least that is written out.
 */
function isPlain(amount: Pico): boolean {
  return amount >= 1_000_000n && amount <= 999_999_999_999_999n
}

function formatDecimal(value: bigint, digits: number): string {
  if (value < 0n) return `-${formatDecimal(-value, digits)}`
  const text = value.toString().padStart(digits + 1, '0')
  const point = text.length - digits
  let end = text.length
  while (end > point && text.charCodeAt(end - 1) === 48) end--
  return end === point ? text.slice(0, point) : `${text.slice(0, point)}.${text.slice(point, end)}`
}
