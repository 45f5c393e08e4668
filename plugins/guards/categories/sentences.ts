/** Most characters of a sentence. */
export const MAX_SENTENCE = 600
const SPACE = /\s/

/** Ends a sentence anywhere. */
const FULL_STOP = 1
/** Ends a sentence only before white space, because numbers and names contain points. */
const STOP = 2

const ends = new Uint8Array(0x10000)
for (const sign of '\n。！？؟।') ends[sign.charCodeAt(0)] = FULL_STOP
for (const sign of '.!?…') ends[sign.charCodeAt(0)] = STOP

/** A sentence and its position. */
export interface Sentence {
  /** Offset in the text. */
  readonly start: number
  readonly text: string
}

/** Splits a growing text into sentences. The result depends on the text only, not on how it arrives. */
export class Sentences {
  /** Offset of the incomplete sentence. */
  start = 0
  #rest = ''
  /** Characters of the rest that were examined. */
  #seen = 0

  /** Adds text. @returns the sentences that are now complete */
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

  /** The last, incomplete sentence. */
  end(): Sentence | undefined {
    const { start } = this
    const text = this.#rest
    this.#rest = ''
    this.start += text.length
    return text ? { start, text } : undefined
  }

  /** End of the sentence that starts at `from`; 0 while it is incomplete. */
  #next(from: number): number {
    const rest = this.#rest
    const { length } = rest
    const last = from + MAX_SENTENCE - 1
    let at = this.#seen
    for (; at < length; at++) {
      const kind = ends[rest.charCodeAt(at)]!
      if (kind === FULL_STOP) return (this.#seen = at + 1)
      if (kind === STOP) {
        // The next character decides.
        if (at + 1 === length) break
        if (SPACE.test(rest[at + 1]!)) return (this.#seen = at + 1)
      }
      if (at < last) continue
      this.#seen = at + 1
      for (let i = at; i > from + MAX_SENTENCE / 2; i--) if (SPACE.test(rest[i]!)) return i
      const code = rest.charCodeAt(at)
      return code >= 0xd800 && code <= 0xdbff ? at : at + 1
    }
    this.#seen = at
    return 0
  }
}
