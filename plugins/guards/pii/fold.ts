/** Ends every stretch: punctuation, line breaks, scripts without spaces. */
export const BREAK = 0
/** A letter of a script with spaces. */
export const LETTER = 1
/** A digit of any script. */
export const DIGIT = 2
/** Punctuation inside numbers and addresses. */
export const MARK = 3
/** White space inside a line. */
export const SPACE = 4
/** It is invisible by itself: control characters, joiners, variation selectors, key caps, accents. */
export const HIDDEN = 5

/** Classes of ASCII characters. */
export const ASCII: Readonly<Uint8Array> = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (/[A-Za-z]/.test(character)) return LETTER
  if (/\d/.test(character)) return DIGIT
  if (/[ \t]/.test(character)) return SPACE
  if (code < 32 || code === 127) return /[\n\r]/.test(character) ? BREAK : HIDDEN
  return /["#%&'()*+\-./:<@[\]_~]/.test(character) ? MARK : BREAK
})

/** Folded form of a character: a code point and its class. */
interface Folded {
  readonly code: number
  readonly class: number
}

const cache = new Map<number, Folded>()

/** Stands for most characters of scripts without spaces. Which one does not matter. */
export const IDEOGRAPH_CODE = 0x4e00
const IDEOGRAPH: Folded = { code: IDEOGRAPH_CODE, class: BREAK }

/** The folded form of a code point. */
export function foldOf(code: number): Folded {
  if ((code >= 0x3400 && code <= 0x9fff) || (code >= 0xac00 && code <= 0xd7a3)) return IDEOGRAPH
  const cached = cache.get(code)
  if (cached) return cached
  const folded = fold(code)
  if (cache.size < 16_384) cache.set(code, folded)
  return folded
}

/** A folded text, and the original offset of each of its UTF-16 units; the last entry is the end of the text. */
interface FoldedText {
  readonly text: string
  readonly places: readonly number[]
}

/** Folds a text. */
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

/** Includes accents, because they may be combined with digits. */
const HIDDEN_CHARACTER =
  /^[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cc}\p{Me}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]$/u
/** Invisible tag characters, which models read as ASCII, start here. */
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
  // Full-width, small, mathematical and circled characters become plain ones.
  const plain = character.normalize('NFKC')
  if (/^[!-~]$/.test(plain))
    return { code: plain.charCodeAt(0), class: ASCII[plain.charCodeAt(0)]! }
  if (DENSE_SCRIPT.test(character)) return { code, class: BREAK }
  return { code, class: /^[\p{L}\p{M}]$/u.test(character) ? LETTER : BREAK }
}

/** The value of a digit of any script, or of a circled number. */
function digitOf(code: number, character: string): number | undefined {
  if (/^\p{Nd}$/u.test(character)) {
    // The digits of each script are consecutive code points.
    if (code >= 0x1d7ce && code <= 0x1d7ff) return (code - 0x1d7ce) % 10
    let value = 0
    while (value < 9 && /^\p{Nd}$/u.test(String.fromCodePoint(code - value - 1))) value++
    return value
  }
  if (!/^\p{No}$/u.test(character)) return undefined
  const plain = character.normalize('NFKC')
  if (/^\d$/.test(plain)) return Number(plain)
  // Unicode has no decomposition for negative circled and sans-serif numbers.
  if (code >= 0x2776 && code <= 0x277e) return code - 0x2775
  if (code >= 0x2780 && code <= 0x2788) return code - 0x277f
  return code >= 0x278a && code <= 0x2792 ? code - 0x2789 : undefined
}
