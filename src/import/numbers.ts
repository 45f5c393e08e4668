/** Numbers of price lists from their source text to integers. No floating-point number is used on the way. */
import { formatPrice } from '../money/prices.ts'
import type { PriceText } from '../plugin.ts'

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
