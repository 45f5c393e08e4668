import { ChatAnswer, type Envelope } from '../../../src/endpoints/chat/answer.ts'
import type { AnswerChunk } from '../../../src/endpoints/chat/billing.ts'
import { collect } from '../../../src/endpoints/chat/chunks.ts'
import { run } from '../../../src/stream/flow.ts'
import type { ChatChunk, ChatCompletion } from '../../../src/plugin.ts'

/** What a test may leave open of the members that all chunks of an answer share. */
export function envelope(overrides: Partial<Envelope> = {}): Envelope {
  let calls = 0
  return {
    id: 'chatcmpl-1',
    created: 1_790_000_000,
    model: 'acme/swift-1',
    native: false,
    stream: false,
    logprobs: false,
    legacyFunctions: false,
    reasoning: true,
    newCallId: () => `call_${++calls}`,
    ...overrides,
  }
}

/** The completion that chunks make up. */
export function toCompletion(chunks: Iterable<AnswerChunk>): ChatCompletion {
  return collect([...chunks])
}

/** Pushes what a vendor says through the state of its answer. @param take gets each chunk of the normal form */
export function normalized(
  said: AsyncIterable<ChatChunk>,
  state: ChatAnswer,
  take: (chunk: AnswerChunk) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    run(said, state.steps, { push: take, batchEnd: () => true, end: resolve, fail: reject })
  })
}
