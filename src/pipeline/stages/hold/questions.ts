/** What a hold has for the questions of guards. */
import { charactersIn, sidesRead } from '../../../guard/adapter.ts'
import {
  costOfQuestions,
  questionsOf,
  type AskedTexts,
  type BudgetedQuestions,
} from '../../../guard/questions.ts'
import { questionCost, type Estimate, type HoldFigures } from '../../../money/holds.ts'
import { NO_POLICY } from '../../../policy/policy.ts'
import type { Call } from '../../pipeline.ts'

const CHARACTERS_PER_TOKEN = 4
const NONE: Costs = { expected: 0n, ceiling: 0n, output: 0n }
const NO_TEXT = { expected: 0, ceiling: 0 }
/** How long a transcript or the text of a page will be is not known before. */
const UNKNOWN_TEXT = { expected: 1, ceiling: Infinity }

/** `output`: the part of the expected cost that grows with the answer. */
type Costs = Pick<HoldFigures, 'expected' | 'ceiling' | 'output'>

/** What guards ask about a call. */
interface Asked {
  readonly questions: BudgetedQuestions
  /** Those that are not about the answer, where its tokens are counted. */
  readonly fixed?: BudgetedQuestions
}

/**
 * What the account will pay for models that guards ask about a call.
 * @param outputTokens of the answer, all choices together, as they are expected
 */
export function questionCosts(call: Call, estimate: Estimate, outputTokens: number): Costs {
  const asked = askedAbout(call, estimate, outputTokens)
  if (!asked) return NONE
  const { questions, fixed } = asked
  const sumOf = (some: BudgetedQuestions, figure: 'expected' | 'ceiling') =>
    costOfQuestions(some[figure], (id) => questionCost(call.catalog.get(id)?.prices ?? {}, figure))
  const expected = sumOf(questions, 'expected')
  const output = fixed ? expected - sumOf(fixed, 'expected') : 0n
  return { expected, ceiling: sumOf(questions, 'ceiling'), output }
}

function askedAbout(call: Call, { output }: Estimate, outputTokens: number): Asked | undefined {
  const { runtime, endpoint, policy, request } = call
  const own = endpoint.billing.questions?.(call)
  if (own) return { questions: own }
  const adapter = endpoint.guard
  if (!adapter || (policy === NO_POLICY && !runtime.guards.hasAlways)) return undefined
  const guards = runtime.guards.askingFor(policy, runtime.config.guards.billMonitor)
  if (guards.length === 0) return undefined
  const reads = sidesRead(adapter, policy)
  const input = reads.input ? charactersIn(adapter.inputTexts(request.input, [])) : 0
  const about = (text: AskedTexts['output'], choices = 1) =>
    questionsOf(guards, { input, output: text, choices })
  if (!reads.output || adapter.outputIsSilent) return { questions: about(NO_TEXT) }
  if (!output || output.isImage) return { questions: about(UNKNOWN_TEXT) }
  const { choices, limit } = output
  const text = {
    expected: (outputTokens / choices) * CHARACTERS_PER_TOKEN,
    ceiling: limit * CHARACTERS_PER_TOKEN,
  }
  return { questions: about(text, choices), fixed: about(NO_TEXT) }
}
