/** The thread of contents: it owns their files. */
import { parentPort, workerData } from 'node:worker_threads'
import { serveClient } from '../thread-client.ts'
import { ContentFiles } from './content-files.ts'
import { contentWork, type ContentInit } from './messages.ts'

const { folder, bounds } = workerData as ContentInit
serveClient(parentPort!, contentWork(new ContentFiles(folder, bounds, () => Date.now())))
