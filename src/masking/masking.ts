/**
 * Personal data of one request, and the names that stand for it. The map of both is in the memory of the call and
 * nowhere else.
 */
import type { Span, GuardContext } from '../plugin.ts'
import { foldedValue, kindOf, placeholdersOf, type Placeholder } from './placeholders.ts'
import {
  isInWord,
  jsonRestorer,
  Matcher,
  lastOf,
  plainRestorer,
  type Restorable,
  type Restorer,
} from './restore.ts'
import { GuardFault, toFault, type GuardRunner } from '../guard/runner.ts'

/** How a text is read: as it stands, or by what its string literals say, if it is JSON. */
export type TextForm = 'plain' | 'json'

/**
 * Changes texts that are read as one.
 * @returns equally many, in the same order
 */
export type ChangeTexts = (texts: readonly string[], form: TextForm) => readonly string[]

/** Finds ranges of personal data in a text: ascending, and apart. */
export type Locate = (text: string) => readonly Span[] | Promise<readonly Span[]>

/** A piece of text in which values are replaced. */
interface Unit {
  readonly text: string
  spans: readonly Span[]
}

interface Token extends Unit {
  /** Where it stands in the text, a string literal with its quotes. */
  readonly start: number
  readonly end: number
  readonly isString: boolean
}

interface Passage {
  readonly texts: readonly string[]
  readonly unit: Unit
  /** It is undefined where the text is not read as JSON. */
  readonly tokens: readonly Token[] | undefined
}

/** Texts that guards search at the same time. */
const AT_ONCE = 8
/** Shorter values are replaced only where they were found. */
const SHORTEST = 3

export class Masking implements Restorable {
  /** Values that were put back, and how many of them from another form than was sent. */
  restoredCount = 0
  alteredCount = 0
  /** Kinds of contents that are not masked, and whether the answer loses its log probabilities, for {@link header}. */
  unmasked: readonly string[] = []
  removesLogprobs = false
  readonly byNumber: ReadonlyMap<string, Placeholder>
  readonly kinds: readonly string[]
  readonly width: number
  #exact: Matcher | undefined
  #loose: Matcher | undefined
  readonly #byFolded: ReadonlyMap<string, Placeholder>
  /** Values by their first word. */
  readonly #byWord = new Map<string, Placeholder[]>()
  /** Values that begin with a letter of a script without blanks. */
  readonly #anywhere: Placeholder[] = []

  constructor(byFolded: ReadonlyMap<string, Placeholder>, width: number) {
    this.#byFolded = byFolded
    this.width = width
    const all = [...byFolded.values()]
    this.byNumber = new Map(all.map((one) => [one.text.slice(-width - 1, -1), one]))
    this.kinds = [...new Set(all.map(({ kind }) => kind))]
    for (const [folded, placeholder] of byFolded) {
      const { value } = placeholder
      if (value.length < SHORTEST) continue
      const words = new Set([
        firstWord(value),
        ...(/^[\p{L}\p{N}]+$/u.test(folded) ? [folded] : []),
      ])
      for (const word of words) {
        if (word === undefined) continue
        if (!isInWord(word)) this.#anywhere.push(placeholder)
        else this.#byWord.set(word, [...(this.#byWord.get(word) ?? []), placeholder])
      }
    }
  }

  /** The number of values. */
  get count(): number {
    return this.#byFolded.size
  }

  /** How many values there are of each kind. */
  counts(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { kind } of this.#byFolded.values()) counts[kind] = (counts[kind] ?? 0) + 1
    return counts
  }

  /** What the client is told. */
  header(): string {
    const { count, unmasked, removesLogprobs } = this
    const left = unmasked.length > 0 ? `; unmasked=${unmasked.join(',')}` : ''
    return `masked=${count}${left}${removesLogprobs ? '; logprobs=removed' : ''}`
  }

  restored(exact: boolean): void {
    this.restoredCount++
    if (!exact) this.alteredCount++
  }

  /** A text with names in place of all values that stand in it as words. */
  mask(text: string): string {
    return this.count === 0 ? text : this.#replaced({ text, spans: [] })
  }

  /** A complete text with the values put back. */
  restore(text: string): string {
    const restorer = this.restorer('plain')
    return restorer.push(text) + restorer.end()
  }

  restorer(form: TextForm | 'exact'): Restorer {
    if (form === 'exact') return plainRestorer((this.#exact ??= new Matcher(this, true)))
    this.#loose ??= new Matcher(this, false)
    return form === 'json' ? jsonRestorer(this.#loose) : plainRestorer(this.#loose)
  }

  /** The texts of a passage, as a vendor gets them. */
  maskPassage({ texts, unit, tokens }: Passage): readonly string[] {
    if (!tokens) return distribute(texts, unit.text, this.#edits(unit))
    const [text] = texts as readonly [string]
    let out = ''
    let at = 0
    for (const token of tokens) {
      const masked = this.#replaced(token)
      if (masked === token.text) continue
      out += text.slice(at, token.start) + JSON.stringify(masked)
      at = token.end
    }
    return [out + text.slice(at)]
  }

  #replaced(unit: Unit): string {
    return distribute([unit.text], unit.text, this.#edits(unit))[0]!
  }

  /** What is replaced: where values were found, and wherever else they stand as whole words. */
  #edits({ text, spans }: Unit): readonly Edit[] {
    const edits = spans.flatMap(({ start, end }): Edit[] => {
      const placeholder = this.#byFolded.get(foldedValue(text.slice(start, end)))
      return placeholder ? [{ start, end, by: placeholder.text }] : []
    })
    const placeholderCount = edits.length
    const isFree = (start: number, end: number) => {
      for (let index = 0; index < placeholderCount; index++) {
        if (start < edits[index]!.end && end > edits[index]!.start) return false
      }
      return true
    }
    let last = 0
    const add = (start: number, end: number, { text: by }: Placeholder) => {
      if (start < last || !isFree(start, end)) return false
      edits.push({ start, end, by })
      last = end
      return true
    }
    if (this.#byWord.size > 0) this.#searchWords(text, add)
    for (const one of this.#anywhere) {
      for (let at = text.indexOf(one.value); at >= 0; at = text.indexOf(one.value, at + 1)) {
        const end = at + one.value.length
        const isApart = edits.every((other) => end <= other.start || at >= other.end)
        if (isApart) edits.push({ start: at, end, by: one.text })
      }
    }
    return edits.sort((a, b) => a.start - b.start)
  }

  #searchWords(text: string, add: (start: number, end: number, by: Placeholder) => boolean): void {
    for (const { 0: word, index } of text.matchAll(WORD)) {
      const candidates = this.#byWord.get(word.toLowerCase())
      if (!candidates) continue
      let best: { start: number; end: number; by: Placeholder } | undefined
      for (const by of candidates) {
        const span = standsAt(text, index, word, by.value)
        if (span && (!best || span.end - span.start > best.end - best.start)) best = { ...span, by }
      }
      if (best) add(best.start, best.end, best.by)
    }
  }
}

interface Edit {
  readonly start: number
  readonly end: number
  readonly by: string
}

const WORD = /[\p{L}\p{N}\p{M}]+/gu

function firstWord(value: string): string | undefined {
  return value.match(/[\p{L}\p{N}\p{M}]+/u)?.[0].toLowerCase()
}

/** Where a value stands whose first word, or which as a whole, begins at an index. */
function standsAt(
  text: string,
  index: number,
  word: string,
  value: string,
): { readonly start: number; readonly end: number } | undefined {
  const start = index - value.search(WORD_START)
  const end = start + value.length
  if (start >= 0 && text.slice(start, end).toLowerCase() === value.toLowerCase()) {
    return isWhole(text, start, end) ? { start, end } : undefined
  }
  const isCompact = word.toLowerCase() === foldedValue(value)
  return isCompact ? { start: index, end: index + word.length } : undefined
}

const WORD_START = /[\p{L}\p{N}\p{M}]/u

/** Whether no letter of a word stands beside a range that ends with one. */
function isWhole(text: string, start: number, end: number): boolean {
  const joinsBefore = isInWord(lastOf(text.slice(0, start))) && isInWord(text.slice(start, end))
  const joinsAfter = isInWord(text.slice(end, end + 2)) && isInWord(lastOf(text.slice(start, end)))
  return !joinsBefore && !joinsAfter
}

/** Texts that are read as one, with ranges replaced; a range over a border is replaced in the first of its texts. */
function distribute(
  texts: readonly string[],
  whole: string,
  edits: readonly Edit[],
): readonly string[] {
  if (edits.length === 0) return texts
  let from = 0
  let next = 0
  return texts.map((text) => {
    const to = from + text.length
    let out = ''
    let at = from
    while (next < edits.length && edits[next]!.start < to) {
      const { start, end, by } = edits[next]!
      if (start >= from) out += whole.slice(at, start) + by
      at = Math.min(end, to)
      // The rest of it is in the next text.
      if (end > to) break
      next++
    }
    out += whole.slice(at, to)
    from = to
    return out
  })
}

/** Numbers of values for the names of an account. @param labelOf a keyed hash of a text, in hex */
export function numberBy(labelOf: (account: string, text: string) => string, account: string) {
  return (folded: string) => Number.parseInt(labelOf(account, `mask\0${folded}`).slice(0, 8), 16)
}

/**
 * Finds the personal data of a request and names it.
 * @param map walks all texts of the request that a vendor gets, always in the same order
 * @param numberOf see {@link placeholdersOf}
 */
export async function makeMasking<In>(
  map: (change: ChangeTexts) => In,
  locate: Locate,
  numberOf: (folded: string) => number,
): Promise<{ readonly masking: Masking; readonly input: In }> {
  const passages: Passage[] = []
  map((texts, form) => {
    passages.push(passageOf(texts, form))
    return texts
  })
  const byText = new Map<string, Promise<readonly Span[]>>()
  const spansOf = (text: string): Promise<readonly Span[]> => {
    let spans = byText.get(text)
    if (!spans) byText.set(text, (spans = Promise.resolve(locate(text))))
    return spans
  }
  for (let at = 0; at < passages.length; at += AT_ONCE) {
    await Promise.all(passages.slice(at, at + AT_ONCE).map((one) => findIn(one, spansOf)))
  }
  const units = passages.flatMap(({ unit, tokens }): readonly Unit[] => tokens ?? [unit])
  const values = valuesIn(units)
  const { byFolded, width } = placeholdersOf(
    values,
    numberOf,
    values.length === 0 ? [] : units.map(({ text }) => text),
  )
  const masking = new Masking(byFolded, width)
  let index = 0
  const input = map((texts) => {
    const passage = passages[index++]!
    return masking.count === 0 ? texts : masking.maskPassage(passage)
  })
  return { masking, input }
}

function valuesIn(units: readonly Unit[]) {
  const values = new Map<string, { folded: string; kind: string; value: string }>()
  for (const { text, spans } of units) {
    for (const { start, end, label } of spans) {
      const value = text.slice(start, end)
      const folded = foldedValue(value)
      if (folded === '' || values.has(folded)) continue
      values.set(folded, { folded, kind: kindOf(label), value })
    }
  }
  return [...values.values()]
}

function passageOf(texts: readonly string[], form: TextForm): Passage {
  const text = texts.length === 1 ? texts[0]! : texts.join('')
  const isJson = form === 'json' && texts.length === 1 && /^\s*[{["]/.test(text)
  return { texts, unit: { text, spans: [] }, tokens: isJson ? tokensOf(text) : undefined }
}

async function findIn(
  { unit, tokens }: Passage,
  spansOf: (text: string) => Promise<readonly Span[]>,
): Promise<void> {
  unit.spans = unit.text === '' ? [] : await spansOf(unit.text)
  if (!tokens) return
  let inside = 0
  for (const token of tokens) {
    const from = token.start + (token.isString ? 1 : 0)
    // The words before a literal tell what a bare number is.
    token.spans = partsIn(unit.spans, from, token.end - (token.isString ? 1 : 0))
    inside += token.spans.length
  }
  const crosses = inside < unit.spans.length
  for (const token of tokens) {
    const escapes = token.isString && token.end - token.start - 2 !== token.text.length
    // What escapes hide, or signs of JSON join, is found in what the literal says.
    if (escapes || (crosses && token.spans.length === 0)) token.spans = await spansOf(token.text)
  }
}

/** The ranges that lie in a stretch, by their place in it. */
function partsIn(spans: readonly Span[], from: number, to: number): readonly Span[] {
  return spans
    .filter(({ start, end }) => start >= from && end <= to)
    .map((span) => ({ ...span, start: span.start - from, end: span.end - from }))
}

/** The string literals and numbers of a JSON text; undefined where it is none. */
function tokensOf(json: string): readonly Token[] | undefined {
  try {
    JSON.parse(json)
  } catch {
    return undefined
  }
  const tokens: Token[] = []
  const number = /[-\d][\d.eE+-]*/y
  for (let at = 0; at < json.length;) {
    const character = json[at]!
    if (character === '"') {
      const end = endOfString(json, at)
      const text = JSON.parse(json.slice(at, end)) as string
      tokens.push({ text, spans: [], start: at, end, isString: true })
      at = end
    } else if (character === '-' || (character >= '0' && character <= '9')) {
      number.lastIndex = at
      const [text] = number.exec(json)!
      tokens.push({ text, spans: [], start: at, end: at + text.length, isString: false })
      at += text.length
    } else at++
  }
  return tokens
}

function endOfString(json: string, start: number): number {
  let end = start
  do {
    end = json.indexOf('"', end + 1)
  } while (isEscaped(json, end))
  return end + 1
}

function isEscaped(json: string, at: number): boolean {
  let backslashes = 0
  while (json[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}

// Asks guards where personal data stands in a text.

/** All ranges that guards find, those that overlap as one. The search throws GuardFault where one of them fails. */
export function locateBy(runners: readonly GuardRunner[]): Locate {
  const locators = runners.map(locatorOf)
  const [only] = locators
  if (locators.length === 1) return only!
  return async (text) => joined((await Promise.all(locators.map((one) => one(text)))).flat())
}

function locatorOf(runner: GuardRunner): Locate {
  return async (text) => {
    try {
      const ask = (context: GuardContext) => runner.guard.locate!(text, context)
      const spans = runner.local
        ? await runner.inTime('input', runner.work(ask))
        : await runner.ask('input', async (context) => ask(context))
      return checked(spans, text.length)
    } catch (error) {
      throw toFault(error)
    }
  }
}

function joined(spans: readonly Span[]): readonly Span[] {
  const all: Span[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = all.at(-1)
    if (!last || span.start >= last.end) all.push(span)
    else if (span.end > last.end) all[all.length - 1] = { ...last, end: span.end }
  }
  return all
}

/** @throws GuardFault for an answer that is no list of ranges of the text, ascending and apart */
function checked(spans: unknown, length: number): readonly Span[] {
  const isList = Array.isArray(spans) && areRanges(spans, length)
  if (isList) return spans as readonly Span[]
  throw new GuardFault('invalid', 'the guard answered with ranges that are not those of the text')
}

/** Whether values are ranges of a text of this length: ascending, and apart. */
export function areRanges(spans: readonly unknown[], length: number): boolean {
  let last = 0
  return spans.every((one) => {
    const { start, end } = (one ?? {}) as Partial<Span>
    if (!Number.isInteger(start) || !Number.isInteger(end)) return false
    const isNext = start! >= last && end! > start! && end! <= length
    last = end!
    return isNext
  })
}
