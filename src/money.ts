/**
 * Money. Amounts are integers of 10⁻¹² USD (`Pico`), prices integers of 10⁻¹⁸ USD per unit.
 * No float ever stands between a price and the ledger; the wire gets decimal text.
 */
import type { Usage } from './plugin.ts'

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
export interface Bill {
  readonly cost: Pico
  readonly details: ReadonlyMap<CostMember, Pico>
}

export const NOTHING: Bill = { cost: 0n, details: new Map() }

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
  return formatDecimal(amount, PICO_DIGITS)
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
  return JSON.rawJSON(formatPico(amount)) as unknown as number
}

/** The `cost` and `cost_details` members that stand in every `usage` object (wire contract, section 6). */
export function costJson(bill: Bill): {
  cost: number
  cost_details: Partial<Record<CostMember, number>>
} {
  const details: Partial<Record<CostMember, number>> = {}
  for (const [member, amount] of bill.details) details[member] = usdJson(amount)
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
  const exact = new Map<CostMember, bigint>()
  for (const line of lines) {
    for (const [member, quantity, price] of terms(line)) {
      if (!(quantity > 0) || !price) continue
      const key =
        line.source === 'guard'
          ? 'guard_cost'
          : line.source === 'search'
            ? 'web_search_cost'
            : member
      exact.set(key, (exact.get(key) ?? 0n) + BigInt(Math.ceil(quantity)) * price)
    }
  }
  if (exact.size === 0) return NOTHING
  let sum = 0n
  for (const part of exact.values()) sum += part
  const cost = (sum + PRICE_PER_PICO - 1n) / PRICE_PER_PICO
  const details = new Map<CostMember, Pico>()
  let left = cost
  let remaining = exact.size
  for (const [member, part] of exact) {
    const amount = --remaining === 0 ? left : part / PRICE_PER_PICO
    left -= amount
    if (amount > 0n) details.set(member, amount)
  }
  return { cost, details }
}

type Term = readonly [member: CostMember, quantity: number, price: bigint | undefined]

/** Which quantity meets which price, and where the product is shown. A price that is absent falls back as listed. */
function terms({ source, usage, prices }: UsageLine): Term[] {
  const cached = usage.cachedTokens ?? 0
  const written = usage.cacheWriteTokens ?? 0
  const audioIn = usage.audioInputTokens ?? 0
  const imageIn = usage.imageInputTokens ?? 0
  const audioOut = usage.audioOutputTokens ?? 0
  const imageOut = usage.imageOutputTokens ?? 0
  const plainIn = Math.max(0, (usage.promptTokens ?? 0) - cached - written - audioIn - imageIn)
  const plainOut = Math.max(0, (usage.completionTokens ?? 0) - audioOut - imageOut)
  return [
    ['prompt_cost', plainIn, prices.prompt],
    ['cache_read_cost', cached, prices.input_cache_read ?? prices.prompt],
    ['cache_write_cost', written, prices.input_cache_write ?? prices.prompt],
    ['prompt_cost', audioIn, prices.audio ?? prices.prompt],
    ['prompt_cost', imageIn, prices.image_token ?? prices.prompt],
    ['prompt_cost', source === 'model' ? 1 : 0, prices.request],
    ['completion_cost', plainOut, prices.completion],
    ['completion_cost', audioOut, prices.audio_output ?? prices.completion],
    ['image_cost', imageOut, prices.image_output ?? prices.completion],
    ['image_cost', usage.images ?? 0, prices.image],
    ['page_cost', usage.pages ?? 0, prices.page],
    ['character_cost', usage.characters ?? 0, prices.character],
    ['second_cost', usage.seconds ?? 0, prices.second],
    ['web_search_cost', usage.searches ?? 0, prices.web_search],
  ]
}

function formatDecimal(value: bigint, digits: number): string {
  const negative = value < 0n
  const text = (negative ? -value : value).toString().padStart(digits + 1, '0')
  const whole = text.slice(0, -digits)
  const fraction = text.slice(-digits).replace(/0+$/, '')
  return (negative ? '-' : '') + (fraction ? `${whole}.${fraction}` : whole)
}
