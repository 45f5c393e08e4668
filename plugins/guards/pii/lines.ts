/** Follows the lines of a text and looks for shapes in each clause. */
import type { Entity } from './find.ts'
import { findShapes, mayHaveShape } from './shapes.ts'

/** Receives an entity and its folded text. @returns whether to continue */
export type Take = (entity: Entity, text: string) => boolean

const LINE_HEAD = 40
/** Most characters of a clause. */
const CLAUSE = 240
/** Length of a label that the end of a clause may split, as in `d.o.b.` */
const LABEL = 12
const ENDS = new Set([...'\n,;!?。，、；！？'].map((character) => character.charCodeAt(0)))
/** How many characters before the current position it reads. */
export const LINE_MEMORY = CLAUSE + LABEL

/** How to look for shapes. */
interface LineSettings {
  /** Whether to look for shapes. */
  readonly shapes: boolean
  /** Whether a single shape blocks, so that none may be released before it is recognised. */
  readonly strict: boolean
}

/** Position in the lines and clauses of one text. */
export class Lines {
  readonly #settings: LineSettings
  readonly #textOf: (start: number, end: number) => string
  readonly #take: Take
  #lineStart = 0
  #head: string | undefined = undefined
  #clause = 0
  #hasDigit = false
  /** End of the part in which shapes are searched, because their words occurred. */
  #searchUntil = 0
  #foundUpTo = 0
  #holds: boolean

  constructor(settings: LineSettings, textOf: (start: number, end: number) => string, take: Take) {
    this.#settings = settings
    this.#textOf = textOf
    this.#take = take
    this.#holds = settings.shapes && settings.strict
  }

  /** Offset up to which the text cannot be part of a later shape. Infinite while a single shape would not block. */
  get safe(): number {
    return this.#holds ? this.#clause : Infinity
  }

  /** Notes that the current clause has a digit. */
  sawDigit(): void {
    this.#hasDigit = true
  }

  /** Whether a clause ends before this character. */
  isEnd(at: number, code: number): boolean {
    return ENDS.has(code) || this.isLong(at)
  }

  /** Whether the current clause has reached its greatest length. */
  isLong(at: number): boolean {
    return at - this.#clause > CLAUSE
  }

  /** Starts a new line. */
  beginLine(at: number): void {
    this.#lineStart = at
    this.#head = undefined
    this.#searchUntil = 0
  }

  /** The start of the line up to a colon, when `at` is beyond it. It may name the number at `at`. */
  labelBefore(at: number): string {
    if (at <= this.#lineStart + LINE_HEAD) return ''
    this.#head ??= this.#textOf(this.#lineStart, this.#lineStart + LINE_HEAD)
    return this.#head.slice(0, this.#head.indexOf(':') + 1)
  }

  /** Announces that text before `at` will be dropped. */
  forget(at: number): void {
    if (this.#lineStart < at) this.labelBefore(at + LINE_HEAD)
  }

  /** Looks for shapes since the last clause. @returns whether to continue */
  endClause(at: number): boolean {
    if (this.#settings.shapes && at > this.#clause) {
      const from = Math.max(this.#lineStart, this.#clause - LABEL)
      if (mayHaveShape(this.#textOf(from, at), this.#hasDigit)) this.#searchUntil = at + CLAUSE
      const isSearched = at < this.#searchUntil
      if (isSearched && !this.#find(Math.max(this.#lineStart, at - CLAUSE), at)) return false
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
    // After a first shape, a second one would block.
    if (this.#foundUpTo > 0) this.#holds = true
    return true
  }
}
