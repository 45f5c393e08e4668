/**
 * Finds out where a text is blocked when several local guards read it. The guard that happens to be asked first would win,
 * and more text would go out, the longer the pieces are in which text comes. So the guards read the text again, character
 * by character, and the text alone decides.
 */
import { wholeCharacters } from '../errors/checks.ts'
import type { TextStream } from '../plugin.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import { ScanSession, andThen, type BlockedAt, type OutputScanner } from './scan-session.ts'

/** Characters that guards are told of at a time where the exact place does not matter. */
const STRIDE = 256
/** Texts up to this length are read again in one go. */
const LONG = 1 << 14

/**
 * Where a text is blocked, and by which guard. A promise only for long texts, which give other calls their turn.
 * @param from no guard blocks before it
 * @param known what is known without it, and holds where no guard blocks again
 * @param proceed throws when the answer is no longer wanted
 */
export function locateBlock(
  scanners: readonly OutputScanner[],
  stream: TextStream,
  text: string,
  from: number,
  known: BlockedAt,
  proceed: () => void,
): BlockedAt | Promise<BlockedAt> {
  const read = (start: number, step: number) => {
    const sessions = scanners.map((scanner) => new ScanSession(scanner, stream))
    return new Rereading(sessions, text, start, step).run(text.length > LONG ? proceed : undefined)
  }
  const exact = (start: number) => andThen(read(start, 1), (reading) => reading.result(known))
  const start = wholeCharacters(text, from)
  // Character by character takes many times as long: where there is much to read, strides come first.
  if (text.length - start <= STRIDE) return exact(start)
  return andThen(read(start, STRIDE), ({ blockedFrom }) => exact(blockedFrom))
}

/** One reading of a text by new sessions, until one of them blocks. */
class Rereading {
  /** Where the piece begins in which a session blocked; the end of the text where none did. */
  blockedFrom: number
  readonly #sessions: readonly ScanSession[]
  readonly #text: string
  readonly #from: number
  readonly #step: number
  #at = 0

  /** @param step characters at a time from `from` on */
  constructor(sessions: readonly ScanSession[], text: string, from: number, step: number) {
    this.#sessions = sessions
    this.#text = text
    this.#from = from
    this.#step = step
    this.blockedFrom = text.length
  }

  /** @param proceed where it is given, other calls get their turn now and then */
  run(proceed: (() => void) | undefined): this | Promise<this> {
    while (this.#at < this.blockedFrom) {
      this.#advance()
      const due = proceed && yieldIfDue(proceed)
      if (due) return due.then(() => this.run(proceed))
    }
    return this
  }

  #advance(): void {
    const start = this.#at
    let end = start < this.#from ? Math.min(this.#from, start + STRIDE) : start + this.#step
    if (wholeCharacters(this.#text, end) < end) end++
    this.#at = end
    const piece = this.#text.slice(start, end)
    for (const session of this.#sessions) session.push(piece)
    if (start >= this.#from && this.#blocking) this.blockedFrom = start
  }

  get #blocking(): ScanSession | undefined {
    return this.#sessions.find(({ stop }) => stop?.block)
  }

  /** The first guard that blocks, and the text that all agree to. */
  result(known: BlockedAt): BlockedAt {
    const session = this.#blocking
    if (!session) return known
    const offsets = this.#sessions
      .filter(({ stop }) => !stop?.fault)
      .map(({ safeOffset }) => safeOffset)
    return { session, safeOffset: Math.min(known.safeOffset, ...offsets) }
  }
}
