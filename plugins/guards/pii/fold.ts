/** One form for characters that mean the same: digits of all scripts, full-width letters, dashes, spaces. */

/** Ends everything: punctuation, line breaks, scripts that need no spaces. */
export const BREAK = 0
export const LETTER = 1
export const DIGIT = 2
/** Punctuation that numbers and addresses are written with. */
export const MARK = 3
export const SPACE = 4
/** Shows nothing by itself: control characters, joiners, variation selectors, key caps, accents. */
export const HIDDEN = 5

/** Classes of the ASCII characters. */
export const ASCII: Readonly<Uint8Array> = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (/[A-Za-z]/.test(character)) return LETTER
  if (/\d/.test(character)) return DIGIT
  if (/[ \t]/.test(character)) return SPACE
  if (code < 32 || code === 127) return /[\n\r]/.test(character) ? BREAK : HIDDEN
  return /["#%&'()*+\-./:<@[\]_~]/.test(character) ? MARK : BREAK
})

/** What a character folds to: a code point, and its class. */
export interface Folded {
  readonly code: number
  readonly class: number
}

const known = new Map<number, Folded>()

/** Most of what is written without spaces; which one it is says nothing. */
const IDEOGRAPH: Folded = { code: 0x4e00, class: BREAK }

/** Of any code point. What ends everything may come as another character that does. */
export function foldOf(code: number): Folded {
  if ((code >= 0x3400 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7a3)) return IDEOGRAPH
  const found = known.get(code)
  if (found) return found
  const folded = fold(code)
  if (known.size < 16_384) known.set(code, folded)
  return folded
}

/** A text folded, and where each of its UTF-16 units was, with the end of the text last. */
export interface FoldedText {
  readonly text: string
  readonly places: readonly number[]
}

export function foldText(raw: string): FoldedText {
  let text = ''
  const places: number[] = []
  for (let i = 0; i < raw.length;) {
    const code = raw.codePointAt(i)!
    const folded = foldOf(code)
    if (folded.class !== HIDDEN) {
      const character = String.fromCodePoint(folded.class === BREAK ? code : folded.code)
      for (let unit = 0; unit < character.length; unit++) places.push(i)
      text += character
    }
    i += code > 0xffff ? 2 : 1
  }
  places.push(raw.length)
  return { text, places }
}

/** Accents, which may be put on a digit too, are among them. */
const HIDDEN_CHARACTER =
  /^[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]$/u
/** Nobody sees tags, and models read them: they shadow ASCII, from U+E0020 on. */
const TAGS = 0xe0000
const DENSE_SCRIPT =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]$/u

function fold(code: number): Folded {
  if (code >= TAGS + 0x20 && code < TAGS + 0x7f) {
    return { code: code - TAGS, class: ASCII[code - TAGS]! }
  }
  const character = String.fromCodePoint(code)
  if (HIDDEN_CHARACTER.test(character)) return { code, class: HIDDEN }
  const value = digitOf(code, character)
  if (value !== undefined) return { code: 48 + value, class: DIGIT }
  if (/^[\p{Zs}]$/u.test(character)) return { code: 32, class: SPACE }
  if (/^[\p{Pd}\u2212]$/u.test(character)) return { code: 45, class: MARK }
  if (code === 0x2024) return { code: 46, class: MARK }
  // Full-width, small and mathematical forms, and letters in circles, are written in their plain forms.
  const plain = character.normalize('NFKC')
  if (/^[!-~]$/.test(plain))
    return { code: plain.charCodeAt(0), class: ASCII[plain.charCodeAt(0)]! }
  if (DENSE_SCRIPT.test(character)) return { code, class: BREAK }
  return { code, class: /^[\p{L}\p{M}]$/u.test(character) ? LETTER : BREAK }
}

/** The value of a digit of any script, or of a number in a circle. */
function digitOf(code: number, character: string): number | undefined {
  if (/^\p{Nd}$/u.test(character)) {
    // The digits of a script stand in a row, from zero to nine; styled rows of mathematics follow each other.
    if (code >= 0x1d7ce && code <= 0x1d7ff) return (code - 0x1d7ce) % 10
    let value = 0
    while (value < 9 && /^\p{Nd}$/u.test(String.fromCodePoint(code - value - 1))) value++
    return value
  }
  if (!/^\p{No}$/u.test(character)) return undefined
  const plain = character.normalize('NFKC')
  if (/^\d$/.test(plain)) return Number(plain)
  // Negative circled and sans-serif numbers have no other form in Unicode.
  if (code >= 0x2776 && code <= 0x277e) return code - 0x2775
  if (code >= 0x2780 && code <= 0x2788) return code - 0x277f
  return code >= 0x278a && code <= 0x2792 ? code - 0x2789 : undefined
}
