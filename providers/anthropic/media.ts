/** Images and files as content blocks. */
import type { Host } from '../../src/plugin.ts'
import { isAddress, isDataUrl } from '../shared/files.ts'
import type { ContentBlock, DocumentBlock, ImageBlock } from './blocks.ts'

/** File types by their first bytes. The declared type is often wrong. */
const BEGINNINGS: readonly (readonly [type: string, looksLikeIt: (bytes: string) => boolean])[] = [
  ['image/jpeg', (bytes) => bytes.startsWith('\xff\xd8\xff')],
  ['image/png', (bytes) => bytes.startsWith('\x89PNG')],
  ['image/gif', (bytes) => bytes.startsWith('GIF8')],
  ['image/webp', (bytes) => bytes.startsWith('RIFF') && bytes.slice(8, 12) === 'WEBP'],
  ['application/pdf', (bytes) => bytes.startsWith('%PDF')],
]
const IMAGES: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])
const PDF = 'application/pdf'
const TEXTS = /^(?:text\/|application\/(?:json|xml|yaml|x-ndjson)$)/

/**
 * Converts an `image_url` part.
 * @param path of the part, for the error
 * @throws the failure class `bad_request` for anything but JPEG, PNG, GIF and WebP
 */
export function toImage(part: any, path: string, fail: Host['fail']): ImageBlock {
  const { url } = part.image_url as { url: string }
  if (!isDataUrl(url)) return { type: 'image', source: { type: 'url', url } }
  const { type, data } = split(url)
  if (IMAGES.has(type)) return image(type, data)
  throw fail('bad_request', `Expected a JPEG, PNG, GIF or WebP image at ${path}.`, {
    code: 'invalid_image',
    param: `${path}.image_url.url`,
  })
}

/**
 * Converts a `file` part: PDF and plain text become documents, images become images.
 * @param path of the part, for the error
 * @throws the failure class `bad_request` for other types
 */
export function toFile(part: any, path: string, fail: Host['fail']): ContentBlock {
  const { file_data, filename } = part.file as { file_data: string; filename?: string }
  if (isAddress(file_data)) return document({ type: 'url', url: file_data }, filename)
  const { type, data } = split(file_data)
  if (IMAGES.has(type)) return image(type, data)
  if (type === PDF) return document({ type: 'base64', media_type: PDF, data }, filename)
  if (TEXTS.test(type)) {
    const text = Buffer.from(data, 'base64').toString('utf8')
    return document({ type: 'text', media_type: 'text/plain', data: text }, filename)
  }
  throw fail('bad_request', `Expected a PDF, a plain text or an image at ${path}.`, {
    code: 'invalid_document',
    param: `${path}.file.file_data`,
  })
}

function image(media_type: string, data: string): ImageBlock {
  return { type: 'image', source: { type: 'base64', media_type, data } }
}

function document(source: DocumentBlock['source'], title: string | undefined): DocumentBlock {
  return { type: 'document', source, ...(title ? { title } : {}) }
}

/** Type and base64 of a data URL. The first bytes count more than the declared type. */
function split(url: string): { type: string; data: string } {
  const comma = url.indexOf(',')
  const declared = url.slice(5, comma).split(';', 1)[0]!.trim().toLowerCase()
  const data = url.slice(comma + 1)
  const bytes = Buffer.from(data.slice(0, 24), 'base64').toString('latin1')
  const type = BEGINNINGS.find(([, looksLikeIt]) => looksLikeIt(bytes))?.[0]
  if (type) return { type, data }
  // The bytes contradict the declared type.
  const wrong = IMAGES.has(declared) || declared === 'image/jpg' || declared === PDF
  return { type: wrong ? 'unknown' : declared, data }
}
