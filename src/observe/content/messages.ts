/** What crosses between the log of contents and its thread. */
import type { ThreadWork } from '../../threads/client.ts'
import type { CallContent, ContentQuery, ContentRemoval } from './content.ts'
import type { ContentBounds, ContentFiles } from './content-files.ts'

/** What the thread is started with. */
export interface ContentInit {
  readonly folder: string
  readonly bounds: ContentBounds
}

/** Contents to store; `trim` looks for what is too old. */
export type ContentNotice = CallContent | 'trim'

/** The contents of one call, those of several, or what is to be removed. */
export type ContentQuestion =
  | { readonly find: string }
  | { readonly list: ContentQuery }
  | { readonly remove: ContentRemoval }

/** What became of the contents of one call: why they could not be stored. */
export interface ContentStored {
  readonly fault?: string
}

const HOUR_MS = 3_600_000

/** Stores contents, answers questions, and removes what is too old, at the start and every hour. */
export function contentWork(files: ContentFiles) {
  return (report: (stored: ContentStored) => void): ThreadWork<ContentNotice, ContentQuestion> => {
    files.trim()
    const timer = setInterval(() => files.trim(), HOUR_MS)
    timer.unref()
    return {
      take(notice) {
        if (notice === 'trim') return
        const fault = files.store(notice)
        report(fault === undefined ? {} : { fault })
      },
      answer(question) {
        if ('find' in question) return files.find(question.find)
        return 'list' in question ? files.list(question.list) : files.remove(question.remove)
      },
      close() {
        clearInterval(timer)
        files.close()
      },
    }
  }
}
