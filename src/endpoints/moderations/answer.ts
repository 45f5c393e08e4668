/** Results of a classifier. */
import { isObject } from '../../errors/checks.ts'
import { brokenAnswer } from '../../errors/errors.ts'
import type { ModerationResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'

/** The whole answer: it has one part. */
export interface ModerationAnswer extends Billed {
  /** As the client reads it. */
  readonly model: string
  /** One for each input, in their order. */
  readonly results: readonly object[]
}

/** The answer of a model to so many inputs. @throws UpstreamFailure for an input without a result */
export function resultsOf(
  { results }: ModerationResult,
  { model, count }: { readonly model: string; readonly count: number },
): ModerationAnswer {
  if (!Array.isArray(results) || results.length !== count || !results.every(isObject)) {
    throw brokenAnswer('The model provider sent no result for some of the inputs.')
  }
  return { model, results }
}
