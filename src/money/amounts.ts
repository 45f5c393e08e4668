/** Amounts of money: integers, and their decimal text. No digit is ever rounded away. */

declare global {
  interface JSON {
    /** Text that `JSON.stringify` prints as it is (ECMAScript proposal "JSON.parse source text access", in Node 24). */
    rawJSON(text: string): object
  }
}

/** An amount in units of 10⁻¹² USD. */
export type Pico = bigint

const PICO_PER_USD = 1_000_000_000_000n

/** Largest amount of one booking, such as one top-up: 4 million USD, so that it fits a signed 64-bit integer. Sums have no bound. */
export const MAX_AMOUNT: Pico = 4_000_000n * PICO_PER_USD

/** A sum as it is stored where numbers have 64 bits: whole dollars, rounded down, and 0 to 999,999,999,999 picodollars above them. */
export interface StoredSum {
  readonly usd: bigint
  readonly pico: bigint
}

export function toStoredSum(sum: Pico): StoredSum {
  const pico = ((sum % PICO_PER_USD) + PICO_PER_USD) % PICO_PER_USD
  return { usd: (sum - pico) / PICO_PER_USD, pico }
}

export function fromStoredSum({ usd, pico }: StoredSum): Pico {
  return usd * PICO_PER_USD + pico
}

const PICO_DIGITS = 12

/** Reads a USD amount. @throws RangeError see {@link parseDecimal} */
export const parsePico = (text: string): Pico => parseDecimal(text, PICO_DIGITS)

/** Plain decimal notation of an amount in USD: no exponent, no trailing zeros. */
export function formatPico(amount: Pico): string {
  return isPlain(amount) ? String(Number(amount) / 1e12) : formatDecimal(amount, PICO_DIGITS)
}

/** An amount of USD in an answer: a reader of the JSON sees a number, and the value itself may be an object of `JSON.rawJSON`. */
export type Usd = number & { readonly [usd]: true }
declare const usd: unique symbol

export function usdJson(amount: Pico): Usd {
  if (isPlain(amount)) return (Number(amount) / 1e12) as Usd
  return JSON.rawJSON(formatDecimal(amount, PICO_DIGITS)) as unknown as Usd
}

/**
 * Whether JavaScript prints the double nearest to this amount of USD exactly and without an exponent: a double keeps
 * fifteen digits, and numbers below one millionth are printed with an exponent.
 */
function isPlain(amount: Pico): boolean {
  return amount >= 1_000_000n && amount <= 999_999_999_999_999n
}

/** Digits before the point. */
const MOST_DIGITS = 12
const DECIMAL = /^(\d{1,12})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/

/**
 * Reads a decimal string as an integer of 10^-digits.
 * @throws RangeError for a sign, an empty string, characters that are not part of a number, or too many digits
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
  if (scale >= 0) {
    const scaled = value * 10n ** BigInt(scale)
    if (scaled < 10n ** BigInt(digits + MOST_DIGITS)) return scaled
    throw new RangeError(
      `expected at most ${MOST_DIGITS} digits before the point, found ${JSON.stringify(text)}`,
    )
  }
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
