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

/** An image. @throws the failure class `bad_request` for other content and for URLs */
export function imageBlock(url: string, fail: Host['fail']): Block {
  const { type, base64 } = inline(url, fail)
  const format = formatOf(base64) ?? type.replace(/^image\//, '').replace(/^jpg$/, 'jpeg')
  if (!IMAGES.has(format)) {
    const message = `expected an image in PNG, JPEG, GIF or WebP, found ${shown(type)}.`
    throw fail('bad_request', sentence(message), { code: 'invalid_image', param: 'messages' })
  }
  return { image: { format, source: { bytes: base64 } } }
}

/**
 * A document, or an image or video that came as a file.
 * @param name makes a name for a document, unique in the request
 * @throws the failure class `bad_request` for other content and for URLs
 */
export function fileBlock(file: any, name: () => string, fail: Host['fail']): Block {
  const { type, base64 } = inline(String(file?.file_data ?? ''), fail)
  const found = formatOf(base64)
  if (found ? IMAGES.has(found) : type.startsWith('image/')) return imageBlock(file.file_data, fail)
  if (type.startsWith('video/')) {
    const kind = type.slice('video/'.length)
    const format = VIDEO_NAMES[kind] ?? kind
    if (VIDEOS.has(format)) return { video: { format, source: { bytes: base64 } } }
  }
  const extension = /\.(\w{1,5})$/.exec(String(file?.filename ?? ''))?.[1]?.toLowerCase()
  const known = Object.values(DOCUMENTS).find((format) => format === extension)
  const format = found ?? DOCUMENTS[type] ?? known ?? (type === '' ? 'pdf' : undefined)
  if (format === undefined) {
    const message = `expected a document such as a PDF, a text or a table, found ${shown(type)}.`
    throw fail('bad_request', sentence(message), { code: 'invalid_document', param: 'messages' })
  }
  return { document: { format, name: name(), source: { bytes: base64 } } }
}

/** Audio. @throws the failure class `bad_request` for URLs */
export function audioBlock(audio: any, fail: Host['fail']): Block {
  const { base64 } = inline(String(audio?.data ?? ''), fail)
  return { audio: { format: String(audio?.format ?? 'wav'), source: { bytes: base64 } } }
}

/** Splits a data URL, or takes bare base64. Does not scan the whole text, which may be megabytes. */
function inline(text: string, fail: Host['fail']): { type: string; base64: string } {
  if (!/^[a-z][a-z\d+.-]*:/i.test(text.slice(0, 16))) return { type: '', base64: text }
  if (!/^data:/i.test(text)) {
    const message = 'This model takes images and files as data URLs only, not as addresses.'
    throw fail('bad_request', message, { code: 'unsupported_value', param: 'messages' })
  }
  const comma = text.indexOf(',')
  const [type = '', ...parameters] = text.slice('data:'.length, comma).toLowerCase().split(';')
  const rest = text.slice(comma + 1)
  if (parameters.includes('base64')) return { type, base64: rest }
  try {
    return { type, base64: Buffer.from(decodeURIComponent(rest)).toString('base64') }
  } catch {
    const message = sentence('expected a data URL in base64.')
    throw fail('bad_request', message, { code: 'invalid_base64', param: 'messages' })
  }
}

function formatOf(base64: string): string | undefined {
  return MAGIC.find(([start]) => start.test(base64))?.[1]
}

function shown(type: string): string {
  return /^[\w.+/-]{1,80}$/.test(type) ? `"${type}"` : 'something else'
}

function sentence(message: string): string {
  return `Invalid content part: ${message}`
}
