import { costJson } from '../../../../money/money.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'

/** Quantities and cost in the form of OpenAI's chat usage. */
export function chatUsageJson({ bill, meter }: Receipt): object {
  const usage = meter.find(({ source }) => source === 'model')?.usage ?? {}
  const prompt_tokens = usage.promptTokens ?? 0
  const completion_tokens = usage.completionTokens ?? 0
  // The gateway's own search, else searches of the vendor. The member holds 0 or 1; more searches show in the cost only.
  const { searches } = meter.find(({ source }) => source === 'search')?.usage ?? usage
  return {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens: usage.cachedTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
      audio_tokens: usage.audioInputTokens ?? 0,
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens ?? 0,
      audio_tokens: usage.audioOutputTokens ?? 0,
      accepted_prediction_tokens: usage.acceptedPredictionTokens ?? 0,
      rejected_prediction_tokens: usage.rejectedPredictionTokens ?? 0,
    },
    ...(searches !== undefined &&
      searches <= 1 && { server_tool_use_details: { web_search_requests: searches } }),
    ...costJson(bill),
  }
}
