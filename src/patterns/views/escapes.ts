/** View `decoded`, for escapes of URLs, JavaScript, JSON and HTML. */
import { isText, Utf8Decoder, type CodePointSink, type Decoder } from './decode.ts'
import { SEPARATOR_SYMBOL } from './fold.ts'

/** A byte after `%` or `\x`, a UTF-16 unit after `\u`, a code point in braces, a code point of HTML. */
const ESCAPE =
  /^(?:(?:%|\\x)([\da-f]{2})|\\u([\da-f]{4})|\\u\{([\da-f]{1,6})\}|&#(\d{1,7});?|&#x([\da-f]{1,6});?)$/i
const UNFINISHED =
  /^(?:%[\da-f]?|\\(?:x[\da-f]?|u(?:[\da-f]{0,3}|\{[\da-f]{0,6}))?|&(?:#(?:\d{0,7}|x[\da-f]{0,6}))?)$/i

/** Finds anything that {@link Escapes} may decode; invisible characters may stand in between. */
export const ANY_ESCAPE =
  /%[^ -~\t\n\r]*[\da-f][^ -~\t\n\r]*[\da-f]|\\[^ -~\t\n\r]*[xu][^ -~\t\n\r]*[\da-f{]|&[^ -~\t\n\r]*#[^ -~\t\n\r]*[\dx]/i

export function mayEscape(codePoint: number): boolean {
  // % & \
  return codePoint === 0x25 || codePoint === 0x26 || codePoint === 0x5c
}

/** Passes a text on with its escapes decoded. */
export class Escapes implements Decoder {
  readonly #sink: CodePointSink
  readonly #bytes: Utf8Decoder
  /** The beginning of a possible escape, with the offsets of its characters. */
  #open = ''
  readonly #starts: number[] = []
  readonly #ends: number[] = []
  /** The first half of a surrogate pair, or 0. */
  #high = 0
  #highStart = 0

  constructor(sink: CodePointSink) {
    this.#sink = sink
    this.#bytes = new Utf8Decoder(sink)
  }

  read(codePoint: number, start: number, end: number): void {
    if (this.#open === '') {
      if (!mayEscape(codePoint)) {
        this.#flush(start)
        this.#sink.read(codePoint, start, end)
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

  /** Whether nothing is undecided, and no match is under way. */
  get idle(): boolean {
    return this.#open === '' && this.#high === 0 && this.#bytes.idle
  }

  /** Drops state, as the next character does not continue the previous ones. Only while {@link idle}. */
  restart(): void {
    this.#bytes.restart()
  }

  end(): void {
    while (this.#open !== '') this.#close()
  }

  pendingStart(isExact: boolean): number {
    let pending = this.#bytes.pendingStart(isExact)
    if (this.#open !== '') pending = Math.min(pending, this.#starts[0]!)
    return this.#high > 0 ? Math.min(pending, this.#highStart) : pending
  }

  // Not an escape after all, or one of HTML without its semicolon.
  #close(): void {
    const escape = ESCAPE.exec(this.#open)
    if (escape) return this.#decode(escape, this.#ends.at(-1)!)
    const [open, starts, ends] = [this.#open, this.#starts.splice(0), this.#ends.splice(0)]
    this.#open = ''
    this.#flush(starts[0]!)
    this.#sink.read(open.charCodeAt(0), starts[0]!, ends[0]!)
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
      return this.#sink.read(pair, this.#highStart, end)
    }
    this.#flushHigh(start)
    if (unit !== undefined && (value & 0xfc00) === 0xd800) {
      this.#high = value
      this.#highStart = start
      return
    }
    this.#sink.read(isText(value) && value <= 0x10ffff ? value : SEPARATOR_SYMBOL, start, end)
  }

  #flush(end: number): void {
    this.#bytes.cut(end)
    this.#flushHigh(end)
  }

  #flushHigh(end: number): void {
    if (this.#high === 0) return
    this.#high = 0
    this.#sink.read(SEPARATOR_SYMBOL, this.#highStart, end)
  }
}
