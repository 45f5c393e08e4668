/**
 * Costs of plain usage: the tokens of a prompt, some of them read from a cache, and those of an answer, which is all that most
 * chats have. They are numbers of whole pico-dollars, computed without the record of all quantities (`prices.ts`), and equal to
 * its result: a cost that a double does not hold exactly is left to the record.
 */
import type { Usage } from '../plugin.ts'
import { pricesAt, wholes, type Prices } from './prices.ts'

/** A cost and its parts, in pico-dollars. */
interface PlainCosts {
  readonly total: number
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  /** The fee of a request. */
  readonly request: number
}

/** Whether a usage has no quantity but tokens of a prompt, read from a cache or not, and of an answer. */
export function isPlainUsage(usage: Usage): boolean {
  return !(
    usage.cachedAudioTokens ||
    usage.cachedImageTokens ||
    usage.cacheWriteTokens ||
    usage.cacheWrite1hTokens ||
    usage.audioInputTokens ||
    usage.imageInputTokens ||
    usage.reasoningTokens ||
    usage.audioOutputTokens ||
    usage.imageOutputTokens ||
    usage.images ||
    usage.pages ||
    usage.characters ||
    usage.seconds ||
    usage.searches ||
    usage.searchUnits
  )
}

/** The cost of a plain usage; undefined for any other usage, for prices that are no whole pico-dollars, and for large amounts. */
export function plainCosts(usage: Usage, prices: Prices, hasFee: boolean): PlainCosts | undefined {
  const { plain } = pricesAt(prices, usage.promptTokens ?? 0)
  if (!plain || !isPlainUsage(usage)) return undefined
  const tokens = wholes(usage.promptTokens)
  // A total that was not reported does not bound its part.
  const read = Math.min(wholes(usage.cachedTokens), tokens || Infinity)
  const prompt = tokens && (tokens - read) * plain.prompt
  const cached = read * plain.cached
  const completion = wholes(usage.completionTokens) * plain.completion
  const request = hasFee ? plain.request : 0
  const total = prompt + cached + completion + request
  // No part is above the total, so all of them are exact if it is.
  if (total > Number.MAX_SAFE_INTEGER) return undefined
  return { total, prompt, cached, completion, request }
}
