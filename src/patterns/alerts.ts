/**
 * Where a text may hide something, as a table that is stepped through by ASCII characters: at the eighth base64
 * character side by side, at the eighth hexadecimal digit with nothing but separators in between, and where an escape
 * may begin.
 */
import { MIN_BASE64 } from './views/base64.ts'
import { MIN_PAIRS } from './views/hex.ts'
import { DIGIT, ESCAPE, SEPARATOR, SEXTET, SORTS, UNSEEN } from './char-class.ts'
import { CODES } from './lazy-dfa.ts'

const MIN_DIGITS = MIN_PAIRS * 2
/** Any of them, as what {@link ALERTS} may add to a state. */
export const ALERT = 1 << 14
export const RUN = 1 << 14
export const ROW = 1 << 15
export const OPENER = 1 << 16
export const STATE = ALERT - 1

/**
 * By state plus ASCII code: the next state, and with it {@link RUN}, {@link ROW} and {@link OPENER} as they apply. A run
 * and a row are told of once. State 0 is that before any text.
 */
export const ALERTS = new Int32Array((MIN_BASE64 + 1) * (MIN_DIGITS + 1) * CODES)
/** The same where nothing is to be told of. */
export const NO_ALERTS = new Int32Array(CODES)

for (let run = 0; run <= MIN_BASE64; run++) {
  for (let row = 0; row <= MIN_DIGITS; row++) {
    const state = stateOf(run, row)
    for (let code = 0; code < CODES; code++) ALERTS[state + code] = after(run, row, SORTS[code]!)
  }
}

function after(run: number, row: number, sort: number): number {
  if ((sort & UNSEEN) !== 0) return stateOf(run, row)
  const nextRun = (sort & SEXTET) !== 0 ? Math.min(run + 1, MIN_BASE64) : 0
  let nextRow = 0
  if ((sort & DIGIT) !== 0) nextRow = Math.min(row + 1, MIN_DIGITS)
  else if ((sort & SEPARATOR) !== 0) nextRow = row
  return (
    stateOf(nextRun, nextRow) |
    (nextRun === MIN_BASE64 && run < nextRun ? RUN : 0) |
    (nextRow === MIN_DIGITS && row < nextRow ? ROW : 0) |
    ((sort & ESCAPE) !== 0 ? OPENER : 0)
  )
}

function stateOf(run: number, row: number): number {
  return (run * (MIN_DIGITS + 1) + row) * CODES
}
