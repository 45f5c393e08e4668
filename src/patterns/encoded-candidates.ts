/**
 * Where a text may hold something encoded: a run of base64 characters, a row of hexadecimal digits, or an escape. A table
 * stepped by ASCII characters tells this at the price of one look-up per character.
 */
import { MIN_BASE64, SEXTETS } from './views/base64.ts'
import { mayEscape } from './views/escapes.ts'
import { fold } from './views/fold.ts'
import { DIGITS, isSeparator, MIN_PAIRS } from './views/hex.ts'

// What an ASCII character is to the decoders, as bits.
export const BASE64 = 1
export const HEX_DIGIT = 2
export const HEX_SEPARATOR = 4
/** An escape may begin with it. */
const ESCAPE = 8
/** Every view ignores it. */
export const INVISIBLE = 16

/** The bits above by ASCII code. */
export const CHAR_CLASS = Uint8Array.from({ length: 128 }, (_, code) => {
  if (fold(code).length === 0) return INVISIBLE
  return (
    (SEXTETS[code]! >= 0 ? BASE64 : 0) |
    (DIGITS[code]! >= 0 ? HEX_DIGIT : 0) |
    (isSeparator(code) ? HEX_SEPARATOR : 0) |
    (mayEscape(code) ? ESCAPE : 0)
  )
})

/** Fewer digits are not decoded. */
export const MIN_DIGITS = MIN_PAIRS * 2

/** Characters that count towards a run and a row, up to the length from which they are decoded. */
interface EncodedCandidate {
  /** Base64 characters in a row. */
  readonly base64Run: number
  /** Hexadecimal digits with at most one separator between two of them. */
  readonly hexRow: number
  /** The last character was such a separator. */
  readonly separated: boolean
}

/** The counters after a character of this class. */
function countIn(before: EncodedCandidate, charClass: number): EncodedCandidate {
  if ((charClass & INVISIBLE) !== 0) return before
  const { base64Run, hexRow, separated } = before
  const isDigit = (charClass & HEX_DIGIT) !== 0
  const separates = !isDigit && (charClass & HEX_SEPARATOR) !== 0 && hexRow > 0 && !separated
  return {
    base64Run: (charClass & BASE64) !== 0 ? Math.min(base64Run + 1, MIN_BASE64) : 0,
    hexRow: isDigit ? Math.min(hexRow + 1, MIN_DIGITS) : separates ? hexRow : 0,
    separated: separates,
  }
}

// A state holds the counters in bits of their own, and adding an ASCII code to it gives an index into the table.
const RUN_SHIFT = 12
const ROW_SHIFT = 8
const SEPARATED_SHIFT = 7

// What a step of the table may report beside the next state.
const REPORT = 1 << 16
/** A run or a row has become long enough; reported once for each. */
export const BASE64_RUN = REPORT
export const HEX_ROW = REPORT << 1
/** An escape may begin here. */
export const ESCAPE_START = REPORT << 2
export const STATE = REPORT - 1

/** By state plus ASCII code: the next state and what is reported. State 0 stands before any text. */
export const CANDIDATES = new Int32Array((MIN_BASE64 + 1) << RUN_SHIFT)

for (let base64Run = 0; base64Run <= MIN_BASE64; base64Run++) {
  for (let hexRow = 0; hexRow <= MIN_DIGITS; hexRow++) {
    for (const separated of [false, true]) {
      const before = { base64Run, hexRow, separated }
      for (const [code, charClass] of CHAR_CLASS.entries()) {
        const after = countIn(before, charClass)
        CANDIDATES[stateOf(before) + code] =
          stateOf(after) |
          (base64Run < after.base64Run && after.base64Run === MIN_BASE64 ? BASE64_RUN : 0) |
          (hexRow < after.hexRow && after.hexRow === MIN_DIGITS ? HEX_ROW : 0) |
          ((charClass & ESCAPE) !== 0 ? ESCAPE_START : 0)
      }
    }
  }
}

function stateOf({ base64Run, hexRow, separated }: EncodedCandidate): number {
  return (base64Run << RUN_SHIFT) | (hexRow << ROW_SHIFT) | (separated ? 1 << SEPARATED_SHIFT : 0)
}

export function base64RunIn(state: number): number {
  return state >> RUN_SHIFT
}

export function hexRowIn(state: number): number {
  return (state >> ROW_SHIFT) & 15
}

/** UTF-16 code units of a text: reading from an array is faster than from a string. */
export type Utf16 = Uint16Array

/** The code point that begins at an index; half of a surrogate pair where the other half is missing. */
export function codePointAt(units: Utf16, at: number): number {
  const unit = units[at]!
  const next = (unit & 0xfc00) === 0xd800 && at + 1 < units.length ? units[at + 1]! : 0
  return (next & 0xfc00) === 0xdc00 ? 0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff) : unit
}
