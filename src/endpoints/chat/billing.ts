/** What a chat costs: estimated before, counted from its chunks, charged at its end. */
import { GatewayError } from '../../errors/errors.ts'
import type { Billing, Call, Charge, Receipt } from '../../pipeline/pipeline.ts'
import type {
  ChatChunk,
  ChatMessage,
  OpenAIUsage,
  Step,
  ToolCallDelta,
  Usage,
} from '../../plugin.ts'
import { receiptOf, withReceipt } from '../shared/billing.ts'
import { CHARACTERS_PER_TOKEN, promptTokensOf } from './prompt.ts'
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
    const sent = tokensIn(input.messages)
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
      this.#sent = true
      emit(chunk)
    }
  }

  async end(emit: (chunk: BilledChunk) => void): Promise<void> {
    const receipt = await receiptOf(this.#call, this.#charge(), this.#hasOutput)
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

/** Counts the quantities of one answer: as the vendor reports them, else by characters. */
export class UsageCounter {
  /** The last reasoning signature. */
  signature: string | undefined = undefined
  readonly #call: Call
  #reported: OpenAIUsage | undefined = undefined
  #isPartial = false
  #characters = 0

  constructor(call: Call) {
    this.#call = call
  }

  /** @param chunk as the provider sent it */
  read(chunk: ChatChunk): void {
    if (chunk.usage) {
      this.#reported = chunk.usage
      this.#isPartial = chunk.usageIsPartial === true
    }
    const { choices } = chunk
    if (!choices) return
    for (let i = 0; i < choices.length; i++) {
      const { delta } = choices[i]!
      this.#characters += charactersIn(delta)
      if (delta?.reasoning_details) {
        this.signature = lastSignature(delta.reasoning_details) ?? this.signature
      }
    }
    this.#call.grow?.(this.#characters / CHARACTERS_PER_TOKEN)
  }

  usage(): Usage {
    const reported = this.#reported
    const counted = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN)
    if (!reported || (reported.prompt_tokens ?? reported.completion_tokens) == null) {
      const promptTokens = tokensIn(this.#call.outbound.messages)
      return { promptTokens, completionTokens: counted, estimated: true }
    }
    const usage = toUsage(reported)
    if (!this.#isPartial) return usage
    const completionTokens = Math.max(usage.completionTokens ?? 0, counted)
    return { ...usage, completionTokens, estimated: true }
  }
}

function toUsage(reported: OpenAIUsage): Usage {
  const { prompt_tokens_details: input, completion_tokens_details: output } = reported
  const usage: { -readonly [K in keyof Usage]: Usage[K] } = {
    promptTokens: count(reported.prompt_tokens),
    cachedTokens: count(input?.cached_tokens),
    cacheWriteTokens: count(input?.cache_write_tokens),
    audioInputTokens: count(input?.audio_tokens),
    imageInputTokens: count(input?.image_tokens),
    completionTokens: count(reported.completion_tokens),
    reasoningTokens: count(output?.reasoning_tokens),
    acceptedPredictionTokens: count(output?.accepted_prediction_tokens),
    rejectedPredictionTokens: count(output?.rejected_prediction_tokens),
    audioOutputTokens: count(output?.audio_tokens),
    imageOutputTokens: count(output?.image_tokens),
  }
  if (reported.searches !== undefined) usage.searches = count(reported.searches)
  if (reported.vendor_cost) usage.vendorCost = reported.vendor_cost
  return usage
}

/** A vendor's count as a whole number that is not negative. */
function count(value: unknown): number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value) ? Math.ceil(value) : 0
}

function tokensIn(messages: readonly ChatMessage[]): number {
  let characters = 0
  for (const { content } of messages) {
    if (typeof content === 'string') characters += content.length
    else if (content) for (const part of content) characters += part.text?.length ?? 0
  }
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
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
