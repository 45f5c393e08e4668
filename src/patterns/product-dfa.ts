/**
 * The product automaton: the NFAs of all views over one text, stepped together by its code points. What a code point is in each
 * view is found once; from then on it is a class, and a step that is known is a look-up in a table.
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
import {
  type Accepted,
  type MatchTarget,
  type Nfa,
  NfaSimulation,
  NO_POSITIONS,
  type Positions,
} from './nfa.ts'
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'
import type { Ranges } from './alphabet.ts'

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
  readonly conditions: number
}

/** Bits of a kind. A context holds the kind of the last symbol that each component saw. */
const KIND_BITS = 3
const KIND_MASK = (1 << KIND_BITS) - 1

/** What a component sees of a code point: classes of symbols, the conditions before each, and the kind of the last one seen. */
interface Reading {
  readonly symbols: readonly number[]
  readonly conditions: readonly number[]
  readonly kind: number
}

/** The NFA of a view, as a component of the product automaton: it sees code points through its normalization. */
class Component {
  readonly nfa: Nfa
  readonly #simulation: NfaSimulation
  readonly #normalization: Normalization
  /** Position of its kind in a context. */
  readonly #shift: number
  /** The classes of the symbols of each class of code points. */
  readonly #images: (readonly number[])[] = []
  /** The kind of each class of symbols. */
  readonly #kinds: number[] = []

  constructor({ normalization, nfa }: Automaton, index: number) {
    this.#normalization = normalization
    this.nfa = nfa
    this.#simulation = new NfaSimulation(nfa)
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
    return this.#read(codeClass, context).symbols.length > 0
  }

  /** Its part of the context after a code point. */
  contextAfter(codeClass: number, context: number): number {
    return this.#read(codeClass, context).kind << this.#shift
  }

  /** Reads a code point. @param ends receives the matches that end with it */
  advance(from: Positions, codeClass: number, context: number, ends: MatchEnd[]): Positions {
    const { symbols, conditions } = this.#read(codeClass, context)
    return symbols.reduce((positions, symbolClass, at) => {
      const accepted: Accepted[] = []
      const next = this.#simulation.read(positions, symbolClass, conditions[at]!, accepted)
      ends.push(...this.#endsOf(accepted, at, conditions[at]!))
      return next
    }, from)
  }

  /** Steps back over a code point. */
  retreat(from: Positions, codeClass: number, context: number): StepBack {
    return this.#unread(from, this.#read(codeClass, context))
  }

  /** The matches that end where the text ends. */
  finish(positions: Positions, context: number): MatchEnd[] {
    const conditions = conditionsBetween((context >>> this.#shift) & KIND_MASK, END)
    const accepted: Accepted[] = []
    this.#simulation.accept(positions, conditions, accepted)
    return this.#endsOf(accepted, 0, conditions)
  }

  /** What leads to the end of a match, before the code point with which it was reached. */
  undo({ number, symbols, conditions }: MatchEnd, codeClass: number, context: number): StepBack {
    const last = this.#simulation.last(number, conditions)
    if (symbols === 0) return { positions: last, begins: false }
    const reading = this.#read(codeClass, context)
    return this.#unread(last, { ...reading, symbols: reading.symbols.slice(0, symbols) })
  }

  #read(codeClass: number, context: number): Reading {
    const [symbols, conditions]: [number[], number[]] = [[], []]
    let kind = (context >>> this.#shift) & KIND_MASK
    for (const symbolClass of this.#images[codeClass]!) {
      const next = this.#kinds[symbolClass]!
      if (next === GAP && kind === GAP) continue
      symbols.push(symbolClass)
      conditions.push(conditionsBetween(kind, next))
      kind = next
    }
    return { symbols, conditions, kind }
  }

  #unread(from: Positions, { symbols, conditions }: Reading): StepBack {
    let [positions, begins] = [from, false]
    for (let at = symbols.length - 1; at >= 0; at--) {
      const [symbolClass, holding] = [symbols[at]!, conditions[at]!]
      begins ||= this.#simulation.begins(positions, symbolClass, holding)
      positions = this.#simulation.unread(positions, symbolClass, holding)
    }
    return { positions, begins }
  }

  #endsOf(accepted: readonly Accepted[], at: number, conditions: number): MatchEnd[] {
    return accepted.map(({ target, before }) => ({
      target: this.nfa.targets[target]!,
      component: this,
      number: target,
      symbols: before ? at : at + 1,
      conditions: before ? conditions : 0,
    }))
  }
}

/** The positions before a code point, and whether a match may begin with it. */
interface StepBack {
  readonly positions: Positions
  readonly begins: boolean
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
function conditionsBetween(before: number, after: number): number {
  let conditions = (before === WORD) === (after === WORD) ? NO_WORD_BORDER : WORD_BORDER
  if (before === BEGINNING) conditions |= TEXT_START | LINE_START
  if (before === LINE_FEED) conditions |= LINE_START
  if (after === END) conditions |= TEXT_END | LINE_END
  if (after === LINE_FEED) conditions |= LINE_END
  return conditions
}

/** The class of code points that no view sees. */
export const UNSEEN_CLASS = 0

/** Pages of classes that are kept, of 512 bytes each. Unicode has 4,352. */
const MAX_PAGES = 256
const UNCLASSIFIED = 0xffff

/** Characters that are classified between two pauses. */
const PIECE = 16

/** An NFA and how it sees a text. */
export interface Automaton {
  readonly normalization: Normalization
  readonly nfa: Nfa
}

/** A state of the product: where each NFA is between two code points of a text, and what came before. */
export class ForwardState {
  /** The positions of each component. */
  readonly positions: readonly Positions[]
  /** The kind of the last symbol that each component saw, as far as assertions and runs of white space depend on it. */
  readonly context: number
  /** No match is under way. */
  readonly isIdle: boolean
  /** Holds its transitions, in a row that begins at an index. */
  readonly table: TransitionTable
  readonly row: number
  /** Known steps with which a match ends, by class of code points. */
  endings: Map<number, Step> | undefined
  /** The backward state of all matches under way, if it is known. */
  alive: BackwardState | undefined

  constructor(positions: readonly Positions[], context: number, table: TransitionTable) {
    this.positions = positions
    this.context = context
    this.isIdle = positions.every(({ length }) => length === 0)
    this.table = table
    this.row = table.add(this)
  }

  /** The next state, if it is known and no match ends. */
  next(codeClass: number): ForwardState | undefined {
    const { cells, states, shift, stride } = this.table
    return codeClass < stride ? states[cells[this.row + codeClass]! >> shift] : undefined
  }
}

/** All forward states since the last time they were dropped, and the transitions between them that are known. */
class TransitionTable {
  /** The row of the next state, at row plus class of code points; 0 where it is not known, or a match ends. */
  cells: Int32Array
  /** The state of a row stands at `row >> shift`. */
  readonly states: (ForwardState | undefined)[] = [undefined]
  readonly shift: number
  /** Numbers in a row. */
  readonly stride: number

  constructor(classes: number) {
    // A row has space for classes to come.
    this.shift = Math.max(5, Math.ceil(Math.log2(classes * 1.25 + 1)))
    this.stride = 1 << this.shift
    this.cells = new Int32Array(this.stride * 2)
  }

  /** @returns the row of a new state */
  add(state: ForwardState): number {
    const row = this.states.length << this.shift
    this.states.push(state)
    if (row === this.cells.length) {
      const cells = new Int32Array(row * 2)
      cells.set(this.cells)
      this.cells = cells
    }
    return row
  }
}

/** What a code point leads to, and the matches that end with it or before it. */
interface Step {
  readonly state: ForwardState
  readonly ends: readonly MatchEnd[]
}

/** A state of the reversed product: from which positions a match under way may have come. */
export class BackwardState {
  /** The positions of each component. */
  readonly positions: readonly Positions[]
  /** A match may begin with the code point that was just stepped over. */
  readonly begins: boolean
  /** No match is left to follow back. */
  readonly isEmpty: boolean
  /** Known states, by symbol. */
  readonly before = new Map<number, BackwardState>()

  constructor(positions: readonly Positions[], begins: boolean) {
    this.positions = positions
    this.begins = begins
    this.isEmpty = positions.every(({ length }) => length === 0)
  }
}

/** Size at which all states of a product are dropped, in bytes. */
const STATES_BYTES = 2 << 20

/**
 * The product of all views' NFAs over one text, and its reverse, determinized lazily (subset construction): a state is made when a
 * text first leads to it. Too many states are dropped together. Readers that still hold one go on from it to new ones.
 */
export class ProductDfa implements BudgetOwner {
  /** Classes of ASCII. */
  readonly ascii = new Uint16Array(128)
  /** Instructions of all NFAs. */
  readonly size: number
  /** Traits by class, as of `traitsOf`. */
  readonly traits: number[] = []
  readonly #components: readonly Component[]
  readonly #asserts: boolean
  readonly #contextBits: number
  readonly #classes = new Map<string, number>()
  #separatorClass = UNCLASSIFIED
  /** Classes by code point, in pages of 256. */
  #pages: (Uint16Array | undefined)[] = []
  #pageCount = 0
  /** All states by what they stand for. */
  readonly #forward = new StateMap<ForwardState>()
  readonly #backward = new StateMap<BackwardState>()
  #table: TransitionTable | undefined
  #beginning: ForwardState | undefined
  #firstBytes: Uint8Array | undefined
  #beginnings: Uint8Array | undefined

  private constructor(automata: readonly Automaton[]) {
    this.#components = automata.map((automaton, index) => new Component(automaton, index))
    this.#asserts = automata.some(({ nfa }) => nfa.asserts)
    this.size = automata.reduce((sum, { nfa }) => sum + nfa.size, 0)
    this.#contextBits = KIND_BITS * automata.length
    this.#classOf(
      this.#components.map(() => []),
      0,
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
  get beginning(): ForwardState {
    return (this.#beginning ??= this.#forwardState(
      this.#components.map(() => NO_POSITIONS),
      this.#components.reduce((context, { beginning }) => context | beginning, 0),
    ))
  }

  /** A number for each byte of UTF-8: 0 if no match can begin with it. The first of several bytes may begin anything. */
  get firstBytes(): Uint8Array {
    return (this.#firstBytes ??= Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x80) return byte >= 0xc2 && byte <= 0xf4 ? 1 : 0
      const { state, ends } = this.step(this.beginning, this.classOf(byte))
      return ends.length > 0 || !state.isIdle ? 1 : 0
    }))
  }

  /** What a search has learnt of matches that begin with two bytes of UTF-8. */
  get beginnings(): Uint8Array {
    if (this.#beginnings === undefined) {
      this.#beginnings = new Uint8Array(1 << 16)
      memoryBudget.reserve(this, this.#beginnings.length)
    }
    return this.#beginnings
  }

  drop(): void {
    this.#forward.clear()
    this.#backward.clear()
    this.#table = undefined
    this.#beginning = undefined
    this.#beginnings = undefined
    memoryBudget.release(this)
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
    const codeClass = page[codePoint & 0xff]!
    return codeClass === UNCLASSIFIED
      ? (page[codePoint & 0xff] = this.#classify(codePoint))
      : codeClass
  }

  /** What has to be kept of a code point to step back over it: its class, and the context before it. */
  symbolOf({ context }: ForwardState, codeClass: number): number {
    return (codeClass << this.#contextBits) | context
  }

  classIn(symbol: number): number {
    return symbol >>> this.#contextBits
  }

  /** A step that is not in the table. It takes time linear in the patterns: up to 50 µs. */
  step(from: ForwardState, codeClass: number): Step {
    const cached = from.endings?.get(codeClass)
    if (cached !== undefined) return cached
    if (this.#table !== undefined && codeClass >= this.#table.stride) this.drop()
    const ends: MatchEnd[] = []
    const positions = this.#components.map((component, index) =>
      component.advance(from.positions[index]!, codeClass, from.context, ends),
    )
    const context = this.#components.reduce(
      (sum, component) => sum | component.contextAfter(codeClass, from.context),
      0,
    )
    const step = { state: this.#forwardState(positions, context), ends }
    if (ends.length > 0) (from.endings ??= new Map()).set(codeClass, step)
    else if (from.table === step.state.table) {
      from.table.cells[from.row + codeClass] = step.state.row
    }
    return step
  }

  /** The matches that end where the text ends. */
  endsAtTextEnd({ positions, context }: ForwardState): readonly MatchEnd[] {
    if (!this.#asserts) return []
    return this.#components.flatMap((component, index) =>
      component.finish(positions[index]!, context),
    )
  }

  /** The backward state of all matches that are under way. */
  alive(state: ForwardState): BackwardState {
    return (state.alive ??= this.#backwardState(state.positions, false))
  }

  /** The backward state of what leads to an end, before the code point with which it was reached. */
  undo(end: MatchEnd, symbol: number): BackwardState {
    const { positions, begins } = end.component.undo(end, this.classIn(symbol), symbol)
    return this.#backwardState(
      this.#components.map((component) => (component === end.component ? positions : NO_POSITIONS)),
      begins,
    )
  }

  /** Steps back over a symbol. */
  stepBack(from: BackwardState, symbol: number): BackwardState {
    let before = from.before.get(symbol)
    if (before === undefined) {
      const codeClass = this.classIn(symbol)
      const steps = this.#components.map((component, index) =>
        component.retreat(from.positions[index]!, codeClass, symbol),
      )
      before = this.#backwardState(
        steps.map(({ positions }) => positions),
        steps.some(({ begins }) => begins),
      )
      from.before.set(symbol, before)
      memoryBudget.reserve(this, EDGE_BYTES)
    }
    return before
  }

  #forwardState(positions: readonly Positions[], context: number): ForwardState {
    return this.#forward.of(positions, context, () => {
      this.#makeRoom(positions)
      this.#table ??= new TransitionTable(this.traits.length)
      return new ForwardState(positions, context, this.#table)
    })
  }

  #backwardState(positions: readonly Positions[], begins: boolean): BackwardState {
    return this.#backward.of(positions, Number(begins), () => {
      this.#makeRoom(positions)
      return new BackwardState(positions, begins)
    })
  }

  /** Drops all states if there are too many for another one. */
  #makeRoom(positions: readonly Positions[]): void {
    const bytes = positions.reduce((sum, { byteLength }) => sum + byteLength, STATE_BYTES)
    if (memoryBudget.reserve(this, bytes) <= STATES_BYTES) return
    this.drop()
    memoryBudget.reserve(this, bytes)
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

/** A state without its positions, and a backward transition, roughly. */
const STATE_BYTES = 600
const EDGE_BYTES = 40

/** States by their positions and a label, which is another number. */
class StateMap<State extends { readonly positions: readonly Positions[] }> {
  readonly #byHash = new Map<number, { readonly state: State; readonly label: number }[]>()

  /** @param make makes a state that is not there yet; it may clear the map */
  of(positions: readonly Positions[], label: number, make: () => State): State {
    const hash = hashOf(positions, label)
    const existing = this.#byHash
      .get(hash)
      ?.find((one) => one.label === label && isEqual(one.state.positions, positions))
    if (existing !== undefined) return existing.state
    const state = make()
    const others = this.#byHash.get(hash) ?? []
    others.push({ state, label })
    this.#byHash.set(hash, others)
    return state
  }

  clear(): void {
    this.#byHash.clear()
  }
}

function hashOf(positions: readonly Positions[], label: number): number {
  let hash = label
  for (const set of positions) {
    hash = Math.imul(hash, 0x01000193) ^ set.length
    for (let at = 0; at < set.length; at++) hash = Math.imul(hash, 0x01000193) ^ set[at]!
  }
  return hash
}

function isEqual(some: readonly Positions[], others: readonly Positions[]): boolean {
  return some.every((set, index) => {
    const other = others[index]!
    if (set.length !== other.length) return false
    for (let at = 0; at < set.length; at++) if (set[at] !== other[at]) return false
    return true
  })
}
