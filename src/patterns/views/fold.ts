/** Folds code points, one at a time: compatibility forms, accents, case and look-alikes undone. */
import { CONFUSABLES } from './confusables.ts'

export const NEWLINE = 0x0a
export const SPACE = 0x20
/** Separates texts that do not belong together; no pattern matches across it. */
export const SEPARATOR_SYMBOL = -1

// Expressions for one code point.
const IGNORABLE = /^[\p{Default_Ignorable_Code_Point}\p{Cc}\ufff9-\ufffb]$/u
const KEPT_CONTROLS = new Set([0x09, 0x0a, 0x0d])
/** Marks over, through and around letters, with those of Cyrillic, which are stacked upon Latin letters too. */
const DIACRITIC =
  /^(?:[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]|[\u0483-\u0489]|[\ua66f-\ua67d])$/u
const BLANK = /^[\s\u2800]$/u
const DASH = /^[\p{Pd}\u02d7\u2043\u2212\u2796]$/u
const SINGLE_QUOTE = /^[\u2018-\u201b\u2032\u2035\u02b9\u02bb-\u02bd\u00b4\u275b\u275c]$/u
const DOUBLE_QUOTE = /^[\u201c-\u201f\u2033\u2036\u00ab\u00bb\u301d-\u301f\u275d\u275e]$/u
const LETTER = /^\p{L}$/u

/** Tag characters from U+E0020 to U+E007E repeat ASCII. */
const TAGS = 0xe0000

const ASCII = Array.from({ length: 128 }, (_, code) => foldAscii(code))

/** Whether a code point is invisible: zero-width, bidirectional control, filler, variation selector, tag, control. */
export function isIgnorable(codePoint: number): boolean {
  if (codePoint >= 0x20 && codePoint < 0x7f) return false
  return !KEPT_CONTROLS.has(codePoint) && IGNORABLE.test(String.fromCodePoint(codePoint))
}

/**
 * The folded symbols of a code point; none if it is invisible or an accent. All white space but the line feed is
 * {@link SPACE}. Folding a folded symbol gives the same symbol.
 */
export function fold(codePoint: number): readonly number[] {
  if (codePoint < 128) return ASCII[codePoint]!
  if (codePoint >= TAGS + 0x20 && codePoint < TAGS + 0x7f) return ASCII[codePoint - TAGS]!
  const look = CONFUSABLES.get(codePoint)
  if (look !== undefined) return [look]
  const character = String.fromCodePoint(codePoint)
  if (IGNORABLE.test(character) || DIACRITIC.test(character)) return []
  if (BLANK.test(character)) return [SPACE]
  if (DASH.test(character)) return [0x2d]
  if (SINGLE_QUOTE.test(character)) return [0x27]
  if (DOUBLE_QUOTE.test(character)) return [0x22]
  const plain = character.normalize('NFKD')
  if (plain !== character) return foldAll(plain)
  const lower = character.toUpperCase().toLowerCase()
  return lower === character ? [codePoint] : foldAll(lower)
}

/**
 * Like {@link fold}, without invisible separators of letters: marks of Markdown, page breaks, and tag characters,
 * which {@link fold} reads as ASCII.
 */
export function foldUnmarked(codePoint: number): readonly number[] {
  const isTag = codePoint >= TAGS && codePoint < TAGS + 0x80
  if (isTag || codePoint === 0x0b || codePoint === 0x0c) return []
  const symbols = fold(codePoint)
  return symbols.some(isMark) ? symbols.filter((symbol) => !isMark(symbol)) : symbols
}

/** Whether a symbol is a mark of Markdown that may stand inside a word: `*`, `_`, `~` or a backtick. */
export function isMark(symbol: number): boolean {
  return symbol === 0x2a || symbol === 0x5f || symbol === 0x7e || symbol === 0x60
}

export function foldAll(text: string): number[] {
  return Array.from(text).flatMap((character) => fold(character.codePointAt(0)!))
}

/** Whether a code point folds to letters and nothing else. */
export function readsAsLetter(codePoint: number): boolean {
  const symbols = fold(codePoint)
  return symbols.length > 0 && symbols.every((symbol) => LETTER.test(String.fromCodePoint(symbol)))
}

/** A tab, or the end of a page or of a part of it. */
function isBlank(code: number): boolean {
  return code === 0x09 || code === 0x0b || code === 0x0c
}

function foldAscii(code: number): readonly number[] {
  if (code === NEWLINE) return [NEWLINE]
  if (code === 0x0d || isBlank(code)) return [SPACE]
  if (code < 0x20 || code === 0x7f) return []
  return [code >= 0x41 && code <= 0x5a ? code + 0x20 : code]
}
