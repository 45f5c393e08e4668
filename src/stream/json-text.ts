/**
 * Places of values in a JSON text that is known to be valid. What is copied from the text keeps its bytes: numbers above
 * 2^53, escapes and the order of members.
 */

/** Where a value stands in a text. */
interface JsonSpan {
  readonly start: number
  readonly end: number
}

/** A member of an object: the span of its value, and where its name begins. */
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

/** The end of a string is searched with indexOf after so many characters. */
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
export function closeOf(text: string, open: number): number {
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

/** The text of an object with some members changed: each gets a new value, or goes where that is undefined. */
export function withMembers(
  text: string,
  at: number,
  changes: ReadonlyMap<string, string | undefined>,
): string {
  const members = membersOf(text, at)
  const known = new Set(members.map(({ name }) => name))
  const kept = members.flatMap(({ name, from, start, end }) => {
    if (!changes.has(name)) return [text.slice(from, end)]
    const value = changes.get(name)
    return value === undefined ? [] : [text.slice(from, start) + value]
  })
  const added = [...changes].flatMap(([name, value]) =>
    value === undefined || known.has(name) ? [] : [`${JSON.stringify(name)}:${value}`],
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

/** How many members the objects in a text have; a repeated name counts every time. */
export function countMembers(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = closeOf(text, at)
    else if (code === COLON) count++
  }
  return count
}
