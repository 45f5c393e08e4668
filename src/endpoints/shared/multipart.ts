/**
 * `multipart/form-data` (RFC 7578), read as it arrives: a file that is too large is refused while it is sent. The
 * name of a field alone decides whether it is a file, so that a file without a file name stays binary.
 */
import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import busboy from 'busboy'
import { InvalidRequest } from '../../errors/errors.ts'
import { firstBytes, mediaTypeOf, mediaTypeOfName, UNKNOWN_TYPE, fileTooLarge } from './media.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { MediaFile } from '../../plugin.ts'
import { jsonRefusal, JsonScan, type JsonLimits } from '../../stream/raw-json.ts'
import { prepared } from './body.ts'

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
  const type =
    mediaTypeOf(firstBytes(pieces)) ??
    (VAGUE.has(mediaType) ? undefined : mediaType) ??
    (filename && mediaTypeOfName(filename)) ??
    UNKNOWN_TYPE
  return new ReceivedFile(pieces, type, filename)
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

// Splits `multipart/form-data` into parts with busboy. For busboy a part is a file if it has a file name or the type
// `application/octet-stream`; for the gateway the name of its field decides, because clients label files in many ways.

interface PartLimits {
  readonly files: (field: string) => boolean
  readonly fileLimitBytes: number
}

interface Part {
  readonly name: string
  readonly isFile: boolean
  /** Its last path segment, at most 255 characters. */
  readonly filename?: string
  /** The type in lower case, without parameters; `text/plain` for a part without a type. */
  readonly mediaType: string
  /** The bytes, unless there is a `text`. */
  readonly pieces: readonly Buffer[]
  /** The value of a field that busboy has decoded. */
  readonly text?: string
}

const MAX_PARTS = 1000
const MAX_FIELDS = 64
const MAX_HEAD_BYTES = 8 * 1024
const MAX_NAME = 200
const MAX_FILENAME = 255
const MAX_TEXT_BYTES = 1024 * 1024
const MAX_TEXTS_BYTES = 4 * 1024 * 1024
/** Small pieces in a row that are joined: a file sent byte by byte would take a hundred times its size. */
const MANY = 1024
const SMALL_BYTES = 1024

/** Turns of the event loop within which a parser closes that has all bytes. */
const MOST_TURNS = 100

async function turnsPassed(): Promise<false> {
  for (let turns = 0; turns < MOST_TURNS; turns++) await nextTurn()
  return false
}

/**
 * Takes a form piece by piece and keeps its parts. Must be destroyed in the end, also after an error.
 *
 * busboy skips parts that it cannot read: parts without form data or with a malformed head, and everything after the last
 * boundary. The parser counts boundaries and rejects such a form, so that nothing a client sent is lost silently.
 */
class MultipartParser {
  readonly #limits: PartLimits
  readonly #boundaries: BoundaryCounter
  readonly #heads = new HeadMeter()
  readonly #parser: busboy.Busboy
  readonly #closed: Promise<unknown>
  readonly #parts: GrowingPart[] = []
  #fields = 0
  #textsBytes = 0
  #ended = false
  #failure: unknown

  /** @param boundary 1 to 70 printable ASCII characters other than quotes and backslashes */
  constructor(boundary: string, limits: PartLimits) {
    const { fileLimitBytes } = limits
    this.#limits = limits
    this.#boundaries = new BoundaryCounter(boundary)
    this.#parser = busboy({
      headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` },
      // One character per byte: the bytes of a field can be recovered.
      defCharset: 'latin1',
      defParamCharset: 'utf8',
      // Files are kept in memory, so busboy never has to wait for a reader.
      fileHwm: fileLimitBytes + 1,
      limits: { fieldSize: Math.max(fileLimitBytes, MAX_TEXT_BYTES) + 1 },
    })
    this.#closed = new Promise((resolve) => this.#parser.once('close', resolve))
    this.#parser
      .on('field', (name, value, labels) => this.#takeField(name, value, labels))
      .on('file', (name, stream, labels) => this.#takeFile(name, stream, labels))
      .on('error', () => {
        this.#fail(malformed(this.#ended ? 'it is cut off before its last boundary' : NO_HEAD))
      })
  }

  /** @throws InvalidRequest `invalid_multipart`, `file_too_large` with the part's name, `request_too_large` */
  push(piece: Buffer): void {
    const inside = this.#boundaries.push(piece)
    if (this.#heads.push(inside, this.#boundaries.ends)) {
      throw malformed(`the head of a part is larger than ${MAX_HEAD_BYTES} bytes`)
    }
    this.#parser.write(inside)
    this.#check()
  }

  /** @throws InvalidRequest as {@link push} */
  async end(): Promise<readonly Part[]> {
    this.#ended = true
    this.#parser.end()
    this.#check()
    await this.#closing()
    this.#check()
    if (this.#boundaries.count - 1 > this.#parts.length) throw malformed(NO_HEAD)
    return this.#parts
  }

  destroy(): void {
    this.#parser.destroy()
  }

  /** busboy never closes where a boundary cuts off the head of a part. All bytes are there, so what is to come comes within few turns. */
  async #closing(): Promise<void> {
    const isClosed = await Promise.race([this.#closed.then(() => true), turnsPassed()])
    if (!isClosed) this.#fail(malformed(NO_HEAD))
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason
  }

  /** @param value undefined when the part names an unknown character set */
  #takeField(name: string | undefined, value: string | undefined, labels: Labels): void {
    const part = this.#begin(name, labels)
    if (!part) return
    if (value === undefined || (part.isFile && WIDE.test(value))) {
      const defect = `the part ${JSON.stringify(name)} is labelled as text in some character set`
      this.#fail(malformed(`${defect}; expected it without "charset"`))
    } else if (part.isFile) {
      this.#add(part, Buffer.from(value, 'latin1'))
    } else {
      part.text = partText(value)
      this.#count(part, value.length)
    }
  }

  #takeFile(name: string | undefined, stream: FileStream, labels: Labels): void {
    const part = this.#begin(name, labels)
    // The stream fails with the form, which reports the error.
    stream.on('error', () => {})
    // Without a reader the parser would never close.
    if (part) stream.on('data', (piece: Buffer) => this.#add(part, piece))
    else stream.resume()
  }

  #begin(name: string | undefined, { mimeType, filename }: Labels): GrowingPart | undefined {
    if (!name) this.#fail(malformed(NO_HEAD))
    else if (name.length > MAX_NAME) {
      this.#fail(malformed(`the name of a part is longer than ${MAX_NAME} characters`))
    } else if (this.#parts.length === MAX_PARTS) {
      this.#fail(malformed(`it has more than ${MAX_PARTS} parts`))
    } else if (!this.#limits.files(name) && ++this.#fields > MAX_FIELDS) {
      this.#fail(malformed(`it has more than ${MAX_FIELDS} parts that are no files`))
    }
    if (!name || this.#failure !== undefined) return undefined
    // Browsers write a quote as `%22`.
    const shown = filename?.replaceAll('%22', '"').slice(0, MAX_FILENAME)
    const part: GrowingPart = {
      name,
      isFile: this.#limits.files(name),
      mediaType: mimeType,
      pieces: [],
      bytes: 0,
      smallPieces: 0,
      ...(shown && { filename: shown }),
    }
    this.#parts.push(part)
    return part
  }

  #add(part: GrowingPart, piece: Buffer): void {
    part.pieces.push(piece)
    part.smallPieces = piece.length < SMALL_BYTES ? part.smallPieces + 1 : 0
    if (part.smallPieces === MANY) {
      part.pieces.push(Buffer.concat(part.pieces.splice(-MANY)))
      part.smallPieces = 0
    }
    this.#count(part, piece.length)
  }

  #count(part: GrowingPart, bytes: number): void {
    part.bytes += bytes
    if (part.isFile) {
      const { fileLimitBytes } = this.#limits
      if (part.bytes > fileLimitBytes) this.#fail(fileTooLarge(part.name, fileLimitBytes))
      return
    }
    this.#textsBytes += bytes
    if (part.bytes > MAX_TEXT_BYTES) {
      this.#fail(tooMuchText(`The field ${JSON.stringify(part.name)} is`, MAX_TEXT_BYTES))
    } else if (this.#textsBytes > MAX_TEXTS_BYTES) {
      this.#fail(tooMuchText('The fields of the form that are no files are', MAX_TEXTS_BYTES))
    }
  }
}

interface GrowingPart extends Part {
  readonly pieces: Buffer[]
  text?: string
  bytes: number
  smallPieces: number
}

type Labels = Pick<busboy.FileInfo, 'mimeType'> & { readonly filename?: string | undefined }
type FileStream = Parameters<busboy.BusboyEvents['file']>[1]

const NO_HEAD =
  'a part does not begin with a head such as: Content-Disposition: form-data; name="file"'

/** Characters that stand for no byte. */
const WIDE = /[^\0-\xff]/

/**
 * The text of a field. busboy does not say whether it decoded the field by a character set of the part, so what is valid
 * UTF-8 byte by byte is decoded as that. Only a text that looks like misread UTF-8, such as "Ã©", comes out wrong.
 */
function partText(value: string): string {
  const bytes = Buffer.from(value, 'latin1')
  return WIDE.test(value) || !isUtf8(bytes) ? value : new TextDecoder().decode(bytes)
}

/** Counts the boundaries of a form, and finds the last one, however the form is cut into pieces. */
class BoundaryCounter {
  count = 0
  ended = false
  ends: readonly number[] = []
  readonly #delimiter: Buffer
  readonly #last: Buffer
  /** The end of the previous piece. The first boundary may lack its line end. */
  #tail: Buffer = Buffer.from('\r\n')

  constructor(boundary: string) {
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
    this.#last = Buffer.from(`\r\n--${boundary}--`)
  }

  /** @returns the piece up to the last boundary: the rest is no part of the form */
  push(piece: Buffer): Buffer {
    const overlap = this.#last.length - 1
    const tail = this.#tail
    const seam = Buffer.concat([tail, piece.subarray(0, overlap)])
    this.#tail =
      piece.length >= overlap ? Buffer.from(piece.subarray(-overlap)) : seam.subarray(-overlap)
    const { length } = this.#delimiter
    const inTail = placesOf(this.#delimiter, seam).filter(
      (at) => at < tail.length && at + length > tail.length,
    )
    this.ends = [
      ...inTail.map((at) => at + length - tail.length),
      ...placesOf(this.#delimiter, piece).map((at) => at + length),
    ]
    this.count += this.ends.length
    if (this.ended) return piece.subarray(0, 0)
    const inSeam = seam.indexOf(this.#last)
    const place = inSeam < 0 ? piece.indexOf(this.#last) : inSeam - tail.length
    if (inSeam < 0 && place < 0) return piece
    this.ended = true
    return piece.subarray(0, place + this.#last.length)
  }
}

const BLANK_LINE = '\r\n\r\n'

/** Measures the heads of parts: from a boundary to the first blank line. busboy keeps up to twice as much of each. */
class HeadMeter {
  #inHead = false
  #bytes = 0
  /** The end of the previous piece, in which the blank line may begin. */
  #tail: Buffer = Buffer.alloc(0)

  /** @param starts where heads begin in this piece. @returns whether a head is too large */
  push(piece: Buffer, starts: readonly number[]): boolean {
    let from = 0
    for (const to of [...starts.filter((start) => start <= piece.length), piece.length]) {
      if (this.#inHead && this.#exceeds(piece.subarray(from, to))) return true
      if (!starts.includes(to)) break
      this.#inHead = true
      this.#bytes = 0
      this.#tail = Buffer.alloc(0)
      from = to
    }
    return false
  }

  #exceeds(some: Buffer): boolean {
    const seen = Buffer.concat([this.#tail, some.subarray(0, MAX_HEAD_BYTES + BLANK_LINE.length)])
    const blankLine = seen.indexOf(BLANK_LINE)
    this.#inHead = blankLine < 0
    this.#bytes += (this.#inHead ? seen.length : blankLine) - this.#tail.length
    this.#tail = seen.subarray(1 - BLANK_LINE.length)
    return (this.#inHead ? this.#bytes - this.#tail.length : this.#bytes) > MAX_HEAD_BYTES
  }
}

function placesOf(sought: Buffer, bytes: Buffer): readonly number[] {
  const places: number[] = []
  for (let at = bytes.indexOf(sought); at >= 0; at = bytes.indexOf(sought, at + 1)) places.push(at)
  return places
}

/** 400 `invalid_multipart` */
function malformed(defect: string): InvalidRequest {
  return new InvalidRequest(
    'invalid_multipart',
    `The body is not a valid multipart form: ${defect}.`,
  )
}

function tooMuchText(subject: string, limitBytes: number): InvalidRequest {
  return new InvalidRequest('request_too_large', `${subject} larger than ${limitBytes} bytes.`)
}

class ReceivedFile implements MediaFile {
  readonly mediaType: string
  readonly filename?: string
  #pieces: readonly Uint8Array[]

  constructor(pieces: readonly Uint8Array[], mediaType: string, filename?: string) {
    this.#pieces = pieces
    this.mediaType = mediaType
    if (filename) this.filename = filename
  }

  get segments(): readonly Uint8Array[] {
    return this.#pieces
  }

  get bytes(): Uint8Array {
    if (this.#pieces.length !== 1) this.#pieces = [Buffer.concat(this.#pieces)]
    return this.#pieces[0]!
  }
}
