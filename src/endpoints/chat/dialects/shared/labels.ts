/**
 * Texts of a body that its normal form does not say: ids, names, members that only a vendor knows. Some vendors get the body
 * as it is, so guards with exact rules read them too.
 */
import { isObject } from '../../../../errors/checks.ts'
import { stringsIn, stringsInJson } from '../../../shared/texts.ts'
import type { ChatRequest } from '../../request.ts'

/** What in a body is no text of the client's. */
export interface WireWords {
  /** Top-level members that go nowhere, or are read elsewhere. */
  readonly own: ReadonlySet<string>
  /** Names of members that the wire format has. */
  readonly names: ReadonlySet<string>
  /** Words of the wire format, by the member that has them. */
  readonly values: ReadonlyMap<string, ReadonlySet<string>>
  /** Members that hold no words, by the type of their object: signatures, media, encrypted text. */
  readonly opaque: ReadonlyMap<string, string>
}

/** Strings and names of members in a body that guards do not read in the normal form, once each. Not recursive. */
export function labelsIn(body: object, request: ChatRequest, words: WireWords): string[] {
  const read = textsRead(request)
  const labels = new Set<string>()
  const add = (text: string) => {
    if (text !== '' && !read.has(text)) labels.add(text)
  }
  const rest: unknown[] = [withoutOwn(body, words.own)]
  while (rest.length > 0) {
    const next = rest.pop()
    if (Array.isArray(next)) {
      for (const item of next) {
        if (typeof item === 'string') add(item)
        else rest.push(item)
      }
    } else if (isObject(next)) {
      const hidden = words.opaque.get(String(next.type))
      for (const [name, value] of Object.entries(next)) {
        if (!words.names.has(name)) add(name)
        if (typeof value !== 'string') rest.push(value)
        else if (name === hidden && isOpaque(value)) continue
        else if (!words.values.get(name)?.has(value)) add(value)
      }
    }
  }
  return [...labels]
}

/** Base64 of either alphabet, or a carrier of reasoning; anything else has to be read. */
function isOpaque(text: string): boolean {
  return /^(?:sg1\.)?[A-Za-z0-9+/_-]*={0,2}\s*$/.test(text)
}

/** Base64, bare or in a data URL, or an address, which guards read. */
function isMedia(text: string): boolean {
  if (/^https?:/i.test(text.slice(0, 6))) return true
  return isOpaque(/^data:/i.test(text.slice(0, 5)) ? text.slice(text.indexOf(',') + 1) : text)
}

function withoutOwn(body: object, own: ReadonlySet<string>): object {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !own.has(name)))
}

/** The texts that guards read in the normal form. */
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
