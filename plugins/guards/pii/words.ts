/** Decides which words may belong to one number or one address. */
import { DIGIT, MARK } from './fold.ts'
import { isDigitWord } from './contact.ts'

// Kinds of words.
export const PLAIN = 0
export const NUMBER = 1
/** A short word, which may be part of a number, such as the bank code in an IBAN. */
export const SHORT_WORD = 2
const PUNCTUATION = 3
/** A digit in words. */
export const SPELLED = 4
export const AT = 5
const DOT = 6
/** A line of the machine-readable zone of a travel document. */
export const ZONE = 7
/** A letter that stands alone. Two may be the country of a number that is written apart. */
export const SINGLE = 8

// Traits of a word or a stretch, as bits.
export const HAS_DIGIT = 1
export const HAS_AT = 2
export const HAS_BRACKET = 4
/** Has characters that must be folded. */
export const HAS_ODD = 8
export const HAS_LETTER = 16
export const HAS_MARK = 32
/** Has the filler `<`. */
export const HAS_FILLER = 64
export const HAS_SPELLED_AT = 128

/** Shortest line of a machine-readable zone. */
export const ZONE_WIDTH = 30
const MAX_SHORT_LETTERS = 4

/**
 * The kind of a word.
 * @param traits of the word
 * @param letters number of its letters
 */
export function kindOf(word: string, traits: number, letters: number): number {
  if (traits & HAS_FILLER && word.length >= ZONE_WIDTH) return ZONE
  if (traits & HAS_DIGIT) return NUMBER
  if (!(traits & HAS_LETTER)) return PUNCTUATION
  if (letters === 2 || letters === 3) {
    const bare = word.replace(/^[([<]|[)\]>]$/g, '').toLowerCase()
    if (bare === 'at') return AT
    if (bare === 'dot') return DOT
  }
  if (!(traits & (HAS_MARK | HAS_AT | HAS_ODD)) && isDigitWord(word)) return SPELLED
  if (word.length === 1) return SINGLE
  return letters <= MAX_SHORT_LETTERS ? SHORT_WORD : PLAIN
}

/**
 * Whether a word with this start may belong to the words before it.
 * @param last kind of the last word
 * @param traits of all words before
 */
export function mayJoin(
  last: number,
  traits: number,
  firstCode: number,
  firstClass: number,
): boolean {
  if (last === AT || last === DOT || last === SPELLED || last === ZONE) return true
  if (traits & HAS_SPELLED_AT || BEGINS_AT.has(firstCode)) return true
  if (firstClass === DIGIT || firstClass === MARK) return last !== PLAIN
  if (last === SINGLE) return true
  return last === NUMBER || (last !== PLAIN && (traits & HAS_DIGIT) > 0)
}

/** Possible first characters of `at`, including brackets. */
const BEGINS_AT = new Set([...'aA([<'].map((character) => character.charCodeAt(0)))

/** Whether a word of this kind belongs to the words before it. */
export function joins(last: number, kind: number, traits: number): boolean {
  if (last === ZONE || kind === ZONE) return last === kind || (last === ZONE && kind === NUMBER)
  if (kind === AT || last === AT || last === DOT) return true
  if (kind === DOT) return (traits & HAS_SPELLED_AT) > 0
  if (kind === last && (kind === SPELLED || kind === SINGLE)) return true
  if (kind === PLAIN || last === PLAIN) return false
  if (kind === NUMBER || last === NUMBER) return true
  return (kind === PUNCTUATION || last === PUNCTUATION) && (traits & HAS_DIGIT) > 0
}
