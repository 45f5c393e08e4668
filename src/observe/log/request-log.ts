/**
 * The request log: one row per call that has ended. Rows may be lost in a crash, on a full disk or in a flood, and are
 * counted then; charges do not depend on them. Nothing on the way of a request waits for it.
 */
import { EventEmitter, once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { ConsolaInstance } from 'consola'
import { Unavailable } from '../../errors/errors.ts'
import { threadOptions } from '../../lifetime/thread-options.ts'
import type { CallRecord } from '../record.ts'
import { DayFiles, type Dropped, type LogBounds, type Stored } from './day-files.ts'
import { lineOf } from './fields.ts'
import type { LogPage, LogQuery, LogRow } from './query.ts'
import { handle, type FromThread, type ThreadInit, type ToThread } from './messages.ts'

/** Settings of the request log. */
export interface RequestLogOptions extends LogBounds {
  /** Absent for a log in memory. */
  readonly folder: string | undefined
  readonly log: Pick<ConsolaInstance, 'error' | 'warn'>
}

/** Why rows are not in the log: the thread was too slow, the client was unknown and loud, or see {@link Dropped}. */
export type DropReason = Dropped | 'queue' | 'flood'

const BATCH_CHARACTERS = 65_536
/** Characters that the thread has not acknowledged: about 20,000 calls. */
const MAX_QUEUED = 4 * 1024 * 1024
/** Rows a minute of calls without a known key: a scanner cannot fill the disk. */
const UNKNOWN_PER_MINUTE = 100
const MINUTE_MS = 60_000
const CLOSE_MS = 2000
const RESTART_MS = 30_000

/** What runs batches and questions: a thread, or an object in this one. */
interface LogThread extends NodeJS.EventEmitter {
  postMessage(message: ToThread): void
  ref(): void
  unref(): void
}

/** Collects rows, and hands them over in batches. The owner calls `flush` from time to time, and `close` at the end. */
export class RequestLog {
  readonly #options: RequestLogOptions
  #batch = ''
  #rows = 0
  /** Started with the first batch or question. */
  #thread: LogThread | undefined
  /** Batches that were not acknowledged. */
  #sent: { readonly characters: number; readonly rows: number }[] = []
  #queued = 0
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>()
  #number = 0
  #closed = false
  #restartAt = -Infinity
  #fault: string | undefined
  #unknown = { since: -Infinity, rows: 0 }
  /** Rows stored since the start. */
  #stored = 0
  #bytes = 0
  readonly #dropped = new Map<DropReason, number>()

  constructor(options: RequestLogOptions) {
    this.#options = options
  }

  /** Rows stored, bytes of the files, and rows dropped by reason. */
  get counts(): {
    readonly rows: number
    readonly bytes: number
    readonly dropped: ReadonlyMap<DropReason, number>
  } {
    return { rows: this.#stored, bytes: this.#bytes, dropped: this.#dropped }
  }

  /** Logs a call that has ended. */
  add(record: CallRecord): void {
    if (this.#closed) return
    if (record.key === undefined && !this.#admitsUnknown()) return this.#drop('flood', 1)
    this.#batch += this.#rows++ === 0 ? lineOf(record) : `\n${lineOf(record)}`
    if (this.#batch.length >= BATCH_CHARACTERS) this.flush()
  }

  /** Hands over what was collected. */
  flush(): void {
    if (this.#rows === 0) return
    const [store, rows] = [this.#batch, this.#rows]
    this.#batch = ''
    this.#rows = 0
    const thread = this.#queued + store.length > MAX_QUEUED ? undefined : this.#started()
    if (!thread) return this.#drop('queue', rows)
    this.#queued += store.length
    this.#sent.push({ characters: store.length, rows })
    thread.postMessage({ store })
  }

  /** A page of calls, with those that have just ended. @throws Unavailable when the log cannot be read */
  list(query: LogQuery): Promise<LogPage> {
    return this.#ask((number) => ({ list: query, number }))
  }

  /** The row of a call. @param id of the request. @throws Unavailable when the log cannot be read */
  find(id: string): Promise<LogRow | undefined> {
    return this.#ask((number) => ({ find: id.replace(/^req_/, ''), number }))
  }

  /** Stores what was collected, within two seconds. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.flush()
    this.#closed = true
    const thread = this.#thread
    if (!thread) return
    // The process waits for it from now on.
    thread.ref()
    const ended = once(thread, 'exit', { signal: AbortSignal.timeout(CLOSE_MS) })
    thread.postMessage('close')
    await ended.catch(() => undefined)
    if (thread instanceof Worker) await thread.terminate()
    this.#give('the request log is closed')
  }

  #ask<Answer>(message: (number: number) => ToThread): Promise<Answer> {
    this.flush()
    const thread = this.#closed ? undefined : this.#started()
    if (!thread) return Promise.reject(unreadable())
    const number = this.#number++
    const asked = Promise.withResolvers<unknown>()
    this.#asked.set(number, asked)
    thread.postMessage(message(number))
    return asked.promise as Promise<Answer>
  }

  #admitsUnknown(): boolean {
    const now = performance.now()
    if (now - this.#unknown.since > MINUTE_MS) this.#unknown = { since: now, rows: 0 }
    return ++this.#unknown.rows <= UNKNOWN_PER_MINUTE
  }

  /** The thread; undefined for a while after one has failed. */
  #started(): LogThread | undefined {
    if (this.#thread || performance.now() < this.#restartAt) return this.#thread
    const { folder, keep, size, log } = this.#options
    const thread =
      folder === undefined ? new LocalThread({ keep, size }) : startThread(folder, { keep, size })
    thread.on('message', (message: FromThread) => this.#heard(message))
    thread.on('error', (error: Error) => log.error('the request log has failed', error))
    thread.on('exit', () => {
      if (this.#closed) return
      this.#thread = undefined
      this.#restartAt = performance.now() + RESTART_MS
      this.#give('the thread of the request log has ended')
    })
    thread.unref()
    return (this.#thread = thread)
  }

  #heard(message: FromThread): void {
    if ('stored' in message) return this.#acknowledged(message.stored)
    const asked = this.#asked.get(message.number)
    this.#asked.delete(message.number)
    if ('error' in message) asked?.reject(unreadable(message.error))
    else asked?.resolve(message.answer)
  }

  #acknowledged({ rows, dropped, bytes, fault }: Stored): void {
    this.#queued -= this.#sent.shift()!.characters
    this.#stored += rows
    this.#bytes = bytes
    for (const [why, count] of Object.entries(dropped)) this.#drop(why as Dropped, count)
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }

  /** Nothing that was sent is answered any more. */
  #give(why: string): void {
    for (const { rows } of this.#sent.splice(0)) this.#drop('disk', rows)
    this.#queued = 0
    for (const asked of this.#asked.values()) asked.reject(unreadable(why))
    this.#asked.clear()
  }

  #drop(why: DropReason, rows: number): void {
    this.#dropped.set(why, (this.#dropped.get(why) ?? 0) + rows)
  }
}

function unreadable(why = 'the request log has failed'): Unavailable {
  const message = 'The request log cannot be read right now.'
  return new Unavailable('service_unavailable', message, { cause: new Error(why) })
}

function startThread(folder: string, bounds: LogBounds): LogThread {
  const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const workerData: ThreadInit = { folder, bounds }
  return new Worker(script, { name: 'log', workerData, ...threadOptions() })
}

/** Runs batches and questions in this thread, each in a turn of the event loop of its own. */
class LocalThread extends EventEmitter implements LogThread {
  readonly #files: DayFiles

  constructor(bounds: LogBounds) {
    super()
    this.#files = new DayFiles(undefined, bounds)
  }

  postMessage(message: ToThread): void {
    setImmediate(() => {
      const answer = handle(this.#files, message)
      this.emit(answer ? 'message' : 'exit', answer)
    })
  }

  ref(): void {}

  unref(): void {}
}
