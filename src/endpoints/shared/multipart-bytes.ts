/** The bytes of a form on their way to its parser. */

/** Below that, pieces are not worth what it costs to keep each of them. */
const SMALL_BYTES = 16 * 1024
const SHARED_BYTES = 64 * 1024

/** Passes large pieces on as they are, small ones together, so that none costs more than it holds. */
export class Gatherer {
  readonly #take: (bytes: Buffer) => void
  #shared: Buffer | undefined
  #used = 0

  constructor(take: (bytes: Buffer) => void) {
    this.#take = take
  }

  push(piece: Buffer): void {
    if (piece.length >= SMALL_BYTES) {
      this.flush()
      return this.#take(piece)
    }
    if (this.#used + piece.length > SHARED_BYTES) this.flush()
    this.#shared ??= Buffer.allocUnsafeSlow(SHARED_BYTES)
    this.#used += piece.copy(this.#shared, this.#used)
  }

  /** Passes on what was kept back. */
  flush(): void {
    const filled = this.#shared?.subarray(0, this.#used)
    if (!filled || filled.length === 0) return
    const isSmall = filled.length < SMALL_BYTES
    if (!isSmall) this.#shared = undefined
    this.#used = 0
    this.#take(isSmall ? Buffer.from(filled) : filled)
  }
}

/** Finds the boundaries of a form, whatever the pieces are in which it comes. */
export class Borders {
  /** A line end, two dashes and the boundary. */
  readonly delimiter: Buffer
  /** How many there were. */
  count = 0
  /** How much came after the last one. */
  bytesSince = 0
  /** What may be the beginning of one. The first one may stand at the very beginning, without a line end. */
  #held: Buffer = LINE_END

  constructor(boundary: string) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  /**
   * @returns what came, each boundary whole and at the beginning of a piece. What may be the beginning of one comes the next
   * time; at the end of the body it is of no use.
   */
  cut(bytes: Buffer): Buffer[] {
    const { delimiter } = this
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
    const pieces: Buffer[] = []
    let from = 0
    this.bytesSince += bytes.length
    for (let at = all.indexOf(delimiter); at >= 0;) {
      this.count++
      this.bytesSince = all.length - at - delimiter.length
      pieces.push(all.subarray(from, at))
      from = at
      at = all.indexOf(delimiter, at + delimiter.length)
    }
    const end = all.length - this.#begunIn(all)
    pieces.push(all.subarray(from, end))
    this.#held = all.subarray(end)
    return pieces
  }

  /** How many bytes at the end may be the beginning of a boundary. */
  #begunIn(bytes: Buffer): number {
    const last = bytes.subarray(1 - this.delimiter.length)
    const at = last.lastIndexOf(LINE_END[0]!)
    return at >= 0 && this.delimiter.indexOf(last.subarray(at)) === 0 ? last.length - at : 0
  }
}

const LINE_END = Buffer.from('\r\n')
