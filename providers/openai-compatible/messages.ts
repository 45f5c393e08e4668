/** The conversation, in the words a vendor takes; and how earlier reasoning is handed back to it. */
import type { Message, ReasoningDetail } from '../../src/plugin.ts'

/** Where a vendor wants the reasoning of earlier turns. */
export type Replay =
  | 'reasoning_content'
  | 'reasoning'
  | 'reasoning_details'
  | 'think-tags'
  | 'thinking-parts'
  | 'thought-signature'

/** What a row of the quirk table says about messages. */
export interface MessageQuirks {
  /** Knows OpenAI's newest members: role developer, refusals, image detail `original`. */
  readonly current?: true
  /** Takes `cache_control`; elsewhere it is left out. */
  readonly cacheControl?: true
  /** Takes `annotations` back. */
  readonly annotations?: true
}

/** A message on its way out; of no particular shape any more. */
export type Outgoing = Record<string, any>

/** @param replay none: earlier reasoning is left out */
export function toMessages(
  messages: readonly Message[],
  quirks: MessageQuirks,
  replay: Replay | undefined,
): Outgoing[] {
  return messages.map((message) => toMessage(message, quirks, replay))
}

/** Neighbours of the same role become one message, for vendors that insist on taking turns. */
export function takeTurns(messages: readonly Outgoing[]): Outgoing[] {
  const turns: Outgoing[] = []
  for (const message of messages) {
    const last = turns.at(-1)
    if (last?.role === message.role) last!.content = joined(last!.content, message.content)
    else turns.push({ ...message })
  }
  return turns
}

function toMessage(message: Message, quirks: MessageQuirks, replay: Replay | undefined): Outgoing {
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
    ...rest
  } = message
  const out: Outgoing = { role: role === 'developer' && !quirks.current ? 'system' : role, ...rest }
  out.content = Array.isArray(content) ? content.map((part) => toPart(part, quirks)) : content
  if (cache_control && quirks.cacheControl) out.cache_control = cache_control
  if (annotations && quirks.annotations) out.annotations = annotations
  if (role !== 'assistant') return out
  if (Array.isArray(tool_calls) && tool_calls.length > 0) out.tool_calls = tool_calls
  if (typeof refusal === 'string') {
    if (quirks.current) out.refusal = refusal
    else out.content ||= refusal
  }
  // Null means something beside tool calls only; elsewhere it is refused.
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
    // Thinking models refuse a tool call without it, and take an empty one.
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
    // Signatures of other vendors bear their names.
    const signature = details.find((one) => one.signature && one.format === 'unknown')?.signature
    const thinking = { type: 'thinking', thinking: [{ type: 'text', text }] }
    out.content = [signature ? { ...thinking, signature } : thinking, ...toParts(out.content)]
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

function toPart(part: any, quirks: MessageQuirks): any {
  const { cache_control, ...rest } = part
  const marker = cache_control && quirks.cacheControl ? { cache_control } : undefined
  switch (part.type) {
    case 'image_url':
      if (part.image_url.detail !== 'original' || quirks.current) return { ...rest, ...marker }
      return { ...rest, image_url: { ...part.image_url, detail: 'high' }, ...marker }
    case 'file': {
      const file = part.file ?? {}
      const bare = typeof file.file_data === 'string' && !/^data:/i.test(file.file_data)
      // PDF is the one kind of file that these vendors take.
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
  if (Array.isArray(before) || Array.isArray(after)) return [...toParts(before), ...toParts(after)]
  return [before, after].filter(Boolean).join('\n\n')
}

function toParts(content: any): any[] {
  if (Array.isArray(content)) return content
  return content ? [{ type: 'text', text: content }] : []
}
