/**
 * What the events of one stream have in common. Most differ from the one before in a few string literals only, so the next
 * one can be read by comparing what stays and copying the object that it made, at a tenth of the cost of parsing. The
 * outcome is what `JSON.parse` would have made, and a new object every time. Pure.
 */

const QUOTE = 34
const BACKSLASH = 92
const SPACE = 32

/** More differ where two events are not of the same kind. */
const MAX_HOLES = 4
/** Of lists and objects in each other; more than any event has. */
const MAX_DEPTH = 16

/** A text with JSON in it, and holes in place of some of its string literals. */
export class Template {
  /** Where the text ends that was read last. */
  end = 0
  /** All between the holes. The quotes are theirs. */
  readonly #segments: readonly string[]
  readonly #mould: Mould | Chain
  readonly #values: string[]

  constructor(segments: readonly string[], mould: Mould) {
    this.#segments = segments
    this.#mould = mould.chain() ?? mould
    this.#values = segments.slice(1)
  }

  /** What the text at this place says, where it fits; else undefined. */
  read(text: string, at: number): unknown {
    const segments = this.#segments
    let from = at
    for (let i = 0; i < segments.length; i++) {
      const segment = segments[i]!
      const to = from + segment.length
      // Much faster than `startsWith`, which goes character by character.
      if (text.slice(from, to) !== segment) return undefined
      from = to
      if (i + 1 === segments.length) break
      from = endOfLiteral(text, to)
      if (from < 0) return undefined
      const value = valueOf(text.slice(to, from))
      if (value === undefined) return undefined
      this.#values[i] = value
    }
    this.end = from
    return this.#mould.cast(this.#values)
  }
}

/**
 * The template of two texts in a row; undefined where they differ in more than string literals, or where a literal that
 * differs is no value.
 * @param frame characters before and after the JSON in `text`
 * @param object what the JSON in `text` says
 */
export function templateOf(
  before: string,
  text: string,
  frame: readonly [before: number, after: number],
  object: unknown,
): Template | undefined {
  const holes = literalsThatDiffer(before, text)
  if (!holes) return undefined
  const segments: string[] = []
  const values: (string | undefined)[] = []
  let probe = ''
  let from = 0
  for (const { start, end } of holes) {
    const segment = text.slice(from, start)
    probe += segment + probeOf(values.length)
    segments.push(segment)
    values.push(valueOf(text.slice(start, end)))
    from = end
  }
  segments.push(text.slice(from))
  probe += text.slice(from)
  const sample: unknown = JSON.parse(probe.slice(frame[0], probe.length - frame[1]))
  const mould = mouldOf(sample, object, values)
  return mould && mould.holes === holes.length ? new Template(segments, mould) : undefined
}

interface Literal {
  /** After the quote that opens it. */
  readonly start: number
  /** At the quote that closes it. */
  readonly end: number
}

/** Where they stand in the second text; undefined where anything else differs. */
function literalsThatDiffer(before: string, text: string): Literal[] | undefined {
  const found: Literal[] = []
  /** After the quote that opens the literal we are in, in each text; 0 outside. */
  let inBefore = 0
  let inText = 0
  for (let i = 0, j = 0; i < before.length || j < text.length; i++, j++) {
    let code = text.charCodeAt(j)
    if (code !== before.charCodeAt(i)) {
      if (inText === 0 || found.length === MAX_HOLES) return undefined
      i = endOfLiteral(before, inBefore)
      j = endOfLiteral(text, inText)
      if (i < 0 || j < 0) return undefined
      found.push({ start: inText, end: j })
      code = QUOTE
    } else if (inText > 0 && code === BACKSLASH) {
      // What it escapes is no quote; where that differs, the literal does.
      if (text.charCodeAt(j + 1) === before.charCodeAt(i + 1)) {
        i++
        j++
      }
      continue
    }
    if (code !== QUOTE) continue
    inText = inText > 0 ? 0 : j + 1
    inBefore = inText > 0 ? i + 1 : 0
  }
  return found
}

/** The quote that ends a JSON string, from anywhere in it; -1 where there is none, or a character that must not be there. */
function endOfLiteral(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === QUOTE) return i
    if (code === BACKSLASH) i++
    else if (code < SPACE) return -1
  }
  return -1
}

/** What a literal says; undefined where it is none. */
function valueOf(literal: string): string | undefined {
  if (!literal.includes('\\')) return literal
  try {
    return JSON.parse(`"${literal}"`)
  } catch {
    return undefined
  }
}

function probeOf(hole: number): string {
  return `hole ${hole}`
}

/** A number in a list. */
type Name = string | number

/** Makes copies of one object or list, with new strings in its holes. */
class Mould {
  readonly #sample: any
  /** Members that are objects or lists themselves. */
  readonly #names: Name[] = []
  readonly #inner: Mould[] = []
  /** Members that are holes, and which. */
  readonly #places: Name[] = []
  readonly #holes: number[] = []

  constructor(sample: object) {
    this.#sample = sample
  }

  /** How many, here and further in. */
  get holes(): number {
    return this.#inner.reduce((sum, { holes }) => sum + holes, this.#holes.length)
  }

  /** The same where every object has one inner one at most, and only the innermost a hole. */
  chain(samples: any[] = [], names: Name[] = []): Chain | undefined {
    samples.push(this.#sample)
    if (this.#inner.length === 0) {
      return this.#holes.length > 1 ? undefined : new Chain(samples, names, this.#places[0])
    }
    if (this.#inner.length > 1 || this.#holes.length > 0) return undefined
    names.push(this.#names[0]!)
    return this.#inner[0]!.chain(samples, names)
  }

  addInner(name: Name, mould: Mould): void {
    this.#names.push(name)
    this.#inner.push(mould)
  }

  addHole(name: Name, hole: number): void {
    this.#places.push(name)
    this.#holes.push(hole)
  }

  cast(values: readonly string[]): unknown {
    const copy = copyOf(this.#sample)
    const inner = this.#inner
    for (let i = 0; i < inner.length; i++) copy[this.#names[i]!] = inner[i]!.cast(values)
    const holes = this.#holes
    for (let i = 0; i < holes.length; i++) copy[this.#places[i]!] = values[holes[i]!]
    return copy
  }
}

/** A mould for most: one object in the other. Hundreds of streams take turns, so it is kept in few places of memory. */
class Chain {
  /** From the outermost to the innermost. */
  readonly #samples: readonly any[]
  /** Where in each of them the next one is. */
  readonly #names: readonly Name[]
  /** Of the hole. */
  readonly #place: Name | undefined

  constructor(samples: readonly any[], names: readonly Name[], place: Name | undefined) {
    this.#samples = samples
    this.#names = names
    this.#place = place
  }

  cast(values: readonly string[]): unknown {
    const names = this.#names
    const samples = this.#samples
    const innermost = copyOf(samples[names.length])
    if (this.#place !== undefined) innermost[this.#place] = values[0]
    let made = innermost
    for (let i = names.length - 1; i >= 0; i--) {
      const copy = copyOf(samples[i])
      copy[names[i]!] = made
      made = copy
    }
    return made
  }
}

function copyOf(sample: any): any {
  return Array.isArray(sample) ? sample.slice() : { ...sample }
}

/**
 * @param sample the object with probes in its holes
 * @param object the same with what was there: a probe that is found in a wrong place has something else there
 * @returns undefined where a copy would not be the same
 */
function mouldOf(
  sample: any,
  object: any,
  values: readonly (string | undefined)[],
  depth = 0,
): Mould | undefined {
  if (!isObject(sample) || !isObject(object) || depth > MAX_DEPTH) return undefined
  const mould = new Mould(sample)
  const isList = Array.isArray(sample)
  for (const key of Object.keys(sample)) {
    // Assigned, it would not be a member.
    if (key === '__proto__') return undefined
    const name = isList ? Number(key) : key
    const value = sample[name]
    const said = object[name]
    if (isObject(value)) {
      const inner = mouldOf(value, said, values, depth + 1)
      if (!inner) return undefined
      mould.addInner(name, inner)
    } else if (value !== said) {
      const hole = values.findIndex((text, i) => value === probeOf(i) && said === text)
      if (hole < 0) return undefined
      mould.addHole(name, hole)
    }
  }
  return mould
}

function isObject(value: unknown): value is any {
  return typeof value === 'object' && value !== null
}
