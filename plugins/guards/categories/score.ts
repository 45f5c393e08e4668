/**
 * Scores a text for each category. The evidence of a sentence adds up, and half of the sum carries over to the next
 * one. The scorer is small enough to follow by hand; it names the cues that counted.
 */
import { CATEGORIES, type Category } from '../../../src/plugin.ts'
import { expression } from '../text/expressions.ts'
import { ROLES, readLexicons, type Cue } from './cues.ts'
import { MAX_UNITS, fold, foldInto } from './fold.ts'
import { CueIndex } from './cue-index.ts'
import { MAX_SENTENCE, type Sentence } from './sentences.ts'
import { DIGITS, SHAPES, bitsOf, signsIn } from './structure.ts'

/** Evidence that gives a score of one half. */
const BIAS = 3
/** A request next to one of its topics, or a cue that is proof by itself. */
const ENOUGH = 5
/** A request next to a possible topic: proof only with further evidence. */
const LIKELY = 4
const FIRST_TOPIC = 2
/** Further topics, in an input and in an output. */
const NEXT_TOPIC = { input: 1, output: 1.6 }
const LOOSE = 0.5
const MAX_LOOSE = 3
const SECOND_STRONG = 2
const AGAINST = 3.5
/** Characters between a request and its topic, about twelve words. */
const NEAR = 72
const MAX_NAMED = 8

const [ASKS, LEADS, TOPICS, LOOSES, STRONG, OPPOSED, DECLINES] = ROLES.map((_, role) => role) as [
  number,
  number,
  number,
  number,
  number,
  number,
  number,
]

/** A category and its score. */
export interface Score {
  readonly category: Category
  /** From 0 to 1. */
  readonly score: number
  /** Ids of the cues that counted, shown to the operator. */
  readonly cues: readonly string[]
}

/** Evidence for one category in one sentence. */
interface Evidence {
  /** Whether there is any evidence. */
  some: boolean
  asks: number
  leads: number
  topicAt: number
  looseAt: number
  strongAt: number
  againstAt: number
  topics: number
  loose: number
  strong: number
  against: number
  shapes: number
  /** An answer declines in these words. */
  declines: boolean
  pair: boolean
  loosePair: boolean
  readonly named: number[]
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
  const operators: string[] = []
  for (const lexicon of readLexicons()) {
    index.add(lexicon)
    operators.push(...lexicon.operators)
    yield
  }
  return new Scorer(CATEGORIES, index, operators)
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

  constructor(categories: readonly Category[], index: CueIndex, operators: readonly string[]) {
    this.#categories = categories
    this.#index = index
    const { cues } = index
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
    this.#evidence = categories.map(() => newEvidence())
    this.#operation = operationOf(operators)
  }

  /** Sums for a new text, one per category. */
  begin(): Float64Array {
    return new Float64Array(this.#categories.length)
  }

  /**
   * Adds a sentence.
   * @param sums from {@link begin}, updated
   * @param wanted categories to look for
   * @returns the category with the highest score, if it reaches the threshold
   */
  add(
    { text }: Sentence,
    sums: Float64Array,
    wanted: ReadonlySet<Category>,
    side: 'input' | 'output',
    threshold: number,
  ): Score | undefined {
    this.#sentence++
    for (const evidence of this.#evidence) if (evidence.some) clear(evidence)
    this.#index.find(this.#units, foldInto(text, this.#units), this.#take)
    this.#takeShapes(text)
    let best = -1
    for (let i = 0; i < sums.length; i++) {
      if (!wanted.has(this.#categories[i]!)) continue
      sums[i] = Math.max(0, sums[i]! / 2 + weigh(this.#evidence[i]!, side))
      if (best < 0 || sums[i]! > sums[best]!) best = i
    }
    const score = best < 0 ? 0 : 1 / (1 + Math.exp(BIAS - sums[best]!))
    if (score < threshold) return undefined
    const cues = this.#evidence[best]!.named.map((cue) => this.#ids[cue]!)
    return { category: this.#categories[best]!, score, cues }
  }

  readonly #take = (cue: number, at: number): void => {
    if (this.#seenIn[cue] === this.#sentence && this.#roles[cue]! > LEADS) return
    this.#seenIn[cue] = this.#sentence
    const category = this.#ofCategory[cue]!
    const role = this.#roles[cue]!
    if (category >= 0) note(this.#evidence[category]!, role, cue, at)
    else for (const evidence of this.#evidence) note(evidence, role, cue, at)
  }

  #takeShapes(text: string): void {
    const signs = signsIn(text)
    for (const { bits, category, cue } of this.#shapes) {
      if ((bits & signs) === 0) continue
      const shape = SHAPES[cue - this.#seenIn.length]!
      const at = text.search(shape.pattern)
      if (at < 0) continue
      const evidence = this.#evidence[category]!
      if (typeof shape.counts === 'string') note(evidence, ROLES.indexOf(shape.counts), cue, at)
      else {
        evidence.some = true
        evidence.shapes += shape.counts
        name(evidence, cue)
      }
    }
    const math = this.#categories.indexOf('math')
    if (math < 0 || (signs & DIGITS) === 0) return
    if (this.#operation.test(fold(text))) {
      this.#evidence[math]!.some = true
      this.#evidence[math]!.shapes += ENOUGH
    }
  }
}

function weigh(evidence: Evidence, side: 'input' | 'output'): number {
  if (!evidence.some) return 0
  // Who declines names the subject. What is shown all the same, such as code, counts.
  if (evidence.declines && side === 'output') return evidence.shapes - AGAINST
  const { topics, loose, strong, against, shapes, pair, loosePair } = evidence
  let sum = shapes - AGAINST * against
  if (pair) sum += ENOUGH
  else if (loosePair) sum += LIKELY
  else if (topics > 0) sum += FIRST_TOPIC
  if (topics > 1) sum += (topics - 1) * NEXT_TOPIC[side]
  sum += Math.min(loose, MAX_LOOSE) * LOOSE
  if (strong > 0) sum += ENOUGH + (strong - 1) * SECOND_STRONG
  return sum
}

function note(evidence: Evidence, role: number, cue: number, at: number): void {
  // A word is not its own topic.
  const near = (other: number) => at !== other && Math.abs(at - other) <= NEAR
  evidence.some = true
  switch (role) {
    case ASKS:
      evidence.asks = at
      if (near(evidence.topicAt)) evidence.pair = true
      if (near(evidence.looseAt)) evidence.loosePair = true
      break
    case LEADS:
      evidence.leads = at
      if (near(evidence.topicAt)) evidence.pair = true
      return
    case TOPICS:
      // A word may be a cue in several languages.
      if (evidence.topicAt === at) return
      evidence.topicAt = at
      evidence.topics++
      if (near(evidence.asks) || near(evidence.leads)) evidence.pair = true
      break
    case LOOSES:
      if (evidence.looseAt === at) return
      evidence.looseAt = at
      evidence.loose++
      if (near(evidence.asks)) evidence.loosePair = true
      break
    case STRONG:
      if (evidence.strongAt === at) return
      evidence.strongAt = at
      evidence.strong++
      break
    case OPPOSED:
      if (evidence.againstAt === at) return
      evidence.againstAt = at
      evidence.against++
      break
    case DECLINES:
      evidence.declines = true
  }
  name(evidence, cue)
}

function name({ named }: Evidence, cue: number): void {
  if (named.length < MAX_NAMED) named.push(cue)
}

function newEvidence(): Evidence {
  const evidence = { named: [] } as unknown as Evidence
  clear(evidence)
  return evidence
}

function clear(evidence: Evidence): void {
  evidence.some = false
  evidence.asks = evidence.leads = evidence.topicAt = evidence.looseAt = -Infinity
  evidence.strongAt = evidence.againstAt = -1
  evidence.topics = evidence.loose = evidence.strong = evidence.against = evidence.shapes = 0
  evidence.pair = evidence.loosePair = evidence.declines = false
  evidence.named.length = 0
}

/** Matches a number, an operation in words, and a number. */
function operationOf(operators: readonly string[]): RegExp {
  const words = operators.map((word) => fold(word)).filter(Boolean)
  const choice = words.sort((a, b) => b.length - a.length).join('|')
  return expression(`\\d\\s?(?:${choice})\\s?(?:by )?\\d`)
}
