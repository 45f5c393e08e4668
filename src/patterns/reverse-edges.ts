import type { Task } from './time-slice.ts'

/** After so many states there is a pause. */
const PIECE = 1 << 12

/** Tells the ends of all edges from a state. */
export type Edges = (state: number, add: (end: number) => void) => void

/** Edges by their end, without an array for each. */
export class ReverseEdges {
  readonly #offsets: Int32Array
  readonly #sources: Int32Array

  private constructor(offsets: Int32Array, sources: Int32Array) {
    this.#offsets = offsets
    this.#sources = sources
  }

  /** @param size how many states there are */
  static *of(size: number, edges: Edges): Task<ReverseEdges> {
    const offsets = new Int32Array(size + 2)
    const count = (end: number) => void offsets[end + 2]!++
    for (let state = 0; state < size; state++) {
      if (state % PIECE === 0) yield
      edges(state, count)
    }
    for (let at = 2; at < size + 2; at++) offsets[at]! += offsets[at - 1]!
    const sources = new Int32Array(offsets[size + 1]!)
    let from = 0
    // Filling moves every offset to where the next state begins.
    const fill = (end: number) => void (sources[offsets[end + 1]!++] = from)
    for (; from < size; from++) {
      if (from % PIECE === 0) yield
      edges(from, fill)
    }
    return new ReverseEdges(offsets, sources)
  }

  /** Number of the first edge to a state; the next state's is behind its last. */
  first(state: number): number {
    return this.#offsets[state]!
  }

  /** Where an edge comes from. */
  source(edge: number): number {
    return this.#sources[edge]!
  }
}
