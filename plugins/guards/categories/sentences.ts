/** Cuts a growing text into sentences. Where the cuts are depends on the text alone, not on how it arrived. */

/** A sentence ends here at the latest. */
export const LONGEST = 600
const SPACE = /\s/

/** Ends a sentence wherever it is. */
const FULL_STOP = 1
/** Ends one before white space: there are points in numbers and names. */
const STOP = 2

const ends = new Uint8Array(0x10000)
for (const sign of '\n。！？؟।') ends[sign.charCodeAt(0)] = FULL_STOP
for (const sign of '.!?…') ends[sign.charCodeAt(0)] = STOP

export interface Sentence {
  /** Offset in the text. */
  readonly start: number
  readonly text: string
}

export class Sentences {
  /** Where the sentence begins that is not complete. */
  start = 0
  #rest = ''
  /** How much of the rest was looked at. */
  #seen = 0

  /** The sentences that are complete with this text. */
  push(text: string): Sentence[] {
    this.#rest += text
    const sentences: Sentence[] = []
    let taken = 0
    for (let end = this.#next(taken); end > 0; end = this.#next(taken)) {
      sentences.push({ start: this.start, text: this.#rest.slice(taken, end) })
      this.start += end - taken
      taken = end
    }
    this.#rest = this.#rest.slice(taken)
    this.#seen -= taken
    return sentences
  }

  /** What is left. */
  end(): Sentence | undefined {
    const { start } = this
    const text = this.#rest
    this.#rest = ''
    this.start += text.length
    return text ? { start, text } : undefined
  }

  /** Where the sentence ends that begins at `from`; 0 while it is open. */
  #next(from: number): number {
    const rest = this.#rest
    const { length } = rest
    const last = from + LONGEST - 1
    let at = this.#seen
    for (; at < length; at++) {
      const kind = ends[rest.charCodeAt(at)]!
      if (kind === FULL_STOP) return (this.#seen = at + 1)
      if (kind === STOP) {
        // Whether it is the end is known with the next letter.
        if (at + 1 === length) break
        if (SPACE.test(rest[at + 1]!)) return (this.#seen = at + 1)
      }
      if (at < last) continue
      this.#seen = at + 1
      for (let i = at; i > from + LONGEST / 2; i--) if (SPACE.test(rest[i]!)) return i
      const code = rest.charCodeAt(at)
      return code >= 0xd800 && code <= 0xdbff ? at : at + 1
    }
    this.#seen = at
    return 0
  }
}
