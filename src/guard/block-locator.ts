/**
 * Finds out where a text is blocked when several local guards read it. The guard that happens to be asked first would win,
 * and more text would go out, the longer the pieces are in which text comes. So the guards read the text again, character
 * by character, and the text alone decides.
 */
import type { TextStream } from '../plugin.ts'
import { yieldIfDue } from '../patterns/time-slice.ts'
import { ScanSession, type BlockedAt, type OutputScanner } from './scan-session.ts'
import { wholeCharacters } from './segments.ts'

/** Characters that guards are told of at a time where the exact place does not matter, and between two looks at the clock. */
const STRIDE = 256
/** Texts up to this length are read again in one go. */
const LONG = 1 << 14

export class BlockLocator {
  readonly #scanners: readonly OutputScanner[]
  readonly #stream: TextStream
  readonly #text: string
  readonly #from: number

  /** @param from no guard blocks before it */
  constructor(scanners: readonly OutputScanner[], stream: TextStream, text: string, from: number) {
    this.#scanners = scanners
    this.#stream = stream
    this.#text = text
    this.#from = wholeCharacters(text, from)
  }

  /**
   * A promise only for long texts, which give other calls their turn.
   * @param known what is known without it, and holds where no guard blocks again
   * @param proceed throws when the answer is no longer wanted
   */
  locate(known: BlockedAt, proceed: () => void): BlockedAt | Promise<BlockedAt> {
    if (this.#text.length > LONG) return this.#locateSliced(known, proceed)
    const strides = this.#needsStrides ? this.#read(this.#from, STRIDE) : undefined
    strides?.advance(Infinity)
    const exact = this.#read(strides ? strides.blockedFrom : this.#from, 1)
    exact.advance(Infinity)
    return exact.result(known)
  }

  async #locateSliced(known: BlockedAt, proceed: () => void): Promise<BlockedAt> {
    const inSlices = async (reading: Rereading) => {
      while (!reading.advance(STRIDE)) {
        const due = yieldIfDue(proceed)
        if (due) await due
      }
      return reading
    }
    const strides = this.#needsStrides ? await inSlices(this.#read(this.#from, STRIDE)) : undefined
    const exact = await inSlices(this.#read(strides ? strides.blockedFrom : this.#from, 1))
    return exact.result(known)
  }

  /** Character by character takes many times as long: where there is much to read, strides come first. */
  get #needsStrides(): boolean {
    return this.#text.length - this.#from > STRIDE
  }

  /** @param step characters at a time from `from` on */
  #read(from: number, step: number): Rereading {
    const sessions = this.#scanners.map((scanner) => new ScanSession(scanner, this.#stream))
    return new Rereading(sessions, this.#text, from, step)
  }
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

  constructor(sessions: readonly ScanSession[], text: string, from: number, step: number) {
    this.#sessions = sessions
    this.#text = text
    this.#from = from
    this.#step = step
    this.blockedFrom = text.length
  }

  /** Reads at least so many characters, or to the end. @returns whether it has come to the end */
  advance(characters: number): boolean {
    const stop = Math.min(this.#at + characters, this.#text.length)
    while (this.#at < stop) {
      const start = this.#at
      let end = start < this.#from ? Math.min(this.#from, start + STRIDE) : start + this.#step
      if (wholeCharacters(this.#text, end) < end) end++
      this.#at = end
      const piece = this.#text.slice(start, end)
      for (const session of this.#sessions) session.push(piece)
      if (start < this.#from || !this.#sessions.some(({ stop }) => stop?.block)) continue
      this.blockedFrom = start
      return true
    }
    return this.#at >= this.#text.length
  }

  /** The first guard that blocks, and the text that all agree to. */
  result(known: BlockedAt): BlockedAt {
    const session = this.#sessions.find(({ stop }) => stop?.block)
    if (!session) return known
    const offsets = this.#sessions
      .filter(({ stop }) => !stop?.fault)
      .map(({ safeOffset }) => safeOffset)
    return { session, stop: session.stop!, safeOffset: Math.min(known.safeOffset, ...offsets) }
  }
}
