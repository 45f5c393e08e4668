/**
 * The automata of all views over one text, stepped together by its code points. What a code point is in each view is
 * worked out once, when it is first seen; from then on it is a class, and a step is a look into a table.
 */
import { fold, isIgnorable, NEWLINE, readsAsLetter, SPACE } from '../views/fold.ts'
import { BREAK } from './alphabet.ts'
import { countBits } from './bits.ts'
import {
  LINE_END,
  LINE_START,
  NO_WORD_BORDER,
  TEXT_END,
  TEXT_START,
  WORD_BORDER,
  type Goal,
  type Nfa,
  type Reached,
} from './nfa.ts'
import { Lazy, type Step, type Stepper, type Table } from './table.ts'

/**
 * How an automaton reads: `plain` drops what cannot be seen; `folded` is view F, where a run of white space is one
 * space and line feeds stay; in `flat` they do not.
 */
export type Reading = 'plain' | 'folded' | 'flat'

/** What was reached, while one code point was read or at the end. */
export interface Hit {
  readonly goal: Goal
  readonly side: number
  readonly number: number
  /** How many symbols of the code point were read before, and what then holds, if the match needs that. */
  readonly symbols: number
  readonly holds: number
}

/** What a match is made of. */
export const LETTER = 1
export const BLANK = 2
/** Looks the same in view F, but for its case. */
export const AS_IS = 4

/** Class of what no view sees. */
export const NOTHING = 0

// What stands before a symbol. Three bits for each side make a context.
const BEGINNING = 0
const WORD = 1
const LINE_FEED = 2
const GAP = 3
const OTHER = 4
const END = 5
const KINDS = 6
/** All of them would be 4,352, of 512 bytes each. */
const MAX_PAGES = 256
const CONTEXT_BITS = 9
const CONTEXT = (1 << CONTEXT_BITS) - 1

// A set is the numbers of its states, or bits if it is large: the words of each side. The last element is a context, or
// what a backward set has to say; this bit of it tells that there are bits.
const PACKED = 1 << 16
/** More states than this are packed, fewer than half of it unpacked. */
const LARGE = 512
/** How much is made ready for packed sets at once, in elements. */
const ROOM = 1 << 14

const HOLDS = Array.from({ length: KINDS * KINDS }, (_, pair) =>
  holdsBetween(Math.trunc(pair / KINDS), pair % KINDS),
)

/** Forward states of which nothing is alive have this mark. */
export const IDLE = 1
/** Backward states: a match may begin here; nothing is left. */
export const BEGINS = 1
export const EMPTY = 2

interface Side {
  readonly reading: Reading
  readonly nfa: Nfa
  /** First number of its states in a set, and the first after them. */
  readonly base: number
  readonly top: number
  readonly shift: number
  /** First word of its bits in a packed set, and the first after them. */
  firstWord: number
  endWord: number
  /** Classes of symbols by class of code points. */
  readonly images: number[][]
  /** What a class of symbols is to what comes after it. */
  readonly kinds: number[]
}

export class Machine {
  readonly forward: Lazy
  /** Columns are {@link symbolOf}. */
  readonly backward: Lazy
  /** Classes of ASCII. */
  readonly ascii: Uint16Array
  /** Instructions of all automata. */
  readonly size: number
  /** What {@link LETTER}, {@link BLANK}, {@link AS_IS} say about a class. */
  readonly traits: number[] = []
  readonly #sides: readonly Side[]
  readonly #breaks: number
  readonly #classes = new Map<string, number>()
  /** Classes of 256 code points each, of those that were seen. */
  #pages: (Uint16Array | undefined)[] = []
  #pageCount = 0
  /** Class and context of each backward column, and the other way round. */
  readonly #symbols: number[] = []
  readonly #columns = new Map<number, number>()
  readonly #beginning: Int32Array
  /** {@link begin} of the table that it was last asked for. */
  #begun: Table | undefined
  #begin = 0
  /** For packed sets to come. */
  #space = new Int32Array(0)
  // Between {@link #read} and who called it.
  readonly #symbolClasses: number[] = []
  readonly #symbolHolds: number[] = []

  constructor(automata: readonly { readonly reading: Reading; readonly nfa: Nfa }[]) {
    let base = 0
    this.#sides = automata.map(({ reading, nfa }, index) => {
      const side = { reading, nfa, base, top: base + nfa.size, shift: index * 3 }
      base += nfa.size
      return { ...side, firstWord: 0, endWord: 0, images: [[]], kinds: [] }
    })
    this.size = base
    const context = this.#sides.reduce(
      (kinds, { nfa, shift }) => kinds | ((nfa.asserts ? BEGINNING : OTHER) << shift),
      0,
    )
    this.#beginning = Int32Array.of(context)
    this.#classes.set(this.#sides.map(() => '').join('|') + '|0', NOTHING)
    this.traits.push(0)
    this.ascii = Uint16Array.from({ length: 128 }, (_, code) => this.#classify(code))
    this.#breaks = this.#classify(BREAK)
    this.forward = new Lazy(this.#forwards(), () => this.traits.length)
    this.backward = new Lazy(this.#backwards(), () => this.#symbols.length)
  }

  /** The state before any text. */
  begin(): number {
    const { table } = this.forward
    if (table !== this.#begun) {
      this.#begun = table
      this.#begin = table.enter(this.#beginning)
    }
    return this.#begin
  }

  /** @param codePoint or {@link BREAK} */
  classOf(codePoint: number): number {
    if (codePoint < 128) return codePoint === BREAK ? this.#breaks : this.ascii[codePoint]!
    let page = this.#pages[codePoint >>> 8]
    if (page === undefined) {
      if (++this.#pageCount > MAX_PAGES) {
        this.#pages = []
        this.#pageCount = 1
      }
      page = this.#pages[codePoint >>> 8] = new Uint16Array(256).fill(0xffff)
    }
    const known = page[codePoint & 0xff]!
    if (known !== 0xffff) return known
    return (page[codePoint & 0xff] = this.#classify(codePoint))
  }

  /** What is to be known of a code point to take it back: its class, and what stood before. */
  symbolOf(set: Int32Array, codeClass: number): number {
    return (codeClass << CONTEXT_BITS) | (set[set.length - 1]! & CONTEXT)
  }

  columnOf(symbol: number): number {
    let column = this.#columns.get(symbol)
    if (column === undefined) {
      column = this.#symbols.push(symbol) - 1
      this.#columns.set(symbol, column)
    }
    return column
  }

  classIn(symbol: number): number {
    return symbol >>> CONTEXT_BITS
  }

  /** Does this side see anything of a symbol? */
  sees(sideNumber: number, symbol: number): boolean {
    const side = this.#sides[sideNumber]!
    this.#read(side, symbol >>> CONTEXT_BITS, symbol)
    return this.#symbolClasses.length > 0
  }

  /** The backward set of all that is alive in a forward set. */
  alive(set: Int32Array): Int32Array {
    const states = set.slice()
    states[states.length - 1]! &= PACKED
    return states
  }

  /** What is reached by a code point; the same as the table says, in full. */
  hits(set: Int32Array, codeClass: number): Hit[] {
    const hits: Hit[] = []
    this.#advance(this.#unpacked(set), codeClass, [], hits)
    return hits
  }

  /** What is reached at the end of the text. */
  hitsAtEnd(last: Int32Array): Hit[] {
    const hits: Hit[] = []
    const set = this.#unpacked(last)
    const context = set[set.length - 1]!
    for (const [index, side] of this.#sides.entries()) {
      if (!side.nfa.asserts) continue
      const [from, to] = sliceOf(side, set)
      const holds = HOLDS[((context >>> side.shift) & 7) * KINDS + END]!
      const reached: Reached[] = []
      side.nfa.end(set, from, to, side.base, holds, reached)
      hits.push(...reached.map((one) => hitOf(side, index, one, 0, holds)))
    }
    return hits
  }

  /** The backward set before the code point of a hit, if there was one. Marks as in the table. */
  undo(hit: Hit, symbol: number | undefined): Int32Array {
    const side = this.#sides[hit.side]!
    let states = side.nfa.before(hit.number, hit.holds).map((state) => state + side.base)
    let begins = false
    if (symbol !== undefined) {
      this.#read(side, symbol >>> CONTEXT_BITS, symbol)
      for (let at = hit.symbols - 1; at >= 0; at--) {
        const before: number[] = []
        begins = this.#unread(side, at, states, 0, states.length, before) || begins
        states = before
      }
    }
    return Int32Array.of(...states, begins ? BEGINS : 0)
  }

  // What a side makes of a code point after what came before: symbols, and what holds before each.
  #read(side: Side, codeClass: number, context: number): number {
    const { shift, kinds, reading } = side
    this.#symbolClasses.length = 0
    this.#symbolHolds.length = 0
    let kind = (context >>> shift) & 7
    for (const symbolClass of side.images[codeClass]!) {
      const next = kinds[symbolClass]!
      if (next === GAP && kind === GAP && reading !== 'plain') continue
      this.#symbolClasses.push(symbolClass)
      this.#symbolHolds.push(HOLDS[kind * KINDS + next]!)
      kind = next
    }
    return kind
  }

  #unread(
    side: Side,
    at: number,
    states: ArrayLike<number>,
    from: number,
    to: number,
    into: number[],
  ) {
    const [symbolClass, holds] = [this.#symbolClasses[at]!, this.#symbolHolds[at]!]
    return side.nfa.unread(states, from, to, side.base, symbolClass, holds, into)
  }

  #advance(set: Int32Array, codeClass: number, next: number[], hits: Hit[]): void {
    const before = set[set.length - 1]!
    let context = 0
    for (const [index, side] of this.#sides.entries()) {
      const [from, to] = sliceOf(side, set)
      const kind = this.#read(side, codeClass, before)
      context |= kind << side.shift
      const symbols = this.#symbolClasses.length
      let states: ArrayLike<number> = set
      let [first, last] = [from, to]
      for (let at = 0; at < symbols; at++) {
        const into: number[] = at === symbols - 1 ? next : []
        const reached: Reached[] = []
        const [symbolClass, holds] = [this.#symbolClasses[at]!, this.#symbolHolds[at]!]
        side.nfa.read(states, first, last, side.base, symbolClass, holds, into, reached)
        for (const one of reached) hits.push(hitOf(side, index, one, at, holds))
        states = into
        ;[first, last] = [0, into.length]
      }
      if (symbols === 0) for (let at = from; at < to; at++) next.push(set[at]!)
    }
    next.push(context)
  }

  #forwards(): Stepper {
    return {
      step: (set, codeClass): Step => {
        const hits: Hit[] = []
        let next: Int32Array
        if (isLarge(set)) {
          next = this.#advancePacked(this.#packed(set), codeClass, hits)
        } else {
          const states: number[] = []
          this.#advance(set, codeClass, states, hits)
          next = canonical(states)
        }
        const stops = hits.some(({ goal }) => goal.view !== 'L')
        return { set: next, stops, notable: hits.length > 0 }
      },
      mark: (set) => (set.length === 1 ? IDLE : 0),
    }
  }

  #backwards(): Stepper {
    return {
      step: (set, column): Step => {
        const symbol = this.#symbols[column]!
        const before = isLarge(set)
          ? this.#retreatPacked(this.#packed(set), symbol)
          : this.#retreat(set, symbol)
        return { set: before, stops: false, notable: false }
      },
      mark: (set) => (set[set.length - 1]! & BEGINS) | (set.length === 1 ? EMPTY : 0),
    }
  }

  #retreat(set: Int32Array, symbol: number): Int32Array {
    const before: number[] = []
    let begins = false
    for (const side of this.#sides) {
      const [from, to] = sliceOf(side, set)
      this.#read(side, symbol >>> CONTEXT_BITS, symbol)
      const symbols = this.#symbolClasses.length
      let states: ArrayLike<number> = set
      let [first, last] = [from, to]
      for (let at = symbols - 1; at >= 0; at--) {
        const into: number[] = at === 0 ? before : []
        begins = this.#unread(side, at, states, first, last, into) || begins
        states = into
        ;[first, last] = [0, into.length]
      }
      if (symbols === 0) for (let at = from; at < to; at++) before.push(set[at]!)
    }
    before.push(begins ? BEGINS : 0)
    return canonical(before)
  }

  #advancePacked(set: Int32Array, codeClass: number, hits: Hit[]): Int32Array {
    const next = this.#allocate(set.length)
    let context = 0
    for (const [index, side] of this.#sides.entries()) {
      const kind = this.#read(side, codeClass, set[set.length - 1]!)
      context |= kind << side.shift
      let words = set.subarray(side.firstWord, side.endWord)
      const symbols = this.#symbolClasses.length
      for (let at = 0; at < symbols; at++) {
        const into = placeFor(next, side, at === symbols - 1)
        const reached: Reached[] = []
        const holds = this.#symbolHolds[at]!
        side.nfa.bits.read(words, this.#symbolClasses[at]!, holds, into, reached)
        for (const one of reached) hits.push(hitOf(side, index, one, at, holds))
        words = into
      }
      if (symbols === 0) next.set(words, side.firstWord)
    }
    next[next.length - 1] = context
    return this.#settled(next)
  }

  #retreatPacked(set: Int32Array, symbol: number): Int32Array {
    const before = this.#allocate(set.length)
    let begins = false
    for (const side of this.#sides) {
      this.#read(side, symbol >>> CONTEXT_BITS, symbol)
      let words = set.subarray(side.firstWord, side.endWord)
      const symbols = this.#symbolClasses.length
      for (let at = symbols - 1; at >= 0; at--) {
        const into = placeFor(before, side, at === 0)
        const [symbolClass, holds] = [this.#symbolClasses[at]!, this.#symbolHolds[at]!]
        begins = side.nfa.bits.unread(words, symbolClass, holds, into) || begins
        words = into
      }
      if (symbols === 0) before.set(words, side.firstWord)
    }
    before[before.length - 1] = begins ? BEGINS : 0
    return this.#settled(before)
  }

  #packed(set: Int32Array): Int32Array {
    if ((set[set.length - 1]! & PACKED) !== 0) return set
    this.#layOut()
    const packed = new Int32Array(this.#sides.at(-1)!.endWord + 1)
    for (const side of this.#sides) {
      const [from, to] = sliceOf(side, set)
      packed.set(side.nfa.pack(set, from, to, side.base), side.firstWord)
    }
    packed[packed.length - 1] = set[set.length - 1]!
    return packed
  }

  #unpacked(set: Int32Array): Int32Array {
    const last = set[set.length - 1]!
    if ((last & PACKED) === 0) return set
    const states: number[] = []
    for (const side of this.#sides) {
      side.nfa.unpack(set.subarray(side.firstWord, side.endWord), side.base, states)
    }
    states.push(last & ~PACKED)
    return canonical(states)
  }

  // Says that a set is packed, or unpacks it if it has become small.
  #settled(set: Int32Array): Int32Array {
    set[set.length - 1]! |= PACKED
    return countBits(set, 0, set.length - 1) < LARGE >> 1 ? this.#unpacked(set) : set
  }

  // Large arrays one by one cost more than what is done with them.
  #allocate(length: number): Int32Array {
    if (this.#space.length < length) this.#space = new Int32Array(Math.max(length, ROOM))
    const set = this.#space.subarray(0, length)
    this.#space = this.#space.subarray(length)
    return set
  }

  #layOut(): void {
    if (this.#sides.at(-1)!.endWord > 0) return
    let word = 0
    for (const side of this.#sides) {
      side.firstWord = word
      side.endWord = word += side.nfa.bits.words
    }
  }

  #classify(codePoint: number): number {
    const images = this.#sides.map((side) => {
      const symbols = readAs(side.reading, codePoint)
      return symbols.map((symbol) => {
        const symbolClass = side.nfa.alphabet.classOf(symbol)
        side.kinds[symbolClass] = kindOf(symbol, side)
        return symbolClass
      })
    })
    const traits = images.every(({ length }) => length === 0) ? 0 : traitsOf(codePoint)
    const key = `${images.join('|')}|${traits}`
    let codeClass = this.#classes.get(key)
    if (codeClass === undefined) {
      codeClass = this.traits.push(traits) - 1
      this.#classes.set(key, codeClass)
      for (const [index, side] of this.#sides.entries()) side.images.push(images[index]!)
    }
    return codeClass
  }
}

function readAs(reading: Reading, codePoint: number): readonly number[] {
  if (codePoint === BREAK) return [BREAK]
  if (reading === 'plain') return isIgnorable(codePoint) ? [] : [codePoint]
  const symbols = fold(codePoint)
  return reading === 'flat' && codePoint === NEWLINE ? [SPACE] : symbols
}

function traitsOf(codePoint: number): number {
  if (codePoint === BREAK) return 0
  const symbols = fold(codePoint)
  const blank = symbols[0] === SPACE || symbols[0] === NEWLINE
  const asIs =
    codePoint < 128
      ? codePoint === NEWLINE || !blank || codePoint === SPACE
      : symbols.length === 1 && symbols[0] === codePoint
  return (readsAsLetter(codePoint) ? LETTER : 0) | (blank ? BLANK : 0) | (asIs ? AS_IS : 0)
}

function kindOf(symbol: number, { nfa, reading }: Pick<Side, 'nfa' | 'reading'>): number {
  if (symbol === SPACE && reading !== 'plain') return GAP
  if (!nfa.asserts) return OTHER
  if (symbol === NEWLINE) return LINE_FEED
  // RE2's words are ASCII.
  return symbol >= 0 && /^\w$/.test(String.fromCodePoint(symbol)) ? WORD : OTHER
}

function holdsBetween(before: number, after: number): number {
  const border = (before === WORD) !== (after === WORD) ? WORD_BORDER : NO_WORD_BORDER
  const starts = before === BEGINNING ? TEXT_START | LINE_START : 0
  const ends = after === END ? TEXT_END | LINE_END : 0
  return (
    border |
    starts |
    ends |
    (before === LINE_FEED ? LINE_START : 0) |
    (after === LINE_FEED ? LINE_END : 0)
  )
}

function hitOf(
  side: Side,
  index: number,
  { goal, before }: Reached,
  at: number,
  holds: number,
): Hit {
  return {
    goal: side.nfa.goals[goal]!,
    side: index,
    number: goal,
    symbols: before ? at : at + 1,
    holds: before ? holds : 0,
  }
}

/** Where the states of a side stand in a set. */
function sliceOf({ base, top }: Side, set: Int32Array): [from: number, to: number] {
  const count = set.length - 1
  let from = 0
  while (from < count && set[from]! < base) from++
  let to = from
  while (to < count && set[to]! < top) to++
  return [from, to]
}

// Where a step of a side writes to: into the packed set if it is the last one.
function placeFor(set: Int32Array, { firstWord, endWord }: Side, isLast: boolean): Int32Array {
  return isLast ? set.subarray(firstWord, endWord) : new Int32Array(endWord - firstWord)
}

function isLarge(set: Int32Array): boolean {
  return set.length > LARGE || (set[set.length - 1]! & PACKED) !== 0
}

// Sorting makes equal sets of different descent one state. Large sets come in the same order anyway, more or less, and
// sorting them would cost more than building them twice.
function canonical(states: number[]): Int32Array {
  const set = Int32Array.from(states)
  if (set.length <= 64) set.subarray(0, -1).sort()
  return set
}
