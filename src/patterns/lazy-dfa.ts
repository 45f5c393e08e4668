/**
 * A DFA that is built while texts are read: a state is a set of states of something slower, kept with the transitions
 * that were needed so far. Tables are bounded; a full one is dropped, and what is needed is built again.
 */
import { memoryBudget, type BudgetOwner } from './memory-budget.ts'

/** Computes transitions. No code changes a set that was handed over. */
interface StepFunction {
  /** The transition from a set by a column. */
  step(set: Int32Array, column: number): Step
  /** What the reader of a table wants to know of a set without unpacking it: 8 bits, and 16 more. */
  mark(set: Int32Array): number
  tag(set: Int32Array): number
}

export interface Step {
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

/** A DFA and its present table. */
export class LazyDfa implements BudgetOwner {
  readonly #steps: StepFunction
  readonly #columns: () => number
  #table: TransitionTable | undefined

  /** @param columns gives their number, which may grow */
  constructor(steps: StepFunction, columns: () => number) {
    this.#steps = steps
    this.#columns = columns
  }

  get table(): TransitionTable {
    return (this.#table ??= new TransitionTable(this, this.#steps, this.#columns()))
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
  /** {@link StepFunction.mark} of each state, by its row. */
  marks: Uint8Array
  /** {@link StepFunction.tag} likewise. */
  tags: Uint16Array
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
  readonly #steps: StepFunction
  readonly #sets: Int32Array[] = [new Int32Array(0)]
  /** By hash of a set: the newest row; and by row: the one before with the same hash. */
  readonly #rows = new Map<number, number>()
  readonly #older: number[] = [0]
  #full = false

  constructor(dfa: LazyDfa, steps: StepFunction, columns: number) {
    this.#dfa = dfa
    this.#steps = steps
    // With space for columns to come.
    this.shift = Math.max(5, Math.ceil(Math.log2(columns + (columns >> 2) + 1)))
    this.stride = 1 << this.shift
    const rows = 2
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
    this.#sets[row] = set
    this.marks[row] = this.#steps.mark(set)
    this.tags[row] = this.#steps.tag(set)
    if (!this.#dfa.grow((this.stride + set.length) * 4 + 120)) this.#full = true
    return row << this.shift
  }

  /** Builds the transition of a cell. @returns what is in it now, or {@link MOVED} */
  fill(state: number, column: number): number {
    if (this.#full || column >= this.stride || this.#dfa.table !== this) {
      if (this.#dfa.table === this) this.#dfa.drop()
      return MOVED
    }
    const { set, stops, notable } = this.#steps.step(this.#sets[state >> this.shift]!, column)
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

function doubled<T extends Int32Array | Uint16Array | Uint8Array>(from: T, to: T): T {
  to.set(from)
  return to
}
