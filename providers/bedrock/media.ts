/** Images, documents, audio and video as blocks of Converse. */
import type { Host } from '../../src/plugin.ts'

/** A member of `content` in Converse. */
export type Block = Record<string, any>

/** Formats by the start of their base64. The bytes count more than the declared type, which is often wrong. */
const MAGIC: readonly (readonly [start: RegExp, format: string])[] = [
  [/^iVBORw0KGgo/, 'png'],
  [/^\/9j\//, 'jpeg'],
  [/^R0lGOD/, 'gif'],
  [/^UklGR.{6}XRUJQ/, 'webp'],
  [/^JVBERi/, 'pdf'],
]

const IMAGES: ReadonlySet<string> = new Set(['png', 'jpeg', 'gif', 'webp'])
const DOCUMENTS: Readonly<Record<string, string>> = {
  'application/msword': 'doc',
  'application/pdf': 'pdf',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'text/plain': 'txt',
}
const VIDEOS: ReadonlySet<string> = new Set('mkv mov mp4 webm flv mpeg mpg wmv three_gp'.split(' '))
const VIDEO_NAMES: Readonly<Record<string, string>> = {
  '3gpp': 'three_gp',
  quicktime: 'mov',
  'x-flv': 'flv',
  'x-matroska': 'mkv',
  'x-ms-wmv': 'wmv',
}

/** Where a part is in the request, and how to refuse it. */
interface Place {
  readonly path: string
  readonly fail: Host['fail']
}

/** An image. @param url a data URL @throws the failure class `bad_request` for other content */
export function imageBlock(url: string, { path, fail }: Place): Block {
  const { type, base64 } = split(url)
  const format = formatOf(base64) ?? type.replace(/^image\//, '').replace(/^jpg$/, 'jpeg')
  if (IMAGES.has(format)) return { image: { format, source: { bytes: base64 } } }
  const message = `Expected a PNG, JPEG, GIF or WebP image at ${path}, found ${shown(type)}.`
  const param = `${path}.image_url.url`
  throw fail('bad_request', message, { code: 'invalid_image', param })
}

/**
 * A document, or an image or video that came as a file.
 * @param name makes a name for a document, unique in the request
 * @throws the failure class `bad_request` for other content
 */
export function fileBlock(file: any, name: () => string, { path, fail }: Place): Block {
  const param = `${path}.file.file_data`
  const url: string = file.file_data
  const { type, base64 } = split(url)
  const detected = formatOf(base64)
  if (detected ? IMAGES.has(detected) : type.startsWith('image/'))
    return imageBlock(url, { path, fail })
  if (type.startsWith('video/')) {
    const kind = type.slice('video/'.length)
    const format = VIDEO_NAMES[kind] ?? kind
    if (VIDEOS.has(format)) return { video: { format, source: { bytes: base64 } } }
  }
  const extension = /\.(\w{1,5})$/.exec(String(file.filename ?? ''))?.[1]?.toLowerCase()
  const byExtension = Object.values(DOCUMENTS).find((format) => format === extension)
  const format = detected ?? DOCUMENTS[type] ?? byExtension
  if (format !== undefined) return { document: { format, name: name(), source: { bytes: base64 } } }
  const message = `Expected a document such as a PDF, a text or a table at ${path}, found ${shown(type)}.`
  throw fail('bad_request', message, { code: 'invalid_document', param })
}

export function audioBlock({ data, format }: any): Block {
  return { audio: { format: String(format ?? 'wav'), source: { bytes: data } } }
}

/** Splits a data URL. Does not scan the whole text, which may be megabytes. */
function split(url: string): { type: string; base64: string } {
  const comma = url.indexOf(',')
  const type = url.slice('data:'.length, comma).toLowerCase().split(';', 1)[0]!
  return { type, base64: url.slice(comma + 1) }
}

function formatOf(base64: string): string | undefined {
  return MAGIC.find(([start]) => start.test(base64))?.[1]
}

function shown(type: string): string {
  return /^[\w.+/-]{1,80}$/.test(type) ? `"${type}"` : 'something else'
}
