/**
 * The implementation of {@link Flow}, which plugins give and read: a source of parts, and steps on the way. The
 * gateway takes both over and pushes the parts on; a plugin that reads a flow itself pulls them out of it.
 */
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { brokenAnswer } from '../errors/errors.ts'
import { dropLate } from '../lifetime/scope.ts'
import { parseExactly, type Batch, type Flow, type Source, type Step } from '../plugin.ts'
import { Chain, type ChainStep, type Feed, type Producer, type Sink } from './chain.ts'

/** A flow of the parts of a feed, once it is read. */
export function flowFrom<T>(feed: Feed<T>): Flow<T> {
  return new StepFlow<T>(feed)
}

export function flowOf<T>(...parts: readonly T[]): Flow<T> {
  return new StepFlow<T>(feedOf(parts))
}

export function feedOf<T>(parts: readonly T[]): Feed<T> {
  return {
    start(sink) {
      for (const part of parts) sink.push(part)
      sink.end()
      return IDLE
    },
    discard() {},
  }
}

/** A flow of any sequence, one part per batch. A flow is returned as it is. */
export function toFlow<T>(sequence: AsyncIterable<T>): Flow<T> {
  return sequence instanceof StepFlow
    ? (sequence as StepFlow<T>)
    : new StepFlow<T>(pumped(sequence))
}

/**
 * Pushes a sequence through further steps into a sink. An unread flow is taken over: its parts are pushed from where
 * they arrive. Any other sequence is read one part after the other.
 * @param signal counts late answers of a sequence that ignores its end
 */
export function run<T>(
  sequence: AsyncIterable<T>,
  steps: readonly ChainStep[],
  sink: Sink<any>,
  signal?: AbortSignal,
): Chain {
  const own = sequence instanceof StepFlow ? sequence.takeOver() : undefined
  const chain = new Chain(own ? [...own.steps, ...steps] : steps, sink)
  chain.start(own?.feed ?? pumped(sequence, signal))
  return chain
}

/** A source that gives nothing more. */
const IDLE: Producer = { pause() {}, resume() {}, close() {} }

const ENDED: Batch<never> = { parts: [], last: true }

/** Reads a foreign sequence. */
function pumped<T>(sequence: AsyncIterable<T>, signal?: AbortSignal): Feed<T> {
  const source = new IteratorSource(sequence[Symbol.asyncIterator](), signal)
  return { start: (sink) => new Pump(source, sink), discard: () => source.close() }
}

/** Reads a source while its sink has room. */
class Pump<T> implements Producer {
  readonly #source: Source<T>
  readonly #sink: Sink<T>
  #reading = false
  #paused = false
  #closed = false

  constructor(source: Source<T>, sink: Sink<T>) {
    this.#source = source
    this.#sink = sink
    this.#read()
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#read()
  }

  close(complete: boolean): void | Promise<void> {
    if (this.#closed) return undefined
    this.#closed = true
    return this.#source.close(complete)
  }

  #read(): void {
    if (this.#reading || this.#paused || this.#closed) return
    this.#reading = true
    this.#source.next().then(
      ({ parts, last }) => this.#take(parts, last),
      (error: unknown) => {
        if (this.#closed) return
        this.#closed = true
        this.#sink.fail(error)
      },
    )
  }

  #take(parts: readonly T[], last: boolean): void {
    this.#reading = false
    if (this.#closed) return
    for (const part of parts) this.#sink.push(part)
    if (this.#closed) return
    if (parts.length > 0 && !this.#sink.batchEnd()) this.#paused = true
    if (this.#closed) return
    if (last) {
      this.#closed = true
      this.#sink.end()
    } else this.#read()
  }
}

/** Other work of the process has its turn after this many reads, or ms: a sequence may never wait for anything. */
const READS_IN_A_ROW = 256
const MS_IN_A_ROW = 5
/** Reads between two checks of the clock. */
const READS_PER_LOOK = 16

/** Reads a foreign sequence, which may never answer. */
class IteratorSource<T> implements Source<T> {
  readonly #iterator: AsyncIterator<T>
  readonly #signal: AbortSignal | undefined
  /** The read that waits. */
  #read: Promise<Batch<T>> | undefined
  #reads = 0
  #turnedAt = performance.now()

  constructor(iterator: AsyncIterator<T>, signal?: AbortSignal) {
    this.#iterator = iterator
    this.#signal = signal
  }

  async next(): Promise<Batch<T>> {
    if (this.#isDue()) await this.#turn()
    this.#read = this.#readOne()
    const batch = await this.#read
    this.#read = undefined
    return batch
  }

  close(): void {
    if (this.#read && this.#signal) dropLate(this.#read, this.#signal)
    // Not awaited: a generator that waits for a read can only return after it.
    closeInBackground(async () => this.#iterator.return?.())
  }

  async #readOne(): Promise<Batch<T>> {
    const { value, done } = await this.#iterator.next()
    return done ? ENDED : { parts: [value], last: false }
  }

  #isDue(): boolean {
    const reads = ++this.#reads
    if (reads >= READS_IN_A_ROW) return true
    return reads % READS_PER_LOOK === 0 && performance.now() - this.#turnedAt > MS_IN_A_ROW
  }

  async #turn(): Promise<void> {
    await turnOfTheLoop()
    this.#reads = 0
    this.#turnedAt = performance.now()
  }
}

/** Closes without waiting. An error is dropped: the flow has already ended. */
function closeInBackground(close: () => Promise<unknown>): void {
  close().catch(() => {})
}

/** A feed with the steps that its parts go through. */
class StepFlow<T> implements Flow<T> {
  /** It is undefined once it was taken over. */
  #feed: Feed<any> | undefined
  readonly #steps: Step<any, any>[] = []
  /** It is made by the first read. */
  #reader: Reader<T> | undefined

  constructor(feed: Feed<any>) {
    this.#feed = feed
  }

  /** Hands over the source of the parts, unless the flow has been read. */
  takeOver(): { readonly feed: Feed<any>; readonly steps: readonly Step<any, any>[] } | undefined {
    const feed = this.#feed
    if (!feed || this.#reader) return undefined
    this.#feed = undefined
    return { feed, steps: this.#steps }
  }

  through<Out>(step: Step<T, Out>): Flow<Out> {
    if (this.#reader || !this.#feed) throw new Error('a flow takes no more steps once it is read')
    this.#steps.push(step)
    return this as unknown as Flow<Out>
  }

  next(): Promise<Batch<T>> {
    return this.#read().next()
  }

  async close(): Promise<void> {
    await this.#read().close()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      for (let last = false; !last;) {
        const batch = await this.next()
        yield* batch.parts
        last = batch.last
      }
    } finally {
      await this.close()
    }
  }

  #read(): Reader<T> {
    if (this.#reader) return this.#reader
    const feed = this.#feed
    if (!feed) throw new Error('a flow has one reader')
    return (this.#reader = new Reader<T>(this.#steps, feed))
  }
}

/** Lets pushed parts be pulled: it keeps the last ones, and their source waits. */
class Reader<T> implements Sink<T> {
  readonly #steps: readonly Step<any, any>[]
  readonly #feed: Feed<any>
  #chain: Chain | undefined
  #parts: T[] = []
  #ended = false
  #failure: { readonly error: unknown } | undefined
  /** The read that waits. */
  #waiting: PromiseWithResolvers<Batch<T>> | undefined
  #resume: () => void = () => {}

  constructor(steps: readonly Step<any, any>[], feed: Feed<any>) {
    this.#steps = steps
    this.#feed = feed
  }

  next(): Promise<Batch<T>> {
    const waiting = (this.#waiting ??= Promise.withResolvers<Batch<T>>())
    const { promise } = waiting
    if (!this.#chain) {
      this.#chain = new Chain(this.#steps, this)
      this.#chain.start(this.#feed)
    } else this.#resume()
    this.#give()
    return promise
  }

  async close(): Promise<void> {
    this.#ended = true
    const closing = this.#chain ? this.#chain.close() : this.#feed.discard()
    this.#give()
    await closing
  }

  onRoom(resume: () => void): void {
    this.#resume = resume
  }

  push(part: T): void {
    this.#parts.push(part)
  }

  batchEnd(): boolean {
    this.#give()
    return this.#waiting !== undefined
  }

  end(): void {
    this.#ended = true
    this.#give()
  }

  fail(error: unknown): void {
    this.#ended = true
    this.#failure = { error }
    this.#give()
  }

  /** Answers the waiting read, if there is anything to answer. */
  #give(): void {
    const waiting = this.#waiting
    if (!waiting || (this.#parts.length === 0 && !this.#ended)) return
    this.#waiting = undefined
    const parts = this.#parts
    this.#parts = []
    if (parts.length === 0 && this.#failure) {
      const { error } = this.#failure
      this.#failure = undefined
      return waiting.reject(error)
    }
    waiting.resolve({ parts, last: this.#ended && !this.#failure })
  }
}

/** A bound that fits the largest image, in base64. */
const MAX_EVENT_CHARACTERS = 64 * 1024 * 1024

/**
 * The JSON payloads of an event stream; see {@link Host.sse}.
 * @throws UpstreamFailure `upstream_error` when an event is not JSON, or larger than 64 Mi characters
 */
export function readEvents(
  body: AsyncIterable<Uint8Array>,
  { as = 'json' }: { readonly as?: 'json' | 'exact' } = {},
): Flow<any> {
  return toFlow(body).through(new EventReader(as === 'exact' ? parseExactly : JSON.parse))
}

type Emit = (payload: any) => void

class EventReader implements Step<Uint8Array, any> {
  done = false
  readonly #decoder = new StringDecoder('utf8')
  readonly #parser = createParser({
    maxBufferSize: MAX_EVENT_CHARACTERS,
    onEvent: ({ data }) => this.#take(data),
    onError: ({ type }) => {
      // The parser also reports unknown fields, which the standard says to ignore.
      if (type !== 'max-buffer-size-exceeded') return
      throw brokenAnswer('The model provider sent an event that is too large.')
    },
  })
  #emit: Emit = () => {}
  readonly #read: (text: string) => unknown

  constructor(read: (text: string) => unknown) {
    this.#read = read
  }

  push(chunk: Uint8Array, emit: Emit): void {
    this.#emit = emit
    this.#parser.feed(this.#decoder.write(chunk))
  }

  end(emit: Emit): void {
    this.#emit = emit
    // Accepts a last event without a blank line.
    this.#parser.feed(`${this.#decoder.end()}\n\n`)
  }

  #take(data: string): void {
    // The parser reports all events of a chunk, also those after the end mark.
    if (this.done) return
    this.done = data === '[DONE]'
    this.#emit(this.done ? { choices: [], endOfStream: true } : parse(data, this.#read))
  }
}

function parse(payload: string, read: (text: string) => unknown): unknown {
  try {
    return read(payload)
  } catch {
    // The cause is left out: its message quotes the payload, and no body may be logged.
    throw brokenAnswer('The model provider sent an event that is not JSON.')
  }
}
