/** The thread of all work of the gateway itself: begins work by messages. */
import { parentPort } from 'node:worker_threads'
import type { ToHost, WorkScript } from './client.ts'

const owner = parentPort!
owner.on('message', async (message: ToHost) => {
  if (message === 'end') return owner.close()
  const { script, workerData, port } = message
  const { serve }: WorkScript = await import(script)
  await serve(port, workerData)
})
