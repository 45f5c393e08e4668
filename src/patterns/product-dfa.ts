/**
 * The automata of all views over one text, stepped together by its code points. What a code point is in each view is
 * worked out once, when it is first seen; from then on it is a class, and a step is a look into a table.
 */
import type { Task } from './time-slice.ts'
import { SEPARATOR_SYMBOL } from './views/fold.ts'
import { countBits } from './state-set.ts'
import type { Nfa } from './nfa.ts'
import { traitsOf, type Normalization } from './component.ts'
import { KIND_BITS, Component, type MatchEnd } from './component.ts'
import { LazyDfa, type Step, type TransitionTable } from './lazy-dfa.ts'

/** Class of what no view sees. */
export const UNSEEN_CLASS = 0

/** Forward states in which nothing is alive have this mark. */
export const IDLE = 1
/** Backward states: a match may begin here; nothing is left. */
export const BEGINS = 1
export const EMPTY = 2

// A set is the numbers of its states, or bits if it is large: the words of each component. Its last element says which, and
// holds a context, or whether a match may begin.
const PACKED = 1 << 16
/** More states than this are packed, fewer than half of it unpacked. */
const LARGE = 64
/** After so many steps of large sets they are packed. Finding out how bits hang together would not pay for fewer. */
const PATIENCE = 48
/** How much is made ready for packed sets at once, in elements. */
const ROOM = 1 << 14

/** Pages of classes that are kept. All of them would be 4,352, of 512 bytes each. */
const MAX_PAGES = 256
/** Columns of the backward automaton that are kept. */
const MAX_COLUMNS = 4_096
const UNSEEN = 0xffff

/** After so many characters there is a pause while a dfa gets to know them. */
const PIECE = 16

/** Reads code points in its own way. */
export interface Automaton {
  readonly reading: Normalization
  readonly nfa: Nfa
}

export class ProductDfa {
  /** Columns are classes. */
  readonly forward: LazyDfa
  /** Columns are those of {@link columnOf}. */
  readonly backward: LazyDfa
  /** Classes of ASCII. */
  readonly ascii = new Uint16Array(128)
  /** Instructions of all automata. */
  readonly size: number
  /** Traits by class, as of `reading.ts`. */
  readonly traits: number[] = []
  readonly #components: readonly Component[]
  /** Of the context: for each component, the kind of what it has seen last. */
  readonly #contextBits: number
  readonly #context: number
  readonly #classes = new Map<string, number>()
  #breaks = UNSEEN
  /** Classes of 256 code points each, of those that were seen. */
  #pages: (Uint16Array | undefined)[] = []
  #pageCount = 0
  /** The symbol of each backward column, and the other way round: plus 1, and 0 for those that have none. */
  readonly #symbols: number[] = []
  #columns = new Int32Array(0)
  readonly #beginning: Int32Array
  /** {@link begin} of the table that it was last asked for. */
  #begun: TransitionTable | undefined
  #begin = 0
  #largeSteps = 0
  /** For packed sets to come. */
  #room = new Int32Array(0)

  private constructor(automata: readonly Automaton[]) {
    let base = 0
    this.#components = automata.map(({ reading, nfa }, index) => {
      const component = new Component(reading, nfa, base, index)
      base = component.top
      return component
    })
    this.size = base
    this.#contextBits = KIND_BITS * automata.length
    this.#context = (1 << this.#contextBits) - 1
    this.#beginning = Int32Array.of(
      this.#components.reduce((context, { beginning }) => context | beginning, 0),
    )
    this.#classOf(
      this.#components.map(() => []),
      0,
    )
    this.forward = new LazyDfa(
      {
        step: (set, codeClass, spare) => this.#advance(set, codeClass, spare),
        mark: (set) => (set.length === 1 ? IDLE : 0),
        tag: (set) => set[set.length - 1]! & this.#context,
      },
      () => this.traits.length,
    )
    this.backward = new LazyDfa(
      {
        step: (set, column, spare) => ({
          set: this.#retreat(set, this.#symbols[column]!, spare),
          stops: false,
          notable: false,
        }),
        mark: (set) => (set[set.length - 1]! & BEGINS) | (set.length === 1 ? EMPTY : 0),
        tag: () => 0,
      },
      () => this.#symbols.length,
    )
  }

  static *of(automata: readonly Automaton[]): Task<ProductDfa> {
    const dfa = new ProductDfa(automata)
    for (let code = 0; code < 128; code++) {
      if (code % PIECE === 0) yield
      dfa.ascii[code] = dfa.#classify(code)
    }
    dfa.#breaks = dfa.#classify(SEPARATOR_SYMBOL)
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
      return codePoint === SEPARATOR_SYMBOL ? this.#breaks : this.ascii[codePoint]!
    let page = this.#pages[codePoint >>> 8]
    if (page === undefined) {
      if (++this.#pageCount > MAX_PAGES) {
        this.#pages = []
        this.#pageCount = 1
      }
      page = this.#pages[codePoint >>> 8] = new Uint16Array(256).fill(UNSEEN)
    }
    const known = page[codePoint & 0xff]!
    return known === UNSEEN ? (page[codePoint & 0xff] = this.#classify(codePoint)) : known
  }

  /** All that has to be known of a code point to take it back: its class, and the context, which is the tag of the state. */
  symbolOf(context: number, codeClass: number): number {
    return (codeClass << this.#contextBits) | context
  }

  classIn(symbol: number): number {
    return symbol >>> this.#contextBits
  }

  /** The backward column for a symbol. It is forgotten by {@link alive} at the earliest. */
  columnOf(symbol: number): number {
    const known = symbol < this.#columns.length ? this.#columns[symbol]! : 0
    return known > 0 ? known - 1 : this.#newColumn(symbol)
  }

  /** The backward state for all that is alive in a state of a forward table. */
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
    states[states.length - 1]! &= PACKED
    return (table.mirrored[row] = to.enter(states))
  }

  /** The backward state of what leads to a end, before the code point with which it was reached. */
  undo(end: MatchEnd, symbol: number): number {
    const states: number[] = []
    const begins = end.component.undo(end, this.classIn(symbol), symbol, states)
    if (this.#symbols.length > MAX_COLUMNS) this.#forgetColumns()
    return this.backward.table.enter(new Int32Array([...states, begins ? BEGINS : 0]))
  }

  /** What is reached by a code point: the same as the table says, in full. */
  endsAfter(set: Int32Array, codeClass: number): readonly MatchEnd[] {
    const ends: MatchEnd[] = []
    this.#advanceStates(this.#unpacked(set), codeClass, ends)
    return ends
  }

  /** What is reached where the text ends. */
  endsAtTextEnd(set: Int32Array): readonly MatchEnd[] {
    const ends: MatchEnd[] = []
    if (!this.#components.some(({ nfa }) => nfa.asserts)) return ends
    const states = this.#unpacked(set)
    for (const component of this.#components) component.finish(states, set[set.length - 1]!, ends)
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

  #advance(set: Int32Array, codeClass: number, spare?: Int32Array): Step {
    const ends: MatchEnd[] = []
    const next = this.#packs(set)
      ? this.#advanceBits(this.#packed(set), codeClass, ends, spare)
      : this.#advanceStates(set, codeClass, ends)
    // What is found in view L is looked at again.
    const stops = ends.some(({ target }) => target.view !== 'leet')
    return { set: next, stops, notable: ends.length > 0 }
  }

  #advanceStates(set: Int32Array, codeClass: number, ends: MatchEnd[]): Int32Array {
    const next: number[] = []
    let context = 0
    for (const component of this.#components) {
      context |= component.advance(set, codeClass, set[set.length - 1]!, next, ends)
    }
    next.push(context)
    return canonical(next)
  }

  #advanceBits(
    set: Int32Array,
    codeClass: number,
    ends: MatchEnd[],
    spare: Int32Array | undefined,
  ): Int32Array {
    const next = this.#spaceFor(set, spare)
    let context = 0
    let word = 0
    for (const component of this.#components) {
      const end = word + component.nfa.stateSet.words
      const words = set.subarray(word, end)
      const into = next.subarray(word, end)
      context |= component.advanceBits(words, codeClass, set[set.length - 1]!, into, ends)
      word = end
    }
    next[word] = context
    return this.#settled(next)
  }

  #retreat(set: Int32Array, symbol: number, spare: Int32Array | undefined): Int32Array {
    const codeClass = this.classIn(symbol)
    let begins = false
    if (!this.#packs(set)) {
      const before: number[] = []
      for (const component of this.#components) {
        begins = component.retreat(set, codeClass, symbol, before) || begins
      }
      before.push(begins ? BEGINS : 0)
      return canonical(before)
    }
    const packed = this.#packed(set)
    const before = this.#spaceFor(packed, spare)
    let word = 0
    for (const component of this.#components) {
      const end = word + component.nfa.stateSet.words
      const into = before.subarray(word, end)
      begins = component.retreatBits(packed.subarray(word, end), codeClass, symbol, into) || begins
      word = end
    }
    before[word] = begins ? BEGINS : 0
    return this.#settled(before)
  }

  #packs(set: Int32Array): boolean {
    if ((set[set.length - 1]! & PACKED) !== 0) return true
    return set.length > LARGE && ++this.#largeSteps > PATIENCE
  }

  #packed(set: Int32Array): Int32Array {
    const last = set[set.length - 1]!
    if ((last & PACKED) !== 0) return set
    const words = this.#components.map((component) => {
      const [from, to] = component.sliceOf(set)
      return component.nfa.pack(set, from, to, component.base)
    })
    const packed = this.#allocate(words.reduce((sum, { length }) => sum + length, 1))
    let word = 0
    for (const one of words) {
      packed.set(one, word)
      word += one.length
    }
    packed[word] = last | PACKED
    return packed
  }

  #unpacked(set: Int32Array): Int32Array {
    const last = set[set.length - 1]!
    if ((last & PACKED) === 0) return set
    const states: number[] = []
    let word = 0
    for (const { nfa, base } of this.#components) {
      const end = word + nfa.stateSet.words
      nfa.unpack(set.subarray(word, end), base, states)
      word = end
    }
    states.push(last & ~PACKED)
    return canonical(states)
  }

  // Says that a set is packed, or unpacks it if it has become small.
  #settled(set: Int32Array): Int32Array {
    set[set.length - 1]! |= PACKED
    return countBits(set, 0, set.length - 1) < LARGE >> 1 ? this.#unpacked(set) : set
  }

  #spaceFor(set: Int32Array, spare: Int32Array | undefined): Int32Array {
    return spare?.length === set.length ? spare : this.#allocate(set.length)
  }

  // Large arrays one by one cost more than what is done with them.
  #allocate(length: number): Int32Array {
    if (this.#room.length < length) this.#room = new Int32Array(Math.max(length, ROOM))
    const set = this.#room.subarray(0, length)
    this.#room = this.#room.subarray(length)
    return set
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

// Sorting makes equal sets of different descent one state. Large sets come in the same order anyway, more or less, and
// sorting them would cost more than building them twice.
function canonical(states: number[]): Int32Array {
  const set = new Int32Array(states)
  if (set.length <= 64) set.subarray(0, -1).sort()
  return set
}
