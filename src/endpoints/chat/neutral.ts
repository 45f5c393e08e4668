/**
 * Changes of a request that no vendor minds, so that every plugin gets the same form. What is so already stays the
 * same object: its source text can be copied.
 */
import { canonicalBase64, mediaTypeOf } from '../shared/media.ts'

export interface Typed {
  readonly type: string
  readonly [member: string]: any
}

const COMPOSITIONS = ['anyOf', 'oneOf', 'allOf']

/** A tool whose parameters are the schema of an object with `properties`: some vendors refuse any other. */
export function neutralTool(tool: Typed): Typed {
  if (tool.type !== 'function') return tool
  const { parameters } = tool.function
  const next = objectSchema(parameters ?? {})
  return next === parameters ? tool : { ...tool, function: { ...tool.function, parameters: next } }
}

function objectSchema(schema: Readonly<Record<string, unknown>>): object {
  const { type, properties, required } = schema
  const isComposed = COMPOSITIONS.some((name) => schema[name] !== undefined)
  const isEmpty = Object.keys(schema).length === 0
  const isObject = isEmpty || isComposed || Boolean(properties ?? required)
  const typed = type === undefined && isObject ? { type: 'object', ...schema } : schema
  return typed.type === 'object' && !properties ? { ...typed, properties: {} } : typed
}

/**
 * A part of a message with canonical base64: standard alphabet, padded, without white space. Images and files are data
 * URLs or addresses, sound is bare.
 */
export function neutralPart(part: Typed): Typed {
  switch (part.type) {
    case 'image_url':
      return withMember(part, 'url', neutralUrl)
    case 'input_audio':
      return withMember(part, 'data', neutralSound)
    case 'file':
      return withMember(part, 'file_data', neutralFile)
    default:
      return part
  }
}

function withMember(
  part: Typed,
  name: string,
  change: (source: string, filename?: string) => string,
): Typed {
  const inner = part[part.type]
  const source: unknown = inner[name]
  if (typeof source !== 'string') return part
  const next = change(source, inner.filename)
  return next === source ? part : { ...part, [part.type]: { ...inner, [name]: next } }
}

/** @param source an address or a data URL, as the readers have checked it */
export function neutralUrl(source: string): string {
  if (!isDataUrl(source)) return source
  const comma = source.indexOf(',')
  const head = source.slice(0, comma)
  const data = source.slice(comma + 1)
  const lower = head.replace(/^data:|;base64$/gi, (word) => word.toLowerCase())
  const canonical = canonicalBase64(data)
  return canonical === data && lower === head ? source : `${lower},${canonical}`
}

/** @param source base64 or a data URL, as the readers have checked it */
export function neutralSound(source: string): string {
  return canonicalBase64(isDataUrl(source) ? source.slice(source.indexOf(',') + 1) : source)
}

/**
 * The type of plain base64 follows from its first bytes, then by the extension of its name; it is a PDF otherwise.
 * @param source an address, a data URL, or base64, as the readers have checked it
 */
export function neutralFile(source: string, filename = ''): string {
  if (/^https?:/i.test(source.slice(0, 6)) || isDataUrl(source)) return neutralUrl(source)
  const data = canonicalBase64(source)
  const detected = mediaTypeOf(Buffer.from(data.slice(0, HEAD_DIGITS), 'base64'))
  const named = TYPES[filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()]
  return `data:${detected ?? named ?? 'application/pdf'};base64,${data}`
}

const HEAD_DIGITS = 1024

/** The types of files that follow from their names alone. */
const TYPES: Readonly<Record<string, string>> = {
  csv: 'text/csv',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  html: 'text/html',
  json: 'application/json',
  md: 'text/markdown',
  mov: 'video/quicktime',
  mp4: 'video/mp4',
  pptx: 'application/vnd.openxmlformats-officedocument.presentationml.presentation',
  txt: 'text/plain',
  webm: 'video/webm',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  xml: 'application/xml',
}

function isDataUrl(source: string): boolean {
  return /^data:/i.test(source.slice(0, 5))
}
