/** The work on contents in another thread: it owns their files. */
import type { MessagePort } from 'node:worker_threads'
import { serveClient } from '../../threads/client.ts'
import { ContentFiles } from './content-files.ts'
import { contentWork, type ContentInit } from './messages.ts'

/** Serves one log of contents. */
export function serve(port: MessagePort, { folder, bounds }: ContentInit): void {
  serveClient(port, contentWork(new ContentFiles(folder, bounds, () => Date.now())))
}
