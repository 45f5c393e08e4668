/**
 * The request log: one row per call that has ended. Rows may be lost in a crash, on a full disk or in a flood, and are
 * counted then; charges do not depend on them. Nothing on the way of a request waits for it.
 */
import { extname } from 'node:path'
import type { ConsolaInstance } from 'consola'
import { lineOf, type KnownCall } from '../record.ts'
import {
  LocalThread,
  startWorker,
  ThreadClient,
  type WorkThread,
  type ThreadWork,
} from '../../threads/client.ts'
import type { CallContent } from '../content/content.ts'
import {
  ContentLog,
  type ContentQuestion,
  type ContentStored,
  ContentFiles,
  type ContentBounds,
} from '../content/content-log.ts'
import { DayFiles } from './day-files.ts'
import type { LogPage, LogQuery, Dropped, LogBounds, Stored, LogStore } from './query.ts'

// Messages between the request log and its thread.

export type LogPlace = { readonly folder: string } | SharedPlace

interface SharedPlace {
  readonly redis: string | readonly string[]
  /** Whether it is for the log alone: it need not satisfy the rules of a ledger, and its failures are logged. */
  readonly isOwn: boolean
}

export interface ThreadInit {
  readonly place: LogPlace
  readonly bounds: LogBounds
  readonly contents: ContentPlace
}

interface ContentPlace extends ContentBounds {
  /** It is absent for contents in memory. */
  readonly folder: string | undefined
}

/** Lines of ended calls, or the contents of one. Each is acknowledged once, in order. */
type LogNotice = { readonly calls: string } | { readonly content: CallContent }

type LogQuestion = { readonly list: LogQuery } | { readonly find: string } | ContentQuestion

/** What became of a notice. */
type LogReport = { readonly calls: Stored } | { readonly content: ContentStored }

const HOUR_MS = 3_600_000

/** Stores batches one after the other, and acknowledges each. A question is answered after the batches before it. */
export function logWork(store: LogStore, { folder, keep, size }: ContentPlace) {
  const contents = new ContentFiles(folder, { keep, size }, () => Date.now())
  return (report: (report: LogReport) => void): ThreadWork<LogNotice, LogQuestion> => {
    let last = Promise.resolve()
    contents.trim()
    const trimming = setInterval(() => contents.trim(), HOUR_MS).unref()
    return {
      take(notice) {
        if ('content' in notice)
          return report({ content: { fault: contents.store(notice.content) } })
        last = last.then(async () => report({ calls: await store.store(notice.calls) }))
      },
      async answer(question) {
        if ('content' in question) return contents.find(question.content)
        if ('contents' in question) return contents.list(question.contents)
        if ('remove' in question) return contents.remove(question.remove)
        await last
        return 'list' in question ? store.list(question.list) : store.find(question.find)
      },
      async close() {
        clearInterval(trimming)
        contents.close()
        await last
        await store.close()
      },
    }
  }
}

interface RequestLogOptions extends LogBounds {
  /** It is absent for a log in memory. */
  readonly place: LogPlace | undefined
  readonly contents: ContentPlace
  readonly queried?: (seconds: number) => void
  readonly log: Pick<ConsolaInstance, 'error' | 'warn'>
}

/** Why rows are missing in the log: the thread was too slow, the client was unknown and loud, or see {@link Dropped}. */
type DropReason = Dropped | 'queue' | 'flood'

const BATCH_CHARACTERS = 65_536
/** Most characters that the thread has not acknowledged: about 7,000 calls. */
const MAX_QUEUED = 4 * 1024 * 1024
/** Rows a minute of calls without a known key: a scanner cannot fill the disk. */
const UNKNOWN_PER_MINUTE = 100
const MINUTE_MS = 60_000

/** Collects rows, and hands them over in batches. The owner calls `flush` from time to time, and `close` at the end. */
export class RequestLog {
  readonly #options: RequestLogOptions
  #lines: string[] = []
  #length = 0
  readonly #thread: ThreadClient<LogNotice, LogQuestion, LogReport>
  /** Requests and answers of calls; kept by the same thread. */
  readonly contents: ContentLog
  onBatch: (lines: string) => void = () => {}
  #sent: { readonly characters: number; readonly rows: number }[] = []
  #queued = 0
  #closed = false
  #fault: string | undefined
  #unknown = { since: -Infinity, rows: 0 }
  #stored = 0
  #bytes = 0
  readonly #dropped = new Map<DropReason, number>()

  constructor(options: RequestLogOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      name: 'the request log',
      start: () => startThread(options),
      heard: (report) => {
        if ('calls' in report) this.#acknowledged(report.calls)
        else this.contents.acknowledged(report.content)
      },
      ended: () => {
        this.#lose()
        this.contents.lost()
      },
      log: options.log,
    })
    const { folder } = options.contents
    this.contents = new ContentLog({ thread: this.#thread, folder, log: options.log })
    // Contents are removed in time even where none are added: the thread checks their age when it starts.
    if (this.contents.hasAny) void this.#thread.ready
  }

  get counts(): {
    readonly rows: number
    readonly bytes: number
    readonly dropped: ReadonlyMap<DropReason, number>
  } {
    return { rows: this.#stored, bytes: this.#bytes, dropped: this.#dropped }
  }

  add(call: KnownCall): void {
    if (this.#closed) return
    if (call.key_id === undefined && !this.#admitsUnknown()) return this.#drop('flood', 1)
    const line = lineOf(call)
    this.#lines.push(line)
    this.#length += line.length
    if (this.#length >= BATCH_CHARACTERS) this.flush()
  }

  flush(): void {
    const rows = this.#lines.length
    if (rows === 0) return
    const store = this.#lines.join('\n')
    this.#lines = []
    this.#length = 0
    this.onBatch(store)
    if (this.#queued + store.length > MAX_QUEUED || !this.#thread.ready) {
      return this.#drop('queue', rows)
    }
    this.#queued += store.length
    this.#sent.push({ characters: store.length, rows })
    this.#thread.post({ calls: store })
  }

  /** A page of calls, with those that have just ended. @throws Unavailable when the log cannot be read */
  list(query: LogQuery): Promise<LogPage> {
    this.flush()
    return this.#ask({ list: query })
  }

  /** A call. @param id the id of the request. @throws Unavailable when the log cannot be read */
  find(id: string): Promise<KnownCall | undefined> {
    this.flush()
    return this.#ask({ find: id.replace(/^req_/, '') })
  }

  /** Stores what was collected, within two seconds. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.flush()
    this.#closed = true
    await this.#thread.close()
  }

  async #ask<Answer>(question: LogQuestion): Promise<Answer> {
    const began = performance.now()
    try {
      return await this.#thread.ask<Answer>(question)
    } finally {
      this.#options.queried?.((performance.now() - began) / 1000)
    }
  }

  #admitsUnknown(): boolean {
    const now = performance.now()
    if (now - this.#unknown.since > MINUTE_MS) this.#unknown = { since: now, rows: 0 }
    return ++this.#unknown.rows <= UNKNOWN_PER_MINUTE
  }

  #acknowledged({ rows, dropped, bytes, fault }: Stored): void {
    this.#queued -= this.#sent.shift()!.characters
    this.#stored += rows
    this.#bytes = bytes
    for (const [why, count] of Object.entries(dropped)) this.#drop(why as Dropped, count)
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }

  #lose(): void {
    for (const { rows } of this.#sent.splice(0)) this.#drop('disk', rows)
    this.#queued = 0
  }

  #drop(reason: DropReason, rows: number): void {
    this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + rows)
  }
}

function startThread({ place, keep, size, contents }: RequestLogOptions): WorkThread {
  const bounds = { keep, size }
  if (place === undefined)
    return new LocalThread(logWork(new DayFiles(undefined, bounds), contents))
  const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const workerData: ThreadInit = { place, bounds, contents }
  return startWorker('log', script, workerData)
}
