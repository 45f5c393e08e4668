/** Checks of what a caller asks of a ledger. */
import { checkAmount, formatPico } from '../../money/money.ts'
import type { HoldRequest, KeyLimits } from './ledger.ts'

/** @throws RangeError for amounts out of their bounds, and a ceiling below what is expected */
export function checkHold({ expected, ceiling }: Pick<HoldRequest, 'expected' | 'ceiling'>): void {
  checkAmount('a hold', expected, 0n)
  checkAmount('the ceiling of a hold', ceiling, 0n)
  if (ceiling >= expected) return
  const amounts = `${formatPico(ceiling)} USD is below ${formatPico(expected)} USD`
  throw new RangeError(`the ceiling of a hold has to be at least what is expected: ${amounts}`)
}

/** @throws RangeError for a rate or concurrency that is not a whole number of at least 1 */
export function checkLimits({ rpm, concurrency }: KeyLimits): void {
  for (const [name, value] of Object.entries({ rpm, concurrency })) {
    if (Number.isSafeInteger(value) && value >= 1) continue
    throw new RangeError(`${name} has to be a whole number of at least 1, not ${value}`)
  }
}
