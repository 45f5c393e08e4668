/** The flow of lines of a body, see {@link Host.lines}. */
import { StringDecoder } from 'node:string_decoder'
import { brokenAnswer } from '../errors/errors.ts'
import { parseExactly, type Flow, type Step } from '../plugin.ts'
import { toFlow } from './flow.ts'

const MAX_LINE_CHARACTERS = 16 * 1024 * 1024

/**
 * The lines of a body that are not empty, parsed as JSON unless they are wanted `as: 'text'`; `as: 'exact'` keeps all digits.
 * @throws UpstreamFailure `upstream_error` for a line that is not JSON, or longer than 16 Mi characters
 */
export function readLines(
  body: AsyncIterable<Uint8Array>,
  { as = 'json' }: { readonly as?: 'json' | 'exact' | 'text' } = {},
): Flow<any> {
  return toFlow(body).through(new LineReader(READERS[as]))
}

const READERS = {
  json: (line: string) => parse(line, JSON.parse),
  exact: (line: string) => parse(line, parseExactly),
  text: (line: string) => line,
}

/** Cuts bytes into lines. */
class LineReader implements Step<Uint8Array, unknown> {
  readonly #decoder = new StringDecoder('utf8')
  readonly #convert: (line: string) => unknown
  /** Pieces of the line that has not ended; joined once, at its end. */
  #pieces: string[] = []
  #length = 0

  constructor(convert: (line: string) => unknown) {
    this.#convert = convert
  }

  push(chunk: Uint8Array, emit: (part: unknown) => void): void {
    const text = this.#decoder.write(chunk)
    let start = 0
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
      this.#keep(text.slice(start, end))
      this.#take(emit)
      start = end + 1
    }
    this.#keep(text.slice(start))
  }

  end(emit: (part: unknown) => void): void {
    this.#keep(this.#decoder.end())
    this.#take(emit)
  }

  #keep(piece: string): void {
    if (piece === '') return
    this.#length += piece.length
    if (this.#length > MAX_LINE_CHARACTERS) {
      throw brokenAnswer('The model provider sent a line that is too long.')
    }
    this.#pieces.push(piece)
  }

  #take(emit: (part: unknown) => void): void {
    const line = this.#pieces.join('').replace(/\r$/, '')
    this.#pieces = []
    this.#length = 0
    if (line.trim() !== '') emit(this.#convert(line))
  }
}

function parse(line: string, read: (text: string) => unknown): unknown {
  try {
    return read(line)
  } catch {
    // The cause is left out: its message quotes the line, and no body may be logged.
    throw brokenAnswer('The model provider sent a line that is not JSON.')
  }
}
