/** Amounts of payments: the charge of an order, and what a part of a payment is worth. All are exact. */
import { formatPico, parsePico, type Pico } from '../money/amounts.ts'

const PICO_DIGITS = 12
const ONE = 10n ** BigInt(PICO_DIGITS)

/** Currencies whose minor unit is not a hundredth, by ISO 4217. */
const DIGITS: Readonly<Record<string, number>> = Object.fromEntries([
  ...'bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf'
    .split(' ')
    .map((code) => [code, 0] as const),
  ...'bhd iqd jod kwd lyd omr tnd'.split(' ').map((code) => [code, 3] as const),
])

/** The charge for an amount of credit, rounded up to the minor unit of the currency. @param rate the price of 1 USD */
export function chargeFor(usd: Pico, rate: string, currency: string): string {
  const digits = DIGITS[currency] ?? 2
  const unit = 10n ** BigInt(PICO_DIGITS - digits)
  const exact = usd * parsePico(rate)
  const units = (exact + ONE * unit - 1n) / (ONE * unit)
  const [whole, fraction = ''] = formatPico(units * unit).split('.')
  return digits === 0 ? whole! : `${whole}.${fraction.padEnd(digits, '0')}`
}

/** The credit for an amount that was paid, rounded down. @param rate the price of 1 USD */
export function creditFor(paid: string, rate: string): Pico {
  return (parsePico(paid) * ONE) / parsePico(rate)
}

/** The credit for a part of a payment, rounded down. */
export function shareOf(usd: string, part: string, paid: string): Pico {
  return (parsePico(usd) * parsePico(part)) / parsePico(paid)
}

export function isSameAmount(one: string, other: string): boolean {
  return parsePico(one) === parsePico(other)
}
