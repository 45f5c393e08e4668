/**
 * The NFAs of all views over one text, stepped together by its code points. What a code point is in each view is found
 * once; from then on it is a class, and a step is a look-up in a table.
 */
import type { Task } from './time-slice.ts'
import {
  SEPARATOR_SYMBOL,
  fold,
  foldUnmarked,
  isIgnorable,
  NEWLINE,
  readsAsLetter,
  SPACE,
} from './views/fold.ts'
import { type Nfa, PairList, type MatchTarget, NfaStepper, type Accepted } from './nfa.ts'
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'
import type { Ranges } from './alphabet.ts'

// One NFA of a product DFA with its normalization: what it makes of a code point, and what holds between two symbols.

/**
 * How an NFA sees a text. `plain`: without invisible characters. `folded`: with look-alikes, accents, case and runs of white
 * space undone, but for line feeds. `squeezed`: the same, and line feeds are white space. `unmarked`: the same without marks of
 * Markdown and tag characters.
 */
export type Normalization = 'plain' | 'folded' | 'squeezed' | 'unmarked'

// Conditions that an assertion may ask of a place between two symbols. The values are those of RE2.
const LINE_START = 1
const LINE_END = 2
const TEXT_START = 4
const TEXT_END = 8
const WORD_BORDER = 16
const NO_WORD_BORDER = 32

// Kinds of symbols before and behind a place.
/** The beginning of the text. */
const BEGINNING = 0
const OTHER = 1
/** A space, into which more white space behind it is merged. */
const GAP = 2
const WORD = 3
const LINE_FEED = 4
const END = 5

// Traits of a code point inside a match.

export const LETTER = 1
export const BLANK = 2
/** Folding changes nothing but its case. */
export const AS_IS = 4

/** Sets that every alphabet has to tell apart, so that all symbols of a class are of the same kind. */
export const KIND_SETS: readonly Ranges[] = [
  [0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a],
  [NEWLINE, NEWLINE],
  [SPACE, SPACE],
]

/** The end of a match, reached while a code point was read or at the end of the text. */
export interface MatchEnd {
  readonly target: MatchTarget
  readonly component: Component
  /** The target's number in its NFA. */
  readonly number: number
  /** Symbols of the code point that belong to the match, and the conditions behind them if it needs any. */
  readonly symbols: number
  readonly holds: number
}

/** Bits of a kind. A context holds the kind of the last symbol that each component saw. */
const KIND_BITS = 3
const KIND_MASK = (1 << KIND_BITS) - 1

export class Component {
  readonly nfa: Nfa
  /** In a set of the product, its words have the numbers below `top` that no component before has. */
  readonly top: number
  readonly #stepper: NfaStepper
  readonly #normalization: Normalization
  /** Position of its kind in a context. */
  readonly #shift: number
  /** By class of code points: the classes of their symbols. */
  readonly #images: (readonly number[])[] = []
  /** By class of symbols: their kind. */
  readonly #kinds: number[] = []
  // Results of #read: the classes of the symbols, and the conditions that hold before each.
  readonly #classes: number[] = []
  readonly #holds: number[] = []

  constructor(normalization: Normalization, nfa: Nfa, base: number, index: number) {
    this.#normalization = normalization
    this.nfa = nfa
    this.#stepper = new NfaStepper(nfa, base)
    this.top = this.#stepper.top
    this.#shift = index * KIND_BITS
  }

  /** Its part of the context at the beginning of a text. */
  get beginning(): number {
    return (this.nfa.asserts ? BEGINNING : OTHER) << this.#shift
  }

  /** The classes of the symbols of a code point. */
  imageOf(codePoint: number): readonly number[] {
    return readAs(this.#normalization, codePoint).map((symbol) => {
      const symbolClass = this.nfa.alphabet.classOf(symbol)
      this.#kinds[symbolClass] = kindOf(symbol, this.#normalization, this.nfa.asserts)
      return symbolClass
    })
  }

  /** Defines the next class of code points by the classes of their symbols. */
  learn(image: readonly number[]): void {
    this.#images.push(image)
  }

  /** Whether it sees any symbol of a code point of this class in this context. */
  sees(codeClass: number, context: number): boolean {
    this.#read(codeClass, context)
    return this.#classes.length > 0
  }

  /**
   * Reads a code point.
   * @param set of which its part is from `from` to `to`
   * @param into receives its part of the set after it
   * @returns its part of the context after it
   */
  advance(
    set: Int32Array,
    from: number,
    to: number,
    codeClass: number,
    context: number,
    into: PairList,
    ends: MatchEnd[],
  ): number {
    const kind = this.#read(codeClass, context)
    let pairs = set
    const count = this.#classes.length
    if (count === 0) this.#copy(set, from, to, into)
    for (let at = 0; at < count; at++) {
      const next = at === count - 1 ? into : this.#newList()
      const holds = this.#holds[at]!
      const reached: Accepted[] = []
      this.#stepper.read(pairs, from, to, this.#classes[at]!, holds, next, reached)
      this.#note(reached, at, holds, ends)
      ;[pairs, from, to] = [next.pairs, 0, next.length]
    }
    return kind << this.#shift
  }

  /**
   * Steps back over a code point.
   * @param into receives its part of the set before it
   * @returns whether a match may begin with it
   */
  retreat(
    set: Int32Array,
    from: number,
    to: number,
    codeClass: number,
    context: number,
    into: PairList,
  ): boolean {
    this.#read(codeClass, context)
    if (this.#classes.length === 0) this.#copy(set, from, to, into)
    return this.#unread(set, from, to, this.#classes.length, into)
  }

  /** The matches that end where the text ends. */
  finish(set: Int32Array, from: number, to: number, context: number, ends: MatchEnd[]): void {
    const holds = holdsBetween((context >>> this.#shift) & KIND_MASK, END)
    const reached: Accepted[] = []
    this.#stepper.end(set, from, to, holds, reached)
    this.#note(reached, 0, holds, ends)
  }

  /**
   * What leads to this end of a match, before the code point with which it was reached.
   * @returns whether a match may begin with that
   */
  undo(end: MatchEnd, codeClass: number, context: number, into: PairList): boolean {
    const { pairs, length } = this.#stepper.before(end.number, end.holds)
    if (end.symbols === 0) {
      this.#copy(pairs, 0, length, into)
      return false
    }
    this.#read(codeClass, context)
    return this.#unread(pairs, 0, length, end.symbols, into)
  }

  /** End of its part of a set that begins at an index. */
  endIn(set: Int32Array, from: number): number {
    let to = from
    while (to < set.length - 1 && set[to]! < this.top) to += 2
    return to
  }

  /** Finds the symbols of a code point, and what holds before each. @returns the kind of the last symbol seen */
  #read(codeClass: number, context: number): number {
    this.#classes.length = 0
    this.#holds.length = 0
    let kind = (context >>> this.#shift) & KIND_MASK
    for (const symbolClass of this.#images[codeClass]!) {
      const next = this.#kinds[symbolClass]!
      if (next === GAP && kind === GAP) continue
      this.#classes.push(symbolClass)
      this.#holds.push(holdsBetween(kind, next))
      kind = next
    }
    return kind
  }

  /** Steps back over the first symbols of what #read found. */
  #unread(pairs: Int32Array, from: number, to: number, count: number, into: PairList): boolean {
    let begins = false
    for (let at = count - 1; at >= 0; at--) {
      const before = at === 0 ? into : this.#newList()
      const [symbolClass, holds] = [this.#classes[at]!, this.#holds[at]!]
      begins = this.#stepper.unread(pairs, from, to, symbolClass, holds, before) || begins
      ;[pairs, from, to] = [before.pairs, 0, before.length]
    }
    return begins
  }

  #copy(pairs: Int32Array, from: number, to: number, into: PairList): void {
    for (let at = from; at < to; at += 2) into.add(pairs[at]!, pairs[at + 1]!)
  }

  #newList(): PairList {
    return new PairList(this.top)
  }

  #note(reached: readonly Accepted[], at: number, holds: number, ends: MatchEnd[]): void {
    for (const { target, before } of reached) {
      ends.push({
        target: this.nfa.targets[target]!,
        component: this,
        number: target,
        symbols: before ? at : at + 1,
        holds: before ? holds : 0,
      })
    }
  }
}

/** The symbols of a code point or of {@link SEPARATOR_SYMBOL}; none if it is invisible. */
function readAs(normalization: Normalization, codePoint: number): readonly number[] {
  if (codePoint === SEPARATOR_SYMBOL) return [SEPARATOR_SYMBOL]
  if (normalization === 'plain') return isIgnorable(codePoint) ? [] : [codePoint]
  if (normalization === 'folded') return fold(codePoint)
  if (codePoint === NEWLINE) return [SPACE]
  return normalization === 'unmarked' ? foldUnmarked(codePoint) : fold(codePoint)
}

/** @param asserts whether the NFA has assertions; without, most kinds need not be told apart */
function kindOf(symbol: number, normalization: Normalization, asserts: boolean): number {
  if (symbol === SPACE && normalization !== 'plain') return GAP
  if (!asserts) return OTHER
  if (symbol === NEWLINE) return LINE_FEED
  // As in RE2, only ASCII characters are part of words.
  return symbol >= 0 && /^\w$/.test(String.fromCodePoint(symbol)) ? WORD : OTHER
}

/** {@link LETTER}, {@link BLANK} and {@link AS_IS}, as far as they apply. */
function traitsOf(codePoint: number): number {
  if (codePoint === SEPARATOR_SYMBOL) return 0
  const symbols = fold(codePoint)
  // What folding removes counts as little as a blank.
  const isBlank = symbols.length === 0 || symbols[0] === SPACE || symbols[0] === NEWLINE
  const isSame = symbols.length === 1 && symbols[0] === codePoint
  const isCapital = codePoint >= 0x41 && codePoint <= 0x5a
  return (
    (readsAsLetter(codePoint) ? LETTER : 0) |
    (isBlank ? BLANK : 0) |
    (isSame || isCapital ? AS_IS : 0)
  )
}

/** The conditions that hold between symbols of two kinds. */
function holdsBetween(before: number, after: number): number {
  let holds = (before === WORD) === (after === WORD) ? NO_WORD_BORDER : WORD_BORDER
  if (before === BEGINNING) holds |= TEXT_START | LINE_START
  if (before === LINE_FEED) holds |= LINE_START
  if (after === END) holds |= TEXT_END | LINE_END
  if (after === LINE_FEED) holds |= LINE_END
  return holds
}

/** The class of code points that no view sees. */
export const UNSEEN_CLASS = 0

/** Marks of states. No match is under way, or none is left to follow back; of backward states: a match may begin here. */
export const EMPTY = 2
export const BEGINS = 1

// A set is a list of words and their bits in turns, see `nfa.ts`, of one component after the other. Its last element
// holds the context of a forward state, or BEGINS of a backward state.

/** Pages of classes that are kept, of 512 bytes each. Unicode has 4,352. */
const MAX_PAGES = 256
/** Columns of the backward DFA that are kept. */
const MAX_COLUMNS = 4_096
const UNCLASSIFIED = 0xffff

/** Characters that are classified between two pauses. */
const PIECE = 16

/** An NFA and how it sees a text. */
export interface Automaton {
  readonly normalization: Normalization
  readonly nfa: Nfa
}

/** A state is a set of states of all components, and the context that their assertions depend on. */
export class ProductDfa {
  /** Its columns are classes. */
  readonly forward: LazyDfa
  /** Its columns are those of {@link columnOf}. */
  readonly backward: LazyDfa
  /** Classes of ASCII. */
  readonly ascii = new Uint16Array(128)
  /** Instructions of all NFAs. */
  readonly size: number
  /** Traits by class, as of `traitsOf`. */
  readonly traits: number[] = []
  readonly #components: readonly Component[]
  readonly #asserts: boolean
  /** A context holds the kind of the last symbol that each component saw. */
  readonly #contextBits: number
  readonly #classes = new Map<string, number>()
  #separatorClass = UNCLASSIFIED
  /** Classes by code point, in pages of 256. */
  #pages: (Uint16Array | undefined)[] = []
  #pageCount = 0
  /** The symbol of each backward column; and the column of each symbol plus 1, or 0 for none. */
  readonly #symbols: number[] = []
  #columns = new Int32Array(0)
  readonly #beginning: Int32Array
  /** The table for which {@link begin} was last asked, and its answer. */
  #begun: TransitionTable | undefined
  #begin = 0
  readonly #list: PairList

  private constructor(automata: readonly Automaton[]) {
    let base = 0
    this.#components = automata.map(({ normalization, nfa }, index) => {
      const component = new Component(normalization, nfa, base, index)
      base = component.top
      return component
    })
    this.#asserts = automata.some(({ nfa }) => nfa.asserts)
    this.size = automata.reduce((sum, { nfa }) => sum + nfa.size, 0)
    this.#list = new PairList(base)
    this.#contextBits = KIND_BITS * automata.length
    this.#beginning = Int32Array.of(
      this.#components.reduce((context, { beginning }) => context | beginning, 0),
    )
    this.#classOf(
      this.#components.map(() => []),
      0,
    )
    this.forward = new LazyDfa(
      (set, codeClass) => this.#advance(set, codeClass),
      () => this.traits.length,
    )
    this.backward = new LazyDfa(
      (set, column) => ({
        set: this.#retreat(set, this.#symbols[column]!),
        stops: false,
        notable: false,
      }),
      () => this.#symbols.length,
    )
  }

  static *of(automata: readonly Automaton[]): Task<ProductDfa> {
    const dfa = new ProductDfa(automata)
    for (let code = 0; code < 128; code++) {
      if (code % PIECE === 0) yield
      dfa.ascii[code] = dfa.#classify(code)
    }
    dfa.#separatorClass = dfa.#classify(SEPARATOR_SYMBOL)
    return dfa
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

  /** @param codePoint or {@link SEPARATOR_SYMBOL} */
  classOf(codePoint: number): number {
    if (codePoint < 128)
      return codePoint === SEPARATOR_SYMBOL ? this.#separatorClass : this.ascii[codePoint]!
    let page = this.#pages[codePoint >>> 8]
    if (page === undefined) {
      if (++this.#pageCount > MAX_PAGES) {
        this.#pages = []
        this.#pageCount = 1
      }
      page = this.#pages[codePoint >>> 8] = new Uint16Array(256).fill(UNCLASSIFIED)
    }
    const known = page[codePoint & 0xff]!
    return known === UNCLASSIFIED ? (page[codePoint & 0xff] = this.#classify(codePoint)) : known
  }

  /** What has to be kept of a code point to step back over it: its class, and the context of the set before it. */
  symbolOf(set: Int32Array, codeClass: number): number {
    return (codeClass << this.#contextBits) | set[set.length - 1]!
  }

  classIn(symbol: number): number {
    return symbol >>> this.#contextBits
  }

  /** The backward column of a symbol. It is valid until the next call of {@link alive} or {@link undo}. */
  columnOf(symbol: number): number {
    const known = symbol < this.#columns.length ? this.#columns[symbol]! : 0
    return known > 0 ? known - 1 : this.#newColumn(symbol)
  }

  /** The backward state of all matches that are under way in a state of a forward table. */
  alive(state: number, table: TransitionTable): number {
    if (this.#symbols.length > MAX_COLUMNS) this.#forgetColumns()
    const to = this.backward.table
    if (table.mirror !== to.id) {
      table.mirror = to.id
      table.mirrored.fill(0)
    }
    const row = state >> table.shift
    const known = table.mirrored[row]!
    if (known > 0) return known
    const states = table.setOf(state).slice()
    states[states.length - 1] = 0
    return (table.mirrored[row] = to.enter(states))
  }

  /** The backward state of what leads to a end, before the code point with which it was reached. */
  undo(end: MatchEnd, symbol: number): number {
    const list = this.#newList()
    const begins = end.component.undo(end, this.classIn(symbol), symbol, list)
    if (this.#symbols.length > MAX_COLUMNS) this.#forgetColumns()
    return this.backward.table.enter(this.#setOf(list, begins ? BEGINS : 0))
  }

  /** The matches that end with a code point; a table only says that there are any. */
  endsAfter(set: Int32Array, codeClass: number): readonly MatchEnd[] {
    const ends: MatchEnd[] = []
    this.#next(set, codeClass, ends)
    return ends
  }

  /** The matches that end where the text ends. */
  endsAtTextEnd(set: Int32Array): readonly MatchEnd[] {
    const ends: MatchEnd[] = []
    if (!this.#asserts) return ends
    this.#each(set, (component, from, to, last) => component.finish(set, from, to, last, ends))
    return ends
  }

  #newColumn(symbol: number): number {
    if (symbol >= this.#columns.length) {
      const grown = new Int32Array(this.traits.length << this.#contextBits)
      grown.set(this.#columns)
      this.#columns = grown
    }
    this.#columns[symbol] = this.#symbols.push(symbol)
    return this.#symbols.length - 1
  }

  #forgetColumns(): void {
    this.#symbols.length = 0
    this.#columns.fill(0)
    this.backward.drop()
  }

  #advance(set: Int32Array, codeClass: number): Step {
    const ends: MatchEnd[] = []
    const next = this.#next(set, codeClass, ends)
    // A match in view `leet` may turn out to have too few letters, so reading goes on.
    const stops = ends.some(({ target }) => target.view !== 'leet')
    return { set: next, stops, notable: ends.length > 0 }
  }

  #next(set: Int32Array, codeClass: number, ends: MatchEnd[]): Int32Array {
    const next = this.#newList()
    let context = 0
    this.#each(set, (component, from, to, last) => {
      context |= component.advance(set, from, to, codeClass, last, next, ends)
    })
    return this.#setOf(next, context)
  }

  #retreat(set: Int32Array, symbol: number): Int32Array {
    const codeClass = this.classIn(symbol)
    const before = this.#newList()
    let begins = false
    this.#each(set, (component, from, to) => {
      begins = component.retreat(set, from, to, codeClass, symbol, before) || begins
    })
    return this.#setOf(before, begins ? BEGINS : 0)
  }

  #newList(): PairList {
    this.#list.length = 0
    return this.#list
  }

  #setOf({ pairs, length }: PairList, last: number): Int32Array {
    pairs[length] = last
    return pairs.slice(0, length + 1)
  }

  /** Calls back with each component, where its part of a set is, and the last element of the set. */
  #each(
    set: Int32Array,
    use: (component: Component, from: number, to: number, last: number) => void,
  ): void {
    const last = set[set.length - 1]!
    let from = 0
    for (const component of this.#components) {
      const to = component.endIn(set, from)
      use(component, from, to, last)
      from = to
    }
  }

  #classify(codePoint: number): number {
    const images = this.#components.map((component) => component.imageOf(codePoint))
    const isSeen = images.some(({ length }) => length > 0)
    return this.#classOf(images, isSeen ? traitsOf(codePoint) : 0)
  }

  #classOf(images: readonly (readonly number[])[], traits: number): number {
    const key = `${images.join('|')}|${traits}`
    let codeClass = this.#classes.get(key)
    if (codeClass === undefined) {
      codeClass = this.traits.push(traits) - 1
      this.#classes.set(key, codeClass)
      for (const [index, component] of this.#components.entries()) component.learn(images[index]!)
    }
    return codeClass
  }
}

/** Computes the transition from a set by a column. No code changes a set that was handed over. */
type StepFunction = (set: Int32Array, column: number) => Step

interface Step {
  readonly set: Int32Array
  /** There is nothing to read after it. */
  readonly stops: boolean
  /** The reader has to be told whenever the transition is taken. */
  readonly notable: boolean
}

/** A cell that was not needed yet. */
export const UNKNOWN = 0
/** A cell with a transition that stops. */
const STOP = -1
/** The table was replaced: the reader goes on with the new one, from the same set. */
export const MOVED = -2_147_483_648

/** Size at which a table is replaced: cells and sets, in bytes. */
const TABLE_BYTES = 1 << 20

/** A DFA that is built while texts are read, and its present table. A full table is dropped, and what is needed is built again. */
class LazyDfa implements BudgetOwner {
  readonly #step: StepFunction
  readonly #columns: () => number
  #table: TransitionTable | undefined

  /** @param columns gives their number, which may grow */
  constructor(step: StepFunction, columns: () => number) {
    this.#step = step
    this.#columns = columns
  }

  get table(): TransitionTable {
    return (this.#table ??= new TransitionTable(this, this.#step, this.#columns()))
  }

  /** Drops the table. Readers that still hold it may go on with it. */
  drop(): void {
    this.#table = undefined
    memoryBudget.release(this)
  }

  /** Notes that the table has grown by so many bytes. @returns false when it has to be replaced */
  grow(bytes: number): boolean {
    return memoryBudget.reserve(this, bytes) <= TABLE_BYTES
  }
}

let tables = 0

/** A state is the offset of its row; none is 0. */
export class TransitionTable {
  /** By state plus column: a state, {@link UNKNOWN}, {@link STOP}, or the negative of a state after a notable transition. */
  cells: Int32Array
  /** {@link EMPTY} and {@link BEGINS} of each state, by its row. */
  marks: Uint8Array
  /** By row: the state of another table that stands for the same set, or 0. */
  mirrored: Int32Array
  /** The {@link id} of that table; 0 for none. */
  mirror = 0
  readonly id = ++tables
  /** `state >> shift` is a row. */
  readonly shift: number
  /** How many columns a row has. */
  readonly stride: number
  readonly #dfa: LazyDfa
  readonly #step: StepFunction
  readonly #sets: Int32Array[] = [new Int32Array(0)]
  /** By hash of a set: the newest row; and by row: the one before with the same hash. */
  readonly #rows = new Map<number, number>()
  readonly #older: number[] = [0]
  #full = false

  constructor(dfa: LazyDfa, step: StepFunction, columns: number) {
    this.#dfa = dfa
    this.#step = step
    // With space for columns to come.
    this.shift = Math.max(5, Math.ceil(Math.log2(columns + (columns >> 2) + 1)))
    this.stride = 1 << this.shift
    this.cells = new Int32Array(this.stride * 2)
    this.marks = new Uint8Array(2)
    this.mirrored = new Int32Array(2)
  }

  setOf(state: number): Int32Array {
    return this.#sets[state >> this.shift]!
  }

  /** @returns the state for a set */
  enter(set: Int32Array): number {
    const hash = hashOf(set)
    const newest = this.#rows.get(hash) ?? 0
    for (let row = newest; row !== 0; row = this.#older[row]!) {
      if (equal(this.#sets[row]!, set)) return row << this.shift
    }
    const row = this.#older.length
    this.#older.push(newest)
    this.#rows.set(hash, row)
    if (row === this.marks.length) {
      this.cells = doubled(this.cells, new Int32Array(this.cells.length * 2))
      this.marks = doubled(this.marks, new Uint8Array(this.marks.length * 2))
      this.mirrored = doubled(this.mirrored, new Int32Array(this.mirrored.length * 2))
    }
    this.#sets[row] = set
    this.marks[row] = (set[set.length - 1]! & BEGINS) | (set.length === 1 ? EMPTY : 0)
    if (!this.#dfa.grow((this.stride + set.length) * 4 + 120)) this.#full = true
    return row << this.shift
  }

  /** Builds the transition of a cell. @returns what is in it now, or {@link MOVED} */
  fill(state: number, column: number): number {
    if (this.#full || column >= this.stride || this.#dfa.table !== this) {
      if (this.#dfa.table === this) this.#dfa.drop()
      return MOVED
    }
    const { set, stops, notable } = this.#step(this.#sets[state >> this.shift]!, column)
    const next = stops ? STOP : this.enter(set)
    return (this.cells[state + column] = notable && !stops ? -next : next)
  }
}

function hashOf(set: Int32Array): number {
  let hash = set.length
  for (let at = 0; at < set.length; at++) hash = (Math.imul(hash, 0x01000193) ^ set[at]!) | 0
  return hash
}

function equal(one: Int32Array, other: Int32Array): boolean {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}

function doubled<T extends Int32Array | Uint8Array>(from: T, to: T): T {
  to.set(from)
  return to
}
