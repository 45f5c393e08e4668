/**
 * View D: what base64, hexadecimal digits and escapes in a text stand for, one level deep (guard design, 3.2). Decoders
 * read code points with their places in the raw text and hand symbols with places to readers.
 */

/** Takes what was decoded. */
export interface Reader {
  /** @param symbol a code point, or {@link BREAK} for what cannot be one */
  read(symbol: number, start: number, end: number): void
  /** What follows does not belong to what was read. */
  restart(): void
  /** From where on the raw text may be part of a match; Infinity if nothing is. */
  hold(): number
}

/** Stands for bytes that are no text. */
export const BREAK = -1

/** Decodes one sequence; never throws. */
export interface Decoder {
  read(codePoint: number, start: number, end: number): void
  /** The text is over. */
  end(): void
  /** From where on the raw text may be part of something that is not decided; Infinity if nothing is. */
  hold(): number
}

/** From how many base64 characters on they are decoded, and from how many pairs of digits. */
export const MIN_BASE64 = 8
export const MIN_PAIRS = 4

/** Values of base64 and base64url by ASCII code; -1 for others. */
export const SEXTETS = valuesOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
SEXTETS[0x2d] = 62
SEXTETS[0x5f] = 63

/** Values of hexadecimal digits by ASCII code; -1 for others. */
export const DIGITS = valuesOf('0123456789abcdef')
for (const [index, code] of [...'ABCDEF'].entries()) DIGITS[code.charCodeAt(0)] = 10 + index

/** Bytes of UTF-8 to code points; breaks for what is not valid, and for controls. */
class Bytes {
  readonly #reader: Reader
  #missing = 0
  #value = 0
  #least = 0
  #start = 0

  constructor(reader: Reader) {
    this.#reader = reader
  }

  read(byte: number, start: number, end: number): void {
    if (this.#missing > 0) {
      if ((byte & 0xc0) === 0x80) {
        this.#value = (this.#value << 6) | (byte & 0x3f)
        if (--this.#missing === 0) this.#emit(this.#value, end)
        return
      }
      this.cut(start)
    }
    if (byte < 0x80) return this.#reader.read(isText(byte) ? byte : BREAK, start, end)
    this.#start = start
    if (byte >= 0xc2 && byte < 0xe0) this.#expect(1, byte & 0x1f, 0x80)
    else if (byte >= 0xe0 && byte < 0xf0) this.#expect(2, byte & 0x0f, 0x800)
    else if (byte >= 0xf0 && byte < 0xf5) this.#expect(3, byte & 0x07, 0x10000)
    else this.#reader.read(BREAK, start, end)
  }

  /** What is incomplete stays so. */
  cut(end: number): void {
    if (this.#missing === 0) return
    this.#missing = 0
    this.#reader.read(BREAK, this.#start, end)
  }

  restart(): void {
    this.#missing = 0
    this.#reader.restart()
  }

  hold(): number {
    const held = this.#reader.hold()
    return this.#missing > 0 ? Math.min(held, this.#start) : held
  }

  #expect(missing: number, value: number, least: number): void {
    this.#missing = missing
    this.#value = value
    this.#least = least
  }

  #emit(value: number, end: number): void {
    const isValid = value >= this.#least && isText(value) && value >>> 11 !== 0x1b
    this.#reader.read(isValid && value <= 0x10ffff ? value : BREAK, this.#start, end)
  }
}

/** Runs of base64 characters, at each of the four places where a group of four may begin. */
export class Base64 implements Decoder {
  /** By the place of the first character of a group, modulo 4. */
  readonly #bytes: readonly Bytes[]
  #length = 0
  /** Until a run is long enough. */
  readonly #waiting: { value: number; start: number; end: number }[] = []
  #fed = 0
  #last = 0
  #lastStart = 0

  /** @param readers four of them */
  constructor(readers: readonly Reader[]) {
    this.#bytes = readers.map((reader) => new Bytes(reader))
    for (let at = 0; at < MIN_BASE64; at++) this.#waiting.push({ value: 0, start: 0, end: 0 })
  }

  read(codePoint: number, start: number, end: number): void {
    const value = codePoint < 128 ? SEXTETS[codePoint]! : -1
    if (value < 0) {
      if (this.#length > 0) this.end()
      return
    }
    if (this.#length >= MIN_BASE64) {
      this.#length++
      this.#feed(value, start, end)
      return
    }
    const waiting = this.#waiting[this.#length++]!
    waiting.value = value
    waiting.start = start
    waiting.end = end
    if (this.#length === MIN_BASE64) {
      for (const one of this.#waiting) this.#feed(one.value, one.start, one.end)
    }
  }

  end(): void {
    this.#length = 0
    if (this.#fed === 0) return
    this.#fed = 0
    for (const bytes of this.#bytes) bytes.restart()
  }

  hold(): number {
    if (this.#length === 0) return Infinity
    if (this.#fed === 0) return this.#waiting[0]!.start
    // The last character is an unfinished byte for three of the four.
    return this.#bytes.reduce((least, bytes) => Math.min(least, bytes.hold()), this.#lastStart)
  }

  // Each character ends a byte for three of the places: the first, second or third byte of their group.
  #feed(value: number, start: number, end: number): void {
    const at = this.#fed++
    const two = (this.#last << 6) | value
    const from = this.#lastStart
    if (at >= 1) this.#bytes[(at - 1) & 3]!.read((two >>> 4) & 0xff, from, end)
    if (at >= 2) this.#bytes[(at - 2) & 3]!.read((two >>> 2) & 0xff, from, end)
    if (at >= 3) this.#bytes[(at - 3) & 3]!.read(two & 0xff, from, end)
    this.#last = value
    this.#lastStart = start
  }
}

/** Pairs of hexadecimal digits, with at most one separator between two pairs. */
export class Hex implements Decoder {
  readonly #bytes: Bytes
  /** How many digits are left out at the beginning of a run: 0 or 1. */
  readonly #offset: number
  #skip: number
  #half = -1
  #halfStart = 0
  #pairs = 0
  #start = 0
  #afterSeparator = false
  readonly #waiting: [byte: number, start: number, end: number][] = []

  constructor(reader: Reader, offset: number) {
    this.#bytes = new Bytes(reader)
    this.#offset = this.#skip = offset
  }

  read(codePoint: number, start: number, end: number): void {
    const value = codePoint < 128 ? DIGITS[codePoint]! : -1
    if (value >= 0) return this.#digit(value, start, end)
    const goesOn = this.#pairs > 0 && this.#half < 0 && !this.#afterSeparator
    if (goesOn && isSeparator(codePoint)) this.#afterSeparator = true
    else this.end()
  }

  end(): void {
    if (this.#pairs >= MIN_PAIRS) this.#bytes.restart()
    this.#skip = this.#offset
    this.#half = -1
    this.#pairs = 0
    this.#afterSeparator = false
    this.#waiting.length = 0
  }

  hold(): number {
    if (this.#pairs >= MIN_PAIRS) {
      const held = this.#bytes.hold()
      return this.#half < 0 ? held : Math.min(held, this.#halfStart)
    }
    return this.#pairs > 0 || this.#half >= 0 ? this.#start : Infinity
  }

  #digit(value: number, start: number, end: number): void {
    this.#afterSeparator = false
    if (this.#skip > 0) {
      this.#skip--
      return
    }
    if (this.#half < 0) {
      if (this.#pairs === 0) this.#start = start
      this.#half = value
      this.#halfStart = start
      return
    }
    const byte = (this.#half << 4) | value
    this.#half = -1
    if (++this.#pairs > MIN_PAIRS) return this.#bytes.read(byte, this.#halfStart, end)
    this.#waiting.push([byte, this.#halfStart, end])
    if (this.#pairs < MIN_PAIRS) return
    for (const one of this.#waiting) this.#bytes.read(...one)
    this.#waiting.length = 0
  }
}

/** Bytes of a percent or of `\x`, a UTF-16 unit, a code point in braces, a code point of HTML. */
const ESCAPE =
  /^(?:(?:%|\\x)([\da-f]{2})|\\u([\da-f]{4})|\\u\{([\da-f]{1,6})\}|&#(\d{1,7});?|&#x([\da-f]{1,6});?)$/i
const UNFINISHED =
  /^(?:%[\da-f]?|\\(?:x[\da-f]?|u(?:[\da-f]{0,3}|\{[\da-f]{0,6}))?|&(?:#(?:\d{0,7}|x[\da-f]{0,6}))?)$/i

/** Does a text hold anything that {@link Escapes} would decode? */
export const ANY_ESCAPE = /%[\da-f]|\\[xu][\da-f{]|&#[\dx]/i

/** The running text with its escapes replaced. */
export class Escapes implements Decoder {
  readonly #reader: Reader
  readonly #bytes: Bytes
  /** What may become an escape, and where its characters are. */
  #open = ''
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  /** The first half of a surrogate pair. */
  #high = 0
  #highStart = 0

  constructor(reader: Reader) {
    this.#reader = reader
    this.#bytes = new Bytes(reader)
  }

  read(codePoint: number, start: number, end: number): void {
    if (this.#open === '') {
      // % & \
      if (codePoint !== 0x25 && codePoint !== 0x26 && codePoint !== 0x5c) {
        this.#flush(start)
        this.#reader.read(codePoint, start, end)
        return
      }
    } else if (codePoint >= 128) {
      this.#close()
      return this.read(codePoint, start, end)
    }
    const open = this.#open + String.fromCharCode(codePoint)
    if (this.#open === '' || UNFINISHED.test(open)) {
      this.#open = open
      this.#starts.push(start)
      this.#ends.push(end)
      return
    }
    const escape = ESCAPE.exec(open)
    if (escape) return this.#decode(escape, end)
    this.#close()
    this.read(codePoint, start, end)
  }

  end(): void {
    while (this.#open !== '') this.#close()
  }

  hold(): number {
    let held = this.#bytes.hold()
    if (this.#open !== '') held = Math.min(held, this.#starts[0]!)
    return this.#high > 0 ? Math.min(held, this.#highStart) : held
  }

  // It did not become an escape, or it is one of HTML without its semicolon.
  #close(): void {
    const escape = ESCAPE.exec(this.#open)
    if (escape) return this.#decode(escape, this.#ends.at(-1)!)
    const [open, starts, ends] = [this.#open, this.#starts.splice(0), this.#ends.splice(0)]
    this.#open = ''
    this.#flush(starts[0]!)
    this.#reader.read(open.charCodeAt(0), starts[0]!, ends[0]!)
    for (let at = 1; at < open.length; at++) {
      this.read(open.charCodeAt(at), starts[at]!, ends[at]!)
    }
  }

  #decode([, byte, unit, point, decimal, hex]: RegExpExecArray, end: number): void {
    const start = this.#starts[0]!
    this.#open = ''
    this.#starts.length = this.#ends.length = 0
    if (byte !== undefined) {
      this.#flushHigh(start)
      return this.#bytes.read(Number.parseInt(byte, 16), start, end)
    }
    const value = decimal ? Number(decimal) : Number.parseInt((unit ?? point ?? hex)!, 16)
    this.#bytes.cut(start)
    if (unit !== undefined && this.#high > 0 && (value & 0xfc00) === 0xdc00) {
      const pair = 0x10000 + ((this.#high & 0x3ff) << 10) + (value & 0x3ff)
      this.#high = 0
      return this.#reader.read(pair, this.#highStart, end)
    }
    this.#flushHigh(start)
    if (unit !== undefined && (value & 0xfc00) === 0xd800) {
      this.#high = value
      this.#highStart = start
      return
    }
    this.#reader.read(isText(value) && value <= 0x10ffff ? value : BREAK, start, end)
  }

  #flush(end: number): void {
    this.#bytes.cut(end)
    this.#flushHigh(end)
  }

  #flushHigh(end: number): void {
    if (this.#high === 0) return
    this.#high = 0
    this.#reader.read(BREAK, this.#highStart, end)
  }
}

/** Space, colon, hyphen, comma. */
export function isSeparator(codePoint: number): boolean {
  return codePoint === 0x20 || codePoint === 0x3a || codePoint === 0x2d || codePoint === 0x2c
}

/** Controls end what they are in, so that junk before a text does not hide it. */
function isText(codePoint: number): boolean {
  if (codePoint < 0x20) return codePoint === 0x09 || codePoint === 0x0a || codePoint === 0x0d
  return codePoint < 0x7f || codePoint > 0x9f
}

function valuesOf(alphabet: string): Int8Array {
  const values = new Int8Array(128).fill(-1)
  for (const [value, character] of Array.from(alphabet).entries()) {
    values[character.charCodeAt(0)] = value
  }
  return values
}
