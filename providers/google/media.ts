/** Text, images, audio and files as parts of a message. */
import type { ChatMessage, Host } from '../../src/plugin.ts'
import { isAddress, isDataUrl } from '../shared/files.ts'
import { isBefore } from '../shared/gemini.ts'

/** A part in Google's form. */
export type Part = Record<string, any>

/** Where a content is in the request, and for which model. */
interface Place {
  /** The path of the message. */
  readonly path: string
  readonly fail: Host['fail']
  /** Its version tells whether images have a resolution of their own. */
  readonly model: string
}

/**
 * Converts the content of a message. Empty texts are left out.
 * @throws the failure class `bad_request` for content that Google cannot take
 */
export function toParts(content: string | readonly any[] | null | undefined, place: Place): Part[] {
  if (!content) return []
  if (typeof content === 'string') return [{ text: content }]
  return content
    .map((part, position) => toPart(part, `${place.path}.content[${position}]`, place))
    .filter((part) => part.text !== '')
}

/** Whether a part is a text with white space only. */
export function isBlank({ text }: Part): boolean {
  return text !== undefined && text.trim() === ''
}

/** Google reads these itself: videos by the address of their page, and its own files. */
export function isReadByGoogle(address: string): boolean {
  const { hostname = '' } = URL.parse(address) ?? {}
  return FILE_STORE.test(hostname) || YOUTUBE.test(hostname)
}

/**
 * The resolution for all images of a request, for models before Gemini 3; undefined where images ask for several, or for
 * one that these models do not have.
 */
export function commonResolution(
  messages: readonly ChatMessage[],
  model: string,
): string | undefined {
  if (!isBefore(model, 3)) return undefined
  const details = messages.flatMap(({ content }) =>
    Array.isArray(content)
      ? content.filter(({ type }) => type === 'image_url').map(({ image_url }) => image_url.detail)
      : [],
  )
  const [first] = details
  if (first !== 'low' && first !== 'high') return undefined
  return details.every((detail) => detail === first) ? RESOLUTIONS[first] : undefined
}

const RESOLUTIONS: Readonly<Record<string, string>> = {
  low: 'MEDIA_RESOLUTION_LOW',
  high: 'MEDIA_RESOLUTION_HIGH',
  original: 'MEDIA_RESOLUTION_ULTRA_HIGH',
}

function toPart(part: any, path: string, { model, fail }: Place): Part {
  switch (part.type) {
    case 'image_url': {
      const { url, detail } = part.image_url
      const level = /gemini/.test(model) && !isBefore(model, 3) ? RESOLUTIONS[detail] : undefined
      const image = fromUrl(url, 'image/jpeg', `${path}.image_url.url`, fail)
      return level ? { ...image, mediaResolution: { level } } : image
    }
    case 'input_audio': {
      const { data, format } = part.input_audio
      const type = format === 'mp3' ? 'audio/mp3' : `audio/${format}`
      return fromUrl(data, type, `${path}.input_audio.data`, fail)
    }
    case 'file': {
      const { file_data, filename = '' } = part.file
      const type = typeOfName(filename) ?? 'application/pdf'
      return fromUrl(file_data, type, `${path}.file.file_data`, fail)
    }
    default:
      return { text: part.text ?? part.refusal ?? '' }
  }
}

/**
 * Converts media.
 * @param source a data URL, bare base64, or an address that Google reads
 * @param likely the media type when nothing else tells it
 */
function fromUrl(source: string, likely: string, path: string, fail: Fail): Part {
  if (isAddress(source)) return fromAddress(source, likely, path, fail)
  if (!isDataUrl(source)) return inline(source, likely, path, fail)
  const comma = source.indexOf(',')
  const [declared] = source.slice('data:'.length, comma).toLowerCase().split(';', 1)
  const hasType = declared && declared !== 'application/octet-stream'
  return inline(source.slice(comma + 1), hasType ? declared : likely, path, fail)
}

type Fail = Host['fail']

/** Files at Google belong to the API key. Clients must not reach the files of other clients with it. */
const FILE_STORE = /(^|\.)generativelanguage\.googleapis\.com$/
const YOUTUBE = /(^|\.)(youtube\.com|youtu\.be)$/

function fromAddress(address: string, likely: string, path: string, fail: Fail): Part {
  const url = URL.parse(address)
  if (!url) throw refused(path, 'a URL', 'invalid_value', fail)
  if (FILE_STORE.test(url.hostname)) {
    throw refused(
      path,
      'the file itself; files kept at Google cannot be referred to',
      'unsupported_value',
      fail,
    )
  }
  const mimeType = YOUTUBE.test(url.hostname) ? 'video/mp4' : (typeOfName(url.pathname) ?? likely)
  return { fileData: { mimeType, fileUri: address } }
}

function inline(data: string, declared: string, path: string, fail: Fail): Part {
  const mimeType = sniff(data) ?? declared
  if (mimeType === 'image/gif') {
    throw refused(path, 'PNG, JPEG or WebP; GIF images are not taken', 'unsupported_value', fail)
  }
  return { inlineData: { mimeType, data } }
}

/** Media types by their first bytes; `.` is any byte. */
const MAGIC: readonly (readonly [head: RegExp, type: string])[] = [
  [/^\x89PNG/, 'image/png'],
  [/^\xff\xd8\xff/, 'image/jpeg'],
  [/^GIF8/, 'image/gif'],
  [/^RIFF.{4}WEBP/s, 'image/webp'],
  [/^.{4}ftyp(heic|heix|mif1|msf1)/s, 'image/heic'],
  [/^%PDF-/, 'application/pdf'],
  [/^RIFF.{4}WAVE/s, 'audio/wav'],
  [/^ID3/, 'audio/mp3'],
  [/^fLaC/, 'audio/flac'],
]

/** The media type by the first bytes, which counts more than the declared one. */
function sniff(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, 24), 'base64').toString('latin1')
  return MAGIC.find(([start]) => start.test(head))?.[1]
}

const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  heic: 'image/heic',
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  xml: 'text/xml',
  wav: 'audio/wav',
  mp3: 'audio/mp3',
  aac: 'audio/aac',
  flac: 'audio/flac',
  ogg: 'audio/ogg',
  m4a: 'audio/mp4',
  mp4: 'video/mp4',
  mov: 'video/quicktime',
  mpeg: 'video/mpeg',
  webm: 'video/webm',
}

function typeOfName(path: string): string | undefined {
  const extension = /\.([a-z0-9]+)$/i.exec(path)?.[1]
  return extension && TYPES[extension.toLowerCase()]
}

function refused(param: string, expected: string, code: string, fail: Fail): Error {
  return fail('bad_request', `Expected ${param} to be ${expected}.`, { code, param })
}
