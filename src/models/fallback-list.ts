/** Lists of fallbacks as entries of models write them. */
import * as v from 'valibot'

/** Conditions under which another model is asked: the model is down, its context is too small, or its vendor filters the text. */
const WHENS = ['down', 'context', 'filter'] as const
export type When = (typeof WHENS)[number]

/** Most fallbacks that an entry may have. */
const MOST_LISTED = 8

const LIST = `a list of at most ${MOST_LISTED} names of models, or of { model, when }`
const WHEN = `a list of ${WHENS.map((one) => `"${one}"`).join(', ')}`
const nameSchema = v.pipe(v.string('the name of a model'), v.minLength(1, 'the name of a model'))
const fallbackSchema = v.pipe(
  v.union(
    [
      nameSchema,
      v.strictObject({
        model: nameSchema,
        when: v.pipe(v.array(v.picklist(WHENS, WHEN), WHEN), v.minLength(1, WHEN)),
      }),
    ],
    'the name of a model, or { model, when }',
  ),
  v.transform((entry): Fallback =>
    typeof entry === 'string' ? { model: entry, when: ['down'] } : entry,
  ),
)
/** Schema of `fallbacks`, of a model and of all models that have none. */
export const fallbacksSchema = v.pipe(v.array(fallbackSchema, LIST), v.maxLength(MOST_LISTED, LIST))

/** One fallback as its entry names it. */
export interface Fallback {
  /** A name as clients write it. With `/*` at its end it stands for the part of the asked id behind its vendor. */
  readonly model: string
  readonly when: readonly When[]
}
