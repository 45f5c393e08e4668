/** Chat in its one normal form, that of OpenAI's Chat Completions API, and what all client forms of it share. */
import { InvalidRequest } from '../../errors/errors.ts'
import type { Recall } from '../../answers/items.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import type { Model } from '../../models/catalog.ts'
import type { RawJson } from '../../stream/raw-json.ts'
import { randomId } from '../../state/ids.ts'
import type {
  Call,
  Dropped,
  Endpoint,
  ParsedRequest,
  ProviderAnswer,
  WireFormat,
  ClientAddress,
} from '../../pipeline/pipeline.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { ChatInput, ChatMessage } from '../../plugin.ts'
import { readRawJson, sessionOf } from '../shared/body.ts'
import { askedIn, billing, type AnswerChunk, type SentChat, OutputLimit } from './billing.ts'
import { grounding } from './citations.ts'
import { guardAdapter } from './guard.ts'
import { pack, unpacked, type StoredChat } from './stored.ts'
import { ChatAnswer, type Envelope } from './answer.ts'
import { conversationOf, withMessage } from './conversation.ts'
import {
  CAPABILITIES,
  outboundChat,
  requiredCapabilities,
  usesLegacyFunctions,
  withPolicy,
  type ChatRequest,
  type Needs,
} from './request.ts'
import { toBase64 } from '../shared/media.ts'
import type { ExchangeRequest } from '../../observe/record.ts'

const addresses: NonNullable<Endpoint<ChatRequest, ChatInput>['addresses']> = {
  of: ({ messages }) => addressesIn(messages),

  replace(outbound, files): ChatInput {
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

export const chat: Endpoint<ChatRequest, ChatInput, AnswerChunk> = {
  operation: 'chat',
  modality: 'chat',
  errorField: 'messages',
  billing,
  grounding,
  guard: guardAdapter,
  mask: async () => (await import('./mask.ts')).chatMask,
  exchange: exchangeRequest,

  check: (input, model) => refuseLacking(model, requiredCapabilities(input)),

  toUpstream: outboundChat,

  fit(sent, model, input, thinks) {
    const whole = unreasoned(withDefaults(sent, model, input), model)
    const hinted =
      thinks && !whole.reasoning && reasons(model)
        ? { ...whole, reasoning: { enabled: true } }
        : whole
    const outbound = withinLimit(hinted, model)
    // A model that cannot stream answers whole; the client still gets a stream.
    return input.stream && lacks(model, 'STREAMING') ? { ...outbound, stream: false } : outbound
  },

  drops: (input, model) => (reasons(model) ? [] : droppedOf(input)),

  withoutContent: (request) => ({
    ...request,
    messages: [],
    tools: undefined,
    functions: undefined,
    prediction: undefined,
    labels: undefined,
  }),
  addresses,

  normalize: (call) => chatAnswer(call, call.target.outbound as ChatInput),
  stored: {
    pack,
    varies: ({ temperature }: ChatInput) => temperature !== 0,
    unpack: (call, packed) => unpackChat(call, call.target.outbound as ChatInput, packed),
  },

  instructions: {
    apply(outbound: ChatInput, { system, maxOutputTokens }) {
      const messages = system
        ? withMessage(outbound.messages, 0, { role: 'system', content: system })
        : outbound.messages
      const withSystem = { ...outbound, messages }
      return maxOutputTokens === undefined ? withSystem : limited(withSystem, maxOutputTokens)
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

/** The state of an answer; writers get it by {@link answerOf}. @param sent the request as sent, as a chat */
export function chatAnswer(call: Call, sent: SentChat): ProviderAnswer<AnswerChunk> {
  const answer = new ChatAnswer(envelopeOf(call), askedIn(call, sent))
  call.answer.state = answer
  return answer
}

/** The chunks of a stored answer for a call. @param sent the request, as a chat */
export function unpackChat(call: Call, sent: SentChat, packed: StoredChat): readonly AnswerChunk[] {
  const answer = chatAnswer(call, sent) as ChatAnswer
  return unpacked(answer, packed, call.request.stream)
}

/** The state of the latest answer; undefined before a vendor has answered. */
export function answerOf(call: Call): ChatAnswer | undefined {
  return call.answer.state as ChatAnswer | undefined
}

/** The pure translation between one client form of chat and the normal form: no state, no money, no policy. */
interface Dialect<Part = AnswerChunk> extends Pick<
  WireFormat<ChatRequest, Part>,
  'path' | 'body' | 'write' | 'writeError' | 'native' | 'droppedNames'
> {
  /** Translates a parsed body. The `policy` stays as the client wrote it. @throws InvalidRequest */
  read(body: RawJson, header: Incoming['header']): DialectRequest
  /** Completes a body that refers to earlier answers; undefined for one that does not. @throws InvalidRequest */
  whole?(body: RawJson, limitBytes: number, recall: Recall): Promise<RawJson> | undefined
  /** Most bytes of a body; by default those of chat. */
  readonly limitBytes?: number
}

export interface DialectRequest extends Pick<
  ParsedRequest,
  'ignored' | 'answerOptions' | 'nativeHeaders' | 'untranslatable'
> {
  readonly input: ChatRequest
}

/** The wire format of a dialect: bounds the body and takes model, policy, session and affinity from the request. */
export function chatFormat<Part = AnswerChunk>({
  path,
  body: check,
  whole,
  read,
  write,
  writeError,
  native,
  droppedNames,
  limitBytes: most,
}: Dialect<Part>): WireFormat<ChatRequest, Part> {
  return {
    path,
    ...(check && { body: check }),
    read(incoming, limits, recall) {
      const limitBytes = most ?? limits.chat
      const translate = (body: RawJson): ParsedRequest<ChatRequest> => {
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
          affinityToken: conversationOf(messages).signature,
          bodyBytes: body.bytes,
          rawJson: body,
        }
      }
      return readRawJson(
        incoming,
        limitBytes,
        (body) => whole?.(body, limitBytes, recall)?.then(translate) ?? translate(body),
      )
    },
    write,
    writeError,
    native,
    droppedNames,
  }
}

/** A request with what its model's entry says of parameters that it leaves out. */
function withDefaults(outbound: ChatInput, { defaults }: Model, input: ChatRequest): ChatInput {
  if (!defaults) return outbound
  const whole: Record<string, unknown> = { ...outbound }
  for (const [name, value] of Object.entries(defaults)) whole[name] ??= value
  const { max_completion_tokens: most } = defaults
  const wanted = input.max_completion_tokens ?? input.max_tokens
  // The request has a limit that its client did not write: the ceiling of a policy.
  const isCeiling = wanted === undefined && outbound.max_completion_tokens !== undefined
  const sent = whole as unknown as ChatInput
  return most !== undefined && isCeiling ? limited(sent, most) : sent
}

/** Whether a model may reason: one whose entry says nothing may. */
function reasons(model: Model): boolean {
  return !lacks(model, 'REASONING')
}

/** What a request asks of reasoning. */
function droppedOf(input: ChatRequest): Dropped[] {
  const { reasoning, reasoning_effort, messages } = input
  return [
    ...(reasoning || reasoning_effort ? (['reasoning'] as const) : []),
    ...(messages.some(isThoughtful) ? (['thoughts'] as const) : []),
  ]
}

function isThoughtful(message: ChatMessage): boolean {
  const { role, reasoning, reasoning_content, reasoning_details } = message
  return role === 'assistant' && Boolean(reasoning || reasoning_content || reasoning_details)
}

/** A request without hints and thoughts, for a model that does not reason: a refusal of them would end the turn. */
function unreasoned(outbound: ChatInput, model: Model): ChatInput {
  if (reasons(model)) return outbound
  const { reasoning, ...rest } = outbound
  const messages = rest.messages.some(isThoughtful)
    ? rest.messages.map(withoutThoughts)
    : rest.messages
  return reasoning || messages !== rest.messages ? ({ ...rest, messages } as ChatInput) : outbound
}

function withoutThoughts(message: ChatMessage): ChatMessage {
  if (!isThoughtful(message)) return message
  const { reasoning: _, reasoning_content: _text, reasoning_details: _parts, ...rest } = message
  return rest
}

function withinLimit(outbound: ChatInput, { maxOutputTokens }: Model): ChatInput {
  const { max_completion_tokens: requested } = outbound
  if (requested === undefined || maxOutputTokens === undefined || requested <= maxOutputTokens) {
    return outbound
  }
  return limited(outbound, maxOutputTokens)
}

function limited(outbound: ChatInput, most: number): ChatInput {
  const lower = (requested = most) => Math.min(requested, most)
  const { reasoning } = outbound
  return {
    ...outbound,
    max_completion_tokens: lower(outbound.max_completion_tokens),
    ...(reasoning?.max_tokens === undefined
      ? {}
      : { reasoning: { ...reasoning, max_tokens: lower(reasoning.max_tokens) } }),
  }
}

function envelopeOf({ request, target, admission, startedAt }: Call): Envelope {
  const input = request.input as ChatRequest
  return {
    id: randomId('chatcmpl-'),
    created: Math.floor(startedAt / 1000),
    model: target.model.id,
    native: target.native,
    stream: request.stream,
    logprobs: input.logprobs === true,
    legacyFunctions: usesLegacyFunctions(input),
    reasoning: input.reasoning?.exclude !== true && input.include_reasoning !== false,
    newCallId: () => randomId('call_'),
    grow: admission.grow,
  }
}

function exchangeRequest(input: ChatRequest): ExchangeRequest {
  return {
    max_tokens: numberIn(input.max_completion_tokens ?? input.max_tokens),
    temperature: numberIn(input.temperature),
    top_p: numberIn(input.top_p),
    seed: numberIn(input.seed),
    choices: numberIn(input.n),
    reasoning: input.reasoning?.effort ?? undefined,
  }
}

function numberIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

export function addressesIn(messages: readonly ChatMessage[]): readonly ClientAddress[] {
  const { addresses } = conversationOf(messages)
  return addresses.map(({ url, at, member }) => ({ url, param: `messages[${at}].${member}` }))
}
