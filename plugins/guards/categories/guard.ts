/** The guard itself, which is loaded on first use. */
import {
  CATEGORIES,
  type Category,
  type CheckProgress,
  type Guard,
  type GuardContext,
  type GuardHost,
  type OutputCheck,
  type TextItem,
  type Verdict,
} from '../../../src/plugin.ts'
import { readInSlices, warmUp } from '../text/slices.ts'
import { scorerNow, scorerSoon, type Reading, type Score, type Scorer, Sentences } from './score.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_CHECKED: Verdict = { action: 'abstain', why: 'not-applicable' }
/** Channels of an answer that only patterns check: refusals of the model, and cited pages. */
const UNCHECKED_OUTPUT = new Set<TextItem['channel']>(['refusal', 'annotation'])
/** Channels of an input that are checked. Tool definitions and tool data are left to patterns. */
const CHECKED_INPUT = new Set<TextItem['channel']>([
  'content',
  'document',
  'prompt',
  'search',
  'speech',
])

export interface CategoryOptions {
  readonly isHint: boolean
  readonly threshold: number
}

export async function createGuard(
  { isHint, threshold }: CategoryOptions,
  host: GuardHost,
): Promise<Required<Pick<Guard, 'checkInput' | 'checkOutput' | 'streamOutput'>>> {
  await warmUp()
  const begin = ({ rules, requestId }: GuardContext, side: TextItem['side']): CategoryCheck => {
    const wanted = new Set(isHint ? CATEGORIES : rules.deny)
    const verdictOf = ({ category, score, cues }: Score): Verdict | undefined => {
      const rule = `deny:${category}` as const
      if (!isHint) return { action: 'block', rule, score, reason: cues.join(' ') }
      host.log.info(`${requestId}: ${side} looks like ${category} (${score.toFixed(2)})`)
      return undefined
    }
    return new CategoryCheck(scorerNow(), wanted, side, threshold, verdictOf)
  }
  return {
    checkInput(items, context) {
      const yieldIfDue = () => host.yieldIfDue(context)
      const read = () => {
        const currentTurn = begin(context, 'input')
        return readInSlices(
          items,
          ({ channel, role, current }) => {
            const isAnswered = (role === 'assistant' || role === 'tool') && !current
            if (!CHECKED_INPUT.has(channel) || isAnswered) return undefined
            // Texts of an earlier turn stand alone; those of the current turn are scored as one.
            return current ? currentTurn.next() : begin(context, 'input')
          },
          yieldIfDue,
        )
      }
      const scorer = scorerSoon(yieldIfDue)
      return scorer instanceof Promise ? scorer.then(read) : read()
    },
    checkOutput({ channel, text }, context) {
      if (UNCHECKED_OUTPUT.has(channel)) return NOT_CHECKED
      const check = begin(context, 'output')
      check.push(text)
      return check.end().verdict ?? PASS
    },
    streamOutput: ({ channel }, context) =>
      UNCHECKED_OUTPUT.has(channel) ? releaseAll() : begin(context, 'output'),
  }
}

/** Releases all text. */
function releaseAll(): OutputCheck {
  let safe = 0
  return {
    push: ({ length }) => ({ safeOffset: (safe += length) }),
    end: () => ({ safeOffset: safe }),
  }
}

/** Scores one text, sentence by sentence. */
class CategoryCheck implements OutputCheck {
  readonly #scorer: Scorer
  readonly #wanted: ReadonlySet<Category>
  readonly #side: TextItem['side']
  readonly #threshold: number
  readonly #verdictOf: (score: Score) => Verdict | undefined
  readonly #reading: Reading
  #sentences = new Sentences()
  #verdict: Verdict | undefined = undefined
  #safe = 0

  constructor(
    scorer: Scorer,
    wanted: ReadonlySet<Category>,
    side: TextItem['side'],
    threshold: number,
    verdictOf: (score: Score) => Verdict | undefined,
  ) {
    this.#scorer = scorer
    this.#wanted = wanted
    this.#side = side
    this.#threshold = threshold
    this.#verdictOf = verdictOf
    this.#reading = scorer.begin()
  }

  push(text: string): CheckProgress {
    if (!this.#verdict) {
      for (const sentence of this.#sentences.push(text)) if (this.#score(sentence)) break
    }
    return this.#progress()
  }

  end(): CheckProgress {
    const rest = this.#verdict ? undefined : this.#sentences.end()
    if (rest) this.#score(rest)
    return this.#progress()
  }

  /** Starts another text of the same turn. The scores of earlier texts count on. */
  next(): this {
    this.#sentences = new Sentences()
    this.#verdict = undefined
    return this
  }

  /** Scores a sentence. @returns whether it blocks */
  #score(sentence: { readonly start: number; readonly text: string }): boolean {
    const finding = this.#scorer.add(
      sentence,
      this.#reading,
      this.#wanted,
      this.#side,
      this.#threshold,
    )
    const verdict = finding && this.#verdictOf(finding)
    const end = sentence.start + sentence.text.length
    if (verdict?.action === 'block') {
      this.#verdict = { ...verdict, spans: [{ start: sentence.start, end }] }
      return true
    }
    this.#safe = end
    return false
  }

  #progress(): CheckProgress {
    return this.#verdict
      ? { safeOffset: this.#safe, verdict: this.#verdict }
      : { safeOffset: this.#safe }
  }
}
