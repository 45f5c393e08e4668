/**
 * Contents of calls, where both the configuration and the key allow it. They may be lost, and are counted then; nothing on
 * the way of a request waits for them, and a full disk or a slow thread drops them before it drops anything else.
 */
import { extname } from 'node:path'
import type { ConsolaInstance } from 'consola'
import { DayFolder } from '../day-folder.ts'
import { LocalThread, startWorker, ThreadClient, type WorkThread } from '../../threads/client.ts'
import type { CallContent, ContentQuery, ContentRemoval } from './content.ts'
import { ContentFiles, CONTENT_NAMES, type ContentBounds } from './content-files.ts'
import {
  contentWork,
  type ContentInit,
  type ContentNotice,
  type ContentQuestion,
  type ContentStored,
} from './messages.ts'

/** Settings of the log of contents. */
interface ContentLogOptions extends ContentBounds {
  /** Absent for contents in memory. */
  readonly folder: string | undefined
  readonly log: Pick<ConsolaInstance, 'error'>
}

/** Characters that the thread has not acknowledged. */
const MAX_QUEUED = 8 * 1024 * 1024

/** Hands contents over to the thread that keeps them. The owner calls `close` at the end. */
export class ContentLog {
  readonly #options: ContentLogOptions
  readonly #thread: ThreadClient<ContentNotice, ContentQuestion, ContentStored>
  /** Characters of contents that were not acknowledged. */
  #sent: number[] = []
  #queued = 0
  #fault: string | undefined
  /** Contents were handed over. */
  #used = false
  /** Calls whose contents are missing although they were to be kept, since the start. */
  dropped = 0

  constructor(options: ContentLogOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      name: 'the log of contents',
      start: () => startThread(options),
      heard: (stored) => this.#acknowledged(stored),
      ended: () => {
        this.dropped += this.#sent.splice(0).length
        this.#queued = 0
      },
      log: options.log,
    })
    // What was kept is removed in time also where nothing more is kept.
    if (this.#hasAny) this.#thread.post('trim')
  }

  /** Keeps the contents of a call. */
  add(content: CallContent): void {
    const characters = content.input.length + content.output.length
    if (this.#queued + characters > MAX_QUEUED || !this.#thread.ready) {
      this.dropped++
      return
    }
    this.#used = true
    this.#queued += characters
    this.#sent.push(characters)
    this.#thread.post(content)
  }

  /** Those of a call. @param id of the request. @throws Unavailable when they cannot be read */
  async find(id: string): Promise<CallContent | undefined> {
    if (!this.#hasAny) return undefined
    return this.#thread.ask({ find: id })
  }

  /** Newest first. @throws Unavailable */
  async list(query: ContentQuery): Promise<readonly CallContent[]> {
    if (!this.#hasAny) return []
    return this.#thread.ask({ list: query })
  }

  /** Removes contents for good. @returns of how many calls. @throws Unavailable */
  async remove(which: ContentRemoval): Promise<number> {
    if (!this.#hasAny) return 0
    return this.#thread.ask({ remove: which })
  }

  /** Stores what was handed over, within two seconds. */
  close(): Promise<void> {
    return this.#thread.close()
  }

  /** Without any the thread need not run. */
  get #hasAny(): boolean {
    const { folder } = this.#options
    return (
      this.#used || (folder !== undefined && new DayFolder(folder, CONTENT_NAMES).days.length > 0)
    )
  }

  #acknowledged({ fault }: ContentStored): void {
    this.#queued -= this.#sent.shift() ?? 0
    if (fault !== undefined) this.dropped++
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }
}

function startThread({ folder, keep, size }: ContentLogOptions): WorkThread {
  const bounds = { keep, size }
  if (folder === undefined) {
    return new LocalThread(contentWork(new ContentFiles(undefined, bounds, () => Date.now())))
  }
  const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const workerData: ContentInit = { folder, bounds }
  return startWorker('content', script, workerData)
}
