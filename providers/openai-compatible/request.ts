/** Builds the chat request for a vendor. */
import { hash } from 'node:crypto'
import type { ChatInput, Reasoning, ChatMessage, ReasoningDetail } from '../../src/plugin.ts'
import type { Quirks } from './quirks.ts'
import { isOff } from './reasoning.ts'

/** Options of a deployment that change its requests. */
interface RequestOptions {
  /** Whether reasoning of earlier turns is sent to the model. By default as the vendor expects. */
  readonly replayReasoning?: boolean | undefined
  /** Members, in the vendor's names, that this model refuses. */
  readonly omit?: readonly string[] | undefined
}

/** Builds the body of `POST /chat/completions`. */
export function toBody(
  input: ChatInput,
  model: string,
  quirks: Quirks,
  options: RequestOptions,
): Record<string, unknown> {
  const { reasoning } = input
  const body = reasoning ? withReasoning(reasoning, input, model, quirks) : { ...input, model }
  body.messages = toMessages(input.messages, quirks, replayOf(quirks, options))
  // `undefined` is left out of JSON and is cheaper than `delete`.
  if (input.stream) Object.assign(body, quirks.streamed)
  else if (input.stream !== undefined) body.stream = undefined
  if (input.cache_control !== undefined && !(input.cache_control && quirks.cacheControl)) {
    body.cache_control = undefined
  }
  if (input.tools && !quirks.cacheControl) body.tools = input.tools.map(withoutMarker)
  if (quirks.sessionAsCacheKey && input.session_id) {
    body.prompt_cache_key ??= hash('sha256', String(input.session_id), 'hex').slice(0, 32)
  }
  if (quirks.schemaInPrompt) putSchemaInPrompt(body)
  if (quirks.arrange) body.messages = quirks.arrange(body.messages as Outgoing[])
  const { caps, renames } = quirks
  for (const name in caps) if (Number(body[name]) > caps[name]!) body[name] = caps[name]
  for (const from in renames) {
    if (body[from] === undefined) continue
    body[renames[from]!] = body[from]
    delete body[from]
  }
  omit(body, quirks.drops)
  omit(body, quirks.refuses?.(model, isOff(reasoning)))
  omit(body, options.omit)
  for (const name in body) {
    if (body[name] === null || quirks.knows?.has(name) === false) delete body[name]
  }
  return body
}

function withReasoning(
  reasoning: Reasoning,
  { reasoning: _ours, ...given }: ChatInput,
  model: string,
  quirks: Quirks,
): Record<string, unknown> {
  return { ...quirks.toReasoning(reasoning, model, given.max_completion_tokens), ...given, model }
}

function omit(body: Record<string, unknown>, names: readonly string[] = []): void {
  for (let i = 0; i < names.length; i++) if (body[names[i]!] !== undefined) delete body[names[i]!]
}

function replayOf(quirks: Quirks, { replayReasoning }: RequestOptions): Replay | undefined {
  const wanted = replayReasoning ?? !quirks.replayOnRequest
  if (!wanted) return undefined
  // The most common name among servers with such a member.
  return quirks.replay ?? (replayReasoning ? 'reasoning_content' : undefined)
}

function withoutMarker(tool: any): unknown {
  if (tool.cache_control === undefined) return tool
  const { cache_control: _marker, ...rest } = tool
  return rest
}

function putSchemaInPrompt(body: Record<string, any>): void {
  if (body.response_format?.type !== 'json_schema') return
  const schema = JSON.stringify(body.response_format.json_schema?.schema ?? {})
  const content = `Answer with one JSON object, and nothing else. It must be valid under this JSON Schema:\n${schema}`
  body.response_format = { type: 'json_object' }
  body.messages = [{ role: 'system', content }, ...body.messages]
}

/** Where a vendor expects the reasoning of earlier turns. */
export type Replay =
  | 'reasoning_content'
  | 'reasoning'
  | 'reasoning_details'
  | 'think-tags'
  | 'thinking-parts'
  | 'thought-signature'

/** Differences between vendors in messages. */
export interface MessageQuirks {
  /** Knows OpenAI's newest members: the role `developer`, refusals, image detail `original`. */
  readonly current?: true
  /** Accepts `cache_control`; elsewhere it is removed. */
  readonly cacheControl?: true
  /** Accepts `annotations` in messages. */
  readonly annotations?: true
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
  replay: Replay | undefined,
): readonly Outgoing[] {
  const fits = (message: ChatMessage) => isFit(message, quirks, replay)
  if (messages.every(fits)) return messages
  return messages.map((message) => (fits(message) ? message : toMessage(message, quirks, replay)))
}

/** Merges adjacent messages of one role, for vendors that require alternating roles. */
export function takeTurns(messages: readonly Outgoing[]): Outgoing[] {
  const turns: Outgoing[] = []
  for (const message of messages) {
    const last = turns.at(-1)
    if (last?.role === message.role) last!.content = joined(last!.content, message.content)
    else turns.push({ ...message })
  }
  return turns
}

/** Whether a message needs no change. */
function isFit(message: ChatMessage, quirks: MessageQuirks, replay: Replay | undefined): boolean {
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
  if (Array.isArray(content) && !content.every((part) => isFitPart(part, quirks))) return false
  if (role !== 'assistant') return tool_calls === undefined
  if (tool_calls === undefined) return content !== undefined && content !== null
  return !replay && Array.isArray(tool_calls) && tool_calls.length > 0 && content !== undefined
}

function mayStay(member: unknown, isKnown: true | undefined): boolean {
  return member === undefined || (isKnown === true && Boolean(member))
}

function toMessage(
  message: ChatMessage,
  quirks: MessageQuirks,
  replay: Replay | undefined,
): Outgoing {
  const {
    role,
    content,
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
  out.content = Array.isArray(content) ? toParts(content, quirks) : content
  if (cache_control && quirks.cacheControl) out.cache_control = cache_control
  if (annotations && quirks.annotations) out.annotations = annotations
  if (role !== 'assistant') return out
  if (Array.isArray(tool_calls) && tool_calls.length > 0) out.tool_calls = tool_calls
  if (typeof refusal === 'string') {
    if (quirks.current) out.refusal = refusal
    else out.content ||= refusal
  }
  // `null` is only accepted beside tool calls.
  out.content ??= out.tool_calls ? null : ''
  if (replay) {
    const details: readonly ReasoningDetail[] = reasoning_details ?? []
    REPLAYS[replay](out, reasoning || reasoning_content || visible(details), details)
  }
  return out
}

const REPLAYS: Readonly<
  Record<Replay, (out: Outgoing, text: string, details: readonly ReasoningDetail[]) => void>
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
    if (text) out.content = joined(`<think>${text}</think>`, out.content)
  },
  'thinking-parts'(out, text, details) {
    if (!text) return
    // Signatures of other vendors have their own format.
    const signature = details.find((one) => one.signature && one.format === 'unknown')?.signature
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text }] }
    out.content = [signature ? { ...thinking, signature } : thinking, ...listOf(out.content)]
  },
  'thought-signature'(out, _text, details) {
    const signature = details.find(
      (detail) => detail.type === 'reasoning.encrypted' && detail.format === 'google-gemini-v1',
    )?.data
    if (!signature || !out.tool_calls) return
    const [first, ...others] = out.tool_calls
    const extra_content = { google: { thought_signature: signature } }
    out.tool_calls = [{ ...first, extra_content }, ...others]
  },
}

function visible(details: readonly ReasoningDetail[]): string {
  return details.map((detail) => detail.text ?? detail.summary ?? '').join('')
}

function toParts(content: readonly any[], quirks: MessageQuirks): readonly any[] {
  return content.map((part) => (isFitPart(part, quirks) ? part : toPart(part, quirks)))
}

/** Whether a content part needs no change. */
function isFitPart(part: any, quirks: MessageQuirks): boolean {
  if (!mayStay(part.cache_control, quirks.cacheControl)) return false
  switch (part.type) {
    case 'image_url':
      return quirks.current === true || part.image_url.detail !== 'original'
    case 'file':
      return typeof part.file?.file_data !== 'string'
        ? part.file !== undefined && part.file !== null
        : isDataUrl(part.file.file_data)
    case 'refusal':
      return quirks.current === true
    default:
      return true
  }
}

function isDataUrl(text: string): boolean {
  return /^data:/i.test(text)
}

function toPart(part: any, quirks: MessageQuirks): any {
  const { cache_control, ...rest } = part
  const marker = cache_control && quirks.cacheControl ? { cache_control } : undefined
  switch (part.type) {
    case 'image_url':
      if (part.image_url.detail !== 'original' || quirks.current) return { ...rest, ...marker }
      return { ...rest, image_url: { ...part.image_url, detail: 'high' }, ...marker }
    case 'file': {
      const file = part.file ?? {}
      const bare = typeof file.file_data === 'string' && !isDataUrl(file.file_data)
      // PDF is the only kind of file that these vendors accept.
      const file_data = bare ? `data:application/pdf;base64,${file.file_data}` : file.file_data
      return { ...rest, file: { ...file, file_data }, ...marker }
    }
    case 'refusal':
      return quirks.current ? { ...rest, ...marker } : { type: 'text', text: part.refusal }
    default:
      return { ...rest, ...marker }
  }
}

function joined(before: any, after: any): any {
  if (Array.isArray(before) || Array.isArray(after)) return [...listOf(before), ...listOf(after)]
  return [before, after].filter(Boolean).join('\n\n')
}

function listOf(content: any): any[] {
  if (Array.isArray(content)) return content
  return content ? [{ type: 'text', text: content }] : []
}
