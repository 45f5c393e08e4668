/**
 * Sequences with back-pressure. Everything between the socket of a vendor and the socket of a client is a flow; each
 * transformation on the way is a synchronous step, so there is no promise per part.
 */

/**
 * One transformation of a flow. A step may keep state, so it serves one flow only. Parts that were emitted before a step
 * throws are delivered before the error.
 */
export interface Step<In, Out> {
  /**
   * Takes one part and emits any number of parts for it, synchronously. A step without it passes every part on. An error that
   * it throws ends the flow.
   */
  push?(part: In, emit: (part: Out) => void): void
  /** Called after all parts of a batch were pushed, for work that is better done once per batch. */
  batchEnd?(emit: (part: Out) => void): void
  /** Called after the last part, or when the step before this one is `done`. May still emit parts. */
  end?(emit: (part: Out) => void): void | Promise<void>
  /** It is called when the flow fails. Returns the error to throw in place of this one; a promise is awaited. */
  fail?(error: unknown): unknown
  /** It is true when the step needs no more parts: the source is closed, and `end` is called for the steps after this one. */
  readonly done?: boolean
}

/** Parts that were available at the same time. */
export interface Batch<T> {
  /** It may be empty. */
  readonly parts: readonly T[]
  /** Whether this is the last batch. */
  readonly last: boolean
}

/** Produces the batches of a flow. */
export interface Source<T> {
  /** It is called again only after the promise of the last call was settled, and not after the last batch or an error. */
  next(): Promise<Batch<T>>
  /**
   * Releases everything. Not called after the last batch or an error.
   * @param complete whether the reader has everything it wanted, and only the end of the source is outstanding
   */
  close(complete: boolean): void | Promise<void>
}

/** A sequence for one reader, produced as it is read. Leaving a `for await` loop early closes it. */
export interface Flow<T> extends AsyncIterable<T> {
  /** Adds a step. Use the returned flow in place of this one. @throws Error after the first read */
  through<Out>(step: Step<T, Out>): Flow<Out>
  /** The next batch: at least one part unless it is the last. Rejects with the error of the source or of a step. */
  next(): Promise<Batch<T>>
  /** Ends the flow and closes its source. May be called more than once. */
  close(): Promise<void>
}
