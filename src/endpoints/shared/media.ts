/** Files in requests: base64, data URLs, and media types by the first bytes. */
import { InvalidRequest } from '../../errors/errors.ts'
import type { MediaFile } from '../../plugin.ts'

const HEAD_BYTES = 1024

export const UNKNOWN_TYPE = 'application/octet-stream'

const PREFIX = /^data:([^;,]*)((?:;[^;,]*)*),/i
/** The longest head of a data URL that is looked for; type and parameters are shorter. */
const MAX_HEAD = 512

/**
 * Reads `data:[type][;params];base64,<data>`. The type by the bytes wins over the type of the URL.
 * @param param path of the text in the request
 * @throws InvalidRequest `invalid_base64`
 */
export function parseDataUrl(text: string, param: string): MediaFile {
  const head = PREFIX.exec(text.slice(0, MAX_HEAD))
  if (!head) throw notBase64(param, 'a data URL such as "data:image/png;base64,…"')
  if (!/;base64$/i.test(head[2]!))
    throw notBase64(param, 'a data URL with ";base64," before its data')
  const bytes = parseBase64(text.slice(head[0].length), param)
  const declared = head[1]!.trim().toLowerCase()
  return { bytes, mediaType: mediaTypeOf(bytes) ?? (declared || UNKNOWN_TYPE) }
}

/** Whether a value is a data URL of more bytes, without decoding it. Blanks are counted only near the limit. */
export function exceedsBytes(url: unknown, limitBytes: number): boolean {
  if (typeof url !== 'string' || !/^data:/i.test(url.slice(0, 5))) return false
  const start = url.indexOf(',') + 1
  const bytesOf = (digits: number) => Math.floor((digits * 3) / 4)
  if (bytesOf(url.length - start) <= limitBytes) return false
  return bytesOf(url.slice(start).replace(/[\t\n\f\r =]+/g, '').length) > limitBytes
}

const NO_DIGIT = /[^A-Za-z0-9+/_-]/
const NOT_STANDARD = /[^A-Za-z0-9+/]/
const BLANKS = /[\t\n\f\r ]+/g

/** Whether a text is base64 in either alphabet, padded or not, with blanks and line breaks anywhere. Decodes nothing. */
export function isBase64(text: string): boolean {
  const digits = digitsIn(text) ?? digitsIn(text.replace(BLANKS, '')) ?? 0
  return digits > 0 && digits % 4 !== 1
}

/** The same base64 in the standard alphabet, padded, without blanks; the same text where it is so already. */
export function canonicalBase64(text: string): string {
  const end = text.search(NOT_STANDARD)
  const isPadded = text.length % 4 === 0 && (end < 0 || /^={1,2}$/.test(text.slice(end, end + 3)))
  return isPadded ? text : Buffer.from(text.replace(BLANKS, ''), 'base64').toString('base64')
}

/**
 * Reads base64 in either alphabet, padded or not, with blanks and line breaks anywhere.
 * @param param path of the text in the request
 * @throws InvalidRequest `invalid_base64`, also for an empty text
 */
export function parseBase64(text: string, param: string): Uint8Array {
  if (!isBase64(text)) throw notBase64(param, 'base64')
  return Buffer.from(text, 'base64')
}

/** The number of digits before the padding; undefined if anything else follows. */
function digitsIn(text: string): number | undefined {
  const end = text.search(NO_DIGIT)
  if (end < 0) return text.length
  return /^={1,2}$/.test(text.slice(end, end + 3)) ? end : undefined
}

/** Base64 in the standard alphabet, padded, without blanks. */
export function toBase64({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

export function firstBytes(pieces: readonly Uint8Array[]): Uint8Array {
  const first: Uint8Array[] = []
  let missing = HEAD_BYTES
  for (const piece of pieces) {
    if (missing <= 0) break
    first.push(piece.subarray(0, missing))
    missing -= piece.length
  }
  return Buffer.concat(first)
}

/** 413 `file_too_large`. @param param the field that holds the file */
export function fileTooLarge(param: string, limitBytes: number): InvalidRequest {
  return new InvalidRequest(
    'file_too_large',
    `The file in '${param}' is larger than ${limitBytes} bytes, the limit for files of this kind.`,
    { param },
  )
}

/**
 * The media type of an image, a document or sound by its first bytes; undefined in doubt. Containers that can hold
 * more than sound get the type of their sound.
 */
export function mediaTypeOf(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, HEAD_BYTES))
  const text = head.toString('latin1', 0, 12)
  for (const [start, type] of STARTS) if (text.startsWith(start)) return type
  const inner = text.slice(8, 12)
  if (text.startsWith('RIFF') || text.startsWith('RF64')) return RIFF[inner]
  if (text.slice(4, 8) === 'ftyp') return BRANDS[inner] ?? 'audio/mp4'
  if (text.startsWith('\x1aE\xdf\xa3')) {
    return head.toString('latin1', 0, 64).includes('webm') ? 'audio/webm' : 'audio/x-matroska'
  }
  if (head[0] === 0xff && (head[1]! & 0xe0) === 0xe0) return frameTypeOf(head)
  // PDF readers accept some bytes before the signature.
  return head.includes('%PDF-') ? 'application/pdf' : undefined
}

export function mediaTypeOfName(filename: string): string | undefined {
  const extension = /\.([a-z0-9]{2,5})$/i.exec(filename)?.[1]
  return extension && EXTENSIONS.get(extension.toLowerCase())
}

/** The usual file extension of a type, with its dot; empty for unknown types. */
export function extensionOf(mediaType: string): string {
  for (const [extension, type] of EXTENSIONS) if (type === mediaType) return `.${extension}`
  return ''
}

const STARTS: readonly (readonly [string, string])[] = [
  ['\x89PNG\r\n\x1a\n', 'image/png'],
  ['\xff\xd8\xff', 'image/jpeg'],
  ['GIF87a', 'image/gif'],
  ['GIF89a', 'image/gif'],
  ['II*\0', 'image/tiff'],
  ['MM\0*', 'image/tiff'],
  ['%PDF-', 'application/pdf'],
  ['ID3', 'audio/mpeg'],
  ['fLaC', 'audio/flac'],
  ['OggS', 'audio/ogg'],
  ['ADIF', 'audio/aac'],
]

const RIFF: Readonly<Record<string, string>> = { WEBP: 'image/webp', WAVE: 'audio/wav' }

const BRANDS: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  avis: 'image/avif',
  heic: 'image/heic',
  heix: 'image/heic',
  hevc: 'image/heic',
  mif1: 'image/heif',
  msf1: 'image/heif',
}

/** The first extension of a type is its usual one. */
const EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['webp', 'image/webp'],
  ['gif', 'image/gif'],
  ['tiff', 'image/tiff'],
  ['tif', 'image/tiff'],
  ['avif', 'image/avif'],
  ['heic', 'image/heic'],
  ['heif', 'image/heif'],
  ['pdf', 'application/pdf'],
  ['mp3', 'audio/mpeg'],
  ['mpga', 'audio/mpeg'],
  ['mpeg', 'audio/mpeg'],
  ['wav', 'audio/wav'],
  ['flac', 'audio/flac'],
  ['ogg', 'audio/ogg'],
  ['oga', 'audio/ogg'],
  ['opus', 'audio/ogg'],
  ['m4a', 'audio/mp4'],
  ['mp4', 'audio/mp4'],
  ['webm', 'audio/webm'],
  ['mkv', 'audio/x-matroska'],
  ['aac', 'audio/aac'],
])

/** Tells MPEG audio from ADTS, which begin alike, by the layer. The fields that follow rule out most other data. */
function frameTypeOf(head: Buffer): string | undefined {
  const second = head[1]!
  const layer = (second >> 1) & 3
  if (layer === 0) return (second & 0xf0) === 0xf0 ? 'audio/aac' : undefined
  const version = (second >> 3) & 3
  const third = head[2] ?? 0xff
  return layer !== 3 && version !== 1 && third >> 4 !== 15 && ((third >> 2) & 3) !== 3
    ? 'audio/mpeg'
    : undefined
}

function notBase64(param: string, expected: string): InvalidRequest {
  return new InvalidRequest('invalid_base64', `Invalid '${param}': expected ${expected}.`, {
    param,
  })
}
