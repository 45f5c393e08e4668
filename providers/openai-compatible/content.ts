/** Content of messages: parts in the form that a vendor takes, and parts that it takes none of. */
import type { Host, ChatMessage, ReasoningDetail, ChatInput, Reasoning } from '../../src/plugin.ts'
import { fileNameOf, isAddress } from '../shared/files.ts'
import { FAILED, NO_RESULT, RESULTS_ARE_IN, thoughtsOf } from '../shared/conversations.ts'
import { SKIP_SIGNATURE } from '../shared/gemini.ts'
import { replayAsGiven } from './as-given.ts'

/** Differences between vendors in the parts of messages. */
interface ContentQuirks {
  /** Knows OpenAI's newest members: the role `developer`, refusals, image detail `original`. */
  readonly current?: true
  /** Accepts `cache_control`; elsewhere it is removed. */
  readonly cacheControl?: true
}

/** Content in either form: a text, or a list of parts. */
export type Content = string | readonly any[] | null | undefined

/** Two contents as one. @param separator the separator between two texts */
export function joinedContent(before: Content, after: Content, separator: string): any {
  if (Array.isArray(before) || Array.isArray(after)) return [...listOf(before), ...listOf(after)]
  return [before, after].filter(Boolean).join(separator)
}

/** The content of a result, which tells of a tool that failed in its first line. */
export function resultOf({ content, is_error }: ChatMessage): any {
  return is_error === true ? joinedContent(FAILED, content as Content, '\n') : content
}

/** Content as a list of parts. */
function listOf(content: Content): readonly any[] {
  if (Array.isArray(content)) return content
  return content ? [{ type: 'text', text: content }] : []
}

/** Whether there is no content: no parts, or only texts that are blank. */
export function isBlank(content: Content): boolean {
  if (Array.isArray(content)) {
    return content.every(({ type, text }) => type === 'text' && text.trim() === '')
  }
  return !content || (content as string).trim() === ''
}

/** The text of a content without other parts; undefined where it has others. */
export function textOnly(content: Content): string | undefined {
  if (!Array.isArray(content)) return (content as string | null | undefined) ?? ''
  const texts = content.map((part) => part.text ?? part.refusal)
  return texts.includes(undefined) ? undefined : texts.join('\n')
}

/** The parts as the vendor takes them; the same list where they are so already. */
function toParts(content: readonly any[], quirks: ContentQuirks): readonly any[] {
  if (content.every((part) => isFitPart(part, quirks))) return content
  return content.map((part) => (isFitPart(part, quirks) ? part : toPart(part, quirks)))
}

/** Whether a content part needs no change. */
function isFitPart(part: any, quirks: ContentQuirks): boolean {
  if (!mayStay(part.cache_control, quirks.cacheControl)) return false
  switch (part.type) {
    case 'image_url':
      return quirks.current === true || part.image_url.detail !== 'original'
    case 'file': {
      const { file_data, filename } = part.file ?? {}
      if (typeof file_data !== 'string') return part.file !== undefined && part.file !== null
      return isAddress(file_data) || Boolean(filename)
    }
    case 'refusal':
      return quirks.current === true
    default:
      return true
  }
}

/** Whether a member may be sent as it is. @param isKnown whether the vendor has it */
function mayStay(member: unknown, isKnown: true | undefined): boolean {
  return member === undefined || (isKnown === true && Boolean(member))
}

function toPart(part: any, quirks: ContentQuirks): any {
  const { cache_control, ...rest } = part
  const marker = cache_control && quirks.cacheControl ? { cache_control } : undefined
  switch (part.type) {
    case 'image_url':
      if (part.image_url.detail !== 'original' || quirks.current) return { ...rest, ...marker }
      return { ...rest, image_url: { ...part.image_url, detail: 'high' }, ...marker }
    case 'file':
      return { ...rest, file: toFile(part.file ?? {}), ...marker }
    case 'refusal':
      return quirks.current ? { ...rest, ...marker } : { type: 'text', text: part.refusal }
    default:
      return { ...rest, ...marker }
  }
}

/** A file with the name that vendors require. Addresses of files stay where the vendor takes them. */
function toFile({ file_data, filename, ...rest }: any): object {
  if (typeof file_data !== 'string' || isAddress(file_data)) {
    return { ...rest, ...(filename ? { filename } : {}), file_data }
  }
  return { ...rest, filename: filename || fileNameOf(file_data), file_data }
}

/** What kinds of parts a message may have. */
export type TakenParts = Readonly<Partial<Record<string, ReadonlySet<string>>>>

/**
 * Checks that a vendor takes all parts of a message.
 * @param accepted types of parts by the role of the message; other roles may have any
 * @param index number of the message, for the error
 * @throws the failure class `bad_request` that names the part
 */
export function checkParts(
  { role, content }: { readonly role: string; readonly content?: Content },
  accepted: TakenParts,
  index: number,
  fail: Host['fail'],
): void {
  const types = accepted[role]
  if (!types || !Array.isArray(content)) return
  for (let j = 0; j < content.length; j++) {
    const { type } = content[j]
    if (types.has(type)) continue
    const param = `messages[${index}].content[${j}]`
    const expected = [...types].filter((one) => one !== 'refusal').join(', ')
    const message = `Expected one of ${expected} at ${param}: this model takes no ${type} there.`
    throw fail('bad_request', message, { code: 'unsupported_parameter', param })
  }
}

// Messages in the form that a vendor takes.

/** Where a vendor expects the reasoning of earlier turns. */
export type Replay =
  | 'reasoning_content'
  | 'reasoning'
  | 'reasoning_details'
  | 'think-tags'
  | 'thinking-parts'
  | 'thought-signature'
  /** Reasoning goes back in the members in which this server gave it. */
  | 'as-given'

/** Where reasoning goes, and what is known of the model that gets it. */
export interface ReplayTarget {
  readonly place: Replay
  /** The member in which this server gave the model's last reasoning. */
  readonly member?: string | undefined
  /** The first call of a step is refused without its signature. */
  readonly needsSignature?: boolean
}

/** Differences between vendors in messages. */
export interface MessageQuirks extends ContentQuirks {
  /** Accepts `annotations` in messages. */
  readonly annotations?: true
  /** Contents without images and files are texts, never parts: those of results, or all. */
  readonly texts?: 'results' | 'all'
}

/** A message in the vendor's form. */
export type Outgoing = Record<string, any>

/**
 * Converts messages. Unchanged messages and lists are returned as they are: `host.json` copies them from the request.
 * @param replay where to put earlier reasoning; undefined removes it
 */
export function toMessages(
  messages: readonly ChatMessage[],
  quirks: MessageQuirks,
  replay: ReplayTarget | undefined,
): readonly Outgoing[] {
  const fits = (message: ChatMessage) => isFit(message, quirks, replay)
  if (messages.every(fits)) return messages
  return messages.map((message) => (fits(message) ? message : toMessage(message, quirks, replay)))
}

/** Whether a message needs no change. */
function isFit(
  message: ChatMessage,
  quirks: MessageQuirks,
  replay: ReplayTarget | undefined,
): boolean {
  const { role, content, tool_calls } = message
  if (role === 'developer' && !quirks.current) return false
  if (
    message.refusal !== undefined ||
    message.reasoning !== undefined ||
    message.reasoning_content !== undefined ||
    message.reasoning_details !== undefined ||
    message.phase !== undefined ||
    message.is_error !== undefined ||
    !mayStay(message.annotations, quirks.annotations) ||
    !mayStay(message.cache_control, quirks.cacheControl)
  ) {
    return false
  }
  if (role === 'tool' && content === null) return false
  if (Array.isArray(content)) {
    if (isText(role, quirks) || !content.every((part) => isFitPart(part, quirks))) return false
  }
  if (role !== 'assistant') return tool_calls === undefined
  if (Array.isArray(tool_calls) && tool_calls.some(hasMark)) return false
  if (tool_calls === undefined) return content !== undefined && content !== null
  if (replay || !Array.isArray(tool_calls) || tool_calls.length === 0) return false
  return content !== undefined
}

function toMessage(
  message: ChatMessage,
  quirks: MessageQuirks,
  replay: ReplayTarget | undefined,
): Outgoing {
  const {
    role,
    content: _content,
    refusal,
    reasoning,
    reasoning_content,
    reasoning_details,
    annotations,
    cache_control,
    tool_calls,
    // Members of the gateway's form that chat completions do not have.
    phase: _phase,
    is_error: _isError,
    ...rest
  } = message
  const out: Outgoing = { role: role === 'developer' && !quirks.current ? 'system' : role, ...rest }
  const content = resultOf(message)
  out.content = Array.isArray(content) ? toParts(content, quirks) : content
  if (Array.isArray(content) && isText(role, quirks)) out.content = textOnly(content) ?? out.content
  if (role === 'tool') out.content ??= ''
  if (cache_control && quirks.cacheControl) out.cache_control = cache_control
  if (annotations && quirks.annotations) out.annotations = annotations
  if (role !== 'assistant') return out
  if (Array.isArray(tool_calls) && tool_calls.length > 0) {
    out.tool_calls = tool_calls.some(hasMark) ? tool_calls.map(withoutMark) : tool_calls
    const mark = tool_calls.findLast(hasMark)?.cache_control
    if (mark && quirks.cacheControl) out.content = markedText(out.content, mark)
  }
  if (typeof refusal === 'string') {
    if (quirks.current) out.refusal = refusal
    else out.content ||= refusal
  }
  // `null` is only accepted beside tool calls.
  out.content ??= out.tool_calls || out.function_call ? null : ''
  if (replay) {
    const clientDetails: readonly ReasoningDetail[] = reasoning_details ?? []
    const text = reasoning || reasoning_content || visible(clientDetails)
    const details = replay.place === 'as-given' ? clientDetails : thoughtsOf(message)
    REPLAYS[replay.place](out, text, details, replay)
  }
  return out
}

function hasMark({ cache_control }: any): boolean {
  return cache_control !== undefined
}

function withoutMark({ cache_control: _mark, ...call }: any): object {
  return call
}

/** The content with a cache mark on its last text: a call has no place for one. */
function markedText(content: Content, cache_control: object): Content {
  const parts = listOf(content)
  const last = parts.findLastIndex(({ type }) => type === 'text')
  return last < 0 ? content : parts.with(last, { ...parts[last], cache_control })
}

function isText(role: string, { texts }: MessageQuirks): boolean {
  return texts === 'all' || (texts === 'results' && role === 'tool')
}

const REPLAYS: Readonly<
  Record<
    Replay,
    (out: Outgoing, text: string, details: readonly ReasoningDetail[], to: ReplayTarget) => void
  >
> = {
  reasoning_content(out, text) {
    // Thinking models refuse tool calls without it, and accept an empty text.
    if (text || out.tool_calls) out.reasoning_content = text
  },
  reasoning(out, text) {
    if (text) out.reasoning = text
  },
  reasoning_details(out, text, details) {
    if (details.length > 0) out.reasoning_details = details
    else if (text) out.reasoning = text
  },
  'think-tags'(out, text) {
    if (text) out.content = joinedContent(`<think>${text}</think>`, out.content, '\n\n')
  },
  'thinking-parts'(out, text, details) {
    if (!text) return
    // Signatures of other vendors have their own format.
    const signature = details.find((one) => one.signature && one.format === 'unknown')?.signature
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text }] }
    out.content = [signature ? { ...thinking, signature } : thinking, ...listOf(out.content)]
  },
  'as-given': (out, text, details, { member }) => replayAsGiven(out, text, details, member),
  'thought-signature'(out, _text, details, { needsSignature }) {
    if (!out.tool_calls) return
    const signatures = details.filter(
      ({ type, format, data }) =>
        type === 'reasoning.encrypted' && format === 'google-gemini-v1' && data,
    )
    const own = out.tool_calls.map(
      (call: any): unknown =>
        signatures.find(({ id }) => id && id === call.id)?.data ??
        call.extra_content?.google?.thought_signature,
    )
    // One without a call belongs to the first.
    const first = signatures.find(({ id }) => !out.tool_calls.some((call: any) => call.id === id))
    own[0] ??= first?.data ?? (needsSignature ? SKIP_SIGNATURE : undefined)
    out.tool_calls = out.tool_calls.map(({ extra_content: _given, ...call }: any, i: number) =>
      own[i] ? { ...call, extra_content: { google: { thought_signature: own[i] } } } : call,
    )
  },
}

function visible(details: readonly ReasoningDetail[]): string {
  return details.map((detail) => detail.text ?? detail.summary ?? '').join('')
}

// Tools of a request and the choice among them.

/** Differences between vendors in tools. */
export interface ToolQuirks {
  /** Has tools of type `custom`; elsewhere they are offered as functions. */
  readonly customTools?: true
  /** Keywords that are refused at the root of a function's schema. */
  readonly refusedRoots?: readonly string[]
  /** Knows the choice `allowed_tools`; elsewhere only the allowed tools are sent. */
  readonly allowedTools?: true
  /**
   * What happens to a choice that forces a call: `ignored` by the vendor, or `unreasoned`, which means refused while the
   * model reasons.
   */
  readonly forcedTools?: 'ignored' | 'unreasoned'
  /** Models that cannot be without reasoning, by their names. */
  readonly alwaysReasons?: RegExp
  /** Takes no tools; calls and results of other models are in the text. */
  readonly noTools?: true
}

/** The members of a request about tools. */
interface ToolMembers {
  tools?: unknown
  tool_choice?: unknown
  parallel_tool_calls?: unknown
}

/** Whether the client forces the model to call a tool. */
function isForced(choice: any): boolean {
  if (typeof choice !== 'object' || choice === null) return choice === 'required'
  return choice.type !== 'allowed_tools' || choice.allowed_tools?.mode === 'required'
}

/**
 * The reasoning of a request. Reasoning is a hint and a forced choice is not: where a vendor refuses both together,
 * reasoning is turned off.
 * @param honours the deployment takes forced choices, whatever the vendor's row says
 * @throws the failure class `bad_request` for a forced choice that the model cannot have
 */
export function reasoningBeside(
  { reasoning, tools, tool_choice }: ChatInput,
  model: string,
  { forcedTools, alwaysReasons }: ToolQuirks,
  honours: boolean,
  fail: Host['fail'],
): Reasoning | undefined {
  if (!forcedTools || honours || !tools || !isForced(tool_choice)) return reasoning
  if (forcedTools === 'unreasoned' && alwaysReasons?.test(model) !== true) return { enabled: false }
  const message = 'This model cannot be forced to call a tool. Send tool_choice auto or none.'
  throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'tool_choice' })
}

/**
 * The members about tools that differ from the request; undefined removes one.
 * @throws the failure class `bad_request` for tools where the vendor takes none
 */
export function toolMembers(
  { tools, tool_choice: choice }: ChatInput,
  { allowedTools, forcedTools, noTools }: ToolQuirks,
  honours: boolean,
  fail: Host['fail'],
): ToolMembers | undefined {
  if (!tools) return undefined
  const none = { tools: undefined, tool_choice: undefined, parallel_tool_calls: undefined }
  // A vendor that ignores the choice would have the tools called.
  if (choice === 'none' && (noTools || (forcedTools === 'ignored' && !honours))) return none
  if (noTools) {
    const message = 'This model takes no tools. Leave out tools, or send tool_choice none.'
    throw fail('bad_request', message, { code: 'unsupported_parameter', param: 'tools' })
  }
  const { type, allowed_tools: allowed } = Object(choice)
  if (type !== 'allowed_tools' || allowedTools) return undefined
  const names = new Set(allowed.tools.map((tool: any) => nameOf(tool)))
  const left = tools.filter((tool) => names.has(nameOf(tool)))
  if (left.length === 0 && allowed.mode === 'auto') return none
  return { tools: left, tool_choice: allowed.mode }
}

/** The name of a tool or of a choice, with its type. */
function nameOf(tool: any): string {
  return `${tool.type} ${tool[tool.type]?.name ?? tool.name}`
}

// Calls of tools and their results in a conversation: which belong together, and an order that all vendors accept.

/** What a call is read from: an entry of `tool_calls`, or a message with a `function_call`. */
export type CallSource = any

/** The calls of a message, in either form. */
export function callSources(message: ChatMessage): readonly CallSource[] {
  const { role, tool_calls = [], function_call } = message
  if (role !== 'assistant') return []
  return tool_calls.length === 0 && function_call ? [message] : tool_calls
}

/** Calls that no result has answered, and the last one of all. */
interface Waiting {
  readonly calls: CallSource[]
  next: number
  last: CallSource
}

/**
 * Which result answers which call. An id names the last call with it. A name, which is all that results of functions
 * have, names the first call that waits.
 */
export function pairsIn(messages: readonly ChatMessage[]): ReadonlyMap<ChatMessage, CallSource> {
  const pairs = new Map<ChatMessage, CallSource>()
  const byKey = new Map<string, Waiting>()
  for (const message of messages) {
    const { role, tool_call_id, name } = message
    for (const source of callSources(message)) {
      const key = source === message ? `name:${message.function_call.name}` : `id:${source.id}`
      const waiting = byKey.get(key)
      if (waiting) {
        waiting.calls.push(source)
        waiting.last = source
      } else byKey.set(key, { calls: [source], next: 0, last: source })
    }
    if (role === 'function') {
      const waiting = byKey.get(`name:${name}`)
      const call = waiting?.calls[waiting.next]
      if (!call) continue
      waiting!.next++
      pairs.set(message, call)
    } else if (role === 'tool') {
      const waiting = byKey.get(`id:${tool_call_id}`)
      if (waiting) pairs.set(message, waiting.calls.pop() ?? waiting.last)
    }
  }
  return pairs
}

/**
 * What a vendor expects of calls: `passed` nothing; `renamed` no functions of the older form; `answered` besides a result
 * for each call, directly after the calls.
 */
export type CallRules = 'passed' | 'renamed' | 'answered'

/** Receives the number of a message whose result belongs to no call. May throw. */
type OnStray = (index: number) => void

/**
 * The conversation as a vendor expects it; the same list where it is so already. A call that was never answered gets a
 * result that says so, after the others.
 */
export function withOrderedCalls(
  messages: readonly ChatMessage[],
  rules: CallRules,
  onStray: OnStray = () => {},
): readonly ChatMessage[] {
  if (rules === 'passed' || !messages.some(hasCalls)) return messages
  const order = new CallOrder(messages, onStray)
  const next = rules === 'answered' ? order.answered() : order.renamed()
  return next.every((message, i) => message === messages[i]) ? messages : next
}

const BRIDGE = { role: 'assistant', content: RESULTS_ARE_IN } as const

/** The conversation with an answer between results and the next message, for models that require it. */
export function withBridges<Message extends { readonly role?: string }>(
  messages: readonly Message[],
): readonly (Message | typeof BRIDGE)[] {
  const isGap = ({ role }: Message, i: number) => {
    const next = messages[i + 1]?.role
    return role === 'tool' && next !== undefined && next !== 'tool' && next !== 'assistant'
  }
  if (!messages.some(isGap)) return messages
  return messages.flatMap((message, i) => (isGap(message, i) ? [message, BRIDGE] : [message]))
}

function hasCalls({ role, tool_calls, function_call }: ChatMessage): boolean {
  if (role === 'assistant') return tool_calls !== undefined || function_call !== undefined
  return role === 'tool' || role === 'function'
}

class CallOrder {
  readonly #messages: readonly ChatMessage[]
  readonly #onStray: OnStray
  readonly #pairs: ReadonlyMap<ChatMessage, CallSource>
  readonly #results = new Map<CallSource, ChatMessage[]>()
  /** Ids of calls of the older form, by their messages. */
  readonly #ids = new Map<ChatMessage, string>()

  constructor(messages: readonly ChatMessage[], onStray: OnStray) {
    this.#messages = messages
    this.#onStray = onStray
    this.#pairs = pairsIn(messages)
    for (const [result, call] of this.#pairs) {
      const results = this.#results.get(call)
      if (results) results.push(result)
      else this.#results.set(call, [result])
    }
  }

  renamed(): ChatMessage[] {
    return this.#messages.map((message) => this.#renamed(message))
  }

  answered(): ChatMessage[] {
    const next: ChatMessage[] = []
    const position = new Map(this.#messages.map((message, i) => [message, i]))
    this.#messages.forEach((message, i) => {
      if (isResult(message)) {
        if (this.#pairs.has(message)) return
        this.#onStray(i)
      }
      next.push(this.#renamed(message))
      const calls = callSources(message)
      if (calls.length === 0) return
      const results = calls.flatMap((call) => {
        const [first, ...others] = this.#results.get(call) ?? []
        return first ? [[first, ...others] as const] : []
      })
      results.sort(([one], [other]) => position.get(one)! - position.get(other)!)
      for (const [first, ...others] of results) {
        next.push(others.reduce(withContentOf, this.#renamed(first)))
      }
      for (const call of calls) {
        if (this.#results.has(call)) continue
        const tool_call_id = call === message ? this.#idOf(message) : call.id
        next.push({ role: 'tool', tool_call_id, content: NO_RESULT })
      }
    })
    return next
  }

  /** The message with `tool_calls`, or with the role `tool`. */
  #renamed(message: ChatMessage): ChatMessage {
    const { role, name, function_call, ...rest } = message
    if (role === 'function') {
      const call = this.#pairs.get(message) ?? message
      const tool_call_id = call.role ? this.#idOf(call) : call.id
      return { role: 'tool', tool_call_id, name, content: message.content ?? '' }
    }
    if (role !== 'assistant' || !function_call) return message
    const named = { role, ...(name === undefined ? {} : { name }), ...rest }
    if (rest.tool_calls?.length) return named
    const call = { id: this.#idOf(message), type: 'function', function: function_call }
    return { ...named, tool_calls: [call] }
  }

  #idOf(message: ChatMessage): string {
    let id = this.#ids.get(message)
    if (id === undefined) this.#ids.set(message, (id = `call_legacy_${this.#ids.size}`))
    return id
  }
}

/** One result for two of the same call: vendors take as many results as there are calls. */
function withContentOf(result: ChatMessage, { content }: ChatMessage): ChatMessage {
  return { ...result, content: joinedContent(result.content, content, '\n') }
}

function isResult({ role }: ChatMessage): boolean {
  return role === 'tool' || role === 'function'
}
