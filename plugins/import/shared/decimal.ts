/** Decimal texts of the source, read without a float. */

const DECIMAL = /^\+?(\d[\d_]*|(?=\.\d))(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/
/** Fractional digits that are read. */
const SCALE = 40

/** A decimal text as an integer of 10^-40; undefined for what is none, or is below 0, or has more digits. */
export function readDecimal(text: string): bigint | undefined {
  const match = DECIMAL.exec(text)
  if (!match) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = match
  const digits = BigInt(`0${whole.replaceAll('_', '')}${fraction}`)
  const scale = SCALE + Number(exponent) - fraction.length
  if (digits === 0n) return 0n
  if (scale >= 0) return scale > 100 ? undefined : digits * 10n ** BigInt(scale)
  const divisor = 10n ** BigInt(-scale)
  return digits % divisor === 0n ? digits / divisor : undefined
}

/** Plain notation, with so many fractional digits at most. @returns undefined where digits would be lost */
export function writeDecimal(value: bigint, fractionDigits: number): string | undefined {
  const cut = roundDown(value, fractionDigits)
  if (cut !== value) return undefined
  const text = value.toString().padStart(SCALE + 1, '0')
  const fraction = text.slice(-SCALE).replace(/0+$/, '')
  const whole = text.slice(0, -SCALE)
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** It is cut to so many fractional digits. */
export function roundDown(value: bigint, fractionDigits: number): bigint {
  const unit = 10n ** BigInt(SCALE - fractionDigits)
  return value - (value % unit)
}
