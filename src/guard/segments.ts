/**
 * Cuts a growing text into stretches for guards that judge a stretch at a time (guard design, 3.4). Where the cuts are
 * depends on the text alone, not on how it arrived.
 */

/** Characters of the first segments, and of all later ones: short at first, so that the first words come soon. */
const TARGETS = [120, 240, 480, 800]
/** Beyond this many times its target a segment is cut wherever it is. */
const STRETCH = 1.5
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
  /** How much of the rest was looked at. */
  #seen = 0
  /** Where the line began; negative when a cut went through it. */
  #line = 0
  /** What opened a block of code. */
  #fence = ''

  /** Characters that are not in a segment yet. */
  get pending(): number {
    return this.#rest.length
  }

  /** The segments that are complete with this text. */
  push(text: string): Segment[] {
    this.#rest += text
    const segments: Segment[] = []
    for (let end = this.#next(); end > 0; end = this.#next()) segments.push(this.#take(end))
    return segments
  }

  /** What is left, as a segment of its own; nothing if there is nothing. */
  flush(): Segment | undefined {
    return this.#rest ? this.#take(this.#rest.length) : undefined
  }

  /** Where the first segment of the rest ends; 0 while it is open. */
  #next(): number {
    const rest = this.#rest
    const target = TARGETS[Math.min(this.#count, TARGETS.length - 1)]!
    const most = target * STRETCH
    while (this.#seen < rest.length) {
      const sign = rest[this.#seen++]!
      const end = this.#seen
      if (sign === '\n') this.#endLine(end)
      if (this.#fence) {
        if (end >= LONGEST) return beforeHalf(rest, end)
        continue
      }
      if (end < target) continue
      if (SENTENCE_ENDS.has(sign)) return end
      if (end < most) continue
      for (let i = end; i > target; i--) if (SPACE.test(rest[i - 1]!)) return i
      return beforeHalf(rest, end)
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

/** Never between the halves of a character. */
function beforeHalf(text: string, end: number): number {
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}
