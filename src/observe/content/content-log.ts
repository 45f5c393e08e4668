/**
 * Contents of calls, where both the configuration and the key allow it. They may be lost, and are counted then; nothing on
 * the way of a request waits for them, and a full disk or a slow thread drops them before it drops anything else.
 */
import type { ConsolaInstance } from 'consola'
import type { ThreadClient } from '../../threads/client.ts'
import { DayFolder } from '../day-folder.ts'
import type { CallContent, ContentQuery, ContentRemoval } from './content.ts'
import { CONTENT_NAMES } from './content-files.ts'

export type ContentQuestion =
  | { readonly content: string }
  | { readonly contents: ContentQuery }
  | { readonly remove: ContentRemoval }

export interface ContentStored {
  readonly fault?: string | undefined
}

interface ContentLogOptions {
  readonly thread: Pick<
    ThreadClient<{ readonly content: CallContent }, ContentQuestion, never>,
    'ready' | 'post' | 'ask'
  >
  /** Absent for contents in memory. */
  readonly folder: string | undefined
  readonly log: Pick<ConsolaInstance, 'error'>
}

/** Most characters that the thread has not acknowledged. */
const MAX_QUEUED = 8 * 1024 * 1024

export class ContentLog {
  readonly #options: ContentLogOptions
  /** Characters of each content that was not acknowledged. */
  #sent: number[] = []
  #queued = 0
  #fault: string | undefined
  #used = false
  /** Calls whose contents are missing although they were to be kept, since the start. */
  dropped = 0

  constructor(options: ContentLogOptions) {
    this.#options = options
  }

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

  /** The contents of a call. @param id of the request. @throws Unavailable when they cannot be read */
  async find(id: string): Promise<CallContent | undefined> {
    return this.hasAny ? this.#options.thread.ask({ content: id }) : undefined
  }

  /** Newest first. @throws Unavailable */
  async list(query: ContentQuery): Promise<readonly CallContent[]> {
    return this.hasAny ? this.#options.thread.ask({ contents: query }) : []
  }

  /** Removes contents for good. @returns the number of calls. @throws Unavailable */
  async remove(which: ContentRemoval): Promise<number> {
    return this.hasAny ? this.#options.thread.ask({ remove: which }) : 0
  }

  get hasAny(): boolean {
    const { folder } = this.#options
    return (
      this.#used || (folder !== undefined && new DayFolder(folder, CONTENT_NAMES).days.length > 0)
    )
  }

  acknowledged({ fault }: ContentStored): void {
    this.#queued -= this.#sent.shift() ?? 0
    if (fault !== undefined) this.dropped++
    if (fault !== this.#fault && fault !== undefined) this.#options.log.error(fault)
    this.#fault = fault
  }

  lost(): void {
    this.dropped += this.#sent.splice(0).length
    this.#queued = 0
  }
}
