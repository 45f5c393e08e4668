import { CompletionBuilder } from '../../../src/endpoints/chat/chunks.ts'
import type { ChatChunk, ChatCompletion } from '../../../src/plugin.ts'

/** The completion that chunks make up. */
export function toCompletion(chunks: Iterable<ChatChunk>): ChatCompletion {
  const builder = new CompletionBuilder()
  for (const chunk of chunks) builder.add(chunk)
  return builder.completion()
}
