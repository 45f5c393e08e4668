/** What endpoints without a conversation have in common: a request is one unit of work, and its answer one result. */
import type { UsageReport } from '../../money/plausible.ts'
import type { ProviderAnswer } from '../../pipeline/pipeline.ts'

/**
 * The state of an answer that comes whole.
 * @param partsOf of what the provider answers; throws for what is no answer
 * @param usageOf of the same
 */
export function wholeAnswer<Result extends object, Part>(
  partsOf: (result: Result) => readonly Part[],
  usageOf: (result: Result) => UsageReport,
): ProviderAnswer<Part> {
  let given: Result
  const whole = (result: Result): readonly Part[] => {
    given = result
    return partsOf(result)
  }
  // A provider that answers in parts has none of what was asked for.
  const refuse = () => void whole({} as Result)
  return { steps: [{ push: refuse, end: refuse }], whole, usage: () => usageOf(given) }
}
