/** The token ceiling of a policy, where the vendor does not keep to it. */
import type { ChatChunk, ChatDelta, Step } from '../../plugin.ts'
import { charactersIn, mostTokens } from './billing.ts'
import { CHARACTERS_PER_TOKEN } from './prompt.ts'

interface Choice {
  characters: number
  /** It has run over: nothing more of it passes. */
  over: boolean
  /** Its finish has passed; a guard may refuse one choice before the others end. */
  ended: boolean
}

/**
 * Cuts an answer that runs past its ceiling although the upstream knew it: the client gets what fits. With the batch in which
 * one choice ran over, every choice ends, with the finish `length` unless it has its own, and the upstream is closed. A
 * whole answer is one batch, so each of its choices is cut alone.
 */
export class OutputLimit implements Step<ChatChunk, ChatChunk> {
  done = false
  /** Characters of each choice. */
  readonly #limit: number
  readonly #expected: number
  readonly #choices: Choice[] = []
  /** The chunk that ran over, for the common members of those that end the answer. */
  #over: ChatChunk | undefined

  /** @param expected number of choices that the client asked for */
  constructor(maxOutputTokens: number, expected: number) {
    this.#limit = mostTokens(maxOutputTokens) * CHARACTERS_PER_TOKEN
    this.#expected = expected
  }

  push(chunk: ChatChunk, emit: (chunk: ChatChunk) => void): void {
    const [said] = chunk.choices
    // An event of a vendor that says nothing.
    if (!said) return this.#over ? undefined : emit(chunk)
    const { index = 0, delta, finish_reason } = said
    const choice = (this.#choices[index] ??= { characters: 0, over: false, ended: false })
    if (finish_reason) {
      choice.ended = true
      return emit(choice.over ? finish(chunk, index) : chunk)
    }
    if (choice.over) return
    const room = this.#limit - choice.characters
    const characters = charactersIn(delta)
    choice.characters += characters
    if (characters <= room) return emit(chunk)
    choice.over = true
    this.#over = chunk
    // What a vendor sent goes out whole or not at all.
    if (room <= 0 || chunk.native) return
    const kept = { index, delta: cut(delta!, room), logprobs: null, finish_reason: null }
    emit({ ...chunk, choices: [kept] })
  }

  batchEnd(emit: (chunk: ChatChunk) => void): void {
    const over = this.#over
    if (!over || this.done) return
    this.done = true
    const count = Math.max(this.#expected, this.#choices.length)
    for (let index = this.#choices.length; index < count; index++) {
      // As the first chunk of every choice.
      const delta = { role: 'assistant', content: '', refusal: null }
      emit({ ...over, choices: [{ index, delta, logprobs: null, finish_reason: null }] })
    }
    for (let index = 0; index < count; index++) {
      if (!this.#choices[index]?.ended) emit(finish(over, index))
    }
  }
}

function finish({ native: _native, ...chunk }: ChatChunk, index: number): ChatChunk {
  return { ...chunk, choices: [{ index, delta: {}, logprobs: null, finish_reason: 'length' }] }
}

/** What fits of a delta, in the order in which {@link charactersIn} counts. */
function cut(delta: ChatDelta, room: number): ChatDelta {
  const { content, refusal, reasoning, reasoning_details: details, tool_calls: calls } = delta
  let left = room
  const take = <Text extends string | null | undefined>(text: Text): Text | string => {
    if (!text) return text
    const kept = wholeCharacters(text, left)
    left -= kept.length
    return kept
  }
  const result: ChatDelta = { ...delta }
  if (reasoning && details) {
    // They repeat the text of `reasoning`.
    let own = room
    result.reasoning_details = details.map((detail) => {
      const text = detail.text ?? detail.summary ?? ''
      const kept = wholeCharacters(text, own)
      own -= kept.length
      if (kept.length === text.length) return detail
      return detail.text ? { ...detail, text: kept } : { ...detail, summary: kept }
    })
  }
  if (reasoning) result.reasoning = take(reasoning)
  if (content) result.content = take(content)
  if (refusal) result.refusal = take(refusal)
  if (calls) {
    result.tool_calls = calls.map((call) => {
      const { function: called, custom } = call
      if (called) return { ...call, function: { ...called, arguments: take(called.arguments) } }
      return custom ? { ...call, custom: { ...custom, input: take(custom.input) } } : call
    })
  }
  const legacy = delta.function_call as { arguments?: string } | null | undefined
  if (legacy) result.function_call = { ...legacy, arguments: take(legacy.arguments) }
  return result
}

/** The beginning of a text, without half of a surrogate pair at its end. */
function wholeCharacters(text: string, length: number): string {
  const kept = text.slice(0, length)
  const last = kept.charCodeAt(kept.length - 1)
  const isHalf = kept.length < text.length && last >= 0xd800 && last <= 0xdbff
  return isHalf ? kept.slice(0, -1) : kept
}
