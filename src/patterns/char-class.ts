/** What ASCII characters are to those who decode. */
import { SEXTETS } from './views/base64.ts'
import { mayEscape } from './views/escapes.ts'
import { fold } from './views/fold.ts'
import { DIGITS, isSeparator } from './views/hex.ts'

/** Of base64. */
export const SEXTET = 1
/** Of hexadecimal numbers, and what may stand between two of them. */
export const DIGIT = 2
export const SEPARATOR = 4
/** Begins an escape. */
export const ESCAPE = 8
/** Cannot be seen, and is passed over. */
export const UNSEEN = 16

/** By code. */
export const SORTS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (fold(code).length === 0) return UNSEEN
  return (
    (SEXTETS[code]! >= 0 ? SEXTET : 0) |
    (DIGITS[code]! >= 0 ? DIGIT : 0) |
    (isSeparator(code) ? SEPARATOR : 0) |
    (mayEscape(code) ? ESCAPE : 0)
  )
})
