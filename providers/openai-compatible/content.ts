/** Content of messages: parts in the form that a vendor takes, and parts that it takes none of. */
import type { Host } from '../../src/plugin.ts'
import { asDataUrl, fileNameOf, isAddress, isDataUrl } from '../shared/files.ts'

/** Differences between vendors in the parts of messages. */
export interface ContentQuirks {
  /** Knows OpenAI's newest members: the role `developer`, refusals, image detail `original`. */
  readonly current?: true
  /** Accepts `cache_control`; elsewhere it is removed. */
  readonly cacheControl?: true
}

/** Content in either form: a text, or a list of parts. */
export type Content = string | readonly any[] | null | undefined

/** Two contents as one. @param separator between two texts */
export function joinedContent(before: Content, after: Content, separator: string): any {
  if (Array.isArray(before) || Array.isArray(after)) return [...listOf(before), ...listOf(after)]
  return [before, after].filter(Boolean).join(separator)
}

/** Content as a list of parts. */
export function listOf(content: Content): readonly any[] {
  if (Array.isArray(content)) return content
  return content ? [{ type: 'text', text: content }] : []
}

/** Whether nothing is said: no parts, or only texts that are blank. */
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
export function toParts(content: readonly any[], quirks: ContentQuirks): readonly any[] {
  if (content.every((part) => isFitPart(part, quirks))) return content
  return content.map((part) => (isFitPart(part, quirks) ? part : toPart(part, quirks)))
}

/** Whether a content part needs no change. */
export function isFitPart(part: any, quirks: ContentQuirks): boolean {
  if (!mayStay(part.cache_control, quirks.cacheControl)) return false
  switch (part.type) {
    case 'image_url':
      return quirks.current === true || part.image_url.detail !== 'original'
    case 'input_audio':
      return !part.input_audio.data.startsWith('data:')
    case 'file': {
      const { file_data, filename } = part.file ?? {}
      if (typeof file_data !== 'string') return part.file !== undefined && part.file !== null
      return isAddress(file_data) || (isDataUrl(file_data) && Boolean(filename))
    }
    case 'refusal':
      return quirks.current === true
    default:
      return true
  }
}

/** Whether a member may be sent as it is. @param isKnown whether the vendor has it */
export function mayStay(member: unknown, isKnown: true | undefined): boolean {
  return member === undefined || (isKnown === true && Boolean(member))
}

function toPart(part: any, quirks: ContentQuirks): any {
  const { cache_control, ...rest } = part
  const marker = cache_control && quirks.cacheControl ? { cache_control } : undefined
  switch (part.type) {
    case 'image_url':
      if (part.image_url.detail !== 'original' || quirks.current) return { ...rest, ...marker }
      return { ...rest, image_url: { ...part.image_url, detail: 'high' }, ...marker }
    case 'input_audio': {
      const { data } = part.input_audio
      const bare = data.startsWith('data:') ? data.slice(data.indexOf(',') + 1) : data
      return { ...rest, input_audio: { ...part.input_audio, data: bare }, ...marker }
    }
    case 'file':
      return { ...rest, file: toFile(part.file ?? {}), ...marker }
    case 'refusal':
      return quirks.current ? { ...rest, ...marker } : { type: 'text', text: part.refusal }
    default:
      return { ...rest, ...marker }
  }
}

/** A file as a data URL, with the name that vendors require. Addresses of files stay where the vendor takes them. */
function toFile({ file_data, filename, ...rest }: any): object {
  if (typeof file_data !== 'string' || isAddress(file_data)) {
    return { ...rest, ...(filename ? { filename } : {}), file_data }
  }
  const data = asDataUrl(file_data, filename)
  return { ...rest, filename: filename || fileNameOf(data), file_data: data }
}

/** What kinds of parts a message may have. */
export type TakenParts = Readonly<Partial<Record<string, ReadonlySet<string>>>>

/**
 * Checks that a vendor takes all parts of a message.
 * @param taken types of parts by the role of the message; other roles may have any
 * @param index number of the message, for the error
 * @throws the failure class `bad_request` that names the part
 */
export function checkParts(
  { role, content }: { readonly role: string; readonly content?: Content },
  taken: TakenParts,
  index: number,
  fail: Host['fail'],
): void {
  const types = taken[role]
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
