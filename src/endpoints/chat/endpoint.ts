/** `POST /v1/chat/completions`: all of its wire knowledge (wire contract, 5.4). */
import { GatewayError, InvalidRequest } from '../../errors/errors.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import { randomId } from '../../state/ids.ts'
import { RawJson } from '../../stream/raw-json.ts'
import { costJson, formatPico, type Bill, type UsageLine } from '../../money/money.ts'
import type { Call, Charge, Endpoint } from '../../pipeline/pipeline.ts'
import type {
  ChatInput,
  ChatChunk,
  ChatCompletion,
  ChatMessage,
  OpenAIUsage,
  Step,
  Usage,
} from '../../plugin.ts'
import { writeEvents, writeJson } from '../shared/write.ts'
import { readRawJson } from '../shared/body.ts'
import { signatureIn, lastSignature } from './affinity.ts'
import { ChatEvents } from './events.ts'
import {
  requiredCapabilities,
  outboundChat,
  readChatRequest,
  usesLegacyFunctions,
  wantsUsageChunk,
  type ChatRequest,
} from './request.ts'
import { grounding } from './grounding.ts'
import { guarding } from './guard.ts'
import { CompletionBuilder, toChunk } from './chunks.ts'
import { normalizeChunks, normalizeCompletion, type Envelope } from './normalize.ts'

const CHARACTERS_PER_TOKEN = 4
/** Beyond this many times its ceiling an answer has run over for certain, however the vendor cuts tokens. */
const CERTAIN_OVERRUN = 1.5
const GRACE_TOKENS = 32

export const chat: Endpoint<ChatRequest, ChatChunk> = {
  operation: 'chat',
  path: '/v1/chat/completions',
  modality: 'chat',

  async read(incoming, limits) {
    const body = await readRawJson(incoming, limits.chat)
    const request = readChatRequest(body.value)
    body.record('messages')
    return request
  },
  rawJson: (input) => RawJson.of(input.messages),
  modelOf: (input) => input.model,
  sessionOf: (input) => input.session_id,
  bondOf: (input) => signatureIn(input.messages),
  policyOf: (input) => input.policy,
  streams: (input) => input.stream === true,
  grounding,
  guard: guarding,

  check(input, model) {
    const needs = requiredCapabilities(input)
    for (const [need, capability] of NEEDS) {
      const param = need === 'choices' ? (needs.choices > 1 ? 'n' : undefined) : needs[need]
      if (param === undefined || model.capabilities.has(capability)) continue
      throw new InvalidRequest(
        'unsupported_parameter',
        `${model.id} cannot honour ${param}: it lacks the capability ${capability}.`,
        { param },
      )
    }
  },

  estimate(input, model) {
    const promptTokens = tokensIn(input.messages)
    const asked = input.max_completion_tokens ?? input.max_tokens ?? model.maxOutputTokens ?? 0
    const most = Math.min(asked, model.maxOutputTokens ?? model.contextLength ?? asked)
    return {
      least: { promptTokens, cachedTokens: promptTokens },
      most: { promptTokens, completionTokens: most * (input.n ?? 1) },
    }
  },

  toUpstream(input, model) {
    const outbound = outboundChat(input)
    // A model that cannot stream answers whole; the client still gets its stream.
    return input.stream && !model.capabilities.has('STREAMING')
      ? { ...outbound, stream: false }
      : outbound
  },

  instruct(outbound: ChatInput, { system, maxOutputTokens }) {
    const messages: readonly ChatMessage[] = system
      ? [{ role: 'system', content: system }, ...outbound.messages]
      : outbound.messages
    if (maxOutputTokens === undefined) return { ...outbound, messages }
    const lower = (asked: number | undefined) => Math.min(asked ?? maxOutputTokens, maxOutputTokens)
    const { reasoning } = outbound
    return {
      ...outbound,
      messages,
      max_completion_tokens: lower(outbound.max_completion_tokens),
      ...(reasoning?.max_tokens === undefined
        ? {}
        : { reasoning: { ...reasoning, max_tokens: lower(reasoning.max_tokens) } }),
    }
  },

  limit: (maxOutputTokens) => new OutputLimit(maxOutputTokens),

  normalize(call, answer: ChatCompletion | AsyncIterable<ChatChunk>) {
    const meter = new UsageCounter(call)
    const envelope = envelopeOf(call)
    const read = (chunk: ChatChunk) => meter.read(chunk)
    const usage = () => meter.usage()
    const bond = call.model.deployments.length > 1 ? () => meter.bond : undefined
    if (Symbol.asyncIterator in answer) {
      return {
        parts: toFlow(answer).through(normalizeChunks(envelope, read)),
        usage,
        affinityToken: bond,
      }
    }
    const whole = toChunk(answer)
    if (call.input.stream) {
      return {
        parts: flowOf(whole).through(normalizeChunks(envelope, read)),
        usage,
        affinityToken: bond,
      }
    }
    read(whole)
    return { parts: [normalizeCompletion(whole, envelope)], usage, affinityToken: bond }
  },

  billed: (call, charge) => new AttachReceipt(call, charge),

  async write(call, reply, out) {
    if (call.input.stream) return writeEvents(call, reply, out, new ChatEvents())
    const whole = new CompletionBuilder()
    for (let last = false; !last;) {
      const batch = await reply.parts.next()
      for (const chunk of batch.parts) whole.add(chunk)
      last = batch.last
    }
    const completion = whole.completion()
    const sending = writeJson(call, out, JSON.stringify(completion))
    if (sending) await sending
  },
}

/** What an input may need of a model, and the capability that says the model has it (wire contract, D31). */
const NEEDS = [
  ['tools', 'TOOLS'],
  ['structuredOutputs', 'STRUCTURED_OUTPUTS'],
  ['images', 'VISION'],
  ['audio', 'AUDIO_INPUT'],
  ['files', 'FILE_INPUT'],
  ['choices', 'CHOICES'],
  ['logprobs', 'LOGPROBS'],
] as const

function envelopeOf({ input, model, startedAt }: Call): Envelope {
  const request: ChatRequest = input
  return {
    id: randomId('chatcmpl-'),
    created: Math.floor(startedAt / 1000),
    model: model.id,
    usageChunk: wantsUsageChunk(request),
    logprobs: request.logprobs === true,
    legacyFunctions: usesLegacyFunctions(request),
    reasoning: request.reasoning?.exclude !== true && request.include_reasoning !== false,
    newCallId: () => randomId('call_'),
  }
}

/**
 * Holds the finish chunks back until the charge is booked, then puts usage, cost and what guards decided on the last one,
 * or on a chunk of its own for clients that asked for one (S9). A stream that fails after output is charged for it, and so
 * is an answer that guards refuse with an error; both say so (D53).
 */
class AttachReceipt implements Step<ChatChunk, ChatChunk> {
  readonly #call: Call
  readonly #charge: Charge
  readonly #finishes: ChatChunk[] = []
  #sent = false

  constructor(call: Call, charge: Charge) {
    this.#call = call
    this.#charge = charge
  }

  push(chunk: ChatChunk, emit: (chunk: ChatChunk) => void): void {
    if (chunk.choices[0]?.finish_reason) {
      this.#finishes.push(chunk)
    } else {
      this.#sent = true
      emit(chunk)
    }
  }

  end(emit: (chunk: ChatChunk) => void): Promise<void> {
    return this.#charge().then((bill) => this.#finish(bill, emit))
  }

  #finish(bill: Bill, emit: (chunk: ChatChunk) => void): void {
    const usage = usageOf(this.#call)
    const { cost, cost_details } = costJson(bill)
    usage.cost = cost
    usage.cost_details = cost_details
    const finishes = this.#finishes
    const last = finishes.at(-1)!
    const apart = wantsUsageChunk(this.#call.input)
    const guard = this.#call.decision?.report()
    if (!apart) {
      last.usage = usage
      if (guard) last.guard = guard
    }
    for (const chunk of finishes) emit(chunk)
    if (apart) emit({ ...last, choices: [], usage, ...(guard && { guard }) })
  }

  async fail(error: unknown): Promise<unknown> {
    const call = this.#call
    if (!GatewayError.is(error) || call.outcome === 'cancelled') return error
    const violated = error.code === 'policy_violation'
    const broken = this.#sent && call.input.stream && error.code !== 'guard_unavailable'
    if (!broken && !(violated && call.meter.length > 0)) return error
    const bill = await this.#charge(violated ? 'refused' : 'failed', true)
    error.charged = { bill, usage: usageOf(call) }
    if (violated) call.headers['x-service-cost'] = formatPico(bill.cost)
    return error
  }
}

/** The quantities of a call in the form of OpenAI's chat usage (wire contract, 5.4.5). */
function usageOf(call: Call): Record<string, unknown> {
  const { model, search } = linesOf(call)
  const usage = model?.usage ?? {}
  const prompt_tokens = usage.promptTokens ?? 0
  const completion_tokens = usage.completionTokens ?? 0
  const json = {
    prompt_tokens,
    completion_tokens,
    total_tokens: prompt_tokens + completion_tokens,
    prompt_tokens_details: {
      cached_tokens: usage.cachedTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
      audio_tokens: usage.audioInputTokens ?? 0,
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoningTokens ?? 0,
      audio_tokens: usage.audioOutputTokens ?? 0,
      accepted_prediction_tokens: usage.acceptedPredictionTokens ?? 0,
      rejected_prediction_tokens: usage.rejectedPredictionTokens ?? 0,
    },
  }
  // How often the web was searched, where it was: by the gateway, else by the vendor. The member holds 0 or 1; a vendor
  // that searched more, or besides, shows in the cost.
  const { searches } = search?.usage ?? usage
  if (searches === undefined || searches > 1) return json
  return { ...json, server_tool_use_details: { web_search_requests: searches } }
}

/** The first line of each. */
function linesOf({ meter }: Call): { model?: UsageLine; search?: UsageLine } {
  const lines: { model?: UsageLine; search?: UsageLine } = {}
  for (let i = 0; i < meter.length; i++) {
    const line = meter[i]!
    if (line.source !== 'guard') lines[line.source] ??= line
  }
  return lines
}

/** Ends an answer that runs past its ceiling although the upstream was told: reason `length`, upstream closed. */
class OutputLimit implements Step<ChatChunk, ChatChunk> {
  done = false
  readonly #limit: number
  /** Characters of each choice. */
  readonly #said: number[] = []
  /** Choices that have ended: guards may refuse one before the others end. */
  readonly #ended = new Set<number>()

  constructor(maxOutputTokens: number) {
    this.#limit = (maxOutputTokens * CERTAIN_OVERRUN + GRACE_TOKENS) * CHARACTERS_PER_TOKEN
  }

  push(chunk: ChatChunk, emit: (chunk: ChatChunk) => void): void {
    const choice = chunk.choices[0]!
    const said = this.#said
    const total = (said[choice.index!] ?? 0) + charactersIn(choice.delta)
    said[choice.index!] = total
    if (choice.finish_reason) this.#ended.add(choice.index!)
    if (total <= this.#limit) return emit(chunk)
    this.done = true
    for (let index = 0; index < said.length; index++) {
      if (this.#ended.has(index)) continue
      emit({ ...chunk, choices: [{ index, delta: {}, logprobs: null, finish_reason: 'length' }] })
    }
  }
}

/** Reads the quantities of one answer: what the vendor reported, else characters. */
class UsageCounter {
  /** The last signature of a thought. */
  bond: string | undefined = undefined
  readonly #call: Call
  #reported: OpenAIUsage | undefined = undefined
  /** The vendor has not said its last word on that. */
  #interim = false
  #characters = 0

  constructor(call: Call) {
    this.#call = call
  }

  read(chunk: ChatChunk): void {
    if (chunk.usage) {
      this.#reported = chunk.usage
      this.#interim = chunk.usageIsPartial === true
    }
    const { choices } = chunk
    if (!choices) return
    for (let i = 0; i < choices.length; i++) {
      const { delta } = choices[i]!
      this.#characters += charactersIn(delta)
      if (delta?.reasoning_details) this.bond = lastSignature(delta.reasoning_details) ?? this.bond
    }
  }

  usage(): Usage {
    const reported = this.#reported
    const said = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN)
    if (!reported || (reported.prompt_tokens ?? reported.completion_tokens) == null) {
      const promptTokens = tokensIn(this.#call.outbound.messages)
      return { promptTokens, completionTokens: said, estimated: true }
    }
    const usage = toUsage(reported)
    if (!this.#interim) return usage
    return {
      ...usage,
      completionTokens: Math.max(usage.completionTokens ?? 0, said),
      estimated: true,
    }
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

/** A count a vendor sent: a whole number, never negative, whatever it is. */
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

function charactersIn(delta: ChatChunk['choices'][number]['delta']): number {
  if (!delta) return 0
  let characters = (delta.content?.length ?? 0) + (delta.reasoning?.length ?? 0)
  if (delta.tool_calls) {
    for (const call of delta.tool_calls) {
      characters += call.function?.arguments?.length ?? call.custom?.input?.length ?? 0
    }
  }
  return characters
}
