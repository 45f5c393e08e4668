/** Chat in its one normal form, requests of OpenAI's Chat Completions API and chunks; and what all client forms of it share. */
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import type { RawJson } from '../../stream/raw-json.ts'
import { randomId } from '../../state/ids.ts'
import type {
  Incoming,
  Call,
  Endpoint,
  ParsedRequest,
  ProviderAnswer,
  WireFormat,
  ClientAddress,
} from '../../pipeline/pipeline.ts'
import type { ChatInput, ChatChunk, ChatCompletion, ChatMessage, Step } from '../../plugin.ts'
import { readRawJson, sessionOf } from '../shared/body.ts'
import {
  UsageCounter,
  billing,
  type BilledChunk,
  type SentChat,
  exchangeRequest,
  OutputLimit,
} from './billing.ts'
import { toChunk } from './chunks.ts'
import { grounding } from './citations.ts'
import { guardAdapter } from './guard.ts'
import { normalizeChunks, type Envelope } from './normalize.ts'
import {
  CAPABILITIES,
  outboundChat,
  requiredCapabilities,
  signatureIn,
  usesLegacyFunctions,
  wantsUsageChunk,
  withPolicy,
  type ChatRequest,
  type Needs,
} from './request.ts'
import { toBase64 } from '../shared/media.ts'

// Addresses in messages: of images, and of files.

const isAddress = (text: unknown): text is string =>
  typeof text === 'string' && /^https?:/i.test(text.slice(0, 6))

/** See {@link Endpoint.addresses}. */
const addresses: NonNullable<Endpoint['addresses']> = {
  of(outbound: ChatInput): ClientAddress[] {
    const found: ClientAddress[] = []
    outbound.messages.forEach(({ content }, at) => {
      if (!Array.isArray(content)) return
      content.forEach((part, index) => {
        const note = (url: unknown, member: string) => {
          if (!isAddress(url)) return
          found.push({ url, param: `messages[${at}].content[${index}].${member}` })
        }
        note(part.image_url?.url, 'image_url.url')
        note(part.file?.file_data, 'file.file_data')
      })
    })
    return found
  },

  replace(outbound: ChatInput, files): ChatInput {
    const dataUrl = (url: unknown) => {
      const file = typeof url === 'string' ? files.get(url) : undefined
      return file && `data:${file.contentType};base64,${toBase64(file.bytes)}`
    }
    const replaced = (part: any) => {
      const image = dataUrl(part.image_url?.url)
      if (image !== undefined) return { ...part, image_url: { ...part.image_url, url: image } }
      const file = dataUrl(part.file?.file_data)
      return file === undefined ? part : { ...part, file: { ...part.file, file_data: file } }
    }
    const messages = outbound.messages.map((message): ChatMessage => {
      const { content } = message
      return Array.isArray(content) ? { ...message, content: content.map(replaced) } : message
    })
    return { ...outbound, messages }
  },
}

/**
 * Passes the chunks of a vendor that speaks the client's own form: what they say is read, and what the vendor sent goes out.
 * Exactly one has a finish reason, the last.
 * @throws UpstreamFailure when the stream was cut
 */
function nativeChunks(read: (chunk: ChatChunk) => void): Step<ChatChunk, ChatChunk> {
  let ended = false
  let calls = false
  return {
    push(chunk, emit) {
      read(chunk)
      calls ||= chunk.choices.some(({ delta }) => delta?.tool_calls?.length)
      const told = chunk.endOfStream ? withReason(chunk, calls ? 'tool_calls' : 'stop') : chunk
      if (told.choices[0]?.finish_reason) ended = true
      if (told.native || told.choices.length > 0) emit(told)
    },
    end() {
      if (!ended) throw brokenAnswer('The model provider closed the stream early.')
    },
  }
}

/** An end without a reason is the natural one, as in answers that are translated. */
function withReason(chunk: ChatChunk, finish_reason: string): ChatChunk {
  const [choice] = chunk.choices
  if (!choice || choice.finish_reason) return chunk
  return { ...chunk, choices: [{ ...choice, finish_reason }] }
}

/** The chat endpoint, for every dialect. */
export const chat: Endpoint<ChatRequest, ChatChunk> = {
  operation: 'chat',
  modality: 'chat',
  errorField: 'messages',
  billing,
  grounding,
  guard: guardAdapter,
  exchange: exchangeRequest,

  check: (input, model) => refuseLacking(model, requiredCapabilities(input)),

  toUpstream(input, model) {
    const outbound = withinLimit(outboundChat(input), model)
    // A model that cannot stream answers whole; the client still gets a stream.
    return input.stream && lacks(model, 'STREAMING') ? { ...outbound, stream: false } : outbound
  },

  withoutContent: (request) => ({
    ...request,
    messages: [],
    tools: undefined,
    functions: undefined,
    prediction: undefined,
    labels: undefined,
  }),
  addresses,

  normalize: (call, answer, signal) => normalizedAnswer(call, answer, signal),

  instructions: {
    apply(outbound: ChatInput, { system, maxOutputTokens }) {
      const messages: readonly ChatMessage[] = system
        ? [{ role: 'system', content: system }, ...outbound.messages]
        : outbound.messages
      const told = { ...outbound, messages }
      return maxOutputTokens === undefined ? told : limited(told, maxOutputTokens)
    },

    limit: (maxOutputTokens, { n = 1 }) => new OutputLimit(maxOutputTokens, n),
  },
}

/** Refuses what needs a capability that the model lacks. @throws InvalidRequest */
export function refuseLacking(model: Model, needs: Needs): void {
  for (const capability of CAPABILITIES) {
    const param = needs[capability]
    if (param === undefined || !lacks(model, capability)) continue
    const message = `${model.id} cannot honour ${param}: ${lackOf(capability)}.`
    throw new InvalidRequest('unsupported_parameter', message, { param })
  }
}

/**
 * An answer in chunks of the normal form.
 * @param sent what was asked, in the form of a chat
 */
export function normalizedAnswer(
  call: Call,
  answer: ChatCompletion | AsyncIterable<ChatChunk>,
  signal: AbortSignal,
  sent?: SentChat,
): ProviderAnswer<ChatChunk> {
  const counter = new UsageCounter(call, sent)
  const chunks = Symbol.asyncIterator in answer ? toFlow(answer, signal) : flowOf(toChunk(answer))
  const read = (chunk: ChatChunk) => counter.read(chunk)
  return {
    parts: chunks.through(
      call.native ? nativeChunks(read) : normalizeChunks(envelopeOf(call), read),
    ),
    usage: () => counter.usage(),
    received: () => counter.received.amount,
    complete: () => counter.complete,
    affinityToken: call.model.deployments.length > 1 ? () => counter.signature : undefined,
  }
}

/** The pure translation between one client form of chat and the normal form: no state, no money, no policy. */
interface Dialect<Part = BilledChunk> extends Pick<
  WireFormat<ChatRequest, Part>,
  'path' | 'body' | 'write' | 'writeError' | 'native'
> {
  /**
   * Translates a parsed body. The `policy` of the result is as the client wrote it.
   * @throws InvalidRequest
   */
  read(body: RawJson, header: Incoming['header']): DialectRequest
  /** Most bytes of a body; by default those of chat. */
  readonly limitBytes?: number
}

/** A request in normal form, and what does not fit into it. */
export interface DialectRequest extends Pick<
  ParsedRequest,
  'ignored' | 'answerOptions' | 'nativeHeaders' | 'untranslatable'
> {
  readonly input: ChatRequest
}

/** The wire format of a dialect: bounds the body and takes model, policy, session and affinity from the request. */
export function chatFormat<Part = BilledChunk>({
  path,
  body: check,
  read,
  write,
  writeError,
  native,
  limitBytes,
}: Dialect<Part>): WireFormat<ChatRequest, Part> {
  return {
    path,
    ...(check && { body: check }),
    async read(incoming, limits) {
      const body = await readRawJson(incoming, limitBytes ?? limits.chat)
      const translated = read(body, (name) => incoming.header(name))
      const input = withPolicy(translated.input)
      const { model, messages, policy, session_id, prompt_cache_key } = input
      return {
        ...translated,
        input,
        model,
        stream: input.stream === true,
        policy,
        session: sessionOf(incoming, session_id, prompt_cache_key),
        affinityToken: signatureIn(messages),
        bodyBytes: body.bytes,
        rawJson: body,
      }
    },
    write,
    writeError,
    native,
  }
}

/** A request that asks for no more than the model can write. */
function withinLimit(outbound: ChatInput, { maxOutputTokens }: Model): ChatInput {
  const { max_completion_tokens: asked } = outbound
  if (asked === undefined || maxOutputTokens === undefined || asked <= maxOutputTokens) {
    return outbound
  }
  return limited(outbound, maxOutputTokens)
}

/** A copy that asks for at most so many tokens. */
function limited(outbound: ChatInput, most: number): ChatInput {
  const lower = (asked = most) => Math.min(asked, most)
  const { reasoning } = outbound
  return {
    ...outbound,
    max_completion_tokens: lower(outbound.max_completion_tokens),
    ...(reasoning?.max_tokens === undefined
      ? {}
      : { reasoning: { ...reasoning, max_tokens: lower(reasoning.max_tokens) } }),
  }
}

function envelopeOf(call: Call): Envelope {
  const { request, model, startedAt } = call
  const input: ChatRequest = request.input
  return {
    id: randomId('chatcmpl-'),
    created: Math.floor(startedAt / 1000),
    model: model.id,
    usageChunk: wantsUsageChunk(input),
    logprobs: input.logprobs === true,
    legacyFunctions: usesLegacyFunctions(input),
    reasoning: input.reasoning?.exclude !== true && input.include_reasoning !== false,
    newCallId: () => randomId('call_'),
    onStopSequence: (text) => (call.stopSequence = text),
    onUnsigned: (index) => (call.unsignedReasoning ??= new Set()).add(index),
  }
}
