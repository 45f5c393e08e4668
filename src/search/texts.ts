/** Texts out of the web and into it, made harmless and short. */

/**
 * Controls, marks that turn the direction of writing, blanks without width and the "tag" characters: no reader sees them,
 * none of them carries a fact, and all of them can hide an instruction. Joiners stay, because scripts and emoji need them.
 */
const UNSEEN =
  /(?![\t\n])\p{Cc}|[\u00ad\u200b\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** A run is tried from its beginning alone: from each of its blanks on, long runs would take the square of their length. */
const BLANKS_AT_END = /(?<![ \t])[ \t]+\n/g

/** Well-formed text without characters that nobody sees, its lines ended by line feeds, at most one empty line in a row. */
export function visible(text: string): string {
  return text
    .toWellFormed()
    .replace(/\r\n?|[\u2028\u2029]/g, '\n')
    .replace(UNSEEN, '')
    .replace(BLANKS_AT_END, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

/** The same on one line. */
export function singleLine(text: string): string {
  return visible(text).replace(/\s+/g, ' ')
}

/**
 * The beginning of a text, at most so many UTF-16 code units, `mark` included: between words where that costs little,
 * never inside a character.
 */
export function shorten(text: string, limit: number, mark = ''): string {
  if (text.length <= limit) return text
  const room = Math.max(0, limit - mark.length)
  const blank = text.lastIndexOf(' ', room)
  const end = blank > room * 0.8 ? blank : room
  // Half a character at the end is left out.
  const cut = /[\ud800-\udbff]$/.test(text.slice(0, end)) ? end - 1 : end
  return text.slice(0, cut).trimEnd() + mark
}
