/** Evidence for one category in one sentence, and what it adds up to. */
import type { Category } from '../../../src/plugin.ts'
import { ROLES, type Role } from './cues.ts'

/** A request next to one of its topics, or a cue that is proof by itself. */
export const ENOUGH = 5
/** A request next to a possible topic: proof only with further evidence. */
const LIKELY = 4
/** The first topic of a sentence that asks or tells a person something, with a second one proof; and of another one. */
const FIRST_TOPIC = 3
const MENTIONED_TOPIC = 2
/** Further topics, in an input and in an output. */
const NEXT_TOPIC = { input: 1.8, output: 2 }
const LOOSE = 0.5
const MAX_LOOSE = 3
/** Most that words add up to in a sentence that neither asks nor tells a person anything, such as one of a textbook. */
const MENTIONED = 3
const SECOND_STRONG = 2
const AGAINST = 3.5
/** Characters between a request and its topic, about twelve words. */
const NEAR = 72
/** Loose words of a sentence that the question after it may be about. */
const FOLLOWED = 2
const MAX_NAMED = 8
/** Topics and loose words of a sentence that is about little else; one less where it has a typical verb. */
const DENSE = 4

const numberOf = (role: Role) => ROLES.indexOf(role)
const ASKS = numberOf('asks')
const LEADS = numberOf('leads')
const TOPICS = numberOf('topics')
const LOOSES = numberOf('loose')
const STRONG = numberOf('strong')
const OPPOSED = numberOf('against')
const DECLINES = numberOf('declines')

/** Categories in which a question about a topic is a request. One about a character or a person mostly is harmless. */
export const INQUIRED: ReadonlySet<Category> = new Set([
  'code',
  'math',
  'medical',
  'legal',
  'financial-advice',
])
/** Categories in which an answer that speaks to a person about a topic advises. */
export const ADVISED: ReadonlySet<Category> = new Set(['medical', 'legal', 'financial-advice'])

/** Categories that a plain statement belongs to as well: data of a person. */
export const TOLD: ReadonlySet<Category> = new Set(['personal-data'])

/** Whom a sentence addresses, and how. */
interface Manner {
  readonly side: 'input' | 'output'
  /** It asks or tells a person something. */
  readonly isAddress: boolean
  /** It ends with a question mark. */
  readonly isQuestion: boolean
  /** Whether the sentence before it named topics of the category. */
  readonly follows: boolean
}

/** The evidence for one category in one sentence. */
export class Evidence {
  /** Numbers of the cues that count, and of shapes after them. */
  readonly named: number[] = []
  /** Whether there is any evidence. */
  #some = false
  #asks = -Infinity
  #leads = -Infinity
  #topicAt = -Infinity
  #looseAt = -Infinity
  #strongAt = -1
  #againstAt = -1
  #topics = 0
  #loose = 0
  #strong = 0
  #against = 0
  #shapes = 0
  /** An answer declines in these words. */
  #declines = false
  #pair = false
  #loosePair = false

  /** Starts a sentence. */
  clear(): void {
    if (!this.#some) return
    this.#some = false
    this.#asks = this.#leads = this.#topicAt = this.#looseAt = -Infinity
    this.#strongAt = this.#againstAt = -1
    this.#topics = this.#loose = this.#strong = this.#against = this.#shapes = 0
    this.#declines = this.#pair = this.#loosePair = false
    this.named.length = 0
  }

  /** Whether a question in the next sentence may be about this one. */
  get isFollowed(): boolean {
    return this.#topics > 0 || this.#loose >= FOLLOWED
  }

  /** Whether the sentence is about little else. */
  get isDense(): boolean {
    return this.#topics + this.#loose >= (this.#asks < 0 ? DENSE : DENSE - 1)
  }

  /** Notes a cue at a position. */
  note(role: number, cue: number, at: number): void {
    this.#some = true
    switch (role) {
      case ASKS:
        this.#asks = at
        if (isNear(at, this.#topicAt)) this.#pair = true
        if (isNear(at, this.#looseAt)) this.#loosePair = true
        break
      case LEADS:
        this.lead(at)
        return
      case TOPICS:
        // A word may be a cue in several languages.
        if (this.#topicAt === at) return
        this.#topicAt = at
        this.#topics++
        if (isNear(at, this.#asks) || isNear(at, this.#leads)) this.#pair = true
        break
      case LOOSES:
        if (this.#looseAt === at) return
        this.#looseAt = at
        this.#loose++
        if (isNear(at, this.#asks)) this.#loosePair = true
        break
      case STRONG:
        if (this.#strongAt === at) return
        this.#strongAt = at
        this.#strong++
        break
      case OPPOSED:
        if (this.#againstAt === at) return
        this.#againstAt = at
        this.#against++
        break
      case DECLINES:
        this.#declines = true
    }
    this.#name(cue)
  }

  /** Notes a weak request: proof beside a topic only. */
  lead(at: number): void {
    this.#some = true
    this.#leads = at
    if (isNear(at, this.#topicAt)) this.#pair = true
  }

  /** Notes a shape with a weight. */
  shape(weight: number, cue?: number): void {
    this.#some = true
    this.#shapes += weight
    if (cue !== undefined) this.#name(cue)
  }

  /** What the sentence adds to the sum of its text. */
  weigh({ side, isAddress, isQuestion, follows }: Manner): number {
    if (!this.#some) return 0
    // Who declines names the subject. What is shown all the same, such as code, counts.
    if (this.#declines && side === 'output') return this.#shapes - AGAINST
    const isPair = this.#pair || (follows && isQuestion && side === 'input' && this.#asks >= 0)
    let words = Math.min(this.#loose, MAX_LOOSE) * LOOSE
    if (this.#topics > 1) words += (this.#topics - 1) * NEXT_TOPIC[side]
    if (isAddress && isPair) words += ENOUGH
    else if (isAddress && this.#loosePair) words += LIKELY
    else if (this.#topics > 0) words += isAddress ? FIRST_TOPIC : MENTIONED_TOPIC
    if (!isAddress) words = Math.min(words, MENTIONED)
    const strong = this.#strong > 0 ? ENOUGH + (this.#strong - 1) * SECOND_STRONG : 0
    return this.#shapes + words + strong - AGAINST * this.#against
  }

  #name(cue: number): void {
    if (this.named.length < MAX_NAMED) this.named.push(cue)
  }
}

/** Whether two positions are near each other. A word is not its own topic. */
function isNear(one: number, other: number): boolean {
  return one !== other && Math.abs(one - other) <= NEAR
}
