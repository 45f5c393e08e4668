/**
 * Topics by their words and shapes: a small scorer that can be followed by hand, in fourteen languages. A speed bump for
 * keys without a judge, not a safety claim: it catches plain requests and misses paraphrase, cover stories and most other
 * languages. Local, and the same however an answer is cut.
 */
import * as v from 'valibot'
import {
  CATEGORIES,
  defineGuard,
  type Category,
  type GuardContext,
  type CheckProgress,
  type OutputCheck,
  type TextItem,
  type Verdict,
} from '../../src/plugin.ts'
import { LEXICONS } from './categories/lexicon/index.ts'
import { Scorer, type Score } from './categories/score.ts'
import { Sentences } from './categories/sentences.ts'
import { getReady } from './text/expressions.ts'
import { readInSlices } from './text/slices.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_READ: Verdict = { action: 'abstain', why: 'not-applicable' }
/** What of an answer is for exact rules alone: the model's own refusals, and pages that it cites (guard design, 1.3). */
const NOT_JUDGED = new Set<TextItem['channel']>(['refusal', 'annotation'])
/** What local heuristics read of an input (guard design, 1.3). */
const READ = new Set<TextItem['channel']>(['content', 'document', 'prompt', 'search', 'speech'])

const options = v.strictObject({
  /** `hint` blocks nothing and answers for no rule: what it would have blocked is written to the log, without any text. */
  mode: v.optional(v.picklist(['block', 'hint']), 'block'),
  /** Score from which a text is blocked: higher is surer, and finds less. */
  threshold: v.optional(v.pipe(v.number(), v.gtValue(0.5), v.ltValue(1)), 0.85),
})

export default defineGuard({
  name: 'categories',
  options,
  setup({ mode, threshold }, host) {
    const hints = mode === 'hint'
    const scorer = new Scorer(CATEGORIES, LEXICONS)
    void getReady()
    const begin = ({ rules, requestId }: GuardContext, side: TextItem['side']): Reading => {
      const wanted = new Set(hints ? CATEGORIES : rules.deny)
      const verdictOf = ({ category, score, cues }: Score): Verdict | undefined => {
        const rule = `deny:${category}` as const
        if (!hints) return { action: 'block', rule, score, reason: cues.join(' ') }
        host.log.info(`${requestId}: ${side} looks like ${category} (${score.toFixed(2)})`)
        return undefined
      }
      return new Reading(scorer, wanted, side, threshold, verdictOf)
    }
    return {
      enforces: hints ? [] : CATEGORIES.map((category) => `deny:${category}` as const),
      execution: 'local',
      checkInput(items, context) {
        const currentTurn = begin(context, 'input')
        return readInSlices(
          items,
          ({ channel, role, current }) => {
            const isAnswered = (role === 'assistant' || role === 'tool') && !current
            if (!READ.has(channel) || isAnswered) return undefined
            // Texts of an earlier turn stand alone; those of the current turn are scored as one.
            return current ? currentTurn.next() : begin(context, 'input')
          },
          () => host.yieldIfDue(context),
        )
      },
      checkOutput({ channel, text }, context) {
        if (NOT_JUDGED.has(channel)) return NOT_READ
        const one = begin(context, 'output')
        one.push(text)
        return one.end().verdict ?? PASS
      },
      streamOutput: ({ channel }, context) =>
        NOT_JUDGED.has(channel) ? unread() : begin(context, 'output'),
    }
  },
})

/** Agrees to everything. */
function unread(): OutputCheck {
  let safe = 0
  return {
    push: ({ length }) => ({ safeOffset: (safe += length) }),
    end: () => ({ safeOffset: safe }),
  }
}

/** One text, sentence by sentence. */
class Reading implements OutputCheck {
  readonly #scorer: Scorer
  readonly #wanted: ReadonlySet<Category>
  readonly #side: TextItem['side']
  readonly #threshold: number
  readonly #verdictOf: (score: Score) => Verdict | undefined
  readonly #sums: Float64Array
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
    this.#sums = scorer.begin()
  }

  push(text: string): CheckProgress {
    if (!this.#verdict) for (const one of this.#sentences.push(text)) if (this.#weigh(one)) break
    return this.#step()
  }

  end(): CheckProgress {
    const rest = this.#verdict ? undefined : this.#sentences.end()
    if (rest) this.#weigh(rest)
    return this.#step()
  }

  /** Begins another text of the same turn: what was read before counts. */
  next(): this {
    this.#sentences = new Sentences()
    this.#verdict = undefined
    return this
  }

  /** @returns whether that is enough */
  #weigh(sentence: { readonly start: number; readonly text: string }): boolean {
    const found = this.#scorer.add(sentence, this.#sums, this.#wanted, this.#side, this.#threshold)
    const verdict = found && this.#verdictOf(found)
    const end = sentence.start + sentence.text.length
    if (verdict?.action === 'block') {
      this.#verdict = { ...verdict, spans: [{ start: sentence.start, end }] }
      return true
    }
    this.#safe = end
    return false
  }

  #step(): CheckProgress {
    return this.#verdict
      ? { safeOffset: this.#safe, verdict: this.#verdict }
      : { safeOffset: this.#safe }
  }
}
