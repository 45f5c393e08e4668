/** What a chat costs: estimated before, counted from its chunks, charged at its end. */
import { GatewayError } from '../../errors/errors.ts'
import {
  bounds,
  MEDIA_TOKENS,
  readCount,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
} from '../../money/plausible.ts'
import type { Billing, Call, Charge, Receipt } from '../../pipeline/pipeline.ts'
import type { ChatChunk, OpenAIUsage, Step, ToolCallDelta, Usage } from '../../plugin.ts'
import { receiptOf, withReceipt } from '../shared/billing.ts'
import { exchangeResponse } from './exchange.ts'
import {
  CHARACTERS_PER_TOKEN,
  promptTokensOf,
  sentPromptOf,
  type Prompt,
  type SentPrompt,
} from './prompt.ts'
import { Received } from '../shared/received.ts'
import { lastSignature, type ChatRequest } from './request.ts'

/** The output limit of a model of which nothing is known. */
const UNKNOWN_LIMIT = 16_384

/** An answer this many times above its token ceiling has run over for certain, whatever the vendor's tokenizer. */
const CERTAIN_OVERRUN = 1.5
const GRACE_TOKENS = 32

/** The most tokens of one choice that a token ceiling explains. */
export const mostTokens = (ceiling: number): number => ceiling * CERTAIN_OVERRUN + GRACE_TOKENS

/** A chunk of the normal form. The last one of an answer has a receipt. */
export interface BilledChunk extends ChatChunk {
  receipt?: Receipt
}

/** Tokens, estimated before and charged when the answer is complete. */
export const billing: Billing<ChatRequest, BilledChunk> = {
  estimate({ input, bodyBytes = 0 }, { maxOutputTokens, contextLength }) {
    const sent = sentPromptOf(input).tokens
    const promptTokens = promptTokensOf(input, bodyBytes)
    const asked = input.max_completion_tokens ?? input.max_tokens
    const unknown = Math.min(contextLength ?? UNKNOWN_LIMIT, UNKNOWN_LIMIT)
    const known = maxOutputTokens ?? contextLength ?? Infinity
    const limit = Math.min(asked ?? maxOutputTokens ?? unknown, known)
    return {
      least: { promptTokens: sent, cachedTokens: sent },
      expected: { promptTokens },
      most: { promptTokens: 2 * promptTokens },
      output: { limit, choices: input.n ?? 1 },
    }
  },

  attach: (call, charge) => new AttachReceipt(call, charge),
}

/**
 * Retains the finish chunks until the charge is booked, and puts the receipt on the last one. A stream that fails after
 * output is charged for it, and so is an answer that a guard refuses with an error: the receipt is on the error then.
 */
class AttachReceipt implements Step<ChatChunk, BilledChunk> {
  readonly #call: Call
  readonly #charge: Charge
  readonly #finishes: ChatChunk[] = []
  #sent = false

  constructor(call: Call, charge: Charge) {
    this.#call = call
    this.#charge = charge
  }

  push(chunk: ChatChunk, emit: (chunk: BilledChunk) => void): void {
    if (chunk.choices[0]?.finish_reason) {
      this.#finishes.push(chunk)
    } else {
      // What only begins an answer in the vendor's own form says nothing of it yet.
      if (chunk.choices.length > 0) this.#sent = true
      emit(chunk)
    }
  }

  async end(emit: (chunk: BilledChunk) => void): Promise<void> {
    const receipt = await receiptOf(this.#call, this.#charge(), this.#hasOutput)
    if (this.#call.runtime.sinks) this.#call.answered = exchangeResponse(this.#finishes)
    const last = this.#finishes.pop()!
    for (const chunk of this.#finishes) emit(chunk)
    emit({ ...last, receipt })
  }

  async fail(error: unknown): Promise<unknown> {
    const call = this.#call
    if (!GatewayError.is(error) || call.outcome === 'cancelled') return error
    const violated = error.code === 'policy_violation'
    const broken = this.#hasOutput && error.code !== 'guard_unavailable'
    if (!broken && !(violated && call.meter.length > 0)) return error
    const charged = this.#charge(violated ? 'refused' : 'failed', true)
    return withReceipt(error, receiptOf(call, charged, this.#hasOutput))
  }

  /** Whether the client has some of the answer; a whole one goes out after its charge. */
  get #hasOutput(): boolean {
    return this.#sent && this.#call.request.stream
  }
}

/** What went upstream, as far as its tokens are estimated by it. */
export interface SentChat extends Prompt {
  readonly max_completion_tokens?: number
}

/** Counts the quantities of one answer: what the vendor reports, and what passes. */
export class UsageCounter {
  /** The last reasoning signature. */
  signature: string | undefined = undefined
  readonly received = new Received()
  /** All choices have finished, and a usage that counts came with the last of them or later. */
  complete = false
  readonly #call: Call
  /** What went upstream; its texts are not kept. */
  readonly #sent: SentPrompt
  readonly #sentBytes: number
  readonly #maySearch: boolean
  readonly #ceiling: number | undefined
  #reported: OpenAIUsage | undefined = undefined
  #isPartial = false
  /** Indexes of the choices that have a finish reason. */
  readonly #finished = new Set<number>()
  /** The vendor has marked the end: no later report counts. */
  #ended = false
  #characters = 0
  #bytes = 0

  /** @param sent what went upstream, in the form of a chat */
  constructor(call: Call, sent: SentChat = call.outbound) {
    this.#call = call
    this.#sent = sentPromptOf(sent)
    // What goes out as it came may say more than the normal form: results of tools that the vendor ran.
    const { native, request, model } = call
    this.#sentBytes = Math.max(bytesIn(sent), native ? (request.bodyBytes ?? 0) : 0)
    this.#maySearch = 'web_search_options' in sent
    this.#ceiling = sent.max_completion_tokens ?? model.maxOutputTokens
  }

  /** @param chunk as the provider sent it */
  read(chunk: ChatChunk): void {
    if (chunk.usage && !this.#ended) this.#note(chunk.usage, chunk.usageIsPartial === true)
    if (chunk.endOfStream) this.#ended = true
    const { choices } = chunk
    const before = this.#characters
    if (!choices) return this.received.add(0)
    for (let i = 0; i < choices.length; i++) {
      const { index = i, delta, finish_reason } = choices[i]!
      if (finish_reason) this.#finished.add(index)
      const characters = charactersIn(delta)
      this.#characters += characters
      this.#bytes +=
        typeof delta?.content === 'string' ? Buffer.byteLength(delta.content) : characters
      if (delta?.reasoning_details) {
        this.signature = lastSignature(delta.reasoning_details) ?? this.signature
      }
    }
    if (chunk.usage && chunk.usage === this.#reported && !this.#isPartial) {
      this.complete ||= this.#finished.size >= this.#choices
    }
    this.received.add(this.#characters - before || (hasContent(chunk) ? 1 : 0))
    this.#call.grow?.(this.#characters / CHARACTERS_PER_TOKEN)
  }

  usage(): UsageReport {
    const { model, policy } = this.#call
    const n = this.#choices
    const sent = this.#sent
    const reported = this.#reported && toReported(this.#reported)
    const searches = readCount(reported?.searches) ?? 0
    const searched = searches > 0 || this.#maySearch ? SEARCH_TOKENS : 0
    const ceiling = this.#ceiling
    const explained = ceiling === undefined ? 0 : n * mostTokens(ceiling)
    return {
      reported,
      parts: {
        ...(sent.imageTokens > 0 && { imageInputTokens: sent.imageTokens }),
        ...(sent.soundTokens > 0 && { audioInputTokens: sent.soundTokens }),
      },
      incomplete: this.#isPartial,
      capped: policy?.maxOutputTokens !== undefined && Number.isFinite(policy.maxOutputTokens),
      expected: {
        promptTokens: bounds(
          sent.tokens,
          this.#sentBytes + 4096 + sent.media * MEDIA_TOKENS + searched,
          model.contextLength ?? UNKNOWN_CONTEXT,
        ),
        completionTokens: bounds(
          Math.ceil(this.#characters / CHARACTERS_PER_TOKEN),
          Math.max(explained, this.#bytes + 1024 * n),
          n * (model.maxOutputTokens ?? UNKNOWN_OUTPUT),
        ),
        searches: { estimate: 0, soft: 10, hard: 1000, needed: false },
      },
    }
  }

  /** How many choices were asked for. */
  get #choices(): number {
    return (this.#call.request.input as ChatRequest).n ?? 1
  }

  /** The last report counts that is complete, can be read, and is not all zero. */
  #note(usage: OpenAIUsage, isPartial: boolean): void {
    const known = this.#reported
    if (known && isPartial && !this.#isPartial) return
    if (known && readableCounts(usage) < readableCounts(known)) return
    this.#reported = usage
    this.#isPartial = isPartial
    if (isPartial) this.#call.promptUsage = promptUsageOf(usage)
  }
}

/** Tokens of results that a vendor's own web search explains. */
const SEARCH_TOKENS = 250_000

/** UTF-8 bytes of all names and texts of a value, and eight for anything else. */
function bytesIn(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 8
  let bytes = 0
  if (Array.isArray(value)) for (const item of value) bytes += bytesIn(item)
  else
    for (const name in value)
      bytes += name.length + bytesIn((value as Record<string, unknown>)[name])
  return bytes
}

/** How many of the totals can be read; none of a report without any. */
function readableCounts({ prompt_tokens, completion_tokens }: OpenAIUsage): number {
  const counts = [readCount(prompt_tokens), readCount(completion_tokens)]
  const readable = counts.filter((count) => count !== undefined)
  return readable.some((count) => count > 0) ? readable.length : 0
}

/** Counts of the prompt that can be read. */
function promptUsageOf({ prompt_tokens, prompt_tokens_details: details }: OpenAIUsage): Usage {
  return {
    promptTokens: readCount(prompt_tokens) ?? 0,
    cachedTokens: readCount(details?.cached_tokens) ?? 0,
    cacheWriteTokens: readCount(details?.cache_write_tokens) ?? 0,
    cacheWrite1hTokens: readCount(details?.cache_write_1h_tokens) ?? 0,
  }
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

/** Whether a chunk without text is more than a keep-alive. */
function hasContent({ choices, usage, endOfStream }: ChatChunk): boolean {
  if (usage || endOfStream) return true
  return choices.some(({ delta, finish_reason }) => {
    for (const name in delta) if (name !== 'role' && delta[name]) return true
    return Boolean(finish_reason)
  })
}

/** Characters of text, refusal, reasoning and tool arguments. */
export function charactersIn(delta: ChatChunk['choices'][number]['delta']): number {
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
