/** Holds for tests of ledgers. */
import type { HoldRequest } from '../../src/state/ledger/ledger.ts'
import type { Pico } from '../../src/money/money.ts'

/** No exposure: the ceilings of calls that run together have to fit what is left. */
export const NO_EXPOSURE: HoldRequest['exposure'] = { share: 0, most: 0n }

/** The figures of a hold: by default, what is expected is also the most that the call can cost. */
export function holdOf(
  expected: Pico,
  ceiling = expected,
  exposure = NO_EXPOSURE,
): Pick<HoldRequest, 'expected' | 'ceiling' | 'exposure' | 'model' | 'tokens'> {
  const tokens = { expected: 0, ceiling: 0 }
  return { expected, ceiling, exposure, model: 'vendor/model', tokens }
}
