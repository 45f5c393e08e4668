import { brokenAnswer } from '../../errors/errors.ts'
import type { ChatChunk, Step } from '../../plugin.ts'

/**
 * Passes the chunks of a vendor that speaks the client's own form: what they say is read, and what the vendor sent goes out.
 * Exactly one has a finish reason, the last.
 * @throws UpstreamFailure when the stream was cut
 */
export function nativeChunks(read: (chunk: ChatChunk) => void): Step<ChatChunk, ChatChunk> {
  let ended = false
  return {
    push(chunk, emit) {
      read(chunk)
      if (chunk.choices[0]?.finish_reason) ended = true
      if (chunk.native || chunk.choices.length > 0) emit(chunk)
    },
    end() {
      if (!ended) throw brokenAnswer('The model provider closed the stream early.')
    },
  }
}
