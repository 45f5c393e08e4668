/**
 * The structure of a JSON text is bounded before it is parsed: a few hundred compressed bytes can make millions of objects, and
 * parsing cannot be interrupted.
 */
import { InvalidRequest } from '../errors/errors.ts'

/** The limits of a JSON text. */
export interface JsonLimits {
  /** Nesting of objects and lists. */
  readonly depth: number
  /** The number of objects and lists. */
  readonly containers: number
  /** The number of commas, colons, objects and lists: about that of values and names. */
  readonly values: number
  /** Bytes of one number. */
  readonly literal: number
  /** Bytes of one member name. */
  readonly key: number
}

// Not imported, because that would make a scan a third slower (measured alone).
const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_LIST = 91
const BACKSLASH = 92
const CLOSE_LIST = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125
const TAB = 9
const LINE_FEED = 10
const RETURN = 13
const BLANK = 32
/** After this many bytes without an escape, the end of a string is searched with `indexOf`. */
const PLAIN_BYTES = 48

/** Scans one text, in pieces as they arrive. Takes time in proportion to the bytes and keeps none of them. */
export class JsonScan {
  readonly #limits: JsonLimits
  #inString = false
  /** The string continues after a backslash. */
  #escaped = false
  /** Bytes of the current or last string, between the quotes. */
  #string = 0
  #literal = 0
  #depth = 0
  #containers = 0
  #values = 0

  constructor(limits: JsonLimits) {
    this.#limits = limits
  }

  /** The count so far, as {@link JsonLimits.values}. */
  get values(): number {
    return this.#values
  }

  /**
   * One long loop: calls and members in it would take half as long again.
   * @returns a limit that the text exceeds; the scan is over then
   */
  push(piece: Uint8Array): keyof JsonLimits | undefined {
    const limits = this.#limits
    const { depth: maxDepth, literal: maxLiteral, key: maxKey } = limits
    let depth = this.#depth
    let containers = this.#containers
    let values = this.#values
    const end = piece.length
    let start = 0
    let at = this.#inString ? this.#skipString(piece, 0) : 0
    // Of the last byte that is part of no number; in an earlier piece it is negative.
    let last = at - 1 - this.#literal
    for (; at < end; at++) {
      switch (piece[at]) {
        case QUOTE:
          start = ++at
          // Most names are short; a call for each would take twice as long.
          while (
            at < end &&
            at < start + PLAIN_BYTES &&
            piece[at] !== QUOTE &&
            piece[at] !== BACKSLASH
          ) {
            at++
          }
          this.#string = at - start
          if (at === end || piece[at] !== QUOTE) at = this.#skipString(piece, at) - 1
          last = at
          continue
        case COMMA:
          values++
          break
        case COLON:
          values++
          // In valid JSON the string before a colon is the name of a member.
          if (this.#string > maxKey) return 'key'
          break
        case OPEN_OBJECT:
        case OPEN_LIST:
          values++
          containers++
          if (++depth > maxDepth) return 'depth'
          break
        case CLOSE_OBJECT:
        case CLOSE_LIST:
          depth--
          break
        case BLANK:
        case LINE_FEED:
        case RETURN:
        case TAB:
          break
        default:
          continue
      }
      if (at - last > maxLiteral + 1) return 'literal'
      last = at
    }
    this.#literal = end - 1 - last
    this.#depth = depth
    this.#containers = containers
    this.#values = values
    if (this.#literal > maxLiteral) return 'literal'
    if (containers > limits.containers) return 'containers'
    return values > limits.values ? 'values' : undefined
  }

  /** @returns the place after the quote that ends the string, or the length of the piece */
  #skipString(piece: Uint8Array, start: number): number {
    const end = piece.length
    let at = start
    if (this.#escaped && at < end) {
      this.#escaped = false
      at++
    }
    let near = at + PLAIN_BYTES
    for (; at < end; at++) {
      // A call per quote would be dear in JSON that is quoted in JSON, so the search begins where no escape is near.
      if (at === near && (at = this.#jump(piece, at)) >= end) break
      const byte = piece[at]
      if (byte === QUOTE) {
        this.#string += at - start
        this.#inString = false
        return at + 1
      }
      if (byte !== BACKSLASH) continue
      at++
      near = at + PLAIN_BYTES
    }
    this.#escaped = at > end
    this.#string += end - start
    this.#inString = true
    return end
  }

  /** @returns the next quote or the escape before it, or the length of the piece plus one if an escape goes on behind it */
  #jump(piece: Uint8Array, from: number): number {
    const quote = piece.indexOf(QUOTE, from)
    const next = quote < 0 ? piece.length : quote
    let first = next
    while (first > from && piece[first - 1] === BACKSLASH) first--
    const escapes = (next - first) % 2 === 1
    if (!escapes) return next
    return quote < 0 ? next + 1 : next - 1
  }
}

/**
 * The error for a client whose JSON exceeds a limit: 400 `invalid_json` or 413 `request_too_large`.
 * @param subject the scanned text, such as `The request body`
 * @param param the field that holds it, if it is part of a body
 */
export function jsonRefusal(
  excess: keyof JsonLimits,
  limits: JsonLimits,
  subject: string,
  param: string | null = null,
): InvalidRequest {
  const most = limits[excess]
  const tooLarge = excess === 'containers' || excess === 'values'
  const message: Record<keyof JsonLimits, string> = {
    depth: `nests deeper than ${most} levels`,
    literal: `has a number of over ${most} bytes`,
    key: `has a member whose name is longer than ${most} bytes`,
    containers: `has more than ${most} objects and lists`,
    values: `has more than ${most} values and names`,
  }
  const code = tooLarge ? 'request_too_large' : 'invalid_json'
  return new InvalidRequest(code, `${subject} ${message[excess]}.`, { param })
}
