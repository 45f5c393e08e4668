/** Builds the body of `POST /responses` from a chat request. */
import { hash } from 'node:crypto'
import type { ChatInput, Host, ChatMessage } from '../../src/plugin.ts'
import { isOff, type Effort } from '../openai-compatible/reasoning.ts'
import { effortFor } from '../openai-compatible/rows.ts'
import { type Format, toReasoningItems, type ReasoningItem } from './replay.ts'
import { OPENAI_ROOTS, withFlatRoot } from '../shared/schemas.ts'
import { callSources, pairsIn, resultOf, type CallSource } from '../openai-compatible/content.ts'
import { NO_RESULT, thoughtsOf } from '../shared/conversations.ts'
import { fileNameOf, isAddress } from '../shared/files.ts'

/** What is known about the model, and options of the deployment. */
interface RequestProfile {
  /** Marks reasoning of this vendor. */
  readonly format: Format
  /** The model may reason: it encrypts its reasoning, and refuses sampling options while it reasons. */
  readonly reasons: boolean
  /** The vendor gives summaries of reasoning. */
  readonly summaries: boolean
  /** Whether reasoning of earlier turns goes back; by default it does. */
  readonly replayReasoning?: boolean | undefined
  /** Members of the body, in the vendor's names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
  /** Levels of effort that this model has; by default as its name tells. */
  readonly effort?: readonly Effort[] | undefined
}

/** The body of a request, without the members that a model refuses. */
export interface ResponsesBody {
  readonly model: string
  readonly input: readonly Item[]
  readonly include?: readonly string[] | undefined
  readonly reasoning?: { readonly effort?: Effort; readonly summary?: string } | undefined
  readonly [member: string]: unknown
}

/** What has to be asked for: without it, reasoning could not come back. */
export const ENCRYPTED = 'reasoning.encrypted_content'

/** The vendor's least ceiling of an answer. */
const MIN_OUTPUT_TOKENS = 16

/** Members with the same name and form in both APIs. */
const SHARED = [
  'parallel_tool_calls',
  'metadata',
  'prompt_cache_options',
  'prompt_cache_retention',
] as const

/**
 * Builds the body. Members that this API does not have are left out.
 * @throws the failure class `bad_request` for several choices, and for content that this API does not have
 */
export function toBody(
  input: ChatInput,
  model: string,
  profile: RequestProfile,
  fail: Host['fail'],
): ResponsesBody {
  if (Number(input.n ?? 1) > 1) {
    const message = 'Expected n to be 1: this model gives one choice for each request.'
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'n' })
  }
  const { format, replayReasoning = true, omit = [] } = profile
  const { stream, max_completion_tokens: limit, tool_choice } = input
  const reasoning = toReasoning(input, model, profile)
  const body: Record<string, unknown> = {
    model,
    input: toItems(input.messages, replayReasoning ? format : undefined, fail),
    store: false,
    ...(stream === true && { stream: true, stream_options: { include_obfuscation: false } }),
    ...(limit !== undefined && { max_output_tokens: Math.max(limit, MIN_OUTPUT_TOKENS) }),
    ...(reasoning && { reasoning }),
    ...toOutput(input, profile, reasoning?.effort),
    ...(input.tools && {
      tools: input.tools.map((tool, i) => toTool(withFlatRoot(tool, i, fail, OPENAI_ROOTS))),
    }),
    ...(tool_choice !== undefined && { tool_choice: toToolChoice(tool_choice) }),
    ...toIdentity(input),
  }
  for (const name of SHARED) if (input[name] !== undefined) body[name] = input[name]
  for (const name of omit) delete body[name]
  return body as ResponsesBody
}

function toReasoning(
  { reasoning, max_completion_tokens: limit }: ChatInput,
  model: string,
  { reasons, summaries, effort: levels }: RequestProfile,
): ResponsesBody['reasoning'] {
  if (!reasoning || !reasons) return undefined
  const effort = effortFor(model, reasoning, limit, levels)
  const wanted = reasoning.summary ?? (reasoning.exclude || isOff(reasoning) ? undefined : 'auto')
  const summary = summaries ? wanted : undefined
  return effort || summary ? { ...(effort && { effort }), ...(summary && { summary }) } : undefined
}

/** What the answer should be like, and what should come with it. */
function toOutput(
  { response_format, verbosity, temperature, top_p, logprobs, top_logprobs }: ChatInput,
  { reasons }: RequestProfile,
  effort: Effort | undefined,
): object {
  // Models refuse these while they reason.
  const samples = !reasons || effort === 'none'
  const include = [
    ...(reasons ? [ENCRYPTED] : []),
    ...(logprobs && samples ? ['message.output_text.logprobs'] : []),
  ]
  return {
    ...(include.length > 0 && { include }),
    ...(samples && temperature !== undefined && { temperature }),
    ...(samples && top_p !== undefined && { top_p }),
    ...(samples && top_logprobs !== undefined && { top_logprobs }),
    ...((response_format !== undefined || verbosity !== undefined) && {
      text: {
        ...(response_format ? { format: toFormat(response_format) } : {}),
        ...(verbosity ? { verbosity } : {}),
      },
    }),
  }
}

function toFormat({ type, json_schema }: any): object {
  if (type !== 'json_schema') return { type }
  const { name, schema, strict, description } = json_schema
  return withoutNulls({ type, name, schema, strict, description })
}

function toTool({ type, function: called, custom }: any): object {
  if (type === 'custom') {
    const { name, description, format } = custom
    return withoutNulls({ type, name, description, format: format && toToolFormat(format) })
  }
  const { name, description, parameters, strict } = called
  return withoutNulls({
    type: 'function',
    name,
    description,
    parameters: parameters ?? { type: 'object', properties: {} },
    // This API makes functions strict where nothing is said.
    strict: strict ?? false,
  })
}

function toToolFormat({ type, grammar }: any): object {
  return type === 'grammar'
    ? { type, syntax: grammar?.syntax, definition: grammar?.definition }
    : { type }
}

function toToolChoice(choice: unknown): unknown {
  if (typeof choice !== 'object' || choice === null) return choice
  const { type, allowed_tools: allowed } = Object(choice)
  if (type !== 'allowed_tools') return toNamed(choice)
  return { type, mode: allowed.mode, tools: allowed.tools.map(toNamed) }
}

function toNamed(tool: any): unknown {
  const name = tool[tool.type]?.name
  return name === undefined ? tool : { type: tool.type, name }
}

/** Who asks, and which cache serves it. Names of the operator's users do not leave the gateway. */
function toIdentity(input: ChatInput): object {
  const user = input.safety_identifier ?? input.user
  const cache = input.prompt_cache_key ?? input.session_id
  return {
    ...(user ? { safety_identifier: digest(user) } : {}),
    ...(cache ? { prompt_cache_key: digest(cache) } : {}),
  }
}

function digest(value: unknown): string {
  return hash('sha256', String(value), 'hex').slice(0, 32)
}

function withoutNulls(members: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined && value !== null),
  )
}

// Builds the input items of the Responses API from the messages of a chat.

/** An input item. None has an `id`: the vendor stores nothing, so it would look for it and fail. */
type Item = ReasoningItem | MessageItem | CallItem | OutputItem

type MessageItem =
  | {
      readonly type: 'message'
      readonly role: 'system' | 'developer' | 'user'
      readonly content: readonly InputPart[]
    }
  | {
      readonly type: 'message'
      readonly role: 'assistant'
      readonly status: 'completed'
      readonly content: readonly OutputPart[]
      readonly phase?: string
    }

type OutputPart =
  | { readonly type: 'output_text'; readonly text: string; readonly annotations: readonly [] }
  | { readonly type: 'refusal'; readonly refusal: string }

interface Named {
  readonly call_id: string
  readonly name: string
  readonly namespace?: string
}

type CallItem =
  | (Named & { readonly type: 'function_call'; readonly arguments: string })
  | (Named & { readonly type: 'custom_tool_call'; readonly input: string })

interface OutputItem {
  readonly type: 'function_call_output' | 'custom_tool_call_output'
  readonly call_id: string
  readonly output: string | readonly InputPart[]
}

/** Longer ids of calls, which other vendors make, are refused. */
const MAX_CALL_ID_CHARACTERS = 64

/**
 * The items of a conversation. A call without an output gets one after the others, because the vendor refuses a call
 * without it.
 * @param replay the format of reasoning that goes back; undefined sends none
 * @throws the failure class `bad_request` for content that this API does not have
 */
function toItems(
  messages: readonly ChatMessage[],
  replay: Format | undefined,
  fail: Host['fail'],
): Item[] {
  const builder = new ItemsBuilder(messages, replay, fail)
  return builder.build()
}

/** A call of an assistant message. */
interface Call {
  readonly item: CallItem
  readonly isAnswered: boolean
}

class ItemsBuilder {
  readonly #messages: readonly ChatMessage[]
  readonly #replay: Format | undefined
  readonly #fail: Host['fail']
  readonly #items: Item[] = []
  /** The call that each result answers. */
  readonly #pairs: ReadonlyMap<ChatMessage, CallSource>
  readonly #answered: ReadonlySet<CallSource>
  readonly #calls = new Map<CallSource, CallItem>()
  /** Calls of the last answer that no later message answers. */
  #unanswered: readonly CallItem[] = []
  #legacyCalls = 0

  constructor(messages: readonly ChatMessage[], replay: Format | undefined, fail: Host['fail']) {
    this.#messages = messages
    this.#replay = replay
    this.#fail = fail
    this.#pairs = pairsIn(messages)
    this.#answered = new Set(this.#pairs.values())
  }

  build(): Item[] {
    this.#messages.forEach((message, index) => this.#add(message, index))
    this.#answerRest()
    return this.#items
  }

  #add(message: ChatMessage, index: number): void {
    const path = `messages[${index}]`
    const { role } = message
    if (role === 'tool' || role === 'function') {
      this.#items.push(this.#toOutput(message, path))
      return
    }
    this.#answerRest()
    if (role === 'assistant') this.#addAnswer(message, path)
    else this.#items.push({ type: 'message', role, content: this.#parts(message.content, path) })
  }

  #addAnswer(message: ChatMessage, path: string): void {
    const content = this.#outputParts(message, path)
    const calls = this.#callsOf(message)
    // Reasoning that nothing follows is refused.
    if (content.length === 0 && calls.length === 0) return
    if (this.#replay && message.reasoning_details) {
      const thoughts = toReasoningItems(thoughtsOf(message), this.#replay)
      for (const thought of thoughts) this.#items.push(thought)
    }
    if (content.length > 0) {
      const { phase } = message
      const spoken = { type: 'message', role: 'assistant', status: 'completed', content } as const
      this.#items.push(phase ? { ...spoken, phase } : spoken)
    }
    for (const { item } of calls) this.#items.push(item)
    this.#unanswered = calls.filter(({ isAnswered }) => !isAnswered).map(({ item }) => item)
  }

  #toOutput(message: ChatMessage, path: string): OutputItem {
    const call = this.#calls.get(this.#pairs.get(message))
    const call_id = call?.call_id ?? toCallId(message.tool_call_id ?? message.name)
    const content = resultOf(message)
    const output = Array.isArray(content) ? this.#parts(content, path) : (content ?? '')
    return { type: outputTypeOf(call), call_id, output }
  }

  #answerRest(): void {
    for (const call of this.#unanswered) {
      this.#items.push({ type: outputTypeOf(call), call_id: call.call_id, output: NO_RESULT })
    }
    this.#unanswered = []
  }

  #callsOf(message: ChatMessage): Call[] {
    return callSources(message).map((source) => {
      const item =
        source === message
          ? toLegacyCall(message, `call_legacy_${this.#legacyCalls++}`)
          : toCallItem(source)
      this.#calls.set(source, item)
      return { item, isAnswered: this.#answered.has(source) }
    })
  }

  /** The content of a message. Empty texts are left out, unless there is nothing else. */
  #parts(content: ChatMessage['content'], path: string): InputPart[] {
    if (!Array.isArray(content)) return [{ type: 'input_text', text: (content as string) ?? '' }]
    const parts = content.map((part, i) => toInputPart(part, `${path}.content[${i}]`, this.#fail))
    const filled = parts.filter((part) => part.type !== 'input_text' || part.text !== '')
    return filled.length > 0 ? filled : parts.slice(0, 1)
  }

  /** The parts of a message of the assistant. */
  #outputParts({ content, refusal }: ChatMessage, path: string): OutputPart[] {
    const contents: readonly any[] = Array.isArray(content)
      ? content
      : [{ type: 'text', text: content ?? '' }]
    const parts = contents.map((part, i) => this.#toOutputPart(part, `${path}.content[${i}]`))
    if (typeof refusal === 'string') parts.push({ type: 'refusal', refusal })
    return parts.filter((part) => (part.type === 'refusal' ? part.refusal : part.text) !== '')
  }

  #toOutputPart(part: any, path: string): OutputPart {
    if (part.type === 'text') return { type: 'output_text', text: part.text, annotations: [] }
    if (part.type === 'refusal') return { type: 'refusal', refusal: part.refusal }
    throw notTaken(part.type, 'text or a refusal of the assistant', path, this.#fail)
  }
}

function toCallItem({ id, type, function: called, custom, namespace }: any): CallItem {
  const { name, namespace: own = namespace } = custom ?? called
  const named = { call_id: toCallId(id), name, ...(own && { namespace: own }) }
  return type === 'custom'
    ? { type: 'custom_tool_call', ...named, input: custom.input }
    : { type: 'function_call', ...named, arguments: called.arguments }
}

function outputTypeOf(call: CallItem | undefined): OutputItem['type'] {
  return call?.type === 'custom_tool_call' ? 'custom_tool_call_output' : 'function_call_output'
}

function toLegacyCall({ function_call }: ChatMessage, call_id: string): CallItem {
  const { name, arguments: text } = function_call
  return { type: 'function_call', call_id, name, arguments: text }
}

/** The same id always maps to the same result, so calls and results still match. */
function toCallId(id: unknown): string {
  const text = String(id)
  if (text.length <= MAX_CALL_ID_CHARACTERS) return text
  return `call_${hash('sha256', text, 'hex').slice(0, 32)}`
}

// Content of messages as parts of the Responses API.

/** A part of an input message, or of the output of a tool. */
type InputPart =
  | { readonly type: 'input_text'; readonly text: string }
  | { readonly type: 'input_image'; readonly image_url: string; readonly detail: string }
  | { readonly type: 'input_file'; readonly file_url: string }
  | { readonly type: 'input_file'; readonly filename: string; readonly file_data: string }

/**
 * Converts a part of a message that is not the assistant's.
 * @param path the path of the part, for the error
 * @throws the failure class `bad_request` for sound and unknown types
 */
function toInputPart(part: any, path: string, fail: Host['fail']): InputPart {
  const marker = part.prompt_cache_breakpoint
    ? { prompt_cache_breakpoint: part.prompt_cache_breakpoint }
    : undefined
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text, ...marker }
    case 'refusal':
      return { type: 'input_text', text: part.refusal, ...marker }
    case 'image_url': {
      const { url, detail } = part.image_url
      return { type: 'input_image', image_url: url, detail: detail ?? 'auto', ...marker }
    }
    case 'file':
      return { ...toFile(part.file), ...marker }
    default:
      throw notTaken(part.type, 'text, an image or a file', path, fail)
  }
}

/** The failure for a part that this API does not have. */
function notTaken(type: string, expected: string, path: string, fail: Host['fail']): Error {
  const message = `Expected ${expected} at ${path}: this model takes no ${type} there.`
  return fail('bad_request', message, { code: 'unsupported_parameter', param: path })
}

function toFile({ file_data, filename }: { file_data: string; filename?: string }): InputPart {
  if (isAddress(file_data)) return { type: 'input_file', file_url: file_data }
  // The vendor requires a name.
  return { type: 'input_file', filename: filename || fileNameOf(file_data), file_data }
}
