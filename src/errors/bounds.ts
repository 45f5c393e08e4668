/** Bounds of files that operators write. A few hundred bytes of YAML can stand for billions of values. */

/** Largest file, in bytes; it alone bounds the time of a wide one. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024
const MAX_LEVELS = 64
const MAX_VALUES = 1_000_000

export const TOO_LARGE = 'is larger than 16 MiB'
export const TOO_DEEP = `is nested deeper than ${MAX_LEVELS} levels`
const TOO_MANY = `has more than ${MAX_VALUES} values, aliases included`

/** An alias as the key of a member, in block and flow style. */
const ALIAS_AS_KEY = /(?:^|[{,[\n])[ \t]*(?:-[ \t]+)*(?:\?[ \t]+\*|\*[^\s,[\]{}]+[ \t]+:)/
const ALIAS_KEY = 'has an alias as the key of a member: write the key itself'

/**
 * What is wrong with the text of a YAML file; undefined for nothing. The parser writes a key as a text: for an alias all of what it
 * stands for, once for each, before anything can be counted.
 */
export function aliasProblem(text: string): string | undefined {
  return text.includes('&') && ALIAS_AS_KEY.test(text) ? ALIAS_KEY : undefined
}

/** What is wrong with a parsed file as a tree in which aliases are followed; undefined for one within the bounds. */
export function boundsProblem(document: unknown): string | undefined {
  const open: (readonly [value: object, level: number])[] = []
  let values = 0
  const add = (value: unknown, level: number) => {
    values++
    if (typeof value === 'object' && value !== null) open.push([value, level])
  }
  add(document, 0)
  for (let next = open.pop(); next; next = open.pop()) {
    const [value, level] = next
    if (level >= MAX_LEVELS) return TOO_DEEP
    for (const member of Object.values(value)) {
      add(member, level + 1)
      if (values > MAX_VALUES) return TOO_MANY
    }
  }
  return undefined
}
