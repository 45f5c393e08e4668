/**
 * Deterministic automata that are built while texts pass: a state is a set of states of something slower, remembered
 * with where each column leads. All that is remembered is bounded; what does not fit is forgotten and built again.
 */

import { memoryBudget, type BudgetOwner } from './memory-budget.ts'

/** What a table is made of. Sets are not changed after they were handed over. */
export interface StepFunction {
  /**
   * Where a set goes from here by a column.
   * @param spare space that the new set may be put in; if it is as long as the set, no other is taken
   * @returns the set; with `stops` there is nowhere to go, with `notable` the caller wants to see every such step
   */
  step(set: Int32Array, column: number, spare?: Int32Array): Step
  /** What the caller wants to know about a set at a glance: 8 bits, and 16 more. */
  mark(set: Int32Array): number
  tag(set: Int32Array): number
}

export interface Step {
  readonly set: Int32Array
  readonly stops: boolean
  readonly notable: boolean
}

/** A cell that nobody has asked for. */
export const UNKNOWN = 0
/** A cell where the automaton stops. */
export const STOP = -1
/** The table has been replaced: go on with the new one, from the same set. */
export const MOVED = -2_147_483_648

/** Of one table: cells and sets, in bytes. */
const TABLE_BYTES = 1 << 20

/** An automaton and its present table. */
export class LazyDfa implements BudgetOwner {
  readonly #stepper: StepFunction
  readonly #columns: () => number
  #table: TransitionTable | undefined

  /** @param columns how many there are now; their number may grow */
  constructor(stepper: StepFunction, columns: () => number) {
    this.#stepper = stepper
    this.#columns = columns
  }

  get table(): TransitionTable {
    return (this.#table ??= new TransitionTable(this, this.#stepper, this.#columns()))
  }

  /** A table for one user, of so many steps, that remembers nothing. */
  passing(steps: number): TransitionTable {
    return new TransitionTable(this, this.#stepper, this.#columns(), steps)
  }

  /** Forgets all states. Whoever still has a table may go on using it. */
  drop(): void {
    this.#table = undefined
    memoryBudget.release(this)
  }

  /** Notes that the table has grown by so many bytes. @returns false when it is time for a new one */
  grow(bytes: number): boolean {
    return memoryBudget.reserve(this, bytes) <= TABLE_BYTES
  }
}

/** How many there were. */
let tables = 0

/** A state is the offset of its row; none is 0. */
export class TransitionTable {
  /** By state plus column: a state, {@link UNKNOWN}, {@link STOP}, or the negative of a state after a notable step. */
  cells: Int32Array
  /** {@link StepFunction.mark} of each state, by its row. */
  marks: Uint8Array
  /** {@link StepFunction.tag} likewise. */
  tags: Uint16Array
  /** By row, what its user has worked out of a state with the help of {@link mirror}; 0 if nothing yet. */
  mirrored: Int32Array
  /** The {@link id} of another table; 0 for none. */
  mirror = 0
  readonly id = ++tables
  /** `state >> shift` is a row. */
  readonly shift: number
  /** How many columns a row has. */
  readonly stride: number
  readonly #dfa: LazyDfa
  readonly #stepper: StepFunction
  readonly #sets: Int32Array[] = [new Int32Array(0)]
  /** By hash: the newest row, and from each row to the one before. */
  readonly #rows = new Map<number, number>()
  readonly #older: number[] = [0]
  #full = false
  /** It is one user's own, and remembers nothing but the last step: two rows take turns. */
  readonly passes: boolean
  /** Such steps that are left, the last one's cell, and space for sets by row. */
  #left: number
  #cell = 0
  readonly #spare: (Int32Array | undefined)[] = []

  /** @param passage for so many steps nothing is remembered; 0 for a table that remembers */
  constructor(dfa: LazyDfa, stepper: StepFunction, columns: number, passage = 0) {
    this.#dfa = dfa
    this.#stepper = stepper
    // Some space for columns to come.
    this.shift = Math.max(5, Math.ceil(Math.log2(columns + (columns >> 2) + 1)))
    this.stride = 1 << this.shift
    this.passes = passage > 0
    this.#left = passage
    const rows = this.passes ? 3 : 2
    this.cells = new Int32Array(this.stride * rows)
    this.marks = new Uint8Array(rows)
    this.tags = new Uint16Array(rows)
    this.mirrored = new Int32Array(rows)
  }

  setOf(state: number): Int32Array {
    return this.#sets[state >> this.shift]!
  }

  /** @returns the state for a set */
  enter(set: Int32Array): number {
    if (this.passes) return this.#put(1, set)
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
      this.tags = doubled(this.tags, new Uint16Array(this.tags.length * 2))
      this.mirrored = doubled(this.mirrored, new Int32Array(this.mirrored.length * 2))
    }
    this.#put(row, set)
    // About what a row costs besides its cells and the set.
    if (!this.#dfa.grow((this.stride + set.length) * 4 + 120)) this.#full = true
    return row << this.shift
  }

  /** Builds a cell. @returns what is in it now, or {@link MOVED} */
  fill(state: number, column: number): number {
    if (this.passes) return this.#pass(state, column)
    if (this.#full || column >= this.stride || this.#dfa.table !== this) {
      if (this.#dfa.table === this) this.#dfa.drop()
      return MOVED
    }
    const { set, stops, notable } = this.#stepper.step(this.#sets[state >> this.shift]!, column)
    const next = stops ? STOP : this.enter(set)
    return (this.cells[state + column] = notable && !stops ? -next : next)
  }

  // Builds the one cell that there is.
  #pass(state: number, column: number): number {
    if (column >= this.stride || this.#left-- === 0) return MOVED
    this.cells[this.#cell] = UNKNOWN
    this.#cell = state + column
    const row = state >> this.shift
    const other = 3 - row
    const from = this.#sets[row]!
    const spare = this.#spare[other]
    const { set, stops, notable } = this.#stepper.step(from, column, spare)
    if (set.length > (spare?.length ?? 0)) this.#spare[other] = set
    const next = stops ? STOP : this.#put(other, set)
    return (this.cells[this.#cell] = notable && !stops ? -next : next)
  }

  #put(row: number, set: Int32Array): number {
    this.#sets[row] = set
    this.marks[row] = this.#stepper.mark(set)
    this.tags[row] = this.#stepper.tag(set)
    this.mirrored[row] = 0
    return row << this.shift
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

function doubled<T extends Int32Array | Uint16Array | Uint8Array>(from: T, to: T): T {
  to.set(from)
  return to
}
