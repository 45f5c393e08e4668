/**
 * The text of a JSON body. Unchanged parts are copied from it: serialising a long conversation again costs more than
 * anything else that happens to a large body (200 KB: 1.6 ms, 0.85 with the text copied).
 */

// Places of values in a JSON text that is known to be valid. Copied text keeps its bytes: numbers above 2^53,
// escapes and the order of members.

import { InvalidRequest } from '../errors/errors.ts'

/** The place of a value in a text. */
interface JsonSpan {
  readonly start: number
  readonly end: number
}

/** A member of an object: the span of its value, and the start of its name. */
interface JsonMember extends JsonSpan {
  readonly name: string
  readonly from: number
}

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_LIST = 91
const BACKSLASH = 92
const CLOSE_LIST = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** The end of a string is searched with `indexOf` after this many characters. */
const SHORT = 16

/** The members of the object that begins at `at`, in their order; a repeated name comes every time. */
export function membersOf(text: string, at = 0): JsonMember[] {
  const members: JsonMember[] = []
  let next = skipSpace(text, skipSpace(text, at) + 1)
  while (text.charCodeAt(next) === QUOTE) {
    const close = closeOf(text, next)
    const raw = text.slice(next, close + 1)
    const name = raw.includes('\\') ? (JSON.parse(raw) as string) : raw.slice(1, -1)
    const start = skipSpace(text, skipSpace(text, close + 1) + 1)
    const end = endOf(text, start)
    members.push({ name, from: next, start, end })
    next = skipSpace(text, end)
    if (text.charCodeAt(next) === COMMA) next = skipSpace(text, next + 1)
  }
  return members
}

/** The items of the list that begins at `at`. */
export function itemsOf(text: string, at: number): JsonSpan[] {
  const items: JsonSpan[] = []
  let next = skipSpace(text, skipSpace(text, at) + 1)
  while (next < text.length && text.charCodeAt(next) !== CLOSE_LIST) {
    const end = endOf(text, next)
    items.push({ start: next, end })
    next = skipSpace(text, end)
    if (text.charCodeAt(next) === COMMA) next = skipSpace(text, next + 1)
  }
  return items
}

/** The quote that ends the string which begins at `open`. */
function closeOf(text: string, open: number): number {
  const near = open + SHORT
  for (let at = open + 1; at < near; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  let at = text.indexOf('"', near - 1)
  while (at >= 0) {
    let before = at
    while (text.charCodeAt(before - 1) === BACKSLASH) before--
    if ((at - before) % 2 === 0) return at
    at = text.indexOf('"', at + 1)
  }
  return text.length
}

/** The place after the value that begins at `start`. */
function endOf(text: string, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = closeOf(text, at)
        if (depth === 0) return at + 1
        break
      case OPEN_OBJECT:
      case OPEN_LIST:
        depth++
        break
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        // The bracket belongs to what holds the value.
        if (depth === 0) return at
        if (--depth === 0) return at + 1
        break
      default:
        if (depth === 0 && isEnd(text.charCodeAt(at))) return at
    }
  }
  return text.length
}

function isEnd(code: number): boolean {
  return code === COMMA || isSpace(code)
}

function isSpace(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13)
}

function skipSpace(text: string, at: number): number {
  let next = at
  while (isSpace(text.charCodeAt(next))) next++
  return next
}

/** The text of an object with some members changed: each gets a new value, or is removed where that is undefined. */
export function withMembers(
  text: string,
  at: number,
  changes: ReadonlyMap<string, string | undefined>,
): string {
  const members = membersOf(text, at)
  const names = new Set(members.map(({ name }) => name))
  const kept = members.flatMap(({ name, from, start, end }) => {
    if (!changes.has(name)) return [text.slice(from, end)]
    const value = changes.get(name)
    return value === undefined ? [] : [text.slice(from, start) + value]
  })
  const added = [...changes].flatMap(([name, value]) =>
    value === undefined || names.has(name) ? [] : [`${JSON.stringify(name)}:${value}`],
  )
  return `{${[...kept, ...added].join(',')}}`
}

/** The text of a list whose items are changed, or left out where `change` returns undefined. */
export function withItems(
  text: string,
  at: number,
  change: (item: string, index: number, start: number) => string | undefined,
): string {
  const items = itemsOf(text, at).map(({ start, end }, index) =>
    change(text.slice(start, end), index, start),
  )
  return `[${items.filter((item) => item !== undefined).join(',')}]`
}

/** The number of members of the objects in a text; a repeated name counts every time. */
function countMembers(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = closeOf(text, at)
    else if (code === COLON) count++
  }
  return count
}

interface Span {
  readonly start: number
  readonly end: number
}

/** The text of a body, until it is released. */
interface Source {
  text: string | undefined
}

/** The place of a value in the text of a body. */
interface Place extends Span {
  readonly source: Source
}

/**
 * The member of a recorded value that holds its place, which copies do not have. A WeakMap instead keeps every body
 * until the next major collection: 7 % of a request of 100 KB.
 */
const PLACE = Symbol('place')

interface Recorded {
  readonly [PLACE]?: Place
}

/** The value of a member. */
interface Member extends Span {
  /** The number of members of the objects in it; a repeated name counts every time. */
  readonly members: number
  /** The spans between the commas; they mean something only where the member is a list. */
  readonly items: readonly Span[]
}

/** Shorter items are not recorded: serialising so many characters takes 7 µs. */
const MIN_ITEM_LENGTH = 4096
/** Deeper nesting is not searched. */
const MAX_DEPTH = 64

/** A JSON object with its source text. Objects in it are recognised by identity, so a changed object must be a new one. */
export class RawJson {
  readonly value: object
  /** Size of the text in bytes. */
  readonly bytes: number
  readonly #source: Source

  /** @param value the result of `JSON.parse` */
  constructor(text: string, value: object, bytes = Buffer.byteLength(text)) {
    this.#source = { text }
    this.value = value
    this.bytes = bytes
  }

  /**
   * `JSON.stringify` of a plain object. A member that is a recorded list, or a list with recorded items, is copied from
   * its source text; such members come first.
   */
  static stringify(body: object): string {
    let rest: Record<string, unknown> | undefined
    let copied = ''
    for (const [name, value] of Object.entries(body)) {
      const text = copyOf(value)
      if (text === undefined) continue
      copied += `${copied ? ',' : ''}${JSON.stringify(name)}:${text}`
      rest ??= { ...body }
      rest[name] = undefined
    }
    if (!rest || Array.isArray(body)) return JSON.stringify(body)
    const others = JSON.stringify(rest)
    return others === '{}' ? `{${copied}}` : `{${copied},${others.slice(1)}`
  }

  /** The source text of a recorded list, or of an item of one, unless its body was released. */
  static textOf(value: object): string | undefined {
    const place = (value as Recorded)[PLACE]
    return place?.source.text?.slice(place.start, place.end)
  }

  /**
   * The source text of a top-level member: the last one of that name, as for `JSON.parse`.
   * @returns undefined without such a member, after the release, and for names or nesting that {@link RawJson.record} refuses
   */
  member(name: string): string | undefined {
    const { text } = this.#source
    const place = text === undefined ? undefined : findMember(text, name)
    return place && text!.slice(place.start, place.end)
  }

  /**
   * Records where a top-level list stands in the text, and each long object in it, which may go into another list. A list
   * in which a member name is repeated is not recorded: readers do not agree which of the two members counts. Neither is
   * one with an escaped top-level name before it, or in a body that nests deeper than 64 levels.
   */
  record(name: string): void {
    const list = (this.value as Readonly<Record<string, unknown>>)[name]
    const { text } = this.#source
    if (!Array.isArray(list) || text === undefined) return
    const member = findMember(text, name)
    if (!member) return
    const items = list as readonly unknown[]
    // A value never has more members than its text, so equal sums mean that no name is repeated in any item.
    if (membersIn(items) !== member.members) return
    for (let i = 0; i < items.length; i++) {
      const { start, end } = member.items[i]!
      if (end - start >= MIN_ITEM_LENGTH && isNested(items[i])) {
        this.#place(items[i] as object, { start, end })
      }
    }
    this.#place(items, member)
  }

  /** The source text; undefined after the release. */
  get text(): string | undefined {
    return this.#source.text
  }

  /** Whether a member name is repeated in any object: readers do not agree which of the two members counts. */
  get isAmbiguous(): boolean {
    const { text } = this.#source
    return text !== undefined && countMembers(text) !== membersIn(this.value)
  }

  /** Frees the text. Recorded objects are serialised from then on. */
  release(): void {
    this.#source.text = undefined
  }

  #place(value: object, { start, end }: Span): void {
    const place: Place = { source: this.#source, start, end }
    Object.defineProperty(value, PLACE, { value: place })
  }
}

/** The JSON of a list that was recorded, or has recorded items; undefined for other values. */
function copyOf(value: unknown): string | undefined {
  if (!Array.isArray(value)) return undefined
  const whole = RawJson.textOf(value)
  if (whole !== undefined) return whole
  let hasSource = false
  const items = value.map((item: unknown) => {
    const text = isNested(item) ? RawJson.textOf(item) : undefined
    if (text !== undefined) hasSource = true
    return text
  })
  if (!hasSource) return undefined
  return `[${items.map((text, i) => text ?? JSON.stringify(value[i]) ?? 'null').join(',')}]`
}

/**
 * The last top-level member with this name in a valid text of an object.
 * @returns undefined where a name is escaped, because it may be this one, and where the text nests too deeply
 */
function findMember(text: string, name: string): Member | undefined {
  let member: Member | undefined
  let items: Span[] = []
  let depth = 0
  let members = 0
  let start = 0
  let itemStart = 0
  let atName = true
  let inside = false
  const endItem = (at: number) => {
    items.push({ start: itemStart, end: at })
    itemStart = at + 1
  }
  const endMember = (at: number) => {
    if (inside) member = { start, end: at, members, items }
    inside = false
    atName = true
  }
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const close = closeOf(text, at)
        if (depth === 1 && atName) {
          inside = close - at - 1 === name.length && text.startsWith(name, at + 1)
          if (!inside && text.slice(at + 1, close).includes('\\')) return undefined
        }
        at = close
        break
      }
      case COLON:
        if (depth > 1) {
          members++
          break
        }
        atName = false
        start = at + 1
        members = 0
        items = []
        break
      case COMMA:
        if (depth === 1) endMember(at)
        else if (depth === 2 && inside) endItem(at)
        break
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (++depth > MAX_DEPTH) return undefined
        if (depth === 2) itemStart = at + 1
        break
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        if (depth === 2 && inside) endItem(at)
        if (--depth === 0) endMember(at)
    }
  }
  return member
}

/** The number of members of all objects in a value. */
function membersIn(value: object): number {
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) if (isNested(item)) count += membersIn(item)
    return count
  }
  for (const name in value) {
    const member = (value as Readonly<Record<string, unknown>>)[name]
    count++
    if (isNested(member)) count += membersIn(member)
  }
  return count
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

// The structure of a JSON text is bounded before it is parsed: a few hundred compressed bytes can make millions of objects, and
// parsing cannot be interrupted.

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
const TAB = 9
const LINE_FEED = 10
const RETURN = 13
const BLANK = 32
/** The end of a string is searched with `indexOf` after this many bytes without an escape. */
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
    // The place of the last byte that is part of no number; in an earlier piece it is negative.
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
