/** Edges by their end, without an array for each. */
export class Arrivals {
  readonly #offsets: Int32Array
  readonly #sources: Int32Array

  /** @param edges adds the ends of all edges from a state */
  constructor(size: number, edges: (state: number, add: (end: number) => void) => void) {
    const offsets = new Int32Array(size + 2)
    for (let state = 0; state < size; state++) edges(state, (end) => offsets[end + 2]!++)
    for (let at = 2; at < size + 2; at++) offsets[at]! += offsets[at - 1]!
    const sources = new Int32Array(offsets[size + 1]!)
    // Filling moves every offset to where the next state begins.
    for (let state = 0; state < size; state++) {
      edges(state, (end) => {
        sources[offsets[end + 1]!++] = state
      })
    }
    this.#offsets = offsets
    this.#sources = sources
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
