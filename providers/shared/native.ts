/** Answers in a vendor's own form: what the vendor sent, beside what it means. */
import type { ChatChunk, Step } from '../../src/plugin.ts'

/**
 * The events of a stream as chunks, each with its event. What is no event goes no further, nor what follows the last one.
 * Events before the first that means anything wait for it: if the vendor fails first, another one can still be asked.
 * @param answer says what they mean; its errors pass
 */
export function withEvents(answer: Step<any, ChatChunk>): Step<any, ChatChunk> {
  let waiting: ChatChunk[] | undefined = []
  return {
    get done() {
      return answer.done === true
    },
    push(event, emit) {
      if (answer.done) return
      const chunks: ChatChunk[] = []
      try {
        answer.push!(event, (chunk) => chunks.push(chunk))
      } catch (error) {
        chunks.forEach(emit)
        throw error
      }
      const meansNothing = chunks.length === 0
      if (typeof event?.type === 'string') {
        const native = { event: event.type as string, data: event }
        chunks.unshift({ ...(chunks.shift() ?? { choices: [] }), native })
        if (meansNothing && waiting) return void waiting.push(...chunks)
      }
      waiting?.forEach(emit)
      waiting = undefined
      chunks.forEach(emit)
    },
    end: (emit) => answer.end!(emit),
    fail: (error) => answer.fail?.(error) ?? error,
  }
}

/** The chunks of a whole answer; the first one has it. @param chunks what it means, as chunks */
export function withWhole(event: string, data: unknown, chunks: readonly ChatChunk[]): ChatChunk[] {
  return [{ choices: [], native: { event, data } }, ...chunks]
}
