/**
 * Scores a text for each category. The evidence of a sentence adds up, and half of the sum carries over to the next
 * one. The scorer is small enough to follow by hand; it names the cues that counted.
 */
import { CATEGORIES, type Category } from '../../../src/plugin.ts'
import { expression } from '../text/expressions.ts'
import { ROLES, readLexicons, type Cue, type Lexicon, type Role } from './cues.ts'
import { MAX_UNITS, fold, foldInto } from './fold.ts'
import { CueIndex } from './cue-index.ts'
import { ADVISED, ENOUGH, Evidence, INQUIRED, TOLD } from './evidence.ts'
import { LanguageFinder, type LanguageState, type Script } from './languages.ts'
import { MAX_SENTENCE, type Sentence } from './sentences.ts'
import { DIGITS, SHAPES, bitsOf, signsIn } from './structure.ts'

/** Evidence that gives a score of one half. */
const BIAS = 3
/** Characters at either end of a sentence within which an imperative stands, by script; an ideogram says more. */
const EDGE = 16
const EDGES: Readonly<Partial<Record<Script, number>>> = { Han: 4, Kana: 8 }
/** Characters at the end of a sentence among which a question mark is looked for. */
const CLOSING = 5
/** Most characters of a sentence without a full stop that is a request. */
const MAX_NOTE = 100
/** The end of a sentence, or of a line of a longer text. */
const ENDED = /[.!…。！।\n]\s*$/
const QUESTION_MARKS = new Set([...'?؟'].map((mark) => mark.charCodeAt(0)))

const numberOf = (role: Role) => ROLES.indexOf(role)
const ASKS = numberOf('asks')
const LEADS = numberOf('leads')
const ADDRESS = numberOf('address')
const COMMON = numberOf('common')

/** What is known of a text so far. */
export interface Reading extends LanguageState {
  /** Sums of evidence, one per category. */
  readonly sums: Float64Array
  /** Whether the last sentence named topics, per category. */
  readonly topics: boolean[]
}

/** A category and its score. */
export interface Score {
  readonly category: Category
  /** From 0 to 1. */
  readonly score: number
  /** Ids of the cues that counted, shown to the operator. */
  readonly cues: readonly string[]
}

/** The scorer of this process, made when it is first wanted. */
const making = makeScorer()
let made: Scorer | undefined

/** The scorer, at once. The first call takes some 50 ms if {@link scorerSoon} was not called before. */
export function scorerNow(): Scorer {
  let scorer = made
  while (!scorer) scorer = makeOn()
  return scorer
}

/** The same; while it is made, `yieldIfDue` lets others work. @returns a promise the first time */
export function scorerSoon(yieldIfDue: () => void | Promise<void>): Scorer | Promise<Scorer> {
  return made ?? makeSoon(yieldIfDue)
}

async function makeSoon(yieldIfDue: () => void | Promise<void>): Promise<Scorer> {
  while (!made) {
    makeOn()
    await yieldIfDue()
  }
  return made
}

/** One step. @throws Error when a lexicon cannot be read, now or before */
function makeOn(): Scorer | undefined {
  const { done, value } = making.next()
  if (done && !value) throw new Error('the lexicons could not be read')
  return (made = value ?? undefined)
}

/** Reads one language a step. */
function* makeScorer(): Generator<undefined, Scorer> {
  const index = new CueIndex()
  const lexicons: Omit<Lexicon, 'cues'>[] = []
  for (const lexicon of readLexicons()) {
    index.add(lexicon)
    const { language, script, operators } = lexicon
    lexicons.push({ language, script, operators })
    yield
  }
  return new Scorer(CATEGORIES, index, lexicons)
}

/** Scores sentences. One instance serves all texts. */
export class Scorer {
  readonly #categories: readonly Category[]
  readonly #index: CueIndex
  /** Per cue: index of its category, or -1 for all; and its role. */
  readonly #ofCategory: Int8Array
  readonly #roles: Int8Array
  readonly #shapes: readonly {
    readonly bits: number
    readonly category: number
    readonly cue: number
  }[]
  readonly #ids: readonly string[]
  /** Per cue: the last sentence it occurred in. A cue counts once per sentence. */
  readonly #seenIn: Float64Array
  #sentence = 0
  readonly #units = new Uint16Array(MAX_SENTENCE * MAX_UNITS)
  readonly #evidence: readonly Evidence[]
  readonly #operation: RegExp
  readonly #languages: LanguageFinder
  /** Per cue: the number of its language. */
  readonly #ofLanguage: Int8Array
  /** Per language: where an imperative stands. */
  readonly #edges: readonly number[]
  /** Cues of the sentence and their positions, in turn. */
  readonly #found: number[] = []

  constructor(
    categories: readonly Category[],
    index: CueIndex,
    lexicons: readonly Omit<Lexicon, 'cues'>[],
  ) {
    this.#categories = categories
    this.#index = index
    const { cues } = index
    this.#edges = lexicons.map(({ script }) => EDGES[script] ?? EDGE)
    const languages = lexicons.map(({ language }) => language)
    this.#ofLanguage = Int8Array.from(cues, ({ id }: Cue) =>
      languages.indexOf(id.slice(0, id.indexOf('.'))),
    )
    this.#languages = new LanguageFinder(
      lexicons.map(({ script }) => script),
      languages.map((_, i) =>
        cues.some(({ role }, cue) => role === 'common' && this.#ofLanguage[cue] === i),
      ),
    )
    const numberOf = (category: Category | undefined) =>
      category === undefined ? -1 : categories.indexOf(category)
    this.#ofCategory = Int8Array.from(cues, (cue: Cue) => numberOf(cue.category))
    this.#roles = Int8Array.from(cues, (cue: Cue) => ROLES.indexOf(cue.role))
    this.#shapes = SHAPES.map((shape, i) => ({
      bits: bitsOf(shape),
      category: numberOf(shape.category),
      cue: cues.length + i,
    })).filter(({ category }) => category >= 0)
    this.#ids = [
      ...cues.map(({ id }) => id),
      ...SHAPES.map(({ id, category }) => `${category}.${id}`),
    ]
    this.#seenIn = new Float64Array(cues.length)
    this.#evidence = categories.map(() => new Evidence())
    this.#operation = operationOf(lexicons.flatMap(({ operators }) => operators))
  }

  /** What is known of a new text. */
  begin(): Reading {
    return { sums: new Float64Array(this.#categories.length), topics: [], hasKana: false }
  }

  /**
   * Adds a sentence.
   * @param reading from {@link begin}, updated
   * @param wanted categories to look for
   * @returns the category with the highest score, if it reaches the threshold
   */
  add(
    { text }: Sentence,
    reading: Reading,
    wanted: ReadonlySet<Category>,
    side: 'input' | 'output',
    threshold: number,
  ): Score | undefined {
    this.#sentence++
    for (const evidence of this.#evidence) evidence.clear()
    const length = foldInto(text, this.#units)
    const isQuestion = endsAsQuestion(this.#units, length)
    const isShort = side === 'input' && isNote(text)
    const isAddress = this.#takeCues(length, reading, side) || isQuestion || isShort
    if (isQuestion) this.#takeLead(INQUIRED, length)
    this.#takeShapes(text)
    const { sums, topics } = reading
    let best = -1
    for (const [i, evidence] of this.#evidence.entries()) {
      if (!wanted.has(this.#categories[i]!)) continue
      const follows = topics[i] ?? false
      topics[i] = evidence.isFollowed
      const isShown = side === 'output' && this.#categories[i] === 'code' && evidence.isDense
      const counts = isAddress || isShown || TOLD.has(this.#categories[i]!)
      const weight = evidence.weigh({ side, isAddress: counts, isQuestion, follows })
      sums[i] = Math.max(0, sums[i]! / 2 + weight)
      if (best < 0 || sums[i]! > sums[best]!) best = i
    }
    const score = best < 0 ? 0 : 1 / (1 + Math.exp(BIAS - sums[best]!))
    if (score < threshold) return undefined
    const cues = this.#evidence[best]!.named.map((cue) => this.#ids[cue]!)
    return { category: this.#categories[best]!, score, cues }
  }

  /** Takes the cues of the languages that the sentence may be in. @returns whether it asks or tells a person something */
  #takeCues(length: number, reading: Reading, side: 'input' | 'output'): boolean {
    const found = this.#found
    found.length = 0
    this.#languages.begin()
    this.#index.find(this.#units, length, this.#collect)
    const counts = this.#languages.decide(this.#units, length, reading)
    let isAddress = false
    for (let i = 0; i < found.length; i += 2) {
      const [cue, at] = [found[i]!, found[i + 1]!]
      const language = this.#ofLanguage[cue]!
      if (counts[language] === 0) continue
      const edge = this.#edges[language]!
      const role = this.#roles[cue]!
      if (role === ADDRESS) {
        isAddress = true
        if (side === 'output') this.#takeLead(ADVISED, at)
        continue
      }
      const isGeneral = role === LEADS && this.#ofCategory[cue]! < 0
      if ((isGeneral || role === ASKS) && at < edge) isAddress = true
      if (role === ASKS && at > length - edge) isAddress = true
      if (isGeneral) this.#takeLead(INQUIRED, at)
      else this.#take(cue, at)
    }
    return isAddress
  }

  /** Keeps a cue until the language of the sentence is known. */
  readonly #collect = (cue: number, at: number): void => {
    if (this.#roles[cue] === COMMON) this.#languages.note(this.#ofLanguage[cue]!)
    else this.#found.push(cue, at)
  }

  #take(cue: number, at: number): void {
    const role = this.#roles[cue]!
    if (this.#seenIn[cue] === this.#sentence && role > LEADS) return
    this.#seenIn[cue] = this.#sentence
    const category = this.#ofCategory[cue]!
    if (category >= 0) this.#evidence[category]!.note(role, cue, at)
    else for (const evidence of this.#evidence) evidence.note(role, cue, at)
  }

  #takeLead(categories: ReadonlySet<Category>, at: number): void {
    for (const [i, category] of this.#categories.entries()) {
      if (categories.has(category)) this.#evidence[i]!.lead(at)
    }
  }

  #takeShapes(text: string): void {
    const signs = signsIn(text)
    for (const { bits, category, cue } of this.#shapes) {
      if ((bits & signs) === 0) continue
      const { pattern, counts } = SHAPES[cue - this.#seenIn.length]!
      const at = text.search(pattern)
      if (at < 0) continue
      const evidence = this.#evidence[category]!
      if (typeof counts === 'string') evidence.note(ROLES.indexOf(counts), cue, at)
      else evidence.shape(counts, cue)
    }
    const math = this.#categories.indexOf('math')
    if (math < 0 || (signs & DIGITS) === 0) return
    if (this.#operation.test(fold(text))) this.#evidence[math]!.shape(ENOUGH)
  }
}

/** Whether a sentence is a request in a few words without a full stop, as searches and notes are written. */
function isNote(text: string): boolean {
  return text.length <= MAX_NOTE && !ENDED.test(text)
}

/** Whether a folded sentence ends with a question mark, blanks and closing quotes aside. */
function endsAsQuestion(units: Uint16Array, length: number): boolean {
  for (let at = Math.max(0, length - CLOSING); at < length; at++) {
    if (QUESTION_MARKS.has(units[at]!)) return true
  }
  return false
}

/** Matches a number, an operation in words, and a number. */
function operationOf(operators: readonly string[]): RegExp {
  const words = operators.map((word) => fold(word)).filter(Boolean)
  const choice = words.sort((a, b) => b.length - a.length).join('|')
  return expression(`(?<![\\w])\\d+(?:[.,]\\d+)*\\s?(?:${choice})\\s?(?:by )?\\d`)
}
