/** Reads the members of answers in all vendors' forms: text, reasoning, tool calls, citations, usage, errors. */
import type { OpenAIUsage } from '../../src/plugin.ts'
import { countOrNone, partOf, tokenCount } from '../shared/http.ts'

/** Whether a payload is an error: `{"error": …}`, alone or beside choices, or an error object without a wrapper. */
export function isError({ error, object, choices, message, detail }: any): boolean {
  if (error || object === 'error') return true
  return !Array.isArray(choices) && (message ?? detail) !== undefined
}

/** URL citations in OpenAI's nested form; some vendors send them flat. Entries without a URL are dropped. */
export function toAnnotations(annotations: readonly any[]): object[] {
  return annotations
    .map((annotation) => annotation?.url_citation ?? annotation)
    .filter((citation) => typeof citation?.url === 'string')
    .map(({ url, title, content, start_index, end_index }) => ({
      type: 'url_citation',
      url_citation: {
        url,
        title: title ?? '',
        start_index: start_index ?? 0,
        end_index: end_index ?? 0,
        ...(content ? { content } : {}),
      },
    }))
}

/** Differences between vendors in usage. */
export interface UsageQuirks {
  /** Reasoning is counted beside the completion, where the total does not tell. */
  readonly reasoningBeside?: true
  /** Reasoning is the rest of the total after prompt and completion. */
  readonly reasoningIsTheRest?: true
  /** Each answer counts as one search, unless the vendor counts searches. */
  readonly searchesAlways?: true
}

/**
 * Usage in OpenAI's form, where `prompt_tokens` include cached tokens and `completion_tokens` include reasoning.
 * @returns undefined for no usage, or for zero tokens, which servers report that do not count
 */
export function toUsage(reported: any, quirks: UsageQuirks): OpenAIUsage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  // An older spelling of Mistral.
  const prompt = reported.prompt_tokens_details ?? reported.prompt_token_details ?? {}
  const completion = reported.completion_tokens_details ?? {}
  const cached =
    prompt.cached_tokens ??
    reported.cached_tokens ??
    reported.num_cached_tokens ??
    reported.prompt_cache_hit_tokens
  const promptTokens =
    tokenCount(reported.prompt_tokens) ||
    tokenCount(reported.prompt_cache_hit_tokens) + tokenCount(reported.prompt_cache_miss_tokens)
  const reportedReasoning = completion.reasoning_tokens ?? reported.reasoning_tokens
  const [completionTokens, reasoning] = withReasoning(
    promptTokens,
    tokenCount(reported.completion_tokens),
    tokenCount(reportedReasoning),
    tokenCount(reported.total_tokens),
    quirks,
  )
  if (promptTokens === 0 && completionTokens === 0) return undefined
  const usage: OpenAIUsage = {
    prompt_tokens: promptTokens || countOrNone(reported.prompt_tokens),
    completion_tokens: completionTokens || countOrNone(reported.completion_tokens),
    prompt_tokens_details: {
      cached_tokens: partOf(cached, promptTokens),
      cache_write_tokens: partOf(prompt.cache_write_tokens),
      audio_tokens: partOf(prompt.audio_tokens),
      image_tokens: partOf(prompt.image_tokens),
    },
    completion_tokens_details: {
      reasoning_tokens: reasoning || partOf(reportedReasoning, completionTokens),
      audio_tokens: partOf(completion.audio_tokens),
      image_tokens: partOf(completion.image_tokens),
      accepted_prediction_tokens: partOf(completion.accepted_prediction_tokens),
      rejected_prediction_tokens: partOf(completion.rejected_prediction_tokens),
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

/** Completion tokens including reasoning, and reasoning, which is never larger. */
function withReasoning(
  prompt: number,
  completion: number,
  reasoning: number,
  total: number,
  quirks: UsageQuirks,
): [completion: number, reasoning: number] {
  if (quirks.reasoningIsTheRest) {
    const estimated = Math.max(0, total - prompt - completion)
    return [completion + estimated, estimated || Math.min(reasoning, completion)]
  }
  const inside = total === prompt + completion
  const beside = total === prompt + completion + reasoning
  if (!inside && (beside || quirks.reasoningBeside)) return [completion + reasoning, reasoning]
  return [completion, Math.min(reasoning, completion)]
}

/** The vendor's cost in USD as decimal text. */
export function vendorCost(reported: any): string | undefined {
  const { cost, cost_details: details, is_byok: ownKey, cost_in_usd_ticks: ticks } = reported
  const { estimated_cost: estimate } = reported
  // With the operator's own vendor key, `cost` is only the reseller's fee.
  if (typeof cost === 'number') {
    return decimal(cost + (ownKey ? amountOf(details?.upstream_inference_cost) : 0))
  }
  if (typeof cost?.total_cost === 'number') return decimal(cost.total_cost)
  // DeepInfra's word for what it charges.
  if (typeof estimate === 'number') return decimal(estimate)
  // 1e10 ticks are one dollar. Resellers of xAI's models report 0, which is not a price.
  if (typeof ticks === 'number' && ticks > 0) return decimal(ticks / 1e10)
  return undefined
}

function decimal(usd: number): string | undefined {
  if (!Number.isFinite(usd) || usd < 0) return undefined
  return usd.toFixed(12).replace(/\.?0+$/, '')
}

/** A number, also as text; 0 for anything else. */
function amountOf(value: unknown): number {
  return typeof value === 'number' || typeof value === 'string' ? Number(value) : 0
}
