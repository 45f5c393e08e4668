/** Counts of prompts, by Amazon, of the models that it counts for. */
import type { Host } from '../../src/plugin.ts'
import { countOrNone, notAnAnswer } from '../shared/http.ts'

/** What is said of a model that Amazon has no counter for. */
export const NO_COUNT = 'Amazon does not count tokens for this model.'

/** The request for a count. @param body for Converse */
export function toCounted(body: Readonly<Record<string, unknown>>): object {
  const { messages, system, toolConfig, additionalModelRequestFields } = body
  return { input: { converse: { messages, system, toolConfig, additionalModelRequestFields } } }
}

/** The count in an answer. @throws the failure class `upstream_error` for an answer without one */
export function readCount(answer: unknown, fail: Host['fail']): number {
  const { inputTokens } = Object(answer)
  const tokens = countOrNone(inputTokens)
  if (tokens === null) throw notAnAnswer(fail)
  return tokens
}
