/** Factors of prices: what an operator adds to list prices, and what part of a list price a vendor is paid. */
import * as v from 'valibot'
import { parseDecimal } from '../money/amounts.ts'
import {
  formatPrice,
  parsePrice,
  PRICE_NAMES,
  type PriceName,
  type Pricing,
} from '../money/prices.ts'

/** Decimal text of a factor, such as `1.2`. */
export type Factor = string

const FACTOR_DIGITS = 6
const ONE = 10n ** BigInt(FACTOR_DIGITS)
const MOST = 1000n * ONE

const FACTOR = 'a decimal text from "0" to "1000" with at most 6 fractional digits, such as "1.2"'
/** Schema of a factor that may be 0. */
export const factor = v.pipe(
  v.string(FACTOR),
  v.check((text) => (toInteger(text) ?? MOST + 1n) <= MOST, FACTOR),
)

const MARKUP = FACTOR.replace('from "0" to', 'above "0" and at most')
/** Schema of a factor of selling prices: prices of zero make a model free, not a factor. */
export const markup = v.pipe(
  v.string(MARKUP),
  v.check((text) => {
    const integer = toInteger(text)
    return integer !== undefined && integer > 0n && integer <= MOST
  }, MARKUP),
)

/**
 * Prices times a factor. Each product is rounded up to 10⁻¹⁸ USD a unit, once; a price of at most 12 fractional digits needs none.
 * Tiers keep their tokens. A factor of 1 returns the same object, so that equal prices stay one object.
 */
export function timesFactor<Prices extends Pricing>(pricing: Prices, by: Factor): Prices {
  const integer = by === '1' ? ONE : parseDecimal(by, FACTOR_DIGITS)
  if (integer === ONE) return pricing
  const { overrides, ...base } = pricing
  return {
    ...multiplied(base, integer),
    ...(overrides && {
      overrides: overrides.map(({ min_prompt_tokens, ...own }) => ({
        min_prompt_tokens,
        ...multiplied(own, integer),
      })),
    }),
  } as unknown as Prices
}

/** The first factor that is set; 1 where none is. */
export function firstFactor(...factors: readonly (Factor | undefined)[]): Factor {
  return factors.find((one) => one !== undefined) ?? '1'
}

function multiplied(
  prices: Readonly<Partial<Record<PriceName, string>>>,
  by: bigint,
): Partial<Record<PriceName, string>> {
  return Object.fromEntries(
    PRICE_NAMES.flatMap((name) => {
      const text = prices[name]
      return text === undefined
        ? []
        : [[name, formatPrice((parsePrice(text) * by + ONE - 1n) / ONE)]]
    }),
  )
}

/** A factor in millionths; undefined for a text that is none. */
function toInteger(text: string): bigint | undefined {
  try {
    return parseDecimal(text, FACTOR_DIGITS)
  } catch {
    return undefined
  }
}
