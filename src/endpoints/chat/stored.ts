/** Answers of chats as values of JSON, which equal requests get again in whatever form they want. */
import { toChunk, collect } from './chunks.ts'
import type { ChatAnswer } from './answer.ts'
import type { AnswerChunk } from './billing.ts'

/** The chunks of an answer. Text that continues the first choice is a text. */
export interface StoredChat {
  /** Whether it came as chunks. */
  readonly streamed: boolean
  readonly head: object
  readonly chunks: readonly unknown[]
}

/** Ends of choices with which an answer is whole and well. */
const WHOLE: ReadonlySet<unknown> = new Set(['stop', 'length', 'tool_calls'])

/** It is undefined for an answer that is not whole and well. */
export function pack(parts: readonly AnswerChunk[], streamed: boolean): StoredChat | undefined {
  const ends = parts.flatMap(({ choices }) => choices.map((one) => one.finish_reason ?? []).flat())
  if (ends.length === 0 || !ends.every((end) => WHOLE.has(end))) return undefined
  const { id: _, created: _created, model: _model, ...head } = parts.at(-1)!.head ?? {}
  return { streamed, head: head as object, chunks: parts.map(packed) }
}

/**
 * The chunks of a stored answer as those of a new one.
 * @param answer the state of the new one, which makes them anew
 * @param stream whether the client gets chunks
 */
export function unpacked(
  answer: ChatAnswer,
  { streamed, head, chunks }: StoredChat,
  stream: boolean,
): readonly AnswerChunk[] {
  const restoredChunks = chunks.map((chunk) => restored(chunk, head))
  if (stream && !streamed) return answer.whole(collect(restoredChunks))
  const parts: AnswerChunk[] = []
  const take = (chunk: AnswerChunk) => void parts.push(chunk)
  for (const chunk of restoredChunks) answer.push(chunk, take)
  answer.push({ ...toChunk({ choices: [] }), endOfStream: true }, take)
  answer.end(take)
  return parts
}

function packed({ head: _head, receipt: _receipt, ...chunk }: AnswerChunk): unknown {
  const [choice, ...others] = chunk.choices
  const { content, ...rest } = choice?.delta ?? {}
  const isText =
    choice?.index === 0 &&
    others.length === 0 &&
    typeof content === 'string' &&
    Object.keys(rest).length === 0 &&
    !choice.finish_reason &&
    !choice.logprobs &&
    Object.keys(chunk).length === 1
  return isText ? content : chunk
}

function restored(chunk: unknown, head: object): AnswerChunk {
  const whole =
    typeof chunk === 'string'
      ? { choices: [{ index: 0, delta: { content: chunk }, logprobs: null, finish_reason: null }] }
      : (chunk as AnswerChunk)
  return { ...head, ...whole }
}
