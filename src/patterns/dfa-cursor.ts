/** Normalization forward without positions: whether a match ends, but not where it began. */
import type { CodePointSink } from './views/decode.ts'
import { IDLE, UNSEEN_CLASS, type ProductDfa } from './product-dfa.ts'
import { MOVED, UNKNOWN, type TransitionTable } from './lazy-dfa.ts'

// Where hardly a set of states comes twice, caching transitions costs more than it saves. They are not cached for so many
// steps then, and for twice as many each time that goes on.
const FIRST_UNCACHED = 1 << 12
const MOST_UNCACHED = 1 << 16

/** A place in a text. */
export class DfaCursor {
  readonly dfa: ProductDfa
  table: TransitionTable
  state: number
  /** Steps so far, including those that callers take with {@link table} themselves. */
  steps = 0
  /** Steps that had to be built. */
  built = 0
  /** Both numbers when the present table came into use. */
  #stepsBefore = 0
  #builtBefore = 0
  #uncached = 0

  constructor(dfa: ProductDfa) {
    this.dfa = dfa
    this.table = dfa.forward.table
    this.state = dfa.begin()
  }

  /** Begins again, as before any text. */
  restart(): void {
    this.table = this.dfa.forward.table
    this.state = this.dfa.begin()
  }

  /** No match is under way. */
  get idle(): boolean {
    return this.table.marks[this.state >> this.table.shift] === IDLE
  }

  /**
   * Reads a code point of this class: a look-up, or up to 50 µs for a step that has to be built.
   * @returns whether a match may end with it; then nothing may follow
   */
  step(codeClass: number): boolean {
    this.steps++
    const { table } = this
    let next = codeClass < table.stride ? table.cells[this.state + codeClass]! : UNKNOWN
    if (next === UNKNOWN) next = this.#build(codeClass)
    if (next < 0) return true
    this.state = next
    return false
  }

  /** Whether a match ends where the text ends. */
  endsInMatch(): boolean {
    return this.dfa.endsAtTextEnd(this.table.setOf(this.state)).length > 0
  }

  #build(codeClass: number): number {
    this.built++
    let next = codeClass < this.table.stride ? this.table.fill(this.state, codeClass) : MOVED
    while (next === MOVED) {
      const set = this.table.setOf(this.state)
      this.table = this.#nextTable()
      this.state = this.table.enter(set)
      next = this.table.fill(this.state, codeClass)
    }
    return next
  }

  #nextTable(): TransitionTable {
    const { forward } = this.dfa
    const wasUseful =
      this.table.isUncached || (this.built - this.#builtBefore) * 2 < this.steps - this.#stepsBefore
    if (!wasUseful) {
      this.#uncached = Math.min(Math.max(FIRST_UNCACHED, this.#uncached * 2), MOST_UNCACHED)
      return forward.uncached(this.#uncached)
    }
    if (!this.table.isUncached) this.#uncached = 0
    this.#stepsBefore = this.steps
    this.#builtBefore = this.built
    return forward.table
  }
}

/** Looks for matches in decoded text, without positions. */
export class DecodedReader implements CodePointSink {
  readonly begins: Uint8Array
  /** There was a match since this was last reset. */
  found = false
  readonly #cursor: DfaCursor

  constructor(dfa: ProductDfa) {
    this.begins = firstBytesOf(dfa)
    this.#cursor = new DfaCursor(dfa)
  }

  get idle(): boolean {
    return this.#cursor.idle
  }

  read(symbol: number): void {
    const symbolClass = this.#cursor.dfa.classOf(symbol)
    if (symbolClass !== UNSEEN_CLASS && this.#cursor.step(symbolClass)) this.found = true
  }

  restart(): void {
    this.#cursor.restart()
  }

  pendingStart(): number {
    return Infinity
  }
}

const firstBytes = new WeakMap<ProductDfa, Uint8Array>()

/** By byte of UTF-8: 0 if no match can begin with it. The first of several bytes may begin anything. */
export function firstBytesOf(dfa: ProductDfa): Uint8Array {
  let bytes = firstBytes.get(dfa)
  if (bytes === undefined) {
    const cursor = new DfaCursor(dfa)
    bytes = Uint8Array.from({ length: 256 }, (_, byte) => {
      if (byte >= 0x80) return byte >= 0xc2 && byte <= 0xf4 ? 1 : 0
      cursor.restart()
      return cursor.step(dfa.classOf(byte)) || !cursor.idle ? 1 : 0
    })
    firstBytes.set(dfa, bytes)
  }
  return bytes
}
