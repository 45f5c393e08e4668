/** Checks of what a caller asks of a ledger. */
import { checkAmount, formatPico, MAX_AMOUNT, type Pico } from '../../money/money.ts'
import type { HoldRequest, KeyLimits } from './ledger.ts'

/** @throws RangeError for amounts out of their bounds, and a ceiling below what is expected */
export function checkHold({ expected, ceiling }: Pick<HoldRequest, 'expected' | 'ceiling'>): void {
  checkAmount('a hold', expected, 0n)
  checkAmount('the ceiling of a hold', ceiling, 0n)
  if (ceiling >= expected) return
  const amounts = `${formatPico(ceiling)} USD is below ${formatPico(expected)} USD`
  throw new RangeError(`the ceiling of a hold has to be at least what is expected: ${amounts}`)
}

/** @throws RangeError for an adjustment of 0, or of more than MAX_AMOUNT either way */
export function checkAdjustment(amount: Pico): void {
  if (amount === 0n) throw new RangeError('an adjustment has to be above or below 0')
  if (amount < 0n) checkAmount('an adjustment without its sign', -amount)
  else checkAmount('an adjustment', amount)
}

/** @throws RangeError for a balance that an adjustment has moved beyond MAX_AMOUNT, above or below zero */
export function checkAdjusted(balance: Pico, amount: Pico): void {
  if (amount > 0n) checkAmount('the balance after this adjustment', balance)
  if (amount > 0n || balance >= -MAX_AMOUNT) return
  const bounds = `at least -${formatPico(MAX_AMOUNT)} USD, not ${formatPico(balance)}`
  throw new RangeError(`the balance after this adjustment has to be ${bounds}`)
}

/** @throws RangeError for a rate or concurrency that is not a whole number of at least 1; absent ones pass */
export function checkLimits({ rpm, concurrency }: KeyLimits): void {
  for (const [name, value] of Object.entries({ rpm, concurrency })) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= 1)) continue
    throw new RangeError(`${name} has to be a whole number of at least 1, not ${value}`)
  }
}
