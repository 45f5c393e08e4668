/** Cleans and shortens texts from the web, and queries. */
import { wholeCharacters } from '../errors/checks.ts'

/**
 * Control characters, bidirectional marks, zero-width spaces and "tag" characters: invisible, without information, and able to
 * hide an instruction from a reader. Joiners stay, because scripts and emoji need them.
 */
const INVISIBLE =
  /(?![\t\n])\p{Cc}|[\u00ad\u200b\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** The look-behind lets a match start only at the first blank of a run; otherwise long runs take quadratic time. */
const BLANKS_AT_END = /(?<![ \t])[ \t]+\n/g

/** Well-formed text without invisible characters, with line feeds as line ends and at most one empty line in a row. */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(INVISIBLE, '')
    .replace(BLANKS_AT_END, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/** {@link visible} text on one line. */
export function singleLine(text: string): string {
  return visible(text).replace(/\s+/g, ' ')
}

/**
 * The beginning of a text. Cut between words if that loses less than a fifth, and never inside a character.
 * @param limit UTF-16 code units, `mark` included. @param mark appended to a text that was cut
 */
export function shorten(text: string, limit: number, mark = ''): string {
  if (text.length <= limit) return text
  const room = Math.max(0, limit - mark.length)
  const blank = text.lastIndexOf(' ', room)
  const end = blank > room * 0.8 ? blank : room
  return text.slice(0, wholeCharacters(text, end)).trimEnd() + mark
}
