/**
 * `multipart/form-data` (RFC 7578), read as it arrives: a file that is too large is refused while it is sent. The
 * name of a field alone decides whether it is a file, so that a file without a file name stays binary.
 */
import { isUtf8 } from 'node:buffer'
import { InvalidRequest } from '../../errors/errors.ts'
import { ReceivedFile, firstBytes, mediaTypeOf, mediaTypeOfName, UNKNOWN_TYPE } from './media.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { MediaFile } from '../../plugin.ts'
import { jsonRefusal, JsonScan, type JsonLimits } from '../../stream/json-scan.ts'
import { prepared } from './body.ts'
import { MultipartParser, malformed, type Part, type PartLimits } from './multipart-parts.ts'

export interface Form {
  /** Texts by name, without a prototype. A repeated name, `[]` or `[0]` makes a list, `name[member]` an object. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly files: readonly FormFile[]
}

interface FormFile {
  /** The name as the client wrote it, such as `image[]`. */
  readonly field: string
  readonly file: MediaFile
}

interface FormLimits extends PartLimits {
  readonly bodyLimitBytes: number
  readonly json: JsonLimits
  readonly jsonFields?: readonly string[]
}

export function isMultipart(incoming: Incoming): boolean {
  return /^\s*multipart\/form-data\s*(;|$)/i.test(incoming.header('content-type') ?? '')
}

/**
 * Reads a form.
 * @throws InvalidRequest `invalid_multipart`, `file_too_large` with the part's name, `request_too_large`,
 * `invalid_json` for JSON that exceeds its limits, and the errors of {@link Incoming.pieces}
 */
export async function readMultipart(incoming: Incoming, limits: FormLimits): Promise<Form> {
  const reader = new MultipartParser(boundaryOf(incoming.header('content-type') ?? ''), limits)
  try {
    await incoming.pieces(limits.bodyLimitBytes, (piece) => reader.push(piece))
    const parts = await reader.end()
    const texts = parts.filter(({ isFile }) => !isFile)
    const files = parts.filter(({ isFile }) => isFile)
    const fields = toFields(texts.map((part) => ({ name: part.name, text: textOf(part) })))
    for (const name of ['policy', ...(limits.jsonFields ?? [])]) {
      checkJson(name, fields[name], limits.json)
    }
    await prepared(fields.policy, incoming)
    return {
      fields,
      files: inOrder(files.map((part) => ({ field: part.name, file: fileOf(part) }))),
    }
  } finally {
    reader.destroy()
  }
}

/** Bounds JSON before it is parsed, like a whole body. @throws InvalidRequest */
function checkJson(name: string, value: unknown, limits: JsonLimits): void {
  if (typeof value !== 'string') return
  const excess = new JsonScan(limits).push(Buffer.from(value))
  if (excess) throw jsonRefusal(excess, limits, `The field ${JSON.stringify(name)}`, name)
}

/** JSON types of form fields; other fields stay texts. */
export type FieldTypes = Readonly<Record<string, 'number' | 'boolean' | 'list' | 'json'>>

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i
const BOOLEANS = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
])

/**
 * Texts of a form as the JSON values that they stand for. A text that cannot be read stays, for the validation to
 * report. The text `null` means that the field is absent, unless the field is JSON.
 */
export function toJsonTypes(fields: Form['fields'], types: FieldTypes): Record<string, unknown> {
  const typed: Record<string, unknown> = { __proto__: null }
  for (const [name, value] of Object.entries(fields)) {
    const type = types[name]
    if (type === 'list') typed[name] = Array.isArray(value) ? value : [value]
    else if (type === undefined || typeof value !== 'string') typed[name] = value
    else if (type === 'json') typed[name] = jsonOf(value)
    else if (value.trim() !== 'null') typed[name] = scalarOf(type, value)
  }
  return typed
}

function scalarOf(type: 'number' | 'boolean', value: string): unknown {
  const text = value.trim()
  if (type === 'boolean') return BOOLEANS.get(text.toLowerCase()) ?? value
  return NUMBER.test(text) ? Number(text) : value
}

function jsonOf(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

interface NamedText {
  readonly name: string
  readonly text: string
}

function toFields(texts: readonly NamedText[]): Record<string, unknown> {
  const fields: Record<string, unknown> = { __proto__: null }
  const lists = new Map<string, { readonly place: number; readonly text: string }[]>()
  const single = new Set<string>()
  for (const { name, text } of texts) {
    const { base, member } = pathOf(name)
    if (member !== undefined && !isPlace(member)) {
      if (lists.has(base)) throw twoForms(base)
      const object = (fields[base] ??= { __proto__: null }) as Record<string, unknown>
      object[member] = text
      continue
    }
    const list = lists.get(base)
    const item = { place: placeOf(member), text }
    if (list) list.push(item)
    else if (Object.hasOwn(fields, base)) throw twoForms(base)
    else lists.set(base, [item])
    if (!list && member === undefined) single.add(base)
    else single.delete(base)
    fields[base] = undefined
  }
  for (const [base, list] of lists) {
    fields[base] = single.has(base) ? list[0]!.text : byPlace(list).map(({ text }) => text)
  }
  return fields
}

function inOrder(files: readonly FormFile[]): FormFile[] {
  return byPlace(files.map((file) => ({ ...file, place: placeOf(pathOf(file.field).member) }))).map(
    ({ field, file }) => ({ field, file }),
  )
}

/** Splits `name`, `name[]`, `name[0]` and `name[member]`; any other name stays whole. */
function pathOf(name: string): { readonly base: string; readonly member?: string } {
  const match = /^([^[\]]+)\[([^[\]]*)\]$/.exec(name)
  return match ? { base: match[1]!, member: match[2]! } : { base: name }
}

function isPlace(member: string): boolean {
  return /^\d*$/.test(member)
}

/** The index in its list; Infinity without one. */
function placeOf(member: string | undefined): number {
  return member && isPlace(member) ? Number(member) : Infinity
}

/** Items with an index come first, in its order; the others keep theirs. */
function byPlace<T extends { readonly place: number }>(items: readonly T[]): T[] {
  return items.toSorted((a, b) => (a.place === b.place ? 0 : a.place - b.place))
}

function fileOf({ filename, mediaType, pieces }: Part): MediaFile {
  const found =
    mediaTypeOf(firstBytes(pieces)) ??
    (VAGUE.has(mediaType) ? undefined : mediaType) ??
    (filename && mediaTypeOfName(filename)) ??
    UNKNOWN_TYPE
  return new ReceivedFile(pieces, found, filename)
}

const VAGUE: ReadonlySet<string> = new Set([
  UNKNOWN_TYPE,
  'text/plain',
  'application/x-www-form-urlencoded',
])

/** The text of a part. A part with a file name has no character set. */
function textOf({ name, text, pieces }: Part): string {
  if (text !== undefined) return text
  const bytes = Buffer.concat(pieces)
  if (isUtf8(bytes)) return new TextDecoder().decode(bytes)
  throw malformed(`the text in the part ${JSON.stringify(name)} is not UTF-8`)
}

function boundaryOf(contentType: string): string {
  const match = /;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;"]*))/i.exec(contentType)
  const boundary = match?.[1] ?? match?.[2] ?? ''
  if (/^[ !#-[\]-~]{1,70}$/.test(boundary)) return boundary
  throw new InvalidRequest(
    'invalid_multipart',
    'Expected a boundary of 1 to 70 characters in the content type, such as "multipart/form-data; boundary=…".',
  )
}

function twoForms(base: string): InvalidRequest {
  const name = JSON.stringify(base.slice(0, 100))
  return new InvalidRequest(
    'invalid_multipart',
    `The form has the field ${name} both as a value and as an object.`,
  )
}
