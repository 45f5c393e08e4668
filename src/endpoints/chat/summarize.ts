/** A chat whose answer takes the place of a conversation. */
import { UpstreamFailure } from '../../errors/errors.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { ChatInput } from '../../plugin.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { billing, type AnswerChunk } from './billing.ts'
import { collect } from './chunks.ts'
import { chat } from './endpoint.ts'
import { guardAdapter } from './guard.ts'
import type { ChatRequest } from './request.ts'

const { grounding: _search, ...others } = chat
// A refusal would become the conversation: a block is an error.
const { refusalParts: _refusal, ...guard } = guardAdapter

export const summarize: Endpoint<ChatRequest, ChatInput, AnswerChunk> = {
  ...others,
  guard,
  billing: { ...billing, attach: (call) => new WholeSummary(billing.attach(call)) },
}

/** The text of a summary. */
export function summaryIn(chunks: readonly AnswerChunk[]): string {
  const [choice] = collect(chunks).choices
  const summary: unknown = choice?.message.content
  if (choice?.finish_reason === 'stop' && typeof summary === 'string' && summary.trim() !== '') {
    return summary
  }
  throw new UpstreamFailure('upstream_error', 'The model did not write a whole summary.')
}

/** Fails for a summary that is empty or cut, before it is charged. */
class WholeSummary implements ChainStep<AnswerChunk, AnswerChunk> {
  readonly #charging: ChainStep<AnswerChunk, AnswerChunk>
  readonly #chunks: AnswerChunk[] = []

  constructor(charging: ChainStep<AnswerChunk, AnswerChunk>) {
    this.#charging = charging
  }

  push(chunk: AnswerChunk, emit: (chunk: AnswerChunk) => void): void | Promise<void> {
    this.#chunks.push(chunk)
    return this.#charging.push?.(chunk, emit)
  }

  end(emit: (chunk: AnswerChunk) => void): void | Promise<void> {
    summaryIn(this.#chunks)
    return this.#charging.end?.(emit)
  }
}
