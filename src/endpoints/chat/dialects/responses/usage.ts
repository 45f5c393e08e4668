/** Quantities and cost in the form of the Responses API. */
import { RESPONSE_SIDES, costJson, isOfModel } from '../../../../money/money.ts'
import type { Receipt } from '../../../../pipeline/pipeline.ts'
import type { Usage } from '../../../../plugin.ts'

/** The usage of a charged answer. Every count is there: clients refuse an answer without. */
export function usageJson(receipt: Receipt): object {
  const { meter } = receipt
  const usage = modelUsage(receipt)
  const { promptTokens: input = 0, completionTokens: output = 0 } = usage
  // The gateway's own search, else searches of the vendor.
  const { searches } = meter.find(({ source }) => source === 'search')?.usage ?? usage
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: input + output,
    ...(searches !== undefined && {
      server_tool_use_details: { web_search_requests: searches },
    }),
    ...costJson(receipt, RESPONSE_SIDES),
  }
}

/** The vendor's usage with the cost; the charged counts in place of its own where an estimate is charged. */
export function vendorUsage(counts: object, receipt: Receipt): object {
  if (modelUsage(receipt).estimated) return { ...counts, ...usageJson(receipt) }
  return { ...counts, ...costJson(receipt, RESPONSE_SIDES) }
}

function modelUsage({ meter }: Receipt): Usage {
  return meter.find(isOfModel)?.usage ?? {}
}
