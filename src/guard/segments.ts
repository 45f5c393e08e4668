/**
 * Cuts a growing text into segments for guards that judge one segment at a time. Where the cuts are depends on the text
 * alone, not on how it arrived.
 */

/** Characters of the first segments, and of all later ones. The first are short, so that the first words go out soon. */
const TARGETS = [120, 240, 480, 800]
/** A segment is cut at this many times its target, even within a sentence. */
const MAX_OVERRUN = 1.5
/** The longest segment; a block of code may take all of it. */
const LONGEST = 1200
const SENTENCE_ENDS = new Set('.!?…。！？\n')
const FENCE = /^ {0,3}(`{3,}|~{3,})/
const SPACE = /\s/

export interface Segment {
  /** Offset in the text. */
  readonly start: number
  /** Exclusive. */
  readonly end: number
  readonly text: string
}

/** Cuts one text. */
export class Segmenter {
  #rest = ''
  #start = 0
  #count = 0
  /** How much of the rest was read. */
  #seen = 0
  /** Where the line begins in the rest; negative when a cut went through it. */
  #line = 0
  /** The fence that opened a block of code; empty outside of one. */
  #fence = ''

  /** The segments that are complete with this text. */
  push(text: string): Segment[] {
    this.#rest += text
    const segments: Segment[] = []
    for (let end = this.#next(); end > 0; end = this.#next()) segments.push(this.#take(end))
    return segments
  }

  /** The rest as a segment of its own, if there is any. */
  flush(): Segment | undefined {
    return this.#rest ? this.#take(this.#rest.length) : undefined
  }

  /** Where the first segment of the rest ends; 0 while it is open. */
  #next(): number {
    const rest = this.#rest
    const target = TARGETS[Math.min(this.#count, TARGETS.length - 1)]!
    const most = target * MAX_OVERRUN
    while (this.#seen < rest.length) {
      const sign = rest[this.#seen++]!
      const end = this.#seen
      if (sign === '\n') this.#endLine(end)
      if (this.#fence) {
        if (end >= LONGEST) return wholeCharacters(rest, end)
        continue
      }
      if (end < target) continue
      if (SENTENCE_ENDS.has(sign)) return end
      if (end < most) continue
      for (let i = end; i > target; i--) if (SPACE.test(rest[i - 1]!)) return i
      return wholeCharacters(rest, end)
    }
    return 0
  }

  #endLine(end: number): void {
    const mark = this.#line < 0 ? undefined : FENCE.exec(this.#rest.slice(this.#line, end))?.[1]
    if (mark && !this.#fence) this.#fence = mark
    else if (mark?.startsWith(this.#fence)) this.#fence = ''
    this.#line = end
  }

  #take(end: number): Segment {
    const text = this.#rest.slice(0, end)
    const start = this.#start
    this.#rest = this.#rest.slice(end)
    this.#start += end
    this.#seen -= end
    this.#line -= end
    this.#count++
    return { start, end: this.#start, text }
  }
}

/** An offset, or the one before it if it lies between the halves of a surrogate pair. */
export function wholeCharacters(text: string, end: number): number {
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}
