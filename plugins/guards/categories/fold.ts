/** Texts as cues are written: lower case, without accents, apostrophes straight, white space single. */

/** Marks that are an accent and not a letter: Latin, Greek and Cyrillic ones, Arabic vowel signs. */
const MARKS = /[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640]/g
const IGNORABLE =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\u{e0000}-\u{e0fff}]/gu
// eslint-disable-next-line no-control-regex
const PLAIN = /^[\x00-\x7f]*$/

/** The same for a cue and for a text, so that they meet. */
export function fold(text: string): string {
  const lower = PLAIN.test(text) ? text.toLowerCase() : foldLetters(text)
  return /\s\s|[\t\n\r]/.test(lower) ? lower.replace(/\s+/g, ' ') : lower
}

function foldLetters(text: string): string {
  return text
    .replace(IGNORABLE, '')
    .normalize('NFKD')
    .replace(MARKS, '')
    .normalize('NFC')
    .toLowerCase()
    .replace(/[ßœæøłđı’‘ʼ´أإآةى]/g, (letter) => SPELT[letter]!)
}

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
