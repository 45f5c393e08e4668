/** Accents: combining marks of Latin, Greek and Cyrillic, and Arabic vowel signs. */
const MARKS = /[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640]/g
/** Invisible characters. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}|[\ufeff\u061c]/gu
const SPELT: Readonly<Record<string, string>> = {
  ß: 'ss',
  œ: 'oe',
  æ: 'ae',
  ø: 'o',
  ł: 'l',
  đ: 'd',
  ı: 'i',
  '’': "'",
  '‘': "'",
  ʼ: "'",
  '´': "'",
  أ: 'ا',
  إ: 'ا',
  آ: 'ا',
  ة: 'ه',
  ى: 'ي',
}
const SPACE = 0x20

/** Cache of folded code units: a single unit, or one of the values below. Filled on first use. */
const known = new Uint16Array(0x10000).fill(0xffff)
const UNSEEN = 0xffff
const NOTHING = 0
const SEVERAL = 0xfffe

/** Folds cues and texts alike: lower case, no accents, straight apostrophes, single spaces, which commas are, too. */
export function fold(text: string): string {
  const units = new Uint16Array(text.length * MAX_UNITS)
  return String.fromCharCode(...units.subarray(0, foldInto(text, units)))
}

/** Most units that one code unit folds to. */
export const MAX_UNITS = 8

/** Folds a text into `units`. @returns the length of the folded text */
export function foldInto(text: string, units: Uint16Array): number {
  let length = 0
  let before = -1
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    let unit = known[code]!
    if (unit === UNSEEN) unit = learn(code)
    if (unit === NOTHING || (unit === SPACE && before === SPACE)) continue
    if (unit === SEVERAL) for (const one of letters(text[i]!)) units[length++] = one.charCodeAt(0)
    else units[length++] = unit
    before = unit
  }
  return length
}

function learn(code: number): number {
  const folded = letters(String.fromCharCode(code))
  const unit = folded === '' ? NOTHING : folded.length === 1 ? folded.charCodeAt(0) : SEVERAL
  known[code] = unit
  return unit
}

function letters(letter: string): string {
  if (/[\s,，、]/.test(letter)) return ' '
  const plain = letter
    .replace(IGNORABLE, '')
    .normalize('NFKD')
    .replace(MARKS, '')
    .normalize('NFC')
    .toLowerCase()
    .replace(/[^\0-\x7f]/g, (one) => SPELT[one] ?? one)
  return plain.slice(0, MAX_UNITS)
}
