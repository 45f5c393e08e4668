/** Statements, journal, usage and ledger say the same of a month with every kind of booking. */
import { it } from 'vitest'
import { monthOf } from './_month.ts'
import { SEED } from '../_seed.ts'

it(`forty accounts agree to the last digit, also after kills and folding (seed ${SEED})`, async () => {
  let state = SEED || 1
  await monthOf(40, 24, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  })
}, 60_000)
