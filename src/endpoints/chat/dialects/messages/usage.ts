/** Quantities and cost in the form of Anthropic's usage, whose input tokens do not include the cache. */
import { costJson, isOfModel } from '../../../../money/money.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { Usage } from '../../../../plugin.ts'

export function usageJson(receipt: Receipt): object {
  const { meter } = receipt
  const usage = modelUsage(receipt)
  // The gateway's own search, else searches of the vendor.
  const { searches } = meter.find(({ source }) => source === 'search')?.usage ?? usage
  return {
    ...inputCounts(usage),
    output_tokens: usage.completionTokens ?? 0,
    ...(usage.reasoningTokens && {
      output_tokens_details: { thinking_tokens: usage.reasoningTokens },
    }),
    server_tool_use:
      searches === undefined ? null : { web_search_requests: searches, web_fetch_requests: 0 },
    service_tier: 'standard',
    inference_geo: null,
    ...costJson(receipt),
  }
}

/**
 * The vendor's usage with the cost. Where an estimate is charged, the counts are the charged ones, beside the other members
 * of the vendor's.
 */
export function vendorUsage(counts: object, receipt: Receipt): object {
  const usage = modelUsage(receipt)
  const charged = { ...inputCounts(usage), output_tokens: usage.completionTokens ?? 0 }
  return { ...counts, ...(usage.estimated && charged), ...costJson(receipt) }
}

function modelUsage({ meter }: Receipt): Usage {
  return meter.find(isOfModel)?.usage ?? {}
}

/** The usage with which an answer begins: clients take the size of their context from it, so that it is never 0. */
export function openingUsage(prompt: Usage): object {
  const counts = inputCounts(prompt)
  return {
    ...counts,
    input_tokens: Math.max(1, counts.input_tokens),
    output_tokens: 1,
    service_tier: 'standard',
  }
}

function inputCounts(usage: Usage) {
  const { promptTokens = 0, cachedTokens = 0, cacheWriteTokens = 0, cacheWrite1hTokens = 0 } = usage
  return {
    input_tokens: Math.max(0, promptTokens - cachedTokens - cacheWriteTokens),
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    cache_creation: {
      ephemeral_5m_input_tokens: Math.max(0, cacheWriteTokens - cacheWrite1hTokens),
      ephemeral_1h_input_tokens: cacheWrite1hTokens,
    },
  }
}
