import { brokenAnswer } from '../../errors/errors.ts'
import type { ChatChunk, Step } from '../../plugin.ts'

/**
 * Passes the chunks of a vendor that speaks the client's own form: what they say is read, and what the vendor sent goes out.
 * Exactly one has a finish reason, the last.
 * @throws UpstreamFailure when the stream was cut
 */
export function nativeChunks(read: (chunk: ChatChunk) => void): Step<ChatChunk, ChatChunk> {
  let ended = false
  let calls = false
  return {
    push(chunk, emit) {
      read(chunk)
      calls ||= chunk.choices.some(({ delta }) => delta?.tool_calls?.length)
      const told = chunk.endOfStream ? withReason(chunk, calls ? 'tool_calls' : 'stop') : chunk
      if (told.choices[0]?.finish_reason) ended = true
      if (told.native || told.choices.length > 0) emit(told)
    },
    end() {
      if (!ended) throw brokenAnswer('The model provider closed the stream early.')
    },
  }
}

/** An end without a reason is the natural one, as in answers that are translated. */
function withReason(chunk: ChatChunk, finish_reason: string): ChatChunk {
  const [choice] = chunk.choices
  if (!choice || choice.finish_reason) return chunk
  return { ...chunk, choices: [{ ...choice, finish_reason }] }
}
