/**
 * Usage dialects: who counts what inside what, and under which name. The outcome is OpenAI's object in the gateway's
 * sense: everything cached is inside `prompt_tokens`, reasoning is inside `completion_tokens`.
 */
import type { OpenAIUsage } from '../../src/plugin.ts'
import { tokenCount } from '../shared/values.ts'

/** What a row of the quirk table says about counting. */
export interface UsageQuirks {
  /** Where reasoning is counted when the total does not tell: beside the completion instead of inside it. */
  readonly reasoningBeside?: true
  /** Whatever prompt and completion leave of the total was thought. */
  readonly reasoningIsTheRest?: true
  /** Reasoning is inside the completion and not told apart: its share of the text is its share of the tokens. */
  readonly reasoningByShare?: true
  /** Each answer is one search, unless the vendor counts them. */
  readonly searchesAlways?: true
}

/**
 * Undoes a vendor's habits.
 * @param share how much of the text so far was reasoning, 0 to 1, for vendors that do not count it
 * @returns nothing when the vendor reported nothing; zero tokens both ways is what servers say that do not count
 */
export function toUsage(reported: any, quirks: UsageQuirks, share = 0): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  // The spelling without s is an older one of Mistral's.
  const prompt = reported.prompt_tokens_details ?? reported.prompt_token_details ?? {}
  const completion = reported.completion_tokens_details ?? {}
  const cached = tokenCount(
    prompt.cached_tokens ??
      reported.cached_tokens ??
      reported.num_cached_tokens ??
      reported.prompt_cache_hit_tokens,
  )
  const promptTokens =
    tokenCount(reported.prompt_tokens) ||
    tokenCount(reported.prompt_cache_hit_tokens) + tokenCount(reported.prompt_cache_miss_tokens)
  const told = completion.reasoning_tokens ?? reported.reasoning_tokens
  const thought = quirks.reasoningByShare ? tokenCount(reported.completion_tokens) * share : 0
  const [completionTokens, reasoning] = withReasoning(
    promptTokens,
    tokenCount(reported.completion_tokens),
    tokenCount(told ?? thought),
    tokenCount(reported.total_tokens),
    quirks,
  )
  if (promptTokens === 0 && completionTokens === 0) return undefined
  const usage: OpenAIUsage = {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: {
      cached_tokens: Math.min(cached, promptTokens),
      cache_write_tokens: tokenCount(prompt.cache_write_tokens),
      audio_tokens: tokenCount(prompt.audio_tokens),
      image_tokens: tokenCount(prompt.image_tokens),
    },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: tokenCount(completion.audio_tokens),
      image_tokens: tokenCount(completion.image_tokens),
      accepted_prediction_tokens: tokenCount(completion.accepted_prediction_tokens),
      rejected_prediction_tokens: tokenCount(completion.rejected_prediction_tokens),
    },
  }
  const searches =
    reported.server_tool_use_details?.web_search_requests ?? reported.num_search_queries
  if (searches !== undefined) usage.searches = tokenCount(searches)
  else if (quirks.searchesAlways) usage.searches = 1
  const cost = vendorCost(reported)
  if (cost !== undefined) usage.vendor_cost = cost
  return usage
}

/** Completion tokens with reasoning inside, and reasoning, which is never more than that. */
function withReasoning(
  prompt: number,
  completion: number,
  reasoning: number,
  total: number,
  quirks: UsageQuirks,
): [completion: number, reasoning: number] {
  if (quirks.reasoningIsTheRest) {
    const thought = Math.max(0, total - prompt - completion)
    return [completion + thought, thought || Math.min(reasoning, completion)]
  }
  const inside = total === prompt + completion
  const beside = total === prompt + completion + reasoning
  if (!inside && (beside || quirks.reasoningBeside)) return [completion + reasoning, reasoning]
  return [completion, Math.min(reasoning, completion)]
}

/** USD as decimal text, by any of the names vendors have for it. */
export function vendorCost(reported: any): string | undefined {
  const { cost, cost_details: details, is_byok: ownKey, cost_in_usd_ticks: ticks } = reported
  // With the operator's own vendor key, `cost` is only the fee of the reseller.
  if (typeof cost === 'number') {
    return decimal(cost + (ownKey ? amountOf(details?.upstream_inference_cost) : 0))
  }
  if (typeof cost?.total_cost === 'number') return decimal(cost.total_cost)
  // 1e10 ticks are one dollar. Resellers of the same model report 0, which is no price.
  if (typeof ticks === 'number' && ticks > 0) return decimal(ticks / 1e10)
  return undefined
}

function decimal(usd: number): string | undefined {
  if (!Number.isFinite(usd) || usd < 0) return undefined
  return usd.toFixed(12).replace(/\.?0+$/, '')
}

/** A number, or one written as text; anything else is none. */
function amountOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : 0
}
