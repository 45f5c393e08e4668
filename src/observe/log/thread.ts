/** The thread of the request log: it owns the files, stores batches and answers questions, one after the other. */
import { parentPort, workerData } from 'node:worker_threads'
import { DayFiles } from './day-files.ts'
import { handle, type ThreadInit, type ToThread } from './messages.ts'

const port = parentPort!
const { folder, bounds } = workerData as ThreadInit
const files = new DayFiles(folder, bounds)
port.on('message', (message: ToThread) => {
  const answer = handle(files, message)
  if (answer) port.postMessage(answer)
  else port.close()
})
