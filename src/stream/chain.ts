/**
 * A chain of steps that parts are pushed through. Everything that arrived at once runs through all steps in one synchronous
 * turn, so no part makes a promise. A chain ends in a sink: the next chain, or what writes to the client's socket.
 */
import type { Step } from '../plugin.ts'

/** A receiver of parts. */
export interface Sink<T> {
  push(part: T): void
  /** Called after all parts that came together. @returns false while no more parts should come */
  batchEnd(): boolean
  /** It is called when no part follows. */
  end(): void
  /** It is called when no part follows, because of this error. */
  fail(error: unknown): void
  /** Gives the sink the function to call when more parts may come again. */
  onRoom?(resume: () => void): void
}

/** A source of parts for a sink, once it was started. */
export interface Producer {
  /** Stops giving parts, beyond those in hand, until {@link resume}. */
  pause(): void
  resume(): void
  /**
   * Releases everything; no part is given any more. Idempotent.
   * @param complete the sink has everything it wanted, and only the end is outstanding
   */
  close(complete: boolean): void | Promise<void>
  /** Whether the end of the parts has what the source costs, which is known once it is closed. */
  readonly isBilled?: boolean
}

/** A source that gives its parts once. Its owner calls one of these. */
export interface Feed<T> {
  /** Begins. Parts may come before it returns. */
  start(sink: Sink<T>): Producer
  /** Releases resources that nothing will read. */
  discard(): void | Promise<void>
}

/** The means of a gateway's step to act between two parts. */
export interface Outlet<Out> {
  /** Gives parts to the steps behind this one. */
  emit(parts: readonly Out[]): void
  /** Ends the chain with an error of this step. */
  fail(error: unknown): void
  /** It is called when the step became `done` between two parts. */
  done(): void
}

/** A result of a step's `fail`: these parts end the answer, and replace the error. */
export class Instead {
  readonly parts: readonly unknown[]

  constructor(parts: readonly unknown[]) {
    this.parts = parts
  }
}

/** A step of the gateway itself. It has more means than those of plugins. */
export interface ChainStep<In = any, Out = any> extends Omit<Step<In, Out>, 'push'> {
  /** Called before the first part. */
  open?(outlet: Outlet<Out>): void
  /** Returns a promise while later parts have to wait for the step. */
  push?(part: In, emit: (part: Out) => void): void | Promise<void>
}

const NOTHING: never[] = []

/** One step and the parts that wait for it. */
class Link {
  readonly step: ChainStep
  readonly emit: (part: any) => void
  /** Whether the step needs time for a part. */
  waits = false
  /** Whether the step, or one behind it, is done or has failed: it takes and gives nothing more. */
  dead = false
  /** Whether the step may be `done`. */
  readonly finishes: boolean
  readonly #chain: LinkOwner
  #queue: any[] = NOTHING

  constructor(step: ChainStep, emit: (part: any) => void, chain: LinkOwner) {
    this.step = step
    this.emit = emit
    this.finishes = 'done' in step
    this.#chain = chain
  }

  push(part: any): void {
    if (this.dead || (this.finishes && this.step.done)) return
    if (!this.waits) {
      const pending = this.#take(part)
      if (pending) this.#wait(pending)
    } else if (this.#queue === NOTHING) this.#queue = [part]
    else this.#queue.push(part)
  }

  #take(part: any): void | Promise<void> {
    try {
      return this.step.push!(part, this.emit)
    } catch (error) {
      this.dead = true
      throw error
    }
  }

  batchEnd(): void {
    if (this.dead || this.waits) return
    try {
      this.step.batchEnd!(this.emit)
    } catch (error) {
      this.dead = true
      throw error
    }
  }

  #wait(pending: Promise<void>): void {
    this.waits = true
    pending.then(
      () => this.#goOn(),
      (error: unknown) => {
        this.waits = false
        this.#queue = NOTHING
        this.#chain.broken(error, this)
      },
    )
  }

  #goOn(): void {
    this.waits = false
    const queue = this.#queue
    this.#queue = NOTHING
    this.#chain.settled(this, queue)
  }
}

/** The chain, as its links see it. */
interface LinkOwner {
  /** @param queue parts that have come meanwhile */
  settled(link: Link, queue: readonly any[]): void
  broken(error: unknown, link: Link): void
}

/** Steps between a producer and a sink. */
export class Chain<In = any> implements Sink<In>, LinkOwner {
  readonly #sink: Sink<any>
  readonly #links: readonly Link[]
  readonly #first: (part: In) => void
  /** Links whose step has a `batchEnd`, and those whose step may be `done`. */
  readonly #batchEnds: readonly Link[]
  readonly #finishers: readonly Link[]
  #producer: Producer | undefined
  /** The end of the source, where it needs time. */
  #releasing: Promise<void> | undefined
  #paused = false
  /** Whether the sink has room. */
  #room = true
  /** Whether steps are being ended. */
  #ending = false
  /** Whether no part is taken any more. */
  #stopped = false
  #over = false
  #closed = false
  /** Runs when no step needs time any more. */
  #afterwards: (() => void) | undefined

  constructor(steps: readonly ChainStep[], sink: Sink<any>) {
    this.#sink = sink
    const links: Link[] = []
    let next = (part: any): void => {
      if (!this.#over) sink.push(part)
    }
    for (let i = steps.length - 1; i >= 0; i--) {
      const link = new Link(steps[i]!, next, this)
      links.unshift(link)
      if (link.step.push) next = (part) => link.push(part)
    }
    this.#links = links
    this.#first = next
    this.#batchEnds = links.filter(({ step }) => step.batchEnd)
    this.#finishers = links.filter(({ finishes }) => finishes).toReversed()
    sink.onRoom?.(this.resume.bind(this))
    links.forEach((link, index) => link.step.open?.(this.#outletOf(link, index)))
  }

  /** Starts the source of the parts. */
  start(feed: Feed<In>): void {
    const producer = feed.start(this)
    this.#producer = producer
    if (this.#over || this.#stopped) closeQuietly(producer, false)
    else if (this.#paused) producer.pause()
  }

  get over(): boolean {
    return this.#over
  }

  push(part: In): void {
    if (this.#stopped) return
    try {
      this.#first(part)
    } catch (error) {
      return this.broken(error)
    }
    this.#checkDone()
  }

  batchEnd(): boolean {
    if (!this.#over) this.#flush(0)
    return !this.#paused
  }

  end(): void {
    if (this.#stopped) return
    this.#stopped = true
    this.#producer = undefined
    this.#whenIdle(() => this.#endAll())
  }

  fail(error: unknown): void {
    if (this.#stopped) return
    this.#producer = undefined
    this.broken(error)
  }

  /** Closes the source and ends the parts: text that steps have retained still goes out. */
  conclude(): void {
    if (this.#stopped) return
    this.#releaseQuietly(false)
    this.end()
  }

  /** Ends the chain with an error at once, also during the work of a step. */
  abort(error: unknown): void {
    if (this.#over) return
    this.#over = this.#stopped = true
    this.#releaseQuietly(false)
    this.#failSteps(error, 0)
  }

  /** Ends the chain without a call to its sink. A promise only while the producer needs time. */
  close(complete = false): void | Promise<void> {
    this.#closed = this.#over = this.#stopped = true
    return this.#release(complete)
  }

  /** Continues, as the sink has room again. */
  resume(): void {
    this.#room = true
    this.#steer()
  }

  settled(link: Link, queue: readonly any[]): void {
    if (this.#over) return
    try {
      for (const part of queue) {
        link.push(part)
        this.#checkDone()
      }
    } catch (error) {
      return this.broken(error)
    }
    this.#checkDone()
    this.#flush(0)
    this.#runAfterwards()
  }

  /**
   * Handles the failure of a step or of the source. Earlier parts go out before the error.
   * @param link the step, where it is known
   */
  broken(error: unknown, link?: Link): void {
    if (this.#over) return
    if (link?.dead) return this.#runAfterwards()
    if (link) link.dead = true
    this.#bury(this.#links.findLastIndex(({ dead }) => dead))
    this.#stopped = true
    this.#releaseQuietly(false)
    this.#afterwards = undefined
    this.#whenIdle(() => this.#whenReleased(() => this.#failAll(error)))
  }

  #outletOf(link: Link, index: number): Outlet<any> {
    return {
      emit: (parts) => {
        if (this.#over) return
        try {
          for (const part of parts) link.emit(part)
        } catch (error) {
          return this.broken(error)
        }
        this.#checkDone()
        this.#flush(index + 1)
      },
      fail: (error) => this.broken(error, link),
      done: () => void this.#checkDone(),
    }
  }

  /** Ends the parts early once a step wants no more of them. @returns whether it did */
  #checkDone(): boolean {
    const finishers = this.#finishers
    if (finishers.length === 0 || this.#ending || this.#over) return false
    const link = finishers.find(({ step, dead }) => step.done && !dead)
    if (link) this.#finish(link)
    return link !== undefined
  }

  #finish(link: Link): void {
    const from = this.#links.indexOf(link) + 1
    this.#bury(from - 1)
    this.#stopped = this.#ending = true
    // The parts may have ended already, while the step needed time.
    this.#afterwards = undefined
    this.#releaseQuietly(true)
    this.#whenIdle(() => {
      this.#flushLinks(from)
      this.#whenReleased(() => this.#endFrom(from))
    })
  }

  /** Calls `batchEnd` of steps and sink after all parts that came together. */
  #flush(from: number): void {
    try {
      this.#flushLinks(from)
      this.#checkDone()
      if (this.#over) return
      this.#room = this.#sink.batchEnd()
    } catch (error) {
      return this.broken(error)
    }
    this.#steer()
  }

  #flushLinks(from: number): void {
    for (const link of this.#batchEnds) {
      if (from === 0 || this.#links.indexOf(link) >= from) link.batchEnd()
    }
  }

  /** Pauses or resumes the source. */
  #steer(): void {
    const pauses = !this.#room || this.#isBusy
    if (pauses === this.#paused) return
    this.#paused = pauses
    if (pauses) this.#producer?.pause()
    else this.#producer?.resume()
  }

  /** Discards the output of the links up to this one. */
  #bury(last: number): void {
    for (let i = 0; i <= last; i++) this.#links[i]!.dead = true
  }

  /** Whether a step that still matters needs time. */
  get #isBusy(): boolean {
    return this.#links.some(({ waits, dead }) => waits && !dead)
  }

  #whenIdle(then: () => void): void {
    if (this.#isBusy) {
      this.#afterwards = () => this.#whenIdle(then)
      return
    }
    try {
      then()
    } catch (error) {
      this.#ending = false
      this.broken(error)
    }
  }

  #runAfterwards(): void {
    const then = this.#afterwards
    this.#afterwards = undefined
    then?.()
  }

  /** Ends all steps, or those behind one that is done: the last batch may have been all that it wanted. */
  #endAll(): void {
    this.#ending = true
    this.#flushLinks(0)
    const done = this.#finishers.find(({ step }) => step.done)
    this.#endFrom(done ? this.#links.indexOf(done) + 1 : 0)
  }

  /** Ends the steps from this one on, in order, and then the sink. */
  #endFrom(index: number): void {
    for (let i = index; i < this.#links.length; i++) {
      const link = this.#links[i]!
      if (link.waits) return this.#whenIdle(() => this.#endFrom(i))
      const ending = link.step.end?.(link.emit)
      if (ending) return this.#endAfter(ending, i + 1)
    }
    if (this.#over) return
    this.#over = true
    this.#sink.end()
  }

  #endAfter(ending: Promise<void>, next: number): void {
    ending.then(
      () => {
        if (!this.#over) this.#whenIdle(() => this.#endFrom(next))
      },
      (error: unknown) => {
        // This is treated as an end that fails at once: a step behind it may have had all that it wanted.
        this.#ending = false
        this.broken(error)
      },
    )
  }

  #failAll(error: unknown): void {
    this.#flushLinks(0)
    // What was flushed may be all that a step wants, or may need time.
    if (this.#checkDone()) return
    if (this.#isBusy) return this.#whenIdle(() => this.#failAll(error))
    this.#sink.batchEnd()
    this.#over = true
    this.#failSteps(error, 0)
  }

  #failSteps(error: unknown, index: number): void {
    let thrown = error
    for (let i = index; i < this.#links.length; i++) {
      if (thrown instanceof Instead) return this.#endInstead(thrown, i)
      const { step } = this.#links[i]!
      if (!step.fail) continue
      try {
        thrown = step.fail(thrown)
      } catch (other) {
        thrown = other
      }
      if (thrown instanceof Promise) {
        const goOn = (result: unknown) => this.#failSteps(result, i + 1)
        thrown.then(goOn, goOn)
        return
      }
    }
    if (thrown instanceof Instead) this.#endInstead(thrown, this.#links.length)
    else this.#sink.fail(thrown)
  }

  /** @param from the step behind the one that gives the parts */
  #endInstead({ parts }: Instead, from: number): void {
    if (this.#closed) return
    this.#over = false
    this.#ending = true
    try {
      for (const part of parts) this.#links[from - 1]!.emit(part)
      this.#flushLinks(from)
      this.#endFrom(from)
    } catch (error) {
      this.broken(error)
    }
  }

  #release(complete: boolean): void | Promise<void> {
    const producer = this.#producer
    this.#producer = undefined
    const closing = producer?.close(complete)
    if (producer?.isBilled) this.#releasing = closing ?? undefined
    return closing ?? this.#releasing
  }

  /** The end has what the source costs, which may need time to know. */
  #whenReleased(then: () => void): void {
    if (!this.#releasing) return then()
    // What came before goes out meanwhile.
    this.#sink.batchEnd()
    void this.#releasing.then(() => {
      if (!this.#over) this.#whenIdle(then)
    })
  }

  #releaseQuietly(complete: boolean): void {
    try {
      this.#release(complete)?.catch(() => {})
    } catch {
      // An error is dropped: nothing of the producer is wanted any more.
    }
  }
}

/** Closes without waiting. An error is dropped: nothing of its producer is wanted any more. */
function closeQuietly(producer: Producer, complete: boolean): void {
  try {
    producer.close(complete)?.catch(() => {})
  } catch {
    // This error is dropped as well.
  }
}
