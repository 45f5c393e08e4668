/** The conversation of Anthropic's Messages API in the normal form of chat. */
import type { ChatMessage, ReasoningDetail } from '../../../../plugin.ts'
import { itemsOf, membersOf } from '../../../../stream/raw-json.ts'
import { fromCarrier, isCarrier } from '../shared/reasoning.ts'
import { isVendorResult } from './fields.ts'

/** Marks reasoning whose one string is this form's own. */
export const OWN_FORMAT = 'anthropic-claude-v1'

/** The beginning of a coding assistant's note about itself for the vendor. */
const NOTE = 'x-anthropic-billing-header:'
const MAX_NOTE = 256

interface Conversation {
  readonly messages: readonly ChatMessage[]
  readonly ignored: readonly string[]
}

/** @param text the body, from which the inputs of calls are copied @throws InvalidRequest for changed reasoning */
export function toConversation(body: Record<string, any>, text: string): Conversation {
  const ignored: string[] = []
  const messages: ChatMessage[] = []
  const system = systemMessage(body.system)
  if (system) messages.push(system)
  const entries: any[] = body.messages
  const inputs = inputsIn(entries, text)
  entries.forEach((message, index) => {
    const path = `messages[${index}]`
    const blocks = blocksOf(message)
    const kept = blocks.filter(([{ type, content }, place]) => {
      if (isVendorResult(type)) ignored.push(`${path}.content[${place}].${type}`)
      // A summary that failed says nothing.
      return !isVendorResult(type) && (type !== 'compaction' || content)
    })
    if (message.role === 'assistant') {
      const input = (place: number) => inputs(index, place)
      messages.push(answerMessage(message, kept, input, path))
    } else if (message.role === 'user') {
      messages.push(...userMessages(message, kept))
    } else messages.push({ role: 'system', content: contentOf(message.content) })
  })
  return { messages, ignored }
}

/** Whether a text is a coding assistant's note: pairs of a name and a value. With more in it, it is one for the model. */
export function isBillingNote(text: string): boolean {
  if (!text.startsWith(NOTE) || text.length > MAX_NOTE) return false
  const pairs = text.slice(NOTE.length).split(/[;\s]+/)
  return pairs.every((pair) => pair === '' || /^[\w.-]+=[\w.:-]*$/.test(pair))
}

export function endsWithQuestion({ messages }: Record<string, any>): boolean {
  const { role, content } = messages.at(-1)
  if (role !== 'user') return false
  return typeof content === 'string' || content.some(({ type }: any) => type !== 'tool_result')
}

type Placed = readonly [block: any, place: number]

function blocksOf({ content }: any): Placed[] {
  return typeof content === 'string' ? [] : content.map((block: any, i: number) => [block, i])
}

function systemMessage(system: string | any[] | undefined): ChatMessage | undefined {
  if (typeof system === 'string') return system ? { role: 'system', content: system } : undefined
  const blocks = (system ?? []).filter(({ text }) => !isBillingNote(text))
  return blocks.length > 0 ? { role: 'system', content: contentOf(blocks) } : undefined
}

function contentOf(content: any): string | any[] {
  return typeof content === 'string' ? content : content.flatMap(partsOf)
}

/** Results of tools come first, each as a message of its own. */
function userMessages({ content }: any, blocks: readonly Placed[]): ChatMessage[] {
  if (typeof content === 'string') return [{ role: 'user', content }]
  const results = blocks.filter(([{ type }]) => type === 'tool_result')
  const others = blocks.filter(([{ type }]) => type !== 'tool_result')
  const messages: ChatMessage[] = results.map(([block]) => ({
    role: 'tool',
    tool_call_id: block.tool_use_id,
    content: contentOf(block.content ?? ''),
    ...(block.is_error === true && { is_error: true }),
    ...cacheMark(block),
  }))
  if (others.length > 0 || messages.length === 0) {
    messages.push({ role: 'user', content: others.flatMap(([block]) => partsOf(block)) })
  }
  return messages
}

function answerMessage(
  { content }: any,
  blocks: readonly Placed[],
  inputOf: (place: number) => string,
  path: string,
): ChatMessage {
  if (typeof content === 'string') return { role: 'assistant', content }
  const texts: any[] = []
  const calls: any[] = []
  const details: ReasoningDetail[] = []
  let characters = 0
  for (const [block, place] of blocks) {
    const words = textOf(block)
    if (words !== undefined) {
      texts.push(...partsOf(block))
      characters += words.length
    } else if (block.type === 'tool_use') {
      const called = { name: block.name, arguments: inputOf(place) }
      calls.push({ id: block.id, type: 'function', function: called, ...cacheMark(block) })
    } else {
      const id = positionOf(characters, calls.length)
      const detail = detailOf(block, id, `${path}.content[${place}].signature`)
      details.push({ ...detail, index: details.length })
    }
  }
  return {
    role: 'assistant',
    content: texts.length > 0 ? texts : calls.length > 0 ? null : '',
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(details.length > 0 && { reasoning_details: details }),
  }
}

/** The position of a block of reasoning behind texts and calls; null at the start. Providers write the same. */
function positionOf(characters: number, calls: number): string | null {
  return characters === 0 && calls === 0 ? null : `after-${characters}-${calls}`
}

function detailOf(
  { type, data, thinking, signature }: any,
  id: string | null,
  path: string,
): ReasoningDetail {
  if (type === 'redacted_thinking') {
    return { type: 'reasoning.encrypted', data, id, format: OWN_FORMAT }
  }
  if (signature && isCarrier(signature)) return fromCarrier(signature, thinking, path)
  const signed = signature ? { signature } : {}
  return { type: 'reasoning.text', text: thinking, ...signed, id, format: OWN_FORMAT }
}

function partsOf(block: any): any[] {
  const { type } = block
  const text = textOf(block)
  if (text !== undefined) return [{ type: 'text', text, ...cacheMark(block) }]
  const parts =
    type === 'image' ? [imageOf(block)] : type === 'document' ? documentOf(block) : resultOf(block)
  return parts.map((part, i) => (i < parts.length - 1 ? part : { ...part, ...cacheMark(block) }))
}

/** The words of a block that has nothing else. A name or a summary does not run into the text behind it. */
function textOf({ type, text, tool_name, content }: any): string | undefined {
  switch (type) {
    case 'text':
      return text
    case 'tool_reference':
      return `${tool_name}\n`
    case 'compaction':
      return `${content}\n\n`
  }
  return undefined
}

function imageOf({ source }: any): object {
  const url = source.type === 'url' ? source.url : dataUrl(source.media_type, source.data)
  return { type: 'image_url', image_url: { url } }
}

function documentOf({ source, title, context }: any): object[] {
  const notes = [title, context].filter(Boolean).map(textPart)
  const filename = title || 'document.pdf'
  switch (source.type) {
    case 'text':
      return [...notes, textPart(source.data)]
    case 'content':
      return typeof source.content === 'string'
        ? [...notes, textPart(source.content)]
        : [...notes, ...source.content.flatMap(partsOf)]
    case 'url':
      return [...notesBut(context), { type: 'file', file: { filename, file_data: source.url } }]
    default: {
      const file_data = dataUrl(source.media_type, source.data)
      return [...notesBut(context), { type: 'file', file: { filename, file_data } }]
    }
  }
}

function notesBut(context: string | undefined): object[] {
  return context ? [textPart(context)] : []
}

function resultOf({ source, title, content }: any): object[] {
  return [title, source, ...content.map(({ text }: any) => text)].map(textPart)
}

function textPart(text: string): object {
  return { type: 'text', text }
}

function dataUrl(mediaType: string, data: string): string {
  return `data:${mediaType};base64,${data}`
}

function cacheMark({ cache_control }: any): object {
  return cache_control ? { cache_control } : {}
}

function inputsIn(
  messages: readonly any[],
  text: string,
): (message: number, place: number) => string {
  const isCall = ({ type }: any) => type === 'tool_use'
  const hasCall = ({ content }: any) => typeof content !== 'string' && content.some(isCall)
  if (!messages.some(hasCall)) return () => ''
  const last = (at: number, name: string) =>
    membersOf(text, at).findLast((one) => one.name === name)!
  const places = itemsOf(text, last(0, 'messages').start)
  const inputs = messages.map((message, index) => {
    if (!hasCall(message)) return []
    const blocks = itemsOf(text, last(places[index]!.start, 'content').start)
    return blocks.map(({ start }, place) => {
      if (!isCall(message.content[place])) return ''
      const input = last(start, 'input')
      return text.slice(input.start, input.end)
    })
  })
  return (message, place) => inputs[message]![place]!
}
