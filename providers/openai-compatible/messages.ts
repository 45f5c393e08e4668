/** Messages in the form that a vendor takes. */
import type { ChatMessage, ReasoningDetail } from '../../src/plugin.ts'
import {
  isFitPart,
  joinedContent,
  listOf,
  mayStay,
  textOnly,
  toParts,
  type ContentQuirks,
} from './content.ts'

/** Where a vendor expects the reasoning of earlier turns. */
export type Replay =
  | 'reasoning_content'
  | 'reasoning'
  | 'reasoning_details'
  | 'think-tags'
  | 'thinking-parts'
  | 'thought-signature'

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
  replay: Replay | undefined,
): readonly Outgoing[] {
  const fits = (message: ChatMessage) => isFit(message, quirks, replay)
  if (messages.every(fits)) return messages
  return messages.map((message) => (fits(message) ? message : toMessage(message, quirks, replay)))
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
  if (role === 'tool' && content === null) return false
  if (Array.isArray(content)) {
    if (isText(role, quirks) || !content.every((part) => isFitPart(part, quirks))) return false
  }
  if (role !== 'assistant') return tool_calls === undefined
  if (tool_calls === undefined) return content !== undefined && content !== null
  if (replay || !Array.isArray(tool_calls) || tool_calls.length === 0) return false
  return content !== undefined
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
  if (Array.isArray(content) && isText(role, quirks)) out.content = textOnly(content) ?? out.content
  if (role === 'tool') out.content ??= ''
  if (cache_control && quirks.cacheControl) out.cache_control = cache_control
  if (annotations && quirks.annotations) out.annotations = annotations
  if (role !== 'assistant') return out
  if (Array.isArray(tool_calls) && tool_calls.length > 0) {
    out.tool_calls = tool_calls
  }
  if (typeof refusal === 'string') {
    if (quirks.current) out.refusal = refusal
    else out.content ||= refusal
  }
  // `null` is only accepted beside tool calls.
  out.content ??= out.tool_calls || out.function_call ? null : ''
  if (replay) {
    const details: readonly ReasoningDetail[] = reasoning_details ?? []
    REPLAYS[replay](out, reasoning || reasoning_content || visible(details), details)
  }
  return out
}

function isText(role: string, { texts }: MessageQuirks): boolean {
  return texts === 'all' || (texts === 'results' && role === 'tool')
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
    if (text) out.content = joinedContent(`<think>${text}</think>`, out.content, '\n\n')
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
