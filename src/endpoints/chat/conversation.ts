/**
 * Facts about the messages of a chat, found in one walk over them: their form for vendors, their size, the media in
 * them with the capabilities that those need and their addresses, and the last signature of a vendor. Adding a
 * message derives the result for the longer list.
 */
import type { ChatMessage, ReasoningDetail } from '../../plugin.ts'
import { eighthsOf, tokenEighths } from '../../money/plausible.ts'
import { neutralPart, type Typed } from './neutral.ts'

export interface Conversation {
  /** The messages in the form for vendors: the list itself where none of them changes. */
  readonly messages: readonly ChatMessage[]
  /** Eighths of a token of its texts, see {@link tokenEighths}. */
  readonly eighths: number
  /** UTF-8 bytes of the form for vendors, see {@link bytesIn}. */
  readonly bytes: number
  readonly media: Media
  /** The path of the first part in the client's own list that needs a capability, for each capability. */
  readonly needs: MediaNeeds
  readonly addresses: readonly MediaAddress[]
  /** The signature of the last answer that has one: only the vendor that gave it accepts it. */
  readonly signature: string | undefined
}

interface Media {
  readonly parts: number
  /** Bytes of the body that their data takes. */
  readonly inlineBytes: number
  readonly imageTokens: number
  readonly soundTokens: number
  readonly fileTokens: number
}

type MediaNeeds = Partial<Record<'VISION' | 'AUDIO_INPUT' | 'FILE_INPUT', string>>

interface MediaAddress {
  readonly url: string
  /** Index of its message. */
  readonly at: number
  /** Path below the message. */
  readonly member: string
}

const IMAGE_TOKENS = 1500
const COARSE_IMAGE_TOKENS = 100
/** Bytes of a document for one token of its text, and the tokens of a document of unknown length. */
const FILE_BYTES_PER_TOKEN = 50
const FILE_TOKENS = 1500
const SOUND_BYTES_PER_TOKEN = 500

const WALKED = Symbol('conversation')

type Walked = readonly ChatMessage[] & { readonly [WALKED]?: Conversation }

/** The facts about a list of messages; the same list is walked once. */
export function conversationOf(messages: readonly ChatMessage[]): Conversation {
  const list: Walked = messages
  return list[WALKED] ?? remember(messages, walk(messages))
}

/** Stores the facts about a list on it, where plugins do not see them. */
function remember(messages: readonly ChatMessage[], conversation: Conversation): Conversation {
  // Lists of plugins may be frozen.
  if (Object.isExtensible(messages)) {
    Object.defineProperty(messages, WALKED, { value: conversation })
  }
  return conversation
}

/** A copy of the list with one more message of plain text, which is not walked again. */
export function withMessage(
  messages: readonly ChatMessage[],
  place: number,
  message: ChatMessage & { readonly content: string },
): readonly ChatMessage[] {
  const longer = messages.toSpliced(place, 0, message)
  const conversation = conversationOf(messages)
  const moved = (address: MediaAddress) =>
    address.at < place ? address : { ...address, at: address.at + 1 }
  remember(longer, {
    ...conversation,
    messages: longer,
    eighths: conversation.eighths + tokenEighths(message.content),
    bytes: conversation.bytes + bytesIn(message),
    addresses: conversation.addresses.map(moved),
  })
  return longer
}

export function lastSignature(details: readonly ReasoningDetail[]): string | undefined {
  for (let i = details.length - 1; i >= 0; i--) {
    const signature = details[i]?.signature || details[i]?.data
    if (signature) return signature
  }
  return undefined
}

/** UTF-8 bytes of all names and texts of a value, however deep, and eight for anything else. */
export function bytesIn(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  let bytes = 0
  const left: unknown[] = [value]
  while (left.length > 0) {
    const one = left.pop()
    if (typeof one === 'string') bytes += Buffer.byteLength(one)
    else if (typeof one !== 'object' || one === null) bytes += 8
    else if (Array.isArray(one)) for (const item of one) left.push(item)
    else {
      for (const name in one) {
        bytes += name.length
        left.push((one as Record<string, unknown>)[name])
      }
    }
  }
  return bytes
}

/** Eighths of a token of an ASCII character. */
const ASCII = 2

/** An estimate of the eighths of a token of a value's JSON text, however deep it is. */
export function jsonEighths(value: unknown): number {
  if (value === undefined || value === null) return 0
  let eighths = 0
  const left: unknown[] = [value]
  while (left.length > 0) {
    const one = left.pop()
    if (one === undefined || one === null) continue
    if (typeof one === 'string') eighths += tokenEighths(one) + 3 * ASCII
    else if (typeof one !== 'object') eighths += 5 * ASCII
    else if (Array.isArray(one)) {
      eighths += 2 * ASCII
      for (const item of one) left.push(item)
    } else {
      eighths += 2 * ASCII
      for (const name in one) {
        eighths += (name.length + 3) * ASCII
        left.push((one as Record<string, unknown>)[name])
      }
    }
  }
  return eighths
}

type Writable<T> = { -readonly [Member in keyof T]: T[Member] }

/** A {@link Conversation} while messages are added to it. */
interface Tally extends Writable<Conversation> {
  readonly media: Writable<Media>
  readonly addresses: MediaAddress[]
}

function walk(messages: readonly ChatMessage[]): Conversation {
  const media = { parts: 0, inlineBytes: 0, imageTokens: 0, soundTokens: 0, fileTokens: 0 }
  const tally: Tally = {
    messages,
    eighths: 0,
    bytes: 0,
    media,
    needs: {},
    addresses: [],
    signature: undefined,
  }
  let sent: ChatMessage[] | undefined
  let added = 0
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!
    const outbound = outboundMessage(message)
    if (outbound !== message) {
      sent ??= messages.slice(0, at)
      if (outbound.tool_calls !== message.tool_calls) {
        added += jsonEighths(outbound.tool_calls) - jsonEighths(message.tool_calls)
      }
    }
    sent?.push(outbound)
    addMessage(tally, outbound, at)
  }
  if (!sent) return tally
  const outbound = { ...tally, messages: sent }
  remember(sent, outbound)
  return { ...outbound, eighths: tally.eighths - added }
}

function addMessage(tally: Tally, message: ChatMessage, at: number): void {
  const { role, content, reasoning_details: details } = message
  for (const name in message) {
    tally.bytes += name.length
    if (name === 'content' && Array.isArray(content)) addParts(tally, content, at)
    else if (name === 'content' && typeof content === 'string') addText(tally, content)
    else tally.bytes += bytesIn(message[name])
  }
  tally.eighths += jsonEighths(message.tool_calls) + jsonEighths(message.function_call)
  if (role === 'assistant' && Array.isArray(details)) {
    tally.signature = lastSignature(details) ?? tally.signature
  }
}

function addText(tally: Tally, text: string): void {
  const bytes = Buffer.byteLength(text)
  tally.bytes += bytes
  tally.eighths += eighthsOf(bytes, text.length)
}

function addParts(tally: Tally, parts: readonly Typed[], at: number): void {
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]!
    tally.bytes += bytesIn(part)
    if (part.type !== 'text') tally.media.parts++
    const need = addMedium(tally.media, part)
    if (need) tally.needs[need] ??= `messages[${at}].content[${index}]`
    else if (typeof part.text === 'string') tally.eighths += tokenEighths(part.text)
    // Vendors may read these members in a part of any type.
    noteAddress(tally, part.image_url?.url, at, `content[${index}].image_url.url`)
    noteAddress(tally, part.file?.file_data, at, `content[${index}].file.file_data`)
  }
}

function noteAddress({ addresses }: Tally, url: unknown, at: number, member: string): void {
  if (typeof url === 'string' && isAddress(url)) addresses.push({ url, at, member })
}

/** Adds an image, a sound or a file. @returns the capability that it needs; undefined for any other part */
function addMedium(media: Writable<Media>, part: Typed): keyof MediaNeeds | undefined {
  switch (part.type) {
    case 'image_url': {
      const { url, detail } = part.image_url
      media.imageTokens += detail === 'low' ? COARSE_IMAGE_TOKENS : IMAGE_TOKENS
      media.inlineBytes += inlineBytes(url)
      return 'VISION'
    }
    case 'input_audio': {
      const { length } = part.input_audio.data
      media.soundTokens += Math.ceil(decodedBytes(length) / SOUND_BYTES_PER_TOKEN)
      media.inlineBytes += length
      return 'AUDIO_INPUT'
    }
    case 'file': {
      const bytes = inlineBytes(part.file.file_data)
      const tokens = Math.ceil(decodedBytes(bytes) / FILE_BYTES_PER_TOKEN)
      media.fileTokens += Math.max(FILE_TOKENS, tokens)
      media.inlineBytes += bytes
      return 'FILE_INPUT'
    }
    default:
      return undefined
  }
}

function isAddress(text: string): boolean {
  return /^https?:/i.test(text.slice(0, 6))
}

/** The bytes of base64 or a data URL; an address has none. */
function inlineBytes(source: string): number {
  return isAddress(source) ? 0 : source.length
}

function decodedBytes(base64Length: number): number {
  return (base64Length * 3) / 4
}

function outboundMessage(message: ChatMessage): ChatMessage {
  let next = withoutNulls(message, 'content')
  const { content, tool_calls } = next
  if (Array.isArray(content)) {
    const parts = mapped(content, outboundPart)
    if (parts !== content) next = { ...next, content: parts }
  }
  if (tool_calls === undefined) return next
  if (tool_calls.length === 0) {
    const { tool_calls: _none, ...others } = next
    return others as ChatMessage
  }
  const calls = mapped(tool_calls as readonly Typed[], typedCall)
  return calls === tool_calls ? next : { ...next, tool_calls: calls }
}

function outboundPart(part: Typed): Typed {
  if (part.type !== 'image_url') {
    return neutralPart(part.type === 'file' ? withoutInnerNulls(part) : part)
  }
  const { image_url } = part
  const own = typeof image_url === 'string' ? { ...part, image_url: { url: image_url } } : part
  return neutralPart(withoutInnerNulls(own))
}

function typedCall(call: Typed): Typed {
  return call.type ? call : { ...call, type: 'function' }
}

export function withoutInnerNulls(item: Typed): Typed {
  const inner = item[item.type]
  const content = withoutNulls(inner)
  return content === inner ? item : { ...item, [item.type]: content }
}

/** The same object unless a member other than `kept` is null. */
export function withoutNulls<T extends object>(value: T, kept?: string): T {
  for (const member in value) {
    if (value[member] !== null || member === kept) continue
    const members = Object.entries(value).filter(([name, own]) => own !== null || name === kept)
    return Object.fromEntries(members) as T
  }
  return value
}

/** The same list unless an item changes: then its source text can still be copied. */
export function mapped<T>(items: readonly T[], change: (item: T) => T): readonly T[] {
  return items.every((item) => change(item) === item) ? items : items.map(change)
}
