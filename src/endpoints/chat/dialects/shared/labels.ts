/**
 * Texts of a body that its normal form lacks: ids, names, members that only a vendor knows. Some vendors get the
 * body as it is, so guards with exact rules read them too.
 */
import { isObject } from '../../../../errors/checks.ts'
import { isOpaque, stringsIn, stringsInJson } from '../../../shared/texts.ts'
import type { ChatRequest } from '../../request.ts'

/** Parts of a body that are no text of the client's. */
export interface WireWords {
  /** Top-level members that go nowhere, or are read elsewhere. */
  readonly own: ReadonlySet<string>
  /** Names of members that the wire format has. */
  readonly names: ReadonlySet<string>
  /** Words of the wire format, by the member that has them. */
  readonly values: ReadonlyMap<string, ReadonlySet<string>>
  /**
   * Members that hold no words: signatures, media, encrypted text. The key is the place of their object, which is
   * the names of the members on the way to it, and its type: `messages.content thinking`. Elsewhere the same object
   * is the client's words.
   */
  readonly opaque: ReadonlyMap<string, string>
}

/** Strings and names of members in a body that guards do not read in the normal form, once each. Not recursive. */
export function labelsIn(body: object, request: ChatRequest, words: WireWords): string[] {
  const read = textsRead(request)
  const labels = new Set<string>()
  const add = (text: string) => {
    if (text !== '' && !read.has(text)) labels.add(text)
  }
  const rest: Found[] = [{ value: withoutOwn(body, words.own), place: '' }]
  while (rest.length > 0) {
    const { value: next, place } = rest.pop()!
    if (Array.isArray(next)) {
      for (const item of next) {
        if (typeof item === 'string') add(item)
        else rest.push({ value: item, place })
      }
    } else if (isObject(next)) {
      const { type } = next
      const hidden = typeof type === 'string' && words.opaque.get(`${place} ${type}`)
      for (const [name, value] of Object.entries(next)) {
        if (!words.names.has(name)) add(name)
        if (typeof value !== 'string') rest.push({ value, place: placeOf(place, name) })
        else if (name === hidden && isOpaque(value)) continue
        else if (!words.values.get(name)?.has(value)) add(value)
      }
    }
  }
  return [...labels]
}

interface Found {
  readonly value: unknown
  readonly place: string
}

/** A place where nothing is opaque, and everything below it. */
const ELSEWHERE = '?'
/** Opaque members are not deeper; places of foreign depth are not put together. */
const MAX_PLACE = 100

function placeOf(place: string, name: string): string {
  if (place.startsWith(ELSEWHERE) || place.length > MAX_PLACE || name.includes('.')) {
    return ELSEWHERE
  }
  return place === '' ? name : `${place}.${name}`
}

/** Base64, bare or in a data URL, or an address, which guards read. */
function isMedia(text: string): boolean {
  if (/^https?:/i.test(text.slice(0, 6))) return true
  return isOpaque(/^data:/i.test(text.slice(0, 5)) ? text.slice(text.indexOf(',') + 1) : text)
}

function withoutOwn(body: object, own: ReadonlySet<string>): object {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !own.has(name)))
}

function textsRead({ messages, tools, tool_choice, response_format, stop }: ChatRequest) {
  const read = new Set(stringsIn([tools, tool_choice, response_format, stop], true))
  for (const { content, tool_calls, reasoning_details } of messages) {
    if (typeof content === 'string') read.add(content)
    for (const part of Array.isArray(content) ? content : []) {
      for (const text of [part.text, part.refusal, part.file?.filename]) read.add(text)
      for (const text of [part.image_url?.url, part.file?.file_data, part.input_audio?.data]) {
        if (typeof text === 'string' && isMedia(text)) read.add(text)
      }
    }
    for (const { function: called, custom } of tool_calls ?? []) {
      if (custom) read.add(custom.name).add(custom.input)
      if (!called) continue
      read.add(called.name).add(called.arguments)
      for (const { text } of stringsInJson(called.arguments)) read.add(text)
    }
    for (const { text, summary } of reasoning_details ?? []) read.add(text ?? summary)
  }
  return read
}
