/**
 * Money: amounts, prices and bills. Amounts are integers of 10⁻¹² USD (`Pico`), prices are integers of 10⁻¹⁸ USD per unit.
 * No floating-point number is used between a price and the ledger; clients receive decimal text.
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

/** The names of prices, as in the configuration and in `GET /v1/models`. */
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
/** One of {@link PRICE_NAMES}. */
export type PriceName = (typeof PRICE_NAMES)[number]

/** Prices of a model as the operator writes them: USD per unit, as decimal strings. */
export type Pricing = Readonly<Partial<Record<PriceName, string>>>

/** {@link Pricing} compiled once, when the catalog loads: integers of 10⁻¹⁸ USD per unit. */
export type Prices = Readonly<Partial<Record<PriceName, bigint>>>

/** Members of `usage.cost_details` in a response. */
type CostMember =
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

/**
 * Usage of one source at that source's prices: the model that was asked, the gateway's own web search, or a guard that
 * asked a model.
 */
export interface UsageLine {
  readonly source: 'model' | 'search' | 'guard'
  readonly usage: Usage
  readonly prices: Prices
}

/** What a call costs: the total and its parts. The parts sum to the total exactly. */
export class Bill {
  readonly cost: Pico
  /** The parts; every amount is above 0. */
  readonly details: readonly BillItem[]
  #text: string | undefined = undefined

  constructor(cost: Pico, details: readonly BillItem[]) {
    this.cost = cost
    this.details = details
  }

  /** The same bill for a lower total: the last parts are cut. */
  cappedAt(most: Pico): Bill {
    let left = most
    const details = this.details.map(({ member, amount }) => {
      const kept = amount < left ? amount : left
      left -= kept
      return { member, amount: kept }
    })
    return new Bill(most, details.filter(isAboveZero))
  }

  /** The total in USD as plain decimal text, for the body, the header and the log. */
  get text(): string {
    return (this.#text ??= formatPico(this.cost))
  }
}

/** One part of a {@link Bill}. */
interface BillItem {
  readonly member: CostMember
  readonly amount: Pico
}

/** The bill of a call that costs nothing. */
export const NO_COST = new Bill(0n, [])

/** Largest single amount, such as one top-up: 4 million USD. Sums of amounts have to fit a signed 64-bit integer. */
export const MAX_AMOUNT: Pico = 4_000_000n * 1_000_000_000_000n

const PICO_DIGITS = 12
const PRICE_DIGITS = 18
const PRICE_PER_PICO = 1_000_000n
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/

/**
 * Reads a decimal string as an integer of 10^-digits.
 * @throws RangeError for a sign, an empty string, characters that are not part of a number, or too many fractional digits
 */
function parseDecimal(text: string, digits: number): bigint {
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

/** Reads a USD amount. @throws RangeError see {@link parseDecimal} */
export const parsePico = (text: string): Pico => parseDecimal(text, PICO_DIGITS)

/** Reads a price in USD per unit, as an integer of 10⁻¹⁸ USD. @throws RangeError see {@link parseDecimal} */
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
 * An amount as a value that `JSON.stringify` prints as an exact JSON number of USD. The declared type is `number` because
 * a reader of the JSON sees a number; the value itself may be an object of `JSON.rawJSON`.
 */
export function usdJson(amount: Pico): number {
  if (isPlain(amount)) return Number(amount) / 1e12
  return JSON.rawJSON(formatDecimal(amount, PICO_DIGITS)) as unknown as number
}

/** The members `cost` and `cost_details` of every `usage` object in a response. */
export function costJson(bill: Bill): {
  cost: number
  cost_details: Partial<Record<CostMember, number>>
} {
  const details: Partial<Record<CostMember, number>> = {}
  for (const { member, amount } of bill.details) details[member] = usdJson(amount)
  return { cost: usdJson(bill.cost), cost_details: details }
}

/** Compiles the prices of one model. @throws RangeError that names the bad value; the caller adds the path */
export function compilePrices(pricing: Pricing): Prices {
  const prices: Partial<Record<PriceName, bigint>> = {}
  for (const [name, text] of Object.entries(pricing)) prices[name as PriceName] = parsePrice(text)
  return prices
}

/**
 * Multiplies quantities by prices, adds the products and rounds the sum up to a pico-dollar, once. Parts are rounded
 * down, and the last part receives the difference, so that the parts sum to the total.
 */
export function priceUsage(lines: readonly UsageLine[]): Bill {
  const items: Item[] = []
  let sum = 0n
  for (let i = 0; i < lines.length; i++) {
    const { source, usage, prices } = lines[i]!
    const terms = termsOf(prices)
    for (let j = 0; j < terms.length; j++) {
      const { member, price, quantity, unit } = terms[j]!
      const count = price === 'request' ? Number(source === 'model') : (quantity(usage) ?? 0)
      if (!(count > 0)) continue
      const product = BigInt(Math.ceil(Math.min(count, Number.MAX_SAFE_INTEGER))) * unit
      sum += product
      const shownAs = SHOWN_AS[source] ?? member
      const item = items.find((known) => known.member === shownAs)
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

/** A part of a bill while products are added to it. */
interface Item {
  readonly member: CostMember
  amount: bigint
}

function isAboveZero({ amount }: BillItem): boolean {
  return amount > 0n
}

/** The terms with a price above 0, computed once for each price list. */
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

/** The gateway's own searches are one part of the bill; the requests of guards to models are another. */
const SHOWN_AS: Partial<Record<UsageLine['source'], CostMember>> = {
  search: 'web_search_cost',
  guard: 'guard_cost',
}

interface Term {
  /** Part of the bill to which the product is added. */
  readonly member: CostMember
  readonly price: PriceName
  readonly fallback: PriceName | undefined
  readonly quantity: (usage: Usage) => number | undefined
}

const plainInput = (usage: Usage): number =>
  (usage.promptTokens ?? 0) -
  (usage.cachedTokens ?? 0) -
  (usage.cacheWriteTokens ?? 0) -
  (usage.audioInputTokens ?? 0) -
  (usage.imageInputTokens ?? 0)
const plainOutput = (usage: Usage): number =>
  (usage.completionTokens ?? 0) - (usage.audioOutputTokens ?? 0) - (usage.imageOutputTokens ?? 0)

/**
 * Which quantity is multiplied by which price. Cached, audio and image tokens are part of the token totals that vendors
 * report, so they are subtracted from the plain tokens. `request` is charged once per call of the model.
 */
const TERMS: readonly Term[] = [
  term('prompt_cost', 'prompt', plainInput),
  term('cache_read_cost', 'input_cache_read', (usage) => usage.cachedTokens, 'prompt'),
  term('cache_write_cost', 'input_cache_write', (usage) => usage.cacheWriteTokens, 'prompt'),
  term('prompt_cost', 'audio', (usage) => usage.audioInputTokens, 'prompt'),
  term('prompt_cost', 'image_token', (usage) => usage.imageInputTokens, 'prompt'),
  term('prompt_cost', 'request', () => 0),
  term('completion_cost', 'completion', plainOutput),
  term('completion_cost', 'audio_output', (usage) => usage.audioOutputTokens, 'completion'),
  term('image_cost', 'image_output', (usage) => usage.imageOutputTokens, 'completion'),
  term('image_cost', 'image', (usage) => usage.images),
  term('page_cost', 'page', (usage) => usage.pages),
  term('character_cost', 'character', (usage) => usage.characters),
  term('second_cost', 'second', (usage) => usage.seconds),
  term('web_search_cost', 'web_search', (usage) => usage.searches),
]

/** @param fallback the price that applies where `price` is not configured */
function term(
  member: CostMember,
  price: PriceName,
  quantity: Term['quantity'],
  fallback?: PriceName,
): Term {
  return { member, price, fallback, quantity }
}

/**
 * Whether JavaScript prints the double nearest to this amount of USD exactly and without an exponent: a double keeps
 * fifteen digits, and numbers below one millionth are printed with an exponent.
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
