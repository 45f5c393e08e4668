/** Decimal text as integers: what both amounts and prices are made of. No digit is ever rounded away. */

const PRICE_DIGITS = 18
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/

/**
 * Reads a decimal string as an integer of 10^-digits.
 * @throws RangeError for a sign, an empty string, characters that are not part of a number, or too many fractional digits
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

/** Plain notation of an integer of 10^-digits: no exponent, no trailing zeros. */
export function formatDecimal(value: bigint, digits: number): string {
  if (value < 0n) return `-${formatDecimal(-value, digits)}`
  const text = value.toString().padStart(digits + 1, '0')
  const point = text.length - digits
  let end = text.length
  while (end > point && text.charCodeAt(end - 1) === 48) end--
  return end === point ? text.slice(0, point) : `${text.slice(0, point)}.${text.slice(point, end)}`
}

/** Reads a price in USD per unit, as an integer of 10⁻¹⁸ USD. @throws RangeError see {@link parseDecimal} */
export const parsePrice = (text: string): bigint => parseDecimal(text, PRICE_DIGITS)

/** Plain decimal notation of a price in USD per unit. */
export function formatPrice(price: bigint): string {
  return formatDecimal(price, PRICE_DIGITS)
}
