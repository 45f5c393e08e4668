/** Follows the lines of a text and looks for shapes clause by clause. */
import type { Entity } from './find.ts'
import { findShapes, mayHaveShape } from './shapes.ts'

/** Gets what was found, with its text folded. @returns whether to go on */
export type Take = (entity: Entity, text: string) => boolean

const LINE_HEAD = 40
/** Characters that shapes are looked for in at once, at most. */
const CLAUSE = 240
/** A label may be cut by the end of a clause, as in `d.o.b.` */
const LABEL = 12
const ENDS = new Set([...'\n,;!?。，、；！？'].map((character) => character.charCodeAt(0)))
/** How far back it asks for text. */
export const LINE_MEMORY = CLAUSE + LABEL

export interface LineSettings {
  /** Whether to look for shapes at all. */
  readonly shapes: boolean
  /** Whether one shape is enough, so that none may go out before it is known. */
  readonly strict: boolean
}

export class Lines {
  readonly #settings: LineSettings
  readonly #textOf: (start: number, end: number) => string
  readonly #take: Take
  #lineStart = 0
  #head: string | undefined = undefined
  #clause = 0
  #hasDigit = false
  /** Words that shapes stand beside were seen not long before this. */
  #watchedUpTo = 0
  #foundUpTo = 0
  #holds: boolean

  constructor(settings: LineSettings, textOf: (start: number, end: number) => string, take: Take) {
    this.#settings = settings
    this.#textOf = textOf
    this.#take = take
    this.#holds = settings.shapes && settings.strict
  }

  /** Up to where no shape can be part of the text that is yet to be looked at; where one alone proves nothing, anywhere. */
  get safe(): number {
    return this.#holds ? this.#clause : Infinity
  }

  sawDigit(): void {
    this.#hasDigit = true
  }

  /** Whether a clause ends before a character. */
  isEnd(at: number, code: number): boolean {
    return ENDS.has(code) || this.isLong(at)
  }

  isLong(at: number): boolean {
    return at - this.#clause > CLAUSE
  }

  beginLine(at: number): void {
    this.#lineStart = at
    this.#head = undefined
    this.#watchedUpTo = 0
  }

  /** What the line begins with, up to a colon, where `at` is beyond it: it may name what stands there. */
  labelBefore(at: number): string {
    if (at <= this.#lineStart + LINE_HEAD) return ''
    this.#head ??= this.#textOf(this.#lineStart, this.#lineStart + LINE_HEAD)
    return this.#head.slice(0, this.#head.indexOf(':') + 1)
  }

  /** Text before `at` goes away. */
  forget(at: number): void {
    if (this.#lineStart < at) this.labelBefore(at + LINE_HEAD)
  }

  /** Looks for shapes in what was said since the last time. @returns whether to go on */
  endClause(at: number): boolean {
    if (this.#settings.shapes && at > this.#clause) {
      const from = Math.max(this.#lineStart, this.#clause - LABEL)
      if (mayHaveShape(this.#textOf(from, at), this.#hasDigit)) this.#watchedUpTo = at + CLAUSE
      const isWatched = at < this.#watchedUpTo
      if (isWatched && !this.#find(Math.max(this.#lineStart, at - CLAUSE), at)) return false
      this.#hasDigit = false
    }
    this.#clause = at + 1
    return true
  }

  #find(start: number, end: number): boolean {
    const line = this.#textOf(start, end)
    for (const shape of findShapes(line)) {
      const entity = { ...shape, start: start + shape.start, end: start + shape.end }
      if (entity.start < this.#foundUpTo) continue
      this.#foundUpTo = entity.end
      if (!this.#take(entity, line.slice(shape.start, shape.end))) return false
    }
    // From the first one on, the second must not go out before it is known.
    if (this.#foundUpTo > 0) this.#holds = true
    return true
  }
}
