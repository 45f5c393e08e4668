/** Input items of the Responses API as messages of the normal form of chat. */
import { InvalidRequest } from '../../../../errors/errors.ts'
import type { ChatMessage, ReasoningDetail } from '../../../../plugin.ts'
import { fromCarrier, isCarrier } from '../shared/reasoning.ts'
import { isDropped } from './fields.ts'
import { flatName } from './names.ts'

/** Marks reasoning whose one string is this form's own. */
export const OWN_FORMATS: ReadonlySet<unknown> = new Set([
  'openai-responses-v1',
  'azure-openai-responses-v1',
])

interface Conversation {
  readonly messages: readonly ChatMessage[]
  readonly ignored: readonly string[]
  /** The reason why it cannot be translated: an item that only the vendor of this API understands. */
  readonly untranslatable: InvalidRequest | undefined
}

/** Translates valid items. @throws InvalidRequest for changed reasoning */
export function toConversation({ instructions, input }: Record<string, any>): Conversation {
  const builder = new MessagesBuilder()
  if (instructions) builder.messages.push({ role: 'developer', content: instructions })
  if (typeof input === 'string') builder.messages.push({ role: 'user', content: input })
  else input.forEach((item: any, index: number) => builder.add(item, `input[${index}]`))
  const { messages, ignored, untranslatable } = builder
  return { messages: messages.map(closed), ignored, untranslatable }
}

export function endsWithQuestion({ input }: Record<string, any>): boolean {
  if (typeof input === 'string') return true
  const { type = 'message', role } = input.at(-1)
  return type === 'message' && role === 'user'
}

/** An assistant message that grows: items directly behind one another make up one answer. */
interface Answer {
  role: 'assistant'
  content: any[]
  tool_calls: any[]
  reasoning_details: ReasoningDetail[]
  phase?: string
}

class MessagesBuilder {
  readonly messages: (ChatMessage | Answer)[] = []
  readonly ignored: string[] = []
  untranslatable: InvalidRequest | undefined
  #answer: Answer | undefined

  add(item: any, path: string): void {
    const type: string = item.type ?? 'message'
    switch (type) {
      case 'message':
        return item.role === 'assistant' ? this.#say(item) : this.#push(toMessage(item))
      case 'agent_message':
        return this.#push({ role: 'user', content: agentText(item) })
      case 'reasoning':
        return this.#think(item, path)
      case 'function_call':
      case 'custom_tool_call':
        return this.#call(toCall(item))
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#push(toResult(item, contentOf(item.output)))
      case 'local_shell_call':
      case 'shell_call':
      case 'apply_patch_call':
        return this.#call(toOwnCall(item))
      case 'local_shell_call_output':
      case 'shell_call_output':
      case 'apply_patch_call_output':
        return this.#push(toResult(item, textOf(item.output ?? item.status ?? '')))
      case 'additional_tools':
        return
      default:
        if (isDropped(type)) this.ignored.push(`${path}.${type}`)
        else this.untranslatable ??= foreignItem(type, path)
    }
  }

  #push(message: ChatMessage): void {
    this.#answer = undefined
    this.messages.push(message)
  }

  #open(): Answer {
    if (!this.#answer) {
      this.#answer = { role: 'assistant', content: [], tool_calls: [], reasoning_details: [] }
      this.messages.push(this.#answer)
    }
    return this.#answer
  }

  #say({ content, phase }: any): void {
    const answer = this.#open()
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    answer.content.push(...(typeof content === 'string' ? parts : parts.map(partOf)))
    if (typeof phase === 'string') answer.phase = phase
  }

  #call(call: object): void {
    this.#open().tool_calls.push(call)
  }

  #think(item: any, path: string): void {
    const entries = detailsOf(item, `${path}.encrypted_content`)
    if (entries.length === 0) return
    const { reasoning_details: details } = this.#open()
    for (const detail of entries) details.push({ ...detail, index: details.length })
  }
}

function closed(message: ChatMessage | Answer): ChatMessage {
  if (message.role !== 'assistant') return message
  const { role, content, tool_calls, reasoning_details, ...others } = message as Answer
  return {
    role,
    content: content.length > 0 ? content : tool_calls.length > 0 ? null : '',
    ...others,
    ...(tool_calls.length > 0 && { tool_calls }),
    ...(reasoning_details.length > 0 && { reasoning_details }),
  }
}

function toMessage({ role, content }: any): ChatMessage {
  return { role, content: contentOf(content) }
}

function contentOf(content: any): string | any[] {
  if (typeof content === 'string') return content
  return content.length > 0 ? content.map(partOf) : ''
}

function partOf(part: any): object {
  switch (part.type) {
    case 'refusal':
      return { type: 'refusal', refusal: part.refusal }
    case 'input_image': {
      const { image_url: url, detail } = part
      return { type: 'image_url', image_url: { url, ...(detail && { detail }) } }
    }
    case 'input_file': {
      const { filename, file_data, file_url } = part
      return {
        type: 'file',
        file: { filename: filename || 'file', file_data: file_data || file_url },
      }
    }
    case 'input_audio': {
      const { data, format } = part.input_audio
      return { type: 'input_audio', input_audio: { data, format } }
    }
    default:
      return { type: 'text', text: part.text }
  }
}

function agentText({ content }: { content?: string | any[] }): string {
  if (typeof content === 'string') return content
  return (content ?? []).map(({ text }) => text ?? '').join('\n')
}

function toCall({ type, call_id: id, name, namespace, input, arguments: args }: any): object {
  const flat = flatName({ name, namespace })
  return type === 'custom_tool_call'
    ? { id, type: 'custom', custom: { name: flat, input } }
    : { id, type: 'function', function: { name: flat, arguments: args } }
}

function toOwnCall({ type, call_id: id, action, operation }: any): object {
  const name = type.replace(/_call$/, '')
  const args = JSON.stringify(action ?? operation ?? {})
  return { id, type: 'function', function: { name, arguments: args } }
}

function toResult({ call_id, id }: any, content: string | any[]): ChatMessage {
  return { role: 'tool', tool_call_id: call_id ?? id ?? '', content }
}

function textOf(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output)
}

/** The entries of a reasoning item; none for an empty item, such as one whose content was stored elsewhere. */
function detailsOf({ id, summary, content, encrypted_content: opaque }: any, path: string) {
  const texts = (list: any): string[] => (list ?? []).map(({ text }: any) => text ?? '')
  const shown = content?.length > 0 ? texts(content) : texts(summary)
  const visible = shown.filter(Boolean)
  if (!opaque) {
    const own = { id: null, format: null }
    return visible.map((text): ReasoningDetail => ({ type: 'reasoning.text', text, ...own }))
  }
  // Which of the vendors with this form encrypted it is not known here; each tells its own.
  const detail: ReasoningDetail = isCarrier(opaque)
    ? fromCarrier(opaque, visible.join('\n\n'), path)
    : { type: 'reasoning.encrypted', data: opaque, id: id ?? null, format: null }
  if (detail.type !== 'reasoning.encrypted') return [detail]
  const { id: own, format } = detail
  const summaries = visible.map((text): ReasoningDetail => ({
    type: 'reasoning.summary',
    summary: text,
    id: own!,
    format: format!,
  }))
  return [...summaries, detail]
}

function foreignItem(type: string, path: string): InvalidRequest {
  if (type === 'compaction') {
    const message = 'This history was compacted by another model; only that model can read it.'
    return new InvalidRequest('unsupported_value', message, { param: path })
  }
  const shown = JSON.stringify(type.slice(0, 64))
  const message = `Invalid '${path}.type': ${shown} is no type of item that this model takes.`
  return new InvalidRequest('invalid_value', message, { param: `${path}.type` })
}
