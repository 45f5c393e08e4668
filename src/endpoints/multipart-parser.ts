/** The grammar of `multipart/form-data` (RFC 2046 section 5.1, RFC 7578), fed piece by piece. */
import { InvalidRequest } from '../errors.ts'

/** What a part says of itself. */
export interface PartHead {
  readonly name: string
  /** Its last segment, cut to 255 characters. */
  readonly filename?: string
  /** In lower case. */
  readonly type?: { readonly media: string; readonly charset?: string }
}

/** Takes the bytes of one part. */
export interface Part {
  push(piece: Buffer): void
  end(): void
}

const MAX_PARTS = 1000
const MAX_HEAD_BYTES = 16 * 1024
const MAX_NAME = 200
const MAX_FILENAME = 255
/** After a boundary: blanks that transports may add. */
const MAX_PADDING = 64

const NOTHING = Buffer.alloc(0)
const LINE_END = Buffer.from('\r\n')
const HEAD_END = Buffer.from('\r\n\r\n')

/**
 * Cuts a form into its parts.
 * @throws InvalidRequest `invalid_multipart` for what is none, or has more than 1,000 parts
 */
export class FormParser {
  readonly #begin: (head: PartHead) => Part
  readonly #delimiter: Buffer
  /** What cannot be told yet: never more than a head. */
  #rest: Buffer = LINE_END
  #step: 'before' | 'boundary' | 'head' | 'body' | 'after' = 'before'
  #part: Part | undefined
  #parts = 0

  constructor(boundary: string, begin: (head: PartHead) => Part) {
    this.#begin = begin
    this.#delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  push(piece: Buffer): void {
    let left = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece])
    for (let next: Buffer | undefined = left; next; next = this.#read(left)) left = next
    this.#rest = left
  }

  /** The body is over. */
  end(): void {
    if (this.#step !== 'after') throw malformed('it is cut off before its last boundary')
  }

  /** One step. @returns what is left after it, or nothing when it needs more bytes than there are */
  #read(bytes: Buffer): Buffer | undefined {
    switch (this.#step) {
      case 'before':
      case 'body':
        return this.#readUntilBoundary(bytes)
      case 'boundary':
        return this.#readBoundary(bytes)
      case 'head':
        return this.#readHead(bytes)
      case 'after':
        return bytes.length === 0 ? undefined : NOTHING
    }
  }

  #readUntilBoundary(bytes: Buffer): Buffer | undefined {
    const at = bytes.indexOf(this.#delimiter)
    const safe = at < 0 ? bytes.length - this.#overlap(bytes) : at
    if (safe > 0) this.#part?.push(bytes.subarray(0, safe))
    if (at < 0) return safe > 0 ? bytes.subarray(safe) : undefined
    this.#part?.end()
    this.#part = undefined
    this.#step = 'boundary'
    return bytes.subarray(at + this.#delimiter.length)
  }

  /** How much of the end may be the beginning of a boundary; mostly nothing, and then nothing is put together again. */
  #overlap(bytes: Buffer): number {
    const delimiter = this.#delimiter
    let start = bytes.indexOf(CR, Math.max(0, bytes.length - delimiter.length + 1))
    while (
      start >= 0 &&
      delimiter.compare(bytes, start, undefined, 0, bytes.length - start) !== 0
    ) {
      start = bytes.indexOf(CR, start + 1)
    }
    return start < 0 ? 0 : bytes.length - start
  }

  #readBoundary(bytes: Buffer): Buffer | undefined {
    if (bytes[0] === DASH && bytes[1] === DASH) {
      this.#step = 'after'
      return NOTHING
    }
    let end = 0
    while (bytes[end] === BLANK || bytes[end] === TAB) end++
    const rest = bytes.length - end
    const begun = rest === 0 || (rest === 1 && (bytes[end] === CR || bytes[0] === DASH))
    if (begun && end <= MAX_PADDING) return undefined
    if (bytes[end] !== CR || bytes[end + 1] !== LF) {
      throw malformed('a boundary is followed by something else than the end of its line')
    }
    if (++this.#parts > MAX_PARTS) throw malformed(`it has more than ${MAX_PARTS} parts`)
    this.#step = 'head'
    // The line end stays: a head without lines ends with the one before it.
    return bytes.subarray(end)
  }

  #readHead(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf(HEAD_END)
    if (end > MAX_HEAD_BYTES || (end < 0 && bytes.length > MAX_HEAD_BYTES)) {
      throw malformed('the head of a part is too long')
    }
    if (end < 0) return undefined
    this.#part = this.#begin(headOf(bytes.toString('utf8', 0, end)))
    this.#step = 'body'
    return bytes.subarray(end + HEAD_END.length)
  }
}

const DASH = 0x2d
const BLANK = 0x20
const TAB = 0x09
const CR = 0x0d
const LF = 0x0a

function headOf(text: string): PartHead {
  const lines = new Map<string, string>()
  for (const line of text.replace(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) lines.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1))
  }
  const disposition = lines.get('content-disposition') ?? ''
  const { name, filename, 'filename*': encoded } = paramsOf(disposition)
  if (!/^\s*form-data\s*(;|$)/i.test(disposition) || !name) {
    throw malformed(
      'a part has no name; expected a head such as: Content-Disposition: form-data; name="file"',
    )
  }
  if (name.length > MAX_NAME) throw malformed(`the name of a part is longer than ${MAX_NAME}`)
  const file = baseName((encoded && decoded(encoded)) ?? filename ?? '')
  const type = typeOf(lines.get('content-type') ?? '')
  return { name, ...(file && { filename: file }), ...(type && { type }) }
}

/** `; name="value"`, as browsers, curl and libraries quote it. */
function paramsOf(value: string): Record<string, string | undefined> {
  const params: Record<string, string> = {}
  for (const match of value.matchAll(/;\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))/g)) {
    const quoted = match[2]?.replace(/\\(["\\])|%22/g, (_, escaped) => escaped ?? '"')
    params[match[1]!.toLowerCase()] ??= quoted ?? match[3] ?? ''
  }
  return params
}

/** `UTF-8''na%C3%AFve.png` (RFC 5987); nothing when it is not that. */
function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(/^utf-8'[^']*'(.*)$/i.exec(value)![1]!)
  } catch {
    return undefined
  }
}

function baseName(path: string): string {
  return path
    .slice(Math.max(path.lastIndexOf('/'), path.lastIndexOf('\\')) + 1)
    .slice(0, MAX_FILENAME)
}

function typeOf(value: string): PartHead['type'] {
  const media = /^\s*([\w.+-]+\/[\w.+-]+)/.exec(value)?.[1]?.toLowerCase()
  if (!media) return undefined
  const { charset } = paramsOf(value)
  return { media, ...(charset && { charset }) }
}

function malformed(what: string): InvalidRequest {
  return new InvalidRequest('invalid_multipart', `The body is not a valid multipart form: ${what}.`)
}
