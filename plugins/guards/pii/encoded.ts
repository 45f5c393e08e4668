/** Parts of a growing text that are encoded: base64, hexadecimal digits, and escapes of URLs, JavaScript, JSON and HTML. */

import { expression, matchesOf } from '../text/slices.ts'

/** A part of a text, and what it says. */
interface Decoded {
  /** Offsets in the text. */
  readonly start: number
  readonly end: number
  /** The text shortly before the part. */
  readonly before: string
  readonly text: string
}

/** Shorter words are not decoded. */
const MIN_WORD = 8
/** The characters that are decoded at a time of a longer word. */
const WINDOW = 512
/** The last characters of a window, which are decoded again with those that follow. */
const OVERLAP = 256
/** Characters before a word that are kept. */
const MEMORY = 64
/** The characters of a word from which on a line break may be inside of base64. */
const MIN_LINE = 40

const LINE_FEED = 10
const CARRIAGE_RETURN = 13
const ESCAPE = expression(
  /%([\da-f]{2})|\\x([\da-f]{2})|\\u([\da-f]{4})|\\u\{([\da-f]{1,6})\}|&#(\d{1,7});?|&#x([\da-f]{1,6});?/gi,
)
const BASE64 = expression(/[\w+/-]{12,}={0,2}/g)
const HEX = expression(/[\da-f]{16,}/gi)
const ONLY_BASE64 = expression(/^[\w+/\r\n-]*$/)
/** What no personal data is without: a sign of an address, or some digits. */
const TELLING = expression(/[@:]|(?:\d[^\d\n]{0,3}){6}/)
const CONTROLS = expression(/\p{Cc}/gu)

/** Decodes the words of a text. One level is decoded, and what is found depends on the text only, not on how it arrives. */
export class EncodedWords {
  readonly #take: (decoded: Decoded) => boolean
  #stopped = false
  /** The kept text, from offset `#base` on. */
  #text = ''
  #base = 0
  #at = 0
  /** Where the present word begins; -1 between words. */
  #word = -1

  /** @param take receives what words say; false ends the reading, and the word stays undecided */
  constructor(take: (decoded: Decoded) => boolean) {
    this.#take = take
  }

  /** Offset up to which the text is part of no word that is undecided. */
  get safe(): number {
    return this.#word < 0 ? this.#at : this.#word
  }

  /** How many characters of a piece may be added before a word is decoded: nothing is found before the last of them. */
  reach(piece: string): number {
    let word = this.#word
    for (let i = 0, at = this.#at; i < piece.length; i++, at++) {
      const code = piece.charCodeAt(i)
      if (isSign(code) && word < 0) word = at
      else if (word >= 0 && (!isSign(code) || at - word === WINDOW)) {
        if (at - word >= MIN_WORD) return i + 1
        word = -1
      }
    }
    return piece.length
  }

  push(piece: string): void {
    this.#text += piece
    for (; this.#at < this.#base + this.#text.length && !this.#stopped; this.#at++) {
      const code = this.#text.charCodeAt(this.#at - this.#base)
      const isBreak = code === LINE_FEED || code === CARRIAGE_RETURN
      const isInside = isSign(code) || (isBreak && this.#isLine())
      if (isInside && this.#word < 0) this.#word = this.#at
      else if (!isInside && this.#word >= 0) this.#endWord()
      else if (isInside && this.#at - this.#word === WINDOW) this.#decode(this.#at - OVERLAP)
    }
    if (this.#stopped) return
    const needed = this.safe - MEMORY
    if (needed - this.#base < WINDOW) return
    this.#text = this.#text.slice(needed - this.#base)
    this.#base = needed
  }

  end(): void {
    if (this.#word >= 0 && !this.#stopped) this.#endWord()
  }

  #isLine(): boolean {
    return this.#word >= 0 && this.#at - this.#word >= MIN_LINE && ONLY_BASE64.test(this.#wordNow())
  }

  #wordNow(): string {
    return this.#text.slice(this.#word - this.#base, this.#at - this.#base)
  }

  #endWord(): void {
    if (this.#at - this.#word >= MIN_WORD) this.#decode(-1)
    else this.#word = -1
  }

  /** @param next where the next word begins */
  #decode(next: number): void {
    const start = this.#word
    const before = this.#text.slice(Math.max(0, start - MEMORY - this.#base), start - this.#base)
    for (const said of readingsOf(this.#wordNow())) {
      const text = said.replaceAll(CONTROLS, '\n')
      if (!TELLING.test(text)) continue
      if (!this.#take({ start, end: this.#at, before, text })) {
        this.#stopped = true
        return
      }
    }
    this.#word = next
  }
}

/** Whether a character may be part of a word. */
function isSign(code: number): boolean {
  return code > 32 && code < 127
}

/** What a word may say. */
function* readingsOf(word: string): Generator<string> {
  if (/[%\\&]/.test(word)) {
    const plain = unescaped(word)
    if (plain !== word) yield plain
  }
  for (const [digits] of matchesOf(word, HEX)) {
    for (const from of [0, 1]) yield Buffer.from(digits.slice(from), 'hex').toString()
  }
  // A sign before the first group must not hide what follows.
  for (const [group] of matchesOf(word.replaceAll(/[\r\n]/g, ''), BASE64)) {
    for (const from of [0, 1, 2, 3]) yield Buffer.from(group.slice(from), 'base64').toString()
  }
}

function unescaped(word: string): string {
  return word.replaceAll(ESCAPE, (escape, byte, x, u, braced, decimal, hex) => {
    const code = decimal ? Number(decimal) : Number.parseInt(byte ?? x ?? u ?? braced ?? hex, 16)
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : escape
  })
}
