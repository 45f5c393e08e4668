/** The script of a worker process. */
import { Channel } from '../threads/channel.ts'
import type { WorkerOrder } from './worker.ts'

// Terminals and supervisors signal every process of a gateway; a worker obeys the one that has started it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

const channel = new Channel({
  send: (message, onError) => void process.send?.(message, undefined, undefined, onError),
  on: (event, listener) => process.on(event, listener),
})
channel.on('alive', () => true)
channel.on('start', async (order: WorkerOrder) => {
  const { serveAsWorker } = await import('./worker.ts')
  return serveAsWorker(order, channel)
})
