/** How automata read code points, and what they know of the place between two symbols. */
import { SEPARATOR_SYMBOL, fold, isIgnorable, NEWLINE, readsAsLetter, SPACE } from './views/fold.ts'
import type { Ranges } from './alphabet.ts'

/**
 * `plain` drops what cannot be seen; `folded` is view F, where a run of white space is one space and line feeds stay;
 * in `flat` they do not.
 */
export type Normalization = 'plain' | 'folded' | 'squeezed'

// What an assertion may ask of a place. The values are those of RE2.
const LINE_START = 1
const LINE_END = 2
const TEXT_START = 4
const TEXT_END = 8
const WORD_BORDER = 16
const NO_WORD_BORDER = 32

/** So many different conditions may hold at a place. */
export const CONDITIONS = 64

/** What stands before a place or behind it. */
export const BEGINNING = 0
export const OTHER = 1
/** A space that white space behind it joins. */
export const GAP = 2
const WORD = 3
const LINE_FEED = 4
export const END = 5
const KINDS = 6

/** What code points are to those who look at matches. */
export const LETTER = 1
export const BLANK = 2
/** In view F as it is, but for its case. */
export const AS_IS = 4

/** What an alphabet has to tell apart so that all symbols of a class are of a kind. */
export const KIND_SETS: readonly Ranges[] = [
  [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
  [NEWLINE, NEWLINE],
  [SPACE, SPACE],
]

const HOLDS = Uint8Array.from({ length: KINDS * KINDS }, (_, pair) =>
  holdsAt(Math.trunc(pair / KINDS), pair % KINDS),
)

/** The symbols of a code point, or of {@link SEPARATOR_SYMBOL}. */
export function readAs(reading: Normalization, codePoint: number): readonly number[] {
  if (codePoint === SEPARATOR_SYMBOL) return [SEPARATOR_SYMBOL]
  if (reading === 'plain') return isIgnorable(codePoint) ? [] : [codePoint]
  return reading === 'squeezed' && codePoint === NEWLINE ? [SPACE] : fold(codePoint)
}

/** @param asserts whether anyone asks about places */
export function kindOf(symbol: number, reading: Normalization, asserts: boolean): number {
  if (symbol === SPACE && reading !== 'plain') return GAP
  if (!asserts) return OTHER
  if (symbol === NEWLINE) return LINE_FEED
  // RE2's words are ASCII.
  return symbol >= 0 && /^\w$/.test(String.fromCodePoint(symbol)) ? WORD : OTHER
}

/** The conditions that hold between two kinds. */
export function holdsBetween(before: number, after: number): number {
  return HOLDS[before * KINDS + after]!
}

/** {@link LETTER}, {@link BLANK} and {@link AS_IS}, as far as they apply. */
export function traitsOf(codePoint: number): number {
  if (codePoint === SEPARATOR_SYMBOL) return 0
  const symbols = fold(codePoint)
  // What the views fold away counts as little as a blank.
  const isBlank = symbols.length === 0 || symbols[0] === SPACE || symbols[0] === NEWLINE
  const isSame = symbols.length === 1 && symbols[0] === codePoint
  const isCapital = codePoint >= 0x41 && codePoint <= 0x5a
  return (
    (readsAsLetter(codePoint) ? LETTER : 0) |
    (isBlank ? BLANK : 0) |
    (isSame || isCapital ? AS_IS : 0)
  )
}

function holdsAt(before: number, after: number): number {
  let holds = (before === WORD) === (after === WORD) ? NO_WORD_BORDER : WORD_BORDER
  if (before === BEGINNING) holds |= TEXT_START | LINE_START
  if (before === LINE_FEED) holds |= LINE_START
  if (after === END) holds |= TEXT_END | LINE_END
  if (after === LINE_FEED) holds |= LINE_END
  return holds
}
