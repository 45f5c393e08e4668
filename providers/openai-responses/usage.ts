/** Usage of the Responses API in OpenAI's chat form. */
import type { OpenAIUsage } from '../../src/plugin.ts'
import { vendorCost } from '../openai-compatible/members.ts'
import { tokenCount } from '../shared/http.ts'

/** The counts of an answer; undefined for no usage, or for zero tokens, which servers report that do not count. */
export function toUsage(reported: any): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const prompt = tokenCount(reported.input_tokens)
  const completion = tokenCount(reported.output_tokens)
  if (prompt === 0 && completion === 0) return undefined
  const read = reported.input_tokens_details ?? {}
  const written = reported.output_tokens_details ?? {}
  const cost = vendorCost(reported)
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    prompt_tokens_details: {
      cached_tokens: Math.min(tokenCount(read.cached_tokens), prompt),
      cache_write_tokens: tokenCount(read.cache_write_tokens),
    },
    completion_tokens_details: {
      reasoning_tokens: Math.min(tokenCount(written.reasoning_tokens), completion),
    },
    ...(cost !== undefined && { vendor_cost: cost }),
  }
}
