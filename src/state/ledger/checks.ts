/** Bounds on what a ledger accepts. */
import { formatPico, MAX_AMOUNT, type Pico } from '../../money/money.ts'
import type { KeyLimits } from './ledger.ts'

/** @throws RangeError for an amount below `least` or above MAX_AMOUNT. @param what names the amount in the message */
export function checkAmount(what: string, amount: Pico, least?: Pico): void {
  if (amount <= MAX_AMOUNT && (least === undefined || amount >= least)) return
  const lower = least === undefined ? '' : least === 0n ? 'at least 0 and ' : 'above 0 and '
  const upper = `at most ${formatPico(MAX_AMOUNT)} USD`
  throw new RangeError(`${what} has to be ${lower}${upper}, not ${formatPico(amount)}`)
}

/** @throws RangeError for a rate or concurrency that is not a whole number of at least 1 */
export function checkLimits({ rpm, concurrency }: KeyLimits): void {
  for (const [name, value] of Object.entries({ rpm, concurrency })) {
    if (Number.isSafeInteger(value) && value >= 1) continue
    throw new RangeError(`${name} has to be a whole number of at least 1, not ${value}`)
  }
}
