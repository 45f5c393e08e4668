/** Writes the parts of an answer as chat chunks: counts calls and blocks of reasoning, separates messages, moves citations. */
import type { ChatChunk, ChatDelta } from '../../src/plugin.ts'
import { toAnnotations } from '../openai-compatible/members.ts'
import { SEPARATOR, type Format } from './replay.ts'

/** Receives a chunk. */
export type Emit = (chunk: ChatChunk) => void

/** What a part of an item is. */
export type PartKind = 'text' | 'refusal' | 'summary' | 'reasoning' | 'arguments' | 'input'

/** A part of an item while it arrives. */
interface Part {
  /** What was emitted, without a separator. */
  written: string
  /** Annotations that were emitted. */
  annotations: number
  /** Where its text begins in the whole text, in code points. */
  start: number
  /** Index of its entry in `reasoning_details`. */
  block: number
}

/** An item of the output while it arrives. */
export class OutputItem {
  readonly type: string
  readonly id: string | null
  /** Index of the call; undefined until it was emitted. */
  call: number | undefined = undefined
  /** The vendor's id of the call. */
  callId: string | undefined = undefined
  /** The vendor has ended it. */
  done = false
  /** It was told as a search. */
  isSearch = false
  readonly #parts = new Map<string, Part>()

  constructor(type: string, id: string | null) {
    this.type = type
    this.id = id
  }

  get isCall(): boolean {
    return this.type === 'function_call' || this.type === 'custom_tool_call'
  }

  /** @param at number of the part among its kind */
  part(kind: PartKind, at: number): Part {
    const key = `${kind} ${at}`
    let part = this.#parts.get(key)
    if (!part) this.#parts.set(key, (part = { written: '', annotations: 0, start: 0, block: 0 }))
    return part
  }
}

/** Writes one answer. */
export class AnswerWriter {
  readonly #format: Format
  /** The message whose text was emitted last. */
  #speaking: OutputItem | undefined
  #points = 0
  #calls = 0
  #blocks = 0
  #hasReasoning = false

  /** @param format marks reasoning of this vendor */
  constructor(format: Format) {
    this.#format = format
  }

  /** Writes a piece of a part. Its call, if it is one of a call, has been opened. */
  write(
    item: OutputItem,
    kind: PartKind,
    at: number,
    text: string,
    emit: Emit,
    logprobs?: unknown,
  ) {
    if (text === '') return
    const part = item.part(kind, at)
    const isFirst = part.written === ''
    part.written += text
    switch (kind) {
      case 'text':
        return this.#say(item, part, isFirst, text, logprobs, emit)
      case 'refusal':
        return emit(toChunk({ refusal: text }))
      case 'summary':
      case 'reasoning':
        return this.#think(item, part, isFirst, kind, text, emit)
      case 'arguments':
        return emit(toChunk({ tool_calls: [{ index: item.call!, function: { arguments: text } }] }))
      case 'input':
        return emit(toChunk({ tool_calls: [{ index: item.call!, custom: { input: text } }] }))
    }
  }

  /** Writes the rest of a part whose whole text is known. */
  complete(
    item: OutputItem,
    kind: PartKind,
    at: number,
    whole: unknown,
    emit: Emit,
    logprobs?: unknown,
  ) {
    if (typeof whole !== 'string') return
    const { written } = item.part(kind, at)
    // A text that differs from what was emitted cannot be continued.
    if (whole.startsWith(written)) {
      this.write(item, kind, at, whole.slice(written.length), emit, logprobs)
    }
  }

  /** Opens a call. */
  call(item: OutputItem, { call_id, id, name }: any, emit: Emit): void {
    const index = this.#calls++
    item.call = index
    const call = { index, id: call_id ?? id }
    emit(
      toChunk({
        tool_calls: [
          item.type === 'custom_tool_call'
            ? { ...call, type: 'custom', custom: { name, input: '' } }
            : { ...call, type: 'function', function: { name, arguments: '' } },
        ],
      }),
    )
  }

  /** Ends a call that was opened. */
  done(item: OutputItem, emit: Emit): void {
    item.done = true
    emit(toChunk({ tool_calls: [{ index: item.call!, done: true }] }))
  }

  /** Writes the encrypted content of reasoning as an entry of its own. */
  encrypted({ id }: OutputItem, data: unknown, emit: Emit): void {
    if (typeof data !== 'string' || data === '') return
    const entry = { id, format: this.#format, index: this.#blocks++ }
    emit(toChunk({ reasoning_details: [{ type: 'reasoning.encrypted', data, ...entry }] }))
  }

  /**
   * Writes citations, with their places in the whole text.
   * @param first number of the first one in its part; by default the next
   */
  annotate(item: OutputItem, at: number, given: readonly any[], emit: Emit, first?: number): void {
    const part = item.part('text', at)
    part.annotations = Math.max(part.annotations, (first ?? part.annotations) + given.length)
    const annotations = toAnnotations(given).map((one: any) => ({
      ...one,
      url_citation: {
        ...one.url_citation,
        start_index: one.url_citation.start_index + part.start,
        end_index: one.url_citation.end_index + part.start,
      },
    }))
    if (annotations.length > 0) emit(toChunk({ annotations }))
  }

  #say(
    item: OutputItem,
    part: Part,
    isFirst: boolean,
    text: string,
    logprobs: unknown,
    emit: Emit,
  ): void {
    const separator = this.#speaking && this.#speaking !== item ? SEPARATOR : ''
    this.#speaking = item
    if (isFirst) part.start = this.#points + separator.length
    this.#points += separator.length + codePointsIn(text)
    const chunk = toChunk({ content: separator + text })
    const tokens = toLogprobs(logprobs)
    if (tokens) chunk.choices[0]!.logprobs = tokens
    emit(chunk)
  }

  #think(
    { id }: OutputItem,
    part: Part,
    isFirst: boolean,
    kind: 'summary' | 'reasoning',
    text: string,
    emit: Emit,
  ): void {
    if (isFirst) part.block = this.#blocks++
    const shown = isFirst && this.#hasReasoning ? SEPARATOR + text : text
    this.#hasReasoning = true
    const entry = { id, format: this.#format, index: part.block }
    const detail =
      kind === 'summary'
        ? ({ type: 'reasoning.summary', summary: shown, ...entry } as const)
        : ({ type: 'reasoning.text', text: shown, ...entry } as const)
    emit(toChunk({ reasoning: shown, reasoning_details: [detail] }))
  }
}

/** A chunk of the only choice. */
export function toChunk(delta: ChatDelta): ChatChunk {
  return { choices: [{ index: 0, delta }] }
}

/** Log probabilities in the form of chat completions. */
function toLogprobs(given: unknown): { content: object[] } | undefined {
  if (!Array.isArray(given) || given.length === 0) return undefined
  const toToken = ({ token = '', logprob = 0, bytes = null }: any) => ({ token, logprob, bytes })
  const listOf = (value: unknown) => (Array.isArray(value) ? value.map(Object) : [])
  const content = listOf(given).map((one: any) => ({
    ...toToken(one),
    top_logprobs: listOf(one.top_logprobs).map(toToken),
  }))
  return { content }
}

/** Second halves of pairs are not counted, so a pair may be cut between two pieces. */
function codePointsIn(text: string): number {
  let points = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0xdc00 || unit > 0xdfff) points++
  }
  return points
}
