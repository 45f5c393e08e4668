/** Text, images, audio and files as parts of a message. */
import type { Host } from '../../src/plugin.ts'

/** A part in Google's form. */
export type Part = Record<string, any>

type Fail = Host['fail']

/**
 * Converts the content of a message. Empty texts are left out.
 * @throws the failure class `bad_request` for content that Google cannot take
 */
export function toParts(content: string | readonly any[] | null | undefined, fail: Fail): Part[] {
  if (!content) return []
  if (typeof content === 'string') return [{ text: content }]
  return content.map((part) => toPart(part, fail)).filter((part) => part.text !== '')
}

/** The text of a content; several parts are joined. */
export function textOf(content: string | readonly any[] | null | undefined): string {
  if (typeof content === 'string') return content
  return content?.map((part) => part.text ?? part.refusal ?? '').join('') ?? ''
}

function toPart(part: any, fail: Fail): Part {
  switch (part.type) {
    case 'image_url':
      return fromUrl(part.image_url.url, 'image/jpeg', fail)
    case 'input_audio': {
      const { data, format } = part.input_audio
      return fromUrl(data, format === 'mp3' ? 'audio/mp3' : `audio/${format}`, fail)
    }
    case 'file': {
      const { file_data, filename = '' } = part.file
      return fromUrl(file_data, typeOfName(filename) ?? 'application/pdf', fail)
    }
    default:
      return { text: part.text ?? part.refusal ?? '' }
  }
}

/**
 * Converts media.
 * @param source a data URL, bare base64, or a URL that Google downloads
 * @param likely the media type when nothing else tells it
 */
function fromUrl(source: string, likely: string, fail: Fail): Part {
  if (/^https?:/i.test(source)) return fromAddress(source, likely, fail)
  if (!/^data:/i.test(source)) return inline(source, likely, fail)
  const comma = source.indexOf(',')
  const [declared] = source.slice('data:'.length, comma).toLowerCase().split(';', 1)
  const known = declared && declared !== 'application/octet-stream'
  return inline(source.slice(comma + 1), known ? declared : likely, fail)
}

/** Files at Google belong to the API key. Clients must not reach the files of other clients with it. */
const FILE_STORE = /(^|\.)generativelanguage\.googleapis\.com$/
const YOUTUBE = /(^|\.)(youtube\.com|youtu\.be)$/

function fromAddress(address: string, likely: string, fail: Fail): Part {
  const url = URL.parse(address)
  if (!url) throw refused('an address in messages is not a URL', 'invalid_value', fail)
  if (FILE_STORE.test(url.hostname)) {
    throw refused('files kept at Google cannot be referred to', 'unsupported_value', fail)
  }
  const mimeType = YOUTUBE.test(url.hostname) ? 'video/mp4' : (typeOfName(url.pathname) ?? likely)
  return { fileData: { mimeType, fileUri: address } }
}

function inline(base64: string, declared: string, fail: Fail): Part {
  const data = canonical(base64)
  if (data === undefined) {
    throw refused('the base64 of a part cannot be decoded', 'invalid_base64', fail)
  }
  const mimeType = sniff(data) ?? declared
  if (mimeType === 'image/gif') {
    throw refused('GIF images are not taken; send PNG, JPEG or WebP', 'unsupported_value', fail)
  }
  return { inlineData: { mimeType, data } }
}

/** Padded standard base64 for any variant that clients may send; undefined for invalid base64. */
function canonical(text: string): string | undefined {
  const data = Buffer.from(text, 'base64').toString('base64')
  if (data === text) return text
  const significant = text.replace(/[\s=]+/g, '').length
  return significant > 0 && significant === data.replace(/=+$/, '').length ? data : undefined
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

function refused(what: string, code: string, fail: Fail): Error {
  return fail('bad_request', `messages: ${what}.`, { code, param: 'messages' })
}
