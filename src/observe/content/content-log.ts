/**
 * Contents of calls, where both the configuration and the key allow it. They may be lost, and are counted then; nothing on
 * the way of a request waits for them, and a full disk or a slow thread drops them before it drops anything else.
 */
import type { ConsolaInstance } from 'consola'
import type { ThreadClient } from '../../threads/client.ts'
import { DayFolder } from '../day-folder.ts'
import type { CallContent, ContentQuery, ContentRemoval } from './content.ts'
import { CONTENT_NAMES } from './content-files.ts'

/** The contents of one call, those of several, or what is to be removed. */
export type ContentQuestion =
  | { readonly content: string }
  | { readonly contents: ContentQuery }
  | { readonly remove: ContentRemoval }

/** What became of the contents of one call: why they could not be stored. */
export interface ContentStored {
  readonly fault?: string | undefined
}

/** What {@link ContentLog} works with. */
interface ContentLogOptions {
  /** The thread of the request log, which keeps contents too. */
  readonly thread: Pick<
    ThreadClient<{ readonly content: CallContent }, ContentQuestion, never>,
    'ready' | 'post' | 'ask'
  >
  /** Absent for contents in memory. */
  readonly folder: string | undefined
  readonly log: Pick<ConsolaInstance, 'error'>
}

/** Characters that the thread has not acknowledged. */
const MAX_QUEUED = 8 * 1024 * 1024

/** Hands contents over to the thread that keeps them. */
export class ContentLog {
  readonly #options: ContentLogOptions
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
  }

  /** Keeps the contents of a call. */
  add(content: CallContent): void {
    const { thread } = this.#options
    const characters = content.input.length + content.output.length
    if (this.#queued + characters > MAX_QUEUED || !thread.ready) {
      this.dropped++
      return
    }
    this.#used = true
    this.#queued += characters
    this.#sent.push(characters)
    thread.post({ content })
  }

  /** Those of a call. @param id of the request. @throws Unavailable when they cannot be read */
  async find(id: string): Promise<CallContent | undefined> {
    return this.hasAny ? this.#options.thread.ask({ content: id }) : undefined
  }

  /** Newest first. @throws Unavailable */
  async list(query: ContentQuery): Promise<readonly CallContent[]> {
    return this.hasAny ? this.#options.thread.ask({ contents: query }) : []
  }

  /** Removes contents for good. @returns of how many calls. @throws Unavailable */
  async remove(which: ContentRemoval): Promise<number> {
    return this.hasAny ? this.#options.thread.ask({ remove: which }) : 0
  }

  /** Whether there may be contents. */
  get hasAny(): boolean {
    const { folder } = this.#options
    return (
      this.#used || (folder !== undefined && new DayFolder(folder, CONTENT_NAMES).days.length > 0)
    )
  }

  /** The thread has stored the next ones, or could not. */
  acknowledged({ fault }: ContentStored): void {
    this.#queued -= this.#sent.shift() ?? 0
    if (fault !== undefined) this.dropped++
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }

  /** The thread has ended: those that were not acknowledged are lost. */
  lost(): void {
    this.dropped += this.#sent.splice(0).length
    this.#queued = 0
  }
}
