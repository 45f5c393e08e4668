/** Cuts a growing text into sentences. Where the cuts are depends on the text alone, not on how it arrived. */

/** A sentence ends here at the latest. */
const LONGEST = 600
const SPACE = /\s/

/** Ends a sentence wherever it is. */
const FULL_STOPS = new Set(['\n', '。', '！', '？', '؟', '।'].map((sign) => sign.charCodeAt(0)))
/** End a sentence before white space: there are points in numbers and names. */
const STOPS = new Set(['.', '!', '?', '…'].map((sign) => sign.charCodeAt(0)))

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
    for (; this.#seen < rest.length; this.#seen++) {
      const at = this.#seen
      const code = rest.charCodeAt(at)
      if (FULL_STOPS.has(code)) return ++this.#seen
      if (STOPS.has(code)) {
        // Whether it is the end is known with the next letter.
        if (at + 1 === rest.length) return 0
        if (SPACE.test(rest[at + 1]!)) return ++this.#seen
      }
      if (at + 1 - from >= LONGEST) {
        this.#seen++
        for (let i = at; i > from + LONGEST / 2; i--) if (SPACE.test(rest[i]!)) return i
        return code >= 0xd800 && code <= 0xdbff ? at : at + 1
      }
    }
    return 0
  }
}
