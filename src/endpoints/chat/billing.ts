/** What a chat costs: estimated before, counted from its chunks, charged at its end. */
import {
  bounds,
  eighthsOf,
  type Hidden,
  MEDIA_TOKENS,
  readCount,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
} from '../../money/plausible.ts'
import { lacks } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import type { Billing, Call, Receipt } from '../../pipeline/pipeline.ts'
import type { ChainStep } from '../../stream/chain.ts'
import type {
  ChatChunk,
  ChatDelta,
  ChatInput,
  ChatMessage,
  OpenAIUsage,
  ReasoningDetail,
  ToolCallDelta,
} from '../../plugin.ts'
import type { ChatRequest } from './request.ts'
import { bytesIn, conversationOf, jsonEighths, type Conversation } from './conversation.ts'
import type { ExchangeResponse } from '../../observe/record.ts'

// The token estimates of a prompt: before it is sent, and of what was sent where the vendor does not count it.

/** Good enough for what is held, and for bounds. What is charged is counted by its script. */
export const CHARACTERS_PER_TOKEN = 4

/**
 * Tokens of a prompt, at least 1. The whole body counts, so that tools, schemas, calls and their results do; media in it
 * count by their kind and size.
 * @param bodyBytes size of the request's JSON text
 */
export function promptTokensOf({ messages }: ChatRequest, bodyBytes: number): number {
  const { media } = conversationOf(messages)
  const textBytes = Math.max(0, bodyBytes - media.inlineBytes)
  return Math.max(1, Math.ceil(textBytes / CHARACTERS_PER_TOKEN)) + tokensOf(media)
}

interface Prompt {
  readonly messages: readonly ChatMessage[]
  readonly tools?: unknown
  readonly functions?: unknown
  readonly response_format?: unknown
}

interface SentPrompt {
  readonly tokens: number
  readonly imageTokens: number
  readonly soundTokens: number
  readonly media: number
}

/** Tokens of a prompt as it was sent: texts, calls, tools and schemas by their script, media by their kind and size. */
function sentPromptOf({ messages, tools, functions, response_format }: Prompt): SentPrompt {
  const { media, eighths: texts } = conversationOf(messages)
  const others = jsonEighths(tools) + jsonEighths(functions) + jsonEighths(response_format)
  const words = Math.max(1, Math.ceil((texts + others) / 8))
  const { imageTokens, soundTokens, parts } = media
  return { tokens: words + tokensOf(media), imageTokens, soundTokens, media: parts }
}

function tokensOf({ imageTokens, soundTokens, fileTokens }: Conversation['media']): number {
  return imageTokens + soundTokens + fileTokens
}

/** See {@link bytesIn}. */
function sentBytesOf(sent: Prompt): number {
  let bytes = conversationOf(sent.messages).bytes
  for (const name in sent) {
    bytes += name.length
    if (name !== 'messages') bytes += bytesIn(sent[name as keyof Prompt])
  }
  return bytes
}

// What logs and traces record of a chat: numbers, and words of a fixed list.

const MOST_CHOICES = 8
/** Names are made up by vendors: longer ones, and those with other characters, are left out. */
const NAME = /^[\w.:/@-]{1,100}$/

/** @param finishes chunks of the answer with a finish reason */
function exchangeResponse(finishes: readonly AnswerChunk[]): ExchangeResponse {
  const [first] = finishes
  // In the vendor's own form it is on the chunk.
  const head = first?.head ?? first
  return {
    id: nameIn(head?.id),
    model: nameIn(head?.model),
    finish_reasons: finishes
      .slice(0, MOST_CHOICES)
      .map(({ choices }) => nameIn(choices[0]?.finish_reason) ?? 'other'),
  }
}

function nameIn(value: unknown): string | undefined {
  return typeof value === 'string' && NAME.test(value) ? value : undefined
}

const UNKNOWN_LIMIT = 16_384

/** An answer this many times above its token ceiling has run over for certain, whatever the vendor's tokenizer. */
const CERTAIN_OVERRUN = 1.5
const GRACE_TOKENS = 32

const mostTokens = (ceiling: number): number => ceiling * CERTAIN_OVERRUN + GRACE_TOKENS

/** What all chunks of an answer share. Made anew when the vendor changes it. */
export interface AnswerHead {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  /** Catalog id. */
  readonly model: string
  readonly system_fingerprint?: string
  readonly service_tier?: string
}

/** A chunk of the normal form. The last one of an answer has a receipt. */
export interface AnswerChunk extends ChatChunk {
  /** It is absent where a vendor speaks the client's own form. */
  head?: AnswerHead
  receipt?: Receipt
}

/** Tokens, estimated before and charged when the answer is complete. */
export const billing: Billing<ChatRequest, AnswerChunk> = {
  estimate({ input, bodyBytes = 0 }, { maxOutputTokens, contextLength }) {
    const sent = sentPromptOf(input).tokens
    const promptTokens = promptTokensOf(input, bodyBytes)
    const requested = input.max_completion_tokens ?? input.max_tokens
    const unknown = Math.min(contextLength ?? UNKNOWN_LIMIT, UNKNOWN_LIMIT)
    const bound = maxOutputTokens ?? contextLength ?? Infinity
    const limit = Math.min(requested ?? maxOutputTokens ?? unknown, bound)
    return {
      least: { promptTokens: sent },
      expected: { promptTokens },
      most: { promptTokens: 2 * promptTokens },
      output: { limit, choices: input.n ?? 1 },
    }
  },

  hidden: hiddenOf,
  attach: (call) => new AttachReceipt(call),
}

/** Whether the model may write tokens that do not pass: those of reasoning. */
function hiddenOf({ target: { model, outbound } }: Call): Hidden | undefined {
  if (lacks(model, 'REASONING')) return undefined
  const { reasoning } = outbound as ChatInput
  if (!reasoning) return 'unasked'
  return reasoning.enabled === false || reasoning.effort === 'none' ? 'refused' : 'asked'
}

/** Retains the finish chunks until the parts run out, and puts the receipt on the last one. */
class AttachReceipt implements ChainStep<AnswerChunk, AnswerChunk> {
  readonly #call: Call
  readonly #finishes: AnswerChunk[] = []

  constructor(call: Call) {
    this.#call = call
  }

  push(chunk: AnswerChunk, emit: (chunk: AnswerChunk) => void): void {
    if (chunk.choices[0]?.finish_reason) {
      this.#finishes.push(chunk)
    } else {
      // What only begins an answer in the vendor's own form says nothing of it yet.
      if (chunk.choices.length > 0) this.#call.answer.produced = true
      emit(chunk)
    }
  }

  end(emit: (chunk: AnswerChunk) => void): void {
    const call = this.#call
    const receipt = call.charge!.price()!
    if (call.runtime.sinks) call.answer.exchange = exchangeResponse(this.#finishes)
    const last = this.#finishes.pop()!
    for (const chunk of this.#finishes) emit(chunk)
    emit({ ...last, receipt })
  }
}

export interface SentChat extends Prompt {
  readonly max_completion_tokens?: number
}

/** What an answer is compared with: figures of its request, whose texts need not be there any more. */
export interface AskedChat {
  readonly prompt: SentPrompt
  readonly promptBytes: number
  readonly maySearch: boolean
  readonly ceiling: number | undefined
  readonly choices: number
  readonly capped: boolean
  readonly hidden: Hidden | undefined
  readonly model: Pick<Model, 'contextLength' | 'maxOutputTokens'>
}

/** @param sent what went upstream, in the form of a chat */
export function askedIn(call: Call, sent: SentChat): AskedChat {
  const { request, target } = call
  const { native, model, policy } = target
  const { maxOutputTokens } = policy
  return {
    prompt: sentPromptOf(sent),
    // What goes out as it came may say more than the normal form: results of tools that the vendor ran.
    promptBytes: Math.max(sentBytesOf(sent), native ? (request.bodyBytes ?? 0) : 0),
    maySearch: 'web_search_options' in sent,
    ceiling: sent.max_completion_tokens ?? model.maxOutputTokens,
    choices: (request.input as ChatRequest).n ?? 1,
    capped: maxOutputTokens !== undefined && Number.isFinite(maxOutputTokens),
    hidden: hiddenOf(call),
    model,
  }
}

/** The usage of an answer: what its vendor has reported, beside what its request and its text explain. */
export class ChatUsage {
  readonly #request: AskedChat
  reported: OpenAIUsage | undefined = undefined
  isPartial = false
  isRunning = false
  characters = 0
  bytes = 0
  /** Searches of the vendor that have begun. */
  searches = 0
  /** UTF-8 bytes of search results that the vendor has read since its last report. */
  resultBytes = 0
  /** Whether a text of reasoning has passed. */
  #reasoned = false
  /** Whether reasoning is not, or not only, shown as it was written: as a summary, or encrypted. */
  #condensed = false

  constructor(request: AskedChat) {
    this.#request = request
  }

  /** The last report counts that is complete, can be read, and is not all zero. @returns whether this one counts */
  note(usage: OpenAIUsage, isPartial: boolean): boolean {
    const previous = this.reported
    if (previous && isPartial && !this.isPartial) return false
    if (previous && readableCounts(usage) < readableCounts(previous)) return false
    this.reported = usage
    this.isPartial = isPartial
    this.resultBytes = 0
    return true
  }

  /** Counts the texts of a delta. */
  add(delta: ChatDelta): void {
    const { content, refusal, reasoning, reasoning_details, tool_calls, function_call } = delta
    this.#add(content)
    this.#add(reasoning)
    this.#add(refusal)
    if (reasoning) this.#reasoned = true
    if (reasoning_details) this.#condensed ||= reasoning_details.some(isCondensed)
    if (tool_calls) for (const call of tool_calls) this.#add(argumentsOf(call))
    if (function_call) this.#add((function_call as ToolCallDelta['function'])?.arguments)
  }

  #add(text: unknown): void {
    if (typeof text !== 'string') return
    this.characters += text.length
    this.bytes += Buffer.byteLength(text)
  }

  report(): UsageReport {
    const { prompt, promptBytes, maySearch, ceiling, choices: n, capped, model } = this.#request
    const reported = this.reported && toReported(this.reported)
    const searches = Math.max(readCount(reported?.searches) ?? 0, this.searches)
    const searched = searches > 0 || maySearch ? SEARCH_TOKENS : 0
    const hidden = this.#reasoned && !this.#condensed ? undefined : this.#request.hidden
    // A complete report counts the searches itself: some fail, and are free.
    const begun = this.searches > 0 && (!reported || this.isPartial || this.isRunning)
    const promptTokens = bounds(
      prompt.tokens,
      promptBytes + 4096 + prompt.media * MEDIA_TOKENS + searched,
      model.contextLength ?? UNKNOWN_CONTEXT,
    )
    // Where the vendor has counted the prompt before the end, only what it has read since then is added.
    const counted = (this.isPartial && readCount(reported?.promptTokens)) || 0
    const read = counted > 0 && counted <= promptTokens.hard ? counted : prompt.tokens
    const explained = ceiling === undefined ? 0 : n * mostTokens(ceiling)
    return {
      reported,
      parts: {
        ...(prompt.imageTokens > 0 && { imageInputTokens: prompt.imageTokens }),
        ...(prompt.soundTokens > 0 && { audioInputTokens: prompt.soundTokens }),
      },
      incomplete: this.isPartial,
      isRunning: this.isRunning,
      ...(hidden && { hidden }),
      capped,
      expected: {
        promptTokens: {
          ...promptTokens,
          estimate: read + Math.ceil(this.resultBytes / BYTES_PER_RESULT_TOKEN),
        },
        completionTokens: bounds(
          Math.ceil(eighthsOf(this.bytes, this.characters) / 8),
          Math.max(explained, this.bytes + 1024 * n),
          n * (model.maxOutputTokens ?? UNKNOWN_OUTPUT),
        ),
        searches: { estimate: this.searches, soft: 10, hard: 1000, needed: begun },
      },
    }
  }
}

const SEARCH_TOKENS = 250_000
const BYTES_PER_RESULT_TOKEN = 4

/** Formats of reasoning that is shown as it was written. Other formats are of vendors that show a summary of it. */
const isCondensed = ({ type, format }: ReasoningDetail): boolean =>
  type !== 'reasoning.text' || (format !== undefined && format !== null && format !== 'unknown')

function argumentsOf(call: ToolCallDelta): unknown {
  return call.function?.arguments ?? call.custom?.input
}

function readableCounts({ prompt_tokens, completion_tokens }: OpenAIUsage): number {
  const counts = [readCount(prompt_tokens), readCount(completion_tokens)]
  const readable = counts.filter((count) => count !== undefined)
  return readable.some((count) => count > 0) ? readable.length : 0
}

function toReported(reported: OpenAIUsage): Readonly<Record<string, unknown>> {
  const { prompt_tokens_details: input, completion_tokens_details: output } = reported
  return {
    promptTokens: reported.prompt_tokens,
    cachedTokens: input?.cached_tokens,
    cachedAudioTokens: input?.cached_audio_tokens,
    cachedImageTokens: input?.cached_image_tokens,
    cacheWriteTokens: input?.cache_write_tokens,
    cacheWrite1hTokens: input?.cache_write_1h_tokens,
    audioInputTokens: input?.audio_tokens,
    imageInputTokens: input?.image_tokens,
    completionTokens: reported.completion_tokens,
    reasoningTokens: output?.reasoning_tokens,
    acceptedPredictionTokens: output?.accepted_prediction_tokens,
    rejectedPredictionTokens: output?.rejected_prediction_tokens,
    audioOutputTokens: output?.audio_tokens,
    imageOutputTokens: output?.image_tokens,
    searches: reported.searches,
    vendorCost: reported.vendor_cost,
  }
}

/** Characters of text, refusal, reasoning and tool arguments. */
function charactersIn(delta: ChatChunk['choices'][number]['delta']): number {
  if (!delta) return 0
  const { content, refusal, reasoning, tool_calls, function_call } = delta
  let characters = (content?.length ?? 0) + (reasoning?.length ?? 0) + (refusal?.length ?? 0)
  if (tool_calls) {
    for (const call of tool_calls) {
      characters += call.function?.arguments?.length ?? call.custom?.input?.length ?? 0
    }
  }
  if (function_call) {
    characters += (function_call as ToolCallDelta['function'])?.arguments?.length ?? 0
  }
  return characters
}

// The token ceiling of a policy, where the vendor does not keep to it.

interface Choice {
  characters: number
  over: boolean
  /** Whether its finish has passed; a guard may refuse one choice before the others end. */
  ended: boolean
}

/**
 * Cuts an answer that runs past its ceiling although the upstream knew it: the client gets what fits. With the batch in which
 * one choice ran over, every choice ends, with the finish `length` unless it has its own, and the upstream is closed. A
 * whole answer is one batch, so each of its choices is cut alone.
 */
export class OutputLimit implements ChainStep<AnswerChunk, AnswerChunk> {
  done = false
  readonly #limit: number
  readonly #expected: number
  readonly #choices: Choice[] = []
  /** The chunk that ran over, for the common members of those that end the answer. */
  #over: AnswerChunk | undefined

  /** @param expected number of choices that the client asked for */
  constructor(maxOutputTokens: number, expected: number) {
    this.#limit = mostTokens(maxOutputTokens) * CHARACTERS_PER_TOKEN
    this.#expected = expected
  }

  push(chunk: AnswerChunk, emit: (chunk: AnswerChunk) => void): void {
    const [entry] = chunk.choices
    // An event of a vendor that says nothing.
    if (!entry) return this.#over ? undefined : emit(chunk)
    const { index = 0, delta, finish_reason } = entry
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

  batchEnd(emit: (chunk: AnswerChunk) => void): void {
    const over = this.#over
    if (!over || this.done) return
    this.done = true
    const count = Math.max(this.#expected, this.#choices.length)
    for (let index = this.#choices.length; index < count; index++) {
      // The first chunk of every choice begins so.
      const delta = { role: 'assistant', content: '', refusal: null }
      emit({ ...over, choices: [{ index, delta, logprobs: null, finish_reason: null }] })
    }
    for (let index = 0; index < count; index++) {
      if (!this.#choices[index]?.ended) emit(finish(over, index))
    }
  }
}

function finish({ native: _native, ...chunk }: AnswerChunk, index: number): AnswerChunk {
  return { ...chunk, choices: [{ index, delta: {}, logprobs: null, finish_reason: 'length' }] }
}

/** The part of a delta that fits, in the order in which {@link charactersIn} counts. */
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

function wholeCharacters(text: string, length: number): string {
  const kept = text.slice(0, length)
  const last = kept.charCodeAt(kept.length - 1)
  const isHalf = kept.length < text.length && last >= 0xd800 && last <= 0xdbff
  return isHalf ? kept.slice(0, -1) : kept
}
