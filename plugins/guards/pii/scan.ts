/**
 * Scans a growing text for personal data. It splits the text into stretches that personal data cannot cross. The
 * stretches, and so the results, depend on the text only and not on how it arrives.
 */
import { expression } from '../text/slices.ts'
import { SPELLED_DIGITS, isDigitWord } from './contact.ts'
import { findPersonalData, type Entity, findShapes, mayHaveShape } from './find.ts'
import {
  ASCII,
  BREAK,
  DIGIT,
  HIDDEN,
  IDEOGRAPH_CODE,
  LETTER,
  MARK,
  SPACE,
  foldOf,
  foldText,
} from './fold.ts'
import type { EntityClass } from './classes.ts'

// Follows the lines of a text and looks for shapes in each clause.

/** Receives an entity and its folded text. @returns whether to continue */
type Take = (entity: Entity, text: string) => boolean

const LINE_HEAD = 40
/** Most characters of a clause. */
const CLAUSE = 240
/** Length of a label that the end of a clause may split, as in `d.o.b.` */
const LABEL = 12
const ENDS = new Set([...'\n,;!?。，、；！？'].map((character) => character.charCodeAt(0)))
/** How many characters before the current position it reads. */
const LINE_MEMORY = CLAUSE + LABEL

/** How to look for shapes. */
interface LineSettings {
  /** Whether to look for shapes. */
  readonly shapes: boolean
  /** Whether a single shape blocks, so that none may be released before it is recognised. */
  readonly strict: boolean
}

/** Position in the lines and clauses of one text. */
class Lines {
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
    // A second shape after the first would block.
    if (this.#foundUpTo > 0) this.#holds = true
    return true
  }
}

/** Most characters of the local part of an address, quotes included. */
const LONGEST_LOCAL = 64
const QUOTE = 34

/** Follows the quotes of a line: the local part of an address may be quoted, and have blanks then. */
class Quotes {
  /** Where a local part may have begun. */
  #opening = -1
  /** The quote that was read last, if nothing was read since. */
  #last = -1
  /** The `@` after a quoted local part whose address is not decided. */
  #sign = -1

  get safe(): number {
    if (this.#opening >= 0) return this.#opening
    return this.#last >= 0 ? this.#last : Infinity
  }

  read(at: number, code: number, kind: number): void {
    if (this.#sign >= 0) return
    if (this.#last >= 0) {
      if (code === 64 && this.#opening >= 0) {
        this.#sign = at
        return
      }
      this.#opening = kind === LETTER || kind === DIGIT ? this.#last : -1
      this.#last = -1
    }
    if (code === QUOTE) this.#last = at
    else if (code === 10 || at - this.#opening >= LONGEST_LOCAL) this.#opening = -1
  }

  /** Where the quoted local part of an address begins; undefined where it has none. */
  startOf(start: number, end: number): number | undefined {
    return this.#sign > start && this.#sign < end ? this.#opening : undefined
  }

  /** All addresses up to an offset are decided. */
  settle(end: number): void {
    if (this.#sign >= 0 && this.#sign < end) this.end()
  }

  end(): void {
    this.#opening = this.#last = this.#sign = -1
  }
}

/** What a scan looks for. */
interface ScanSettings {
  /** What to look for. */
  readonly classes: ReadonlySet<EntityClass>
  /** Whether a single shape blocks, so that none may be released before it is recognised. */
  readonly strict: boolean
}

/** A longer stretch is examined every this many visible characters. */
const WINDOW = 512
/** Characters at the end of a window that the next window examines again. */
const KEPT = 256
/** An entity that ends closer than this to the end of a window may continue. */
const MARGIN = 128
/** Characters before the current position that are kept. */
const MEMORY = LINE_MEMORY + 64
const BEFORE = 64
const MAX_GAP = 3

/** A mark of Markdown, or a line for a blank, inside a number or an address. */
const MARKED = expression(/[\p{L}\p{N}.@-][*_]+[\p{L}\p{N}.@-]/u)

/** The scan of one text. Offsets count from its start. */
export class PersonalDataScan {
  readonly #classes: ReadonlySet<EntityClass>
  readonly #take: Take
  /** The kept text, from offset `#base` on. */
  #text = ''
  #base = 0
  #at = 0
  #stopped = false
  // The current stretch: words that may belong together.
  #start = -1
  #traits = 0
  #spelled = 0
  #symbols = 0
  #foundUpTo = 0
  #lastKind = PLAIN
  #lastEnd = -1
  // The current word.
  #word = -1
  #wordTraits = 0
  #letters = 0
  readonly #quotes = new Quotes()
  readonly #lines: Lines

  constructor(settings: ScanSettings, take: Take) {
    this.#classes = settings.classes
    this.#take = take
    this.#lines = new Lines(
      { shapes: settings.classes.has('person'), strict: settings.strict },
      (start, end) => this.#textOf(start, end),
      take,
    )
  }

  /** Offset up to which the text cannot be part of a later entity. */
  get safe(): number {
    const stretch = this.#start < 0 ? this.#at : this.#start
    return Math.min(stretch, this.#lines.safe, this.#quotes.safe)
  }

  /** Offset up to which the text was read: of the character that decided once an entity was taken. */
  get at(): number {
    return this.#at
  }

  push(piece: string): void {
    if (this.#stopped) return
    this.#forget()
    this.#text += piece
    const text = this.#text
    const end = this.#base + text.length
    while (this.#at < end && !this.#stopped) {
      const at = this.#at
      let code = text.charCodeAt(at - this.#base)
      if (code < 128) {
        this.#read(at, 1, code, ASCII[code]!)
        continue
      }
      let width = 1
      if (code >= 0xd800 && code < 0xdc00) {
        // A surrogate pair is split between two pieces.
        if (at + 1 === end) return
        code = text.codePointAt(at - this.#base)!
        width = code > 0xffff ? 2 : 1
      }
      const folded = foldOf(code)
      this.#read(at, width, folded.code, folded.class, true)
    }
  }

  end(): void {
    if (this.#stopped) return
    const end = this.#base + this.#text.length
    if (this.#at < end) this.#read(this.#at, end - this.#at, 0xfffd, BREAK)
    if (this.#stopped) return
    this.#endWord(end)
    if (!this.#stopped) this.#endStretch()
    if (!this.#stopped) this.#endClause(end)
    if (!this.#stopped) this.#quotes.end()
  }

  #read(at: number, width: number, code: number, kind: number, odd = false): void {
    this.#quotes.read(at, code, kind)
    if (kind === LETTER || kind === DIGIT || kind === MARK) {
      if (this.#word < 0) this.#beginWord(at, code, kind)
      if (this.#stopped) return
      if (kind === LETTER) {
        this.#letters++
        this.#wordTraits |= HAS_LETTER
      } else if (kind === DIGIT) {
        this.#wordTraits |= HAS_DIGIT
        this.#lines.sawDigit()
      } else if (code === 64) this.#wordTraits |= HAS_AT
      else if (code === 40 || code === 91) this.#wordTraits |= HAS_BRACKET
      else if (code === 60) this.#wordTraits |= HAS_FILLER | HAS_BRACKET
      else this.#wordTraits |= HAS_MARK
      if (odd) this.#wordTraits |= HAS_ODD
      this.#at = at + width
      if (++this.#symbols >= WINDOW) this.#look()
      return
    }
    if (kind === HIDDEN) {
      if (this.#word >= 0) this.#wordTraits |= HAS_ODD
      else if (this.#start >= 0) this.#traits |= HAS_ODD
      this.#at = at + width
      return
    }
    // A domain may be written in a script without spaces.
    if (code === IDEOGRAPH_CODE && this.#word >= 0 && this.#isDomain(at)) {
      return this.#read(at, width, code, LETTER, true)
    }
    // The machine-readable zone of a travel document continues on the next line.
    const continues = (code === 10 || code === 13) && this.#isZone(at)
    const isSentence = this.#word >= 0 && this.#text[at - 1 - this.#base] === '.'
    if (this.#word >= 0) this.#endWord(at)
    if (this.#stopped) return
    if (kind === SPACE || continues) {
      if (this.#start >= 0) {
        if (odd) this.#traits |= HAS_ODD
        this.#symbols++
        if (at + width - this.#lastEnd > MAX_GAP && !(this.#traits & HAS_ODD)) this.#endStretch()
      }
      if (this.#stopped) return
    } else {
      this.#endStretch()
    }
    if (this.#stopped) return
    if (isSentence || this.#lines.isEnd(at, code)) this.#endClause(at)
    if (this.#stopped) return
    if (code === 10) this.#lines.beginLine(at + 1)
    this.#at = at + width
  }

  /** Whether the word so far ends in an `@`, or in the labels of a domain in such a script. */
  #isDomain(at: number): boolean {
    if (!(this.#wordTraits & HAS_AT)) return false
    const word = this.#textOf(this.#word, at)
    return /@(?:[\u0080-\uffff]+\.?)*$/.test(word.slice(-64))
  }

  #beginWord(at: number, code: number, kind: number): void {
    if (this.#start >= 0 && !mayJoin(this.#lastKind, this.#traits, code, kind)) this.#endStretch()
    if (this.#start < 0) {
      this.#start = at
      this.#traits = 0
      this.#spelled = 0
      this.#symbols = 0
      this.#lastEnd = -1
    }
    this.#word = at
    this.#wordTraits = 0
    this.#letters = 0
  }

  #endWord(end: number): void {
    if (this.#word < 0) return
    const start = this.#word
    const word = this.#textOf(start, end)
    const kind = kindOf(word, this.#wordTraits, this.#letters)
    const joined = this.#lastEnd >= 0 && joins(this.#lastKind, kind, this.#traits)
    if (this.#lastEnd >= 0 && !joined) {
      const [traits, symbols] = [this.#wordTraits, end - start]
      this.#endStretch()
      if (this.#stopped) return
      this.#start = start
      this.#traits = 0
      this.#spelled = 0
      this.#symbols = symbols
      this.#wordTraits = traits
    }
    this.#traits |= this.#wordTraits
    if (kind === AT) this.#traits |= HAS_SPELLED_AT
    if (kind === SPELLED) this.#spelled++
    // No third letter of a country follows.
    this.#lastKind = joined && kind === SINGLE ? SHORT_WORD : kind
    this.#lastEnd = end
    this.#word = -1
  }

  #isZone(at: number): boolean {
    if (this.#word >= 0) return (this.#wordTraits & HAS_FILLER) > 0 && at - this.#word >= ZONE_WIDTH
    return this.#start >= 0 && this.#lastKind === ZONE && at - this.#lastEnd <= 1
  }

  #endStretch(): void {
    if (this.#start < 0) return
    const end = this.#lastEnd
    if (end > this.#start) this.#find(this.#start, end, Infinity)
    if (this.#stopped) return
    this.#quotes.settle(end)
    this.#start = -1
    this.#lastEnd = -1
    this.#traits = 0
    this.#spelled = 0
    this.#symbols = 0
  }

  /** Examines a stretch that continues, and drops its start. */
  #look(): void {
    const traits = this.#traits | this.#wordTraits
    const end = this.#at
    const raw = this.#textOf(this.#start, end)
    const places = traits & HAS_ODD ? foldText(raw).places : undefined
    const place = (index: number) => this.#start + (places ? places[Math.max(0, index)]! : index)
    const length = places ? places.length - 1 : raw.length
    this.#traits = traits
    this.#find(this.#start, end, place(length - MARGIN))
    if (this.#stopped) return
    this.#start = place(length - KEPT)
    this.#symbols = KEPT
    // The rest of the word continues the text before it.
    if (this.#word >= 0) this.#word = Math.max(this.#word, this.#start)
    this.#lastEnd = Math.max(this.#lastEnd, this.#start)
    this.#lastKind = NUMBER
    if (this.#lines.isLong(this.#start)) this.#endClause(this.#start)
  }

  /** Reports the entities of a range. @param upTo latest end of an entity */
  #find(start: number, end: number, upTo: number): void {
    const traits = this.#traits
    const interesting = HAS_DIGIT | HAS_AT | HAS_BRACKET | HAS_SPELLED_AT | HAS_FILLER
    if (!(traits & interesting) && this.#spelled < SPELLED_DIGITS) return
    const raw = this.#textOf(start, end)
    const folded = traits & HAS_ODD ? foldText(raw) : undefined
    this.#report(start, upTo, folded?.text ?? raw, folded?.places)
    if (this.#stopped || !MARKED.test(raw)) return
    const plain = withoutMarks(folded?.text ?? raw, folded?.places)
    this.#report(start, upTo, plain.text, plain.places)
  }

  /** @param places where each character of the text stands in the range, where they differ */
  #report(start: number, upTo: number, text: string, places: readonly number[] | undefined): void {
    const traits = this.#traits
    const before = this.#before(start)
    const entities = findPersonalData(text, before, this.#classes, {
      label: this.#lines.labelBefore(start - BEFORE),
      digits: (traits & (HAS_DIGIT | HAS_FILLER)) > 0,
      at: (traits & HAS_AT) > 0,
      spelledAt: (traits & (HAS_BRACKET | HAS_SPELLED_AT)) > 0,
      spelledDigits: this.#spelled,
    })
    for (const entity of entities) {
      const place = (index: number) => start + (places ? places[index]! : index)
      // Invisible characters after the last one are not part of the entity.
      const last = places ? place(entity.end - 1) + 1 : place(entity.end)
      // Windows overlap, so an entity may already be reported.
      if (last > upTo || place(entity.start) < this.#foundUpTo) continue
      this.#foundUpTo = last
      const opening =
        entity.of === 'email' ? this.#quotes.startOf(place(entity.start), last) : undefined
      const first = opening ?? place(entity.start)
      const located = { ...entity, start: first, end: last }
      const value =
        opening === undefined ? text.slice(entity.start, entity.end) : this.#textOf(first, last)
      if (!this.#take(located, value)) {
        this.#stopped = true
        return
      }
    }
  }

  #before(start: number): string {
    const near = this.#textOf(Math.max(this.#base, start - BEFORE), start)
    return /\P{ASCII}/u.test(near) ? foldText(near).text : near
  }

  #endClause(at: number): void {
    if (!this.#lines.endClause(at)) this.#stopped = true
  }

  #textOf(start: number, end: number): string {
    return this.#text.slice(start - this.#base, end - this.#base)
  }

  /** Drops text that is no longer needed. */
  #forget(): void {
    const needed = Math.min(this.#start < 0 ? this.#at : this.#start, this.#at) - MEMORY
    if (needed - this.#base < MEMORY) return
    this.#lines.forget(needed)
    this.#text = this.#text.slice(needed - this.#base)
    this.#base = needed
  }
}

/** A text without the marks of Markdown. @param places where its characters stand; by default where they are */
function withoutMarks(
  text: string,
  places?: readonly number[],
): { text: string; places: readonly number[] } {
  const kept: number[] = []
  let plain = ''
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '*' || text[i] === '_') continue
    plain += text[i]
    kept.push(places ? places[i]! : i)
  }
  kept.push(places ? places.at(-1)! : text.length)
  return { text: plain, places: kept }
}

// Decides which words may belong to one number or one address.

// Kinds of words.
const PLAIN = 0
const NUMBER = 1
/** A short word, which may be part of a number, such as the bank code in an IBAN. */
const SHORT_WORD = 2
const PUNCTUATION = 3
/** A digit in words. */
const SPELLED = 4
const AT = 5
const DOT = 6
/** A line of the machine-readable zone of a travel document. */
const ZONE = 7
/** A letter that stands alone. Two may be the country of a number that is written apart. */
const SINGLE = 8

// Traits of a word or a stretch, as bits.
const HAS_DIGIT = 1
const HAS_AT = 2
const HAS_BRACKET = 4
/** Has characters that must be folded. */
const HAS_ODD = 8
const HAS_LETTER = 16
const HAS_MARK = 32
/** Has the filler `<`. */
const HAS_FILLER = 64
const HAS_SPELLED_AT = 128

/** Shortest line of a machine-readable zone. */
const ZONE_WIDTH = 30
const MAX_SHORT_LETTERS = 4

/**
 * The kind of a word.
 * @param traits the traits of the word
 * @param letters number of its letters
 */
function kindOf(word: string, traits: number, letters: number): number {
  if (traits & HAS_FILLER && word.length >= ZONE_WIDTH) return ZONE
  if (traits & HAS_DIGIT) return NUMBER
  if (!(traits & HAS_LETTER)) return PUNCTUATION
  if (letters === 2 || letters === 3) {
    const bare = word.replace(/^[([<]|[)\]>]$/g, '').toLowerCase()
    if (bare === 'at') return AT
    if (bare === 'dot') return DOT
  }
  if (!(traits & (HAS_MARK | HAS_AT | HAS_ODD)) && isDigitWord(word)) return SPELLED
  if (word.length === 1) return SINGLE
  return letters <= MAX_SHORT_LETTERS ? SHORT_WORD : PLAIN
}

/**
 * Whether a word with this start may belong to the words before it.
 * @param last kind of the last word
 * @param traits the traits of all words before
 */
function mayJoin(last: number, traits: number, firstCode: number, firstClass: number): boolean {
  if (last === AT || last === DOT || last === SPELLED || last === ZONE) return true
  if (traits & HAS_SPELLED_AT || BEGINS_AT.has(firstCode)) return true
  if (firstClass === DIGIT || firstClass === MARK) return last !== PLAIN
  if (last === SINGLE) return true
  return last === NUMBER || (last !== PLAIN && (traits & HAS_DIGIT) > 0)
}

/** Possible first characters of `at`, including brackets. */
const BEGINS_AT = new Set([...'aA([<'].map((character) => character.charCodeAt(0)))

/** Whether a word of this kind belongs to the words before it. */
function joins(last: number, kind: number, traits: number): boolean {
  if (last === ZONE || kind === ZONE) return last === kind || (last === ZONE && kind === NUMBER)
  if (kind === AT || last === AT || last === DOT) return true
  if (kind === DOT) return (traits & HAS_SPELLED_AT) > 0
  if (kind === last && (kind === SPELLED || kind === SINGLE)) return true
  if (kind === PLAIN || last === PLAIN) return false
  if (kind === NUMBER || last === NUMBER) return true
  return (kind === PUNCTUATION || last === PUNCTUATION) && (traits & HAS_DIGIT) > 0
}
