/** The thread of the request log: it owns the files, stores batches and answers questions, one after the other. */
import { parentPort, workerData } from 'node:worker_threads'
import { serveClient } from '../thread-client.ts'
import { DayFiles } from './day-files.ts'
import { logWork, type ThreadInit } from './messages.ts'

const { folder, bounds } = workerData as ThreadInit
serveClient(parentPort!, logWork(new DayFiles(folder, bounds)))
