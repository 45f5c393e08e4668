/**
 * Sequences that come no faster than they are taken. What passes between a vendor's socket and a client's is a flow; what
 * happens to it on the way is a row of steps that run in one go, without a promise for each part.
 */

/**
 * One transformation of a flow, told part by part. A step may remember what it saw: it serves one flow only.
 * What a step throws ends the flow; what it and the steps before it gave out until then still goes out first.
 */
export interface Step<In, Out> {
  /**
   * Gives out, by calling `emit`, whatever follows from one part: nothing, one part or several. Without it every part goes
   * on as it is.
   */
  push?(part: In, emit: (part: Out) => void): void
  /** All parts that were there together have been pushed. For what is better done once for all of them. */
  batchEnd?(emit: (part: Out) => void): void
  /** The parts have run out, or the step before this one is `done`. */
  end?(emit: (part: Out) => void): void | Promise<void>
  /** The flow breaks. What is returned is thrown in place of the error. */
  fail?(error: unknown): unknown
  /** Nothing more is wanted: the source is let go, and `end` is called for the steps after this one. */
  readonly done?: boolean
}

/** Parts that were there at the same time. */
export interface Batch<T> {
  readonly parts: readonly T[]
  /** Nothing follows. */
  readonly last: boolean
}

/** Where a flow comes from. */
export interface Source<T> {
  /** Asked again only after it has answered. */
  next(): Promise<Batch<T>>
  /**
   * Lets go of everything. Not called after an answer that was the last, or after an error.
   * @param complete what was wanted has come; only the end of it is missing
   */
  close(complete: boolean): void | Promise<void>
}

/** A sequence that is read once, from one place, as its reader asks for it. Leaving a loop over it early closes it. */
export interface Flow<T> extends AsyncIterable<T> {
  /** Adds a step. The flow that comes back takes the place of this one. */
  through<Out>(step: Step<T, Out>): Flow<Out>
  /** What is there, at least one part unless it is the last; waits while there is nothing. */
  next(): Promise<Batch<T>>
  /** Ends it early. Idempotent. */
  close(): Promise<void>
}
