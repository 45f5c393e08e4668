/** Conversations for Mistral. */
import { hash } from 'node:crypto'
import { EMPTY } from '../shared/conversations.ts'
import { withBridges, isBlank, type Outgoing } from './content.ts'

/** Members that Mistral accepts per role. Others are refused. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls'],
  tool: ['role', 'content', 'tool_call_id', 'name'],
}

/**
 * Removes unknown members, gives tool calls ids of nine letters and digits, converts content parts, fills blank messages
 * of the user, puts an answer between results and the next message, and marks an answer that is to be continued.
 */
export function toMistral(messages: readonly Outgoing[]): Outgoing[] {
  const names = new Map<string, string>()
  const said: readonly Outgoing[] = withBridges(messages.filter((message) => !isNothing(message)))
  const arranged = said.map((message, position) => {
    const out: Outgoing = {}
    for (const name of MEMBERS[message.role] ?? Object.keys(message)) {
      if (message[name] !== undefined) out[name] = message[name]
    }
    if (out.role === 'user' && isBlank(out.content)) out.content = EMPTY
    if (Array.isArray(out.content)) out.content = out.content.map(toPart)
    if (out.tool_calls) {
      out.tool_calls = out.tool_calls.map((call: any) => {
        names.set(call.id, call.function?.name)
        return { id: toCallId(call.id), type: call.type, function: call.function }
      })
    }
    if (typeof out.tool_call_id === 'string') {
      // Older models require the name of the tool again.
      out.name ??= names.get(out.tool_call_id)
      out.tool_call_id = toCallId(out.tool_call_id)
    }
    if (out.role === 'assistant' && position === said.length - 1) out.prefix = true
    return out
  })
  return endedByUser(arranged)
}

/** An answer without text and calls, which Mistral refuses. */
function isNothing({ role, content, tool_calls }: Outgoing): boolean {
  return role === 'assistant' && !tool_calls && isBlank(content)
}

/** Mistral does not answer a system message, nor nothing at all, so the last message becomes the user's. */
function endedByUser(messages: Outgoing[]): Outgoing[] {
  const last = messages.at(-1)
  if (!last) return [{ role: 'user', content: EMPTY }]
  if (last.role !== 'system') return messages
  const content = isBlank(last.content) ? EMPTY : last.content
  return [...messages.slice(0, -1), { role: 'user', content }]
}

/** The same id always maps to the same result, so calls and results still match. */
function toCallId(id: unknown): string {
  const given = String(id)
  if (/^[a-zA-Z0-9]{9}$/.test(given)) return given
  const digest = BigInt(`0x${hash('sha256', given, 'hex').slice(0, 16)}`)
  return digest.toString(36).padStart(9, '0').slice(-9)
}

function toPart(part: any): any {
  if (part.type === 'input_audio') return { type: part.type, input_audio: part.input_audio?.data }
  if (part.type !== 'file') return part
  const { file_data, filename } = part.file
  return {
    type: 'document_url',
    document_url: file_data,
    ...(filename ? { document_name: filename } : {}),
  }
}

/** The tools as Mistral requires them, with parameters. */
export function toMistralTools(tools: readonly any[]): readonly any[] {
  return tools.map((tool) => {
    const { parameters, ...rest } = tool.function
    const given = parameters && Object.keys(parameters).length > 0
    return given
      ? tool
      : { ...tool, function: { ...rest, parameters: { type: 'object', properties: {} } } }
  })
}
