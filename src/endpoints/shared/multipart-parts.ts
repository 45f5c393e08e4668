/**
 * `multipart/form-data` cut into its parts by busboy. For busboy a part is a file if it has a file name or the type
 * `application/octet-stream`, else a field; the wire contract goes by the names of parts (1.4). So either may be either.
 */
import { isUtf8 } from 'node:buffer'
import busboy from 'busboy'
import { InvalidRequest } from '../../errors/errors.ts'
import { fileTooLarge } from './media.ts'
import { Borders, Gatherer } from './multipart-bytes.ts'

export interface PartLimits {
  /** Whether a part with this name is a file, however it is labelled. */
  readonly files: (field: string) => boolean
  /** Of each file. All texts together may have as much, and a MiB in any case. */
  readonly fileLimitBytes: number
}

export interface Part {
  readonly name: string
  readonly isFile: boolean
  /** Its last segment, cut to 255 characters. */
  readonly filename?: string
  /** In lower case, without parameters; `text/plain` for a part that names none. */
  readonly mediaType: string
  /** What it holds, as it was sent. */
  readonly pieces: readonly Buffer[]
  /** In place of them: what a field holds. */
  readonly text?: string
}

const MAX_PARTS = 1000
const MAX_NAME = 200
const MAX_FILENAME = 255
const LEAST_TEXT_BYTES = 1024 * 1024
/** More than there is in any text of use: a policy may have 256 KiB. */
const LONG_BYTES = 320 * 1024

/**
 * Takes a form piece by piece and keeps what is in it. Has to be destroyed, whatever comes of it.
 *
 * Parts that busboy passes over in silence (no form data, a head it cannot read, blanks behind the boundary, a place behind
 * the end) make the form invalid: nothing that a client sent is lost.
 */
export class MultipartParser {
  readonly #isFile: (field: string) => boolean
  readonly #fileLimitBytes: number
  readonly #textLimitBytes: number
  readonly #borders: Borders
  readonly #gatherer = new Gatherer((bytes) => this.#feed(bytes))
  readonly #parser: busboy.Busboy
  readonly #closed: Promise<unknown>
  readonly #parts: Growing[] = []
  #textBytes = 0
  /** What comes next belongs to the last part. */
  #goesOn = false
  #over = false
  #failure: unknown

  /** @param boundary 1 to 70 printable ASCII characters, neither quotes nor backslashes among them */
  constructor(boundary: string, { files, fileLimitBytes }: PartLimits) {
    this.#isFile = files
    this.#fileLimitBytes = fileLimitBytes
    this.#textLimitBytes = Math.max(fileLimitBytes, LEAST_TEXT_BYTES)
    this.#borders = new Borders(boundary)
    this.#parser = busboy({
      headers: { 'content-type': `multipart/form-data; boundary="${boundary}"` },
      // A character for each byte, so that the bytes of a field can be had back.
      defCharset: 'latin1',
      defParamCharset: 'utf8',
      // All of a file is kept: busboy has nobody to wait for.
      fileHwm: fileLimitBytes + 1,
      limits: { fieldSize: this.#textLimitBytes + 1 },
    })
    this.#closed = new Promise((resolve) => this.#parser.once('close', resolve))
    this.#parser
      .on('field', (name, value, about) => this.#takeField(name, value, about))
      .on('file', (name, stream, about) => this.#takeFile(name, stream, about))
      .on('error', () => {
        this.#fail(malformed(this.#over ? 'it is cut off before its last boundary' : NO_HEAD))
      })
  }

  /** @throws InvalidRequest `invalid_multipart`, `file_too_large` with the part's name, `request_too_large` */
  push(piece: Buffer): void {
    this.#gatherer.push(piece)
  }

  /** The body is over. @throws InvalidRequest as `push` */
  async end(): Promise<readonly Part[]> {
    this.#gatherer.flush()
    this.#over = true
    this.#parser.end()
    await this.#closed
    this.#check()
    return this.#parts
  }

  destroy(): void {
    this.#parser.destroy()
  }

  #feed(bytes: Buffer): void {
    for (const piece of this.#borders.cut(bytes)) this.#parser.write(piece)
    this.#check()
    const { bytesSince, count } = this.#borders
    const isField = this.#parts.length < count
    if (isField && bytesSince > LONG_BYTES) this.#breakField()
  }

  /**
   * busboy keeps all of a field, and tells its name at its end only. So a long one gets an end here and goes on as a file:
   * it is known what it is while it comes, and it is not put together as text.
   */
  #breakField(): void {
    const head = 'Content-Disposition: form-data; name="rest"; filename="rest"'
    this.#goesOn = true
    this.#parser.write(`${this.#borders.delimiter}\r\n${head}\r\n\r\n`)
    this.#check()
    if (this.#parts.length < this.#borders.count) throw malformed(NO_HEAD)
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure
    // Each but the first ends a part; where there is none, busboy has passed over it.
    if (this.#borders.count - 1 > this.#parts.length) throw malformed(NO_HEAD)
  }

  #fail(reason: unknown): void {
    this.#failure ??= reason
  }

  /** @param value nothing where the part names a character set that is not known */
  #takeField(name: string | undefined, value: string | undefined, about: Labels): void {
    const part = this.#begin(name, about)
    if (!part) return
    const needsBytes = part.isFile || this.#goesOn
    if (value === undefined || (needsBytes && WIDE.test(value))) {
      const what = `the part ${JSON.stringify(name)} is labelled as text in some character set`
      this.#fail(malformed(`${what}; expected it without "charset"`))
    } else if (needsBytes) {
      this.#add(part, Buffer.from(value, 'latin1'))
    } else {
      part.text = textOf(value)
      this.#count(part, value.length)
    }
  }

  #takeFile(name: string | undefined, stream: FileStream, about: Labels): void {
    const part = this.#goesOn ? this.#parts.at(-1) : this.#begin(name, about)
    this.#goesOn = false
    // It fails with the form, and has nothing to say of its own.
    stream.on('error', () => {})
    if (part) stream.on('data', (piece: Buffer) => this.#add(part, piece))
  }

  #begin(name: string | undefined, about: Labels): Growing | undefined {
    if (!name) this.#fail(malformed(NO_HEAD))
    else if (name.length > MAX_NAME) {
      this.#fail(malformed(`the name of a part is longer than ${MAX_NAME} characters`))
    } else if (this.#parts.length === MAX_PARTS) {
      this.#fail(malformed(`it has more than ${MAX_PARTS} parts`))
    }
    if (!name || this.#failure !== undefined) return undefined
    // Browsers write quotes so.
    const filename = about.filename?.replaceAll('%22', '"').slice(0, MAX_FILENAME)
    const part: Growing = {
      name,
      isFile: this.#isFile(name),
      mediaType: about.mimeType,
      pieces: [],
      bytes: 0,
      ...(filename && { filename }),
    }
    this.#parts.push(part)
    return part
  }

  #add(part: Growing, piece: Buffer): void {
    part.pieces.push(piece)
    this.#count(part, piece.length)
  }

  #count(part: Growing, bytes: number): void {
    if (!part.isFile) {
      if ((this.#textBytes += bytes) > this.#textLimitBytes) {
        this.#fail(tooMuchText(this.#textLimitBytes))
      }
    } else if ((part.bytes += bytes) > this.#fileLimitBytes) {
      this.#fail(fileTooLarge(part.name, this.#fileLimitBytes))
    }
  }
}

interface Growing extends Part {
  readonly pieces: Buffer[]
  text?: string
  bytes: number
}

type Labels = Pick<busboy.FileInfo, 'mimeType'> & { readonly filename?: string | undefined }
type FileStream = Parameters<busboy.BusboyEvents['file']>[1]

const NO_HEAD =
  'a part does not begin with a head such as: Content-Disposition: form-data; name="file"'

/** Characters that are no bytes. */
const WIDE = /[^\0-\xff]/

/**
 * busboy does not say whether it has decoded a field by a character set that the part names. What is UTF-8 byte by byte is
 * taken for that. So the one thing misread is a text with a character set that looks like misread UTF-8 itself, such as
 * "Ã©".
 */
function textOf(value: string): string {
  const bytes = Buffer.from(value, 'latin1')
  return WIDE.test(value) || !isUtf8(bytes) ? value : new TextDecoder().decode(bytes)
}

/** 400 `invalid_multipart`. */
export function malformed(what: string): InvalidRequest {
  return new InvalidRequest('invalid_multipart', `The body is not a valid multipart form: ${what}.`)
}

function tooMuchText(limitBytes: number): InvalidRequest {
  return new InvalidRequest(
    'request_too_large',
    `The fields of the form that are no files are larger than ${limitBytes} bytes together.`,
  )
}
