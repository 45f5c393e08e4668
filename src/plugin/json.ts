/**
 * JSON that is handed on in the words it came in. Reading a text and writing it anew costs more than anything else that is
 * done with a large body (performance design, rule 15), so a value may carry the text it was read from, and whoever writes
 * that same value copies the text. The values decide whether; text that may mean something else is never copied.
 */

/** A value, and JSON that says the same. */
export interface Written {
  readonly value: unknown
  /** Absent when it is no longer needed: it keeps all of the text alive that it was cut from. */
  json: string | undefined
}

/** Not in the JSON of an object, but in its copies. */
const WRITTEN = Symbol('written')

interface Carrier {
  [WRITTEN]?: Written | undefined
}

/** How long a string has to be, in characters, for its text to be worth looking for. */
const LONG = 512
/** Objects nested deeper than anybody writes them are not looked into. */
const DEEP = 64
/** Stands where the copied text goes. It begins with what is rare in JSON, so that it is found quickly. */
const PLACE = '\u00ab written \u00bb'
/** After so many characters the end of a string is searched, not read. */
const SHORT = 16

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_LIST = 91
const BACKSLASH = 92
const CLOSE_LIST = 93
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125

/** Lets an object say how something in it is written. */
export function carry<T extends object>(carrier: T, written: Written | undefined): T {
  if (written) (carrier as Carrier)[WRITTEN] = written
  return carrier
}

/** What an object says of that, if anything. */
export function writtenIn(carrier: object): Written | undefined {
  return (carrier as Carrier)[WRITTEN]
}

/** Lets go of the text that an object carries. */
export function forget(carrier: object): void {
  const written = (carrier as Carrier)[WRITTEN]
  if (written) written.json = undefined
}

/**
 * How a member of an object is written in the text that the object was parsed from.
 * @returns nothing in case of doubt, above all when a name is there twice: readers do not agree which of them counts
 */
export function writtenMember(text: string, object: object, name: string): Written | undefined {
  const value: unknown = (object as Readonly<Record<string, unknown>>)[name]
  if (typeof value !== 'object' || value === null) return undefined
  const place = placeOf(text, name)
  if (!place || membersIn(value) !== place.members) return undefined
  return { value, json: text.slice(place.start, place.end) }
}

/**
 * How a string is written in the text that it was parsed from, if it is the only long one there.
 * @param value some value of that text
 */
export function writtenString(text: string, value: unknown): Written | undefined {
  if (typeof value !== 'string' || value.length < LONG) return undefined
  let start = -1
  let end = -1
  // A string is never longer than it is written: where less than its length is left it does not begin.
  for (let at = 0; at + value.length < text.length; at++) {
    if (text.charCodeAt(at) !== QUOTE) continue
    const close = closeOf(text, at)
    if (close - at > LONG) {
      if (start >= 0) return undefined
      start = at
      end = close + 1
    }
    at = close
  }
  return start < 0 ? undefined : { value, json: text.slice(start, end) }
}

/**
 * `JSON.stringify(whole)`, in which a member is copied where it is still what was written.
 * @param holder the object in `whole` that has the member; is put back as it was
 */
export function stringify(
  whole: object,
  holder: object,
  member: string,
  written: Written | undefined,
): string {
  return piecesOf(whole, holder, member, written).join('')
}

/** The same in pieces: putting them together copies them once more. */
export function piecesOf(
  whole: object,
  holder: object,
  member: string,
  written: Written | undefined,
): readonly string[] {
  const json = written?.json
  const members = holder as Record<string, unknown>
  if (json === undefined || members[member] !== written!.value) return [JSON.stringify(whole)]
  members[member] = PLACE
  const text = JSON.stringify(whole)
  members[member] = written!.value
  const at = text.indexOf(PLACE)
  const after = at + PLACE.length
  if (at < 0 || text.includes(PLACE, after)) return [JSON.stringify(whole)]
  return [text.slice(0, at - 1), json, text.slice(after + 1)]
}

/** The same list unless an item changes: then it can still be copied. */
export function mapped<T>(items: readonly T[], change: (item: T) => T): readonly T[] {
  let copy: T[] | undefined
  for (let i = 0; i < items.length; i++) {
    const item = items[i]!
    const next = change(item)
    if (next === item) continue
    copy ??= [...items]
    copy[i] = next
  }
  return copy ?? items
}

interface Place {
  readonly start: number
  readonly end: number
  /** Of all objects in there, names that are repeated counted every time. */
  readonly members: number
}

/** Of the last member with this name in a valid text of an object. */
function placeOf(text: string, name: string): Place | undefined {
  let depth = 0
  let start = -1
  let end = -1
  let members = 0
  let atName = true
  let inside = false
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE: {
        const close = closeOf(text, at)
        if (depth === 1 && atName) {
          inside = close - at - 1 === name.length && text.startsWith(name, at + 1)
          // It may be the name in other words.
          if (!inside && isEscaped(text, at + 1, close)) return undefined
        }
        at = close
        break
      }
      case COLON:
        if (depth > 1) {
          if (inside) members++
          break
        }
        atName = false
        if (!inside) break
        start = at + 1
        members = 0
        break
      case COMMA:
        if (depth > 1) break
        if (inside) end = at
        inside = false
        atName = true
        break
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (++depth > DEEP) return undefined
        break
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        if (--depth === 0 && inside) end = at
    }
  }
  return start < 0 ? undefined : { start, end, members }
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

function isEscaped(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if (text.charCodeAt(at) === BACKSLASH) return true
  return false
}

/** Of all objects in a value. */
function membersIn(value: object): number {
  let count = 0
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i]
      if (typeof item === 'object' && item !== null) count += membersIn(item)
    }
    return count
  }
  for (const name in value) {
    const member: unknown = (value as Readonly<Record<string, unknown>>)[name]
    count++
    if (typeof member === 'object' && member !== null) count += membersIn(member)
  }
  return count
}
