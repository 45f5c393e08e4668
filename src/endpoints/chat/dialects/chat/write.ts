import { costJson } from '../../../../money/money.ts'
import type { Outgoing } from '../../../../pipeline/http.ts'
import type { Call, Receipt, Reply } from '../../../../pipeline/pipeline.ts'
import { errorWriter, writeEvents, writeJson } from '../../../shared/write.ts'
import type { BilledChunk } from '../../billing.ts'
import { CompletionBuilder } from '../../chunks.ts'
import { chatFormat } from '../../format.ts'
import { wantsUsageChunk } from '../../request.ts'
import { ChatEvents } from './events.ts'
import { readChatRequest } from './read.ts'

/** OpenAI's Chat Completions API. Its requests and chunks are the normal form of chat. */
export const chatCompletions = chatFormat({
  name: 'chat',
  path: '/v1/chat/completions',
  read: (body) => ({ input: readChatRequest(body.value) }),
  write: writeChat,
  writeError: errorWriter(usageJson),
})

/** Writes a stream of events, or one completion built from the chunks. */
async function writeChat(call: Call, reply: Reply<BilledChunk>, out: Outgoing): Promise<void> {
  const { stream, input } = call.request
  if (stream) {
    return writeEvents(call, reply, out, new ChatEvents(wantsUsageChunk(input), usageJson))
  }
  const builder = new CompletionBuilder()
  let receipt: Receipt | undefined
  for (let last = false; !last;) {
    const batch = await reply.parts.next()
    for (const { receipt: own, ...chunk } of batch.parts) {
      builder.add(chunk)
      receipt = own ?? receipt
    }
    last = batch.last
  }
  const { id, ...completion } = builder.completion()
  const { guard } = receipt!
  await writeJson(
    call,
    out,
    JSON.stringify({
      id,
      object: 'chat.completion',
      ...completion,
      usage: usageJson(receipt!),
      ...(guard && { guard }),
    }),
  )
}

/** Quantities and cost in the form of OpenAI's chat usage. */
function usageJson({ bill, meter }: Receipt): object {
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
