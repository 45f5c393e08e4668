import type { MessagePort } from 'node:worker_threads'
import type { Log } from '../../state/ledger/ledger.ts'
import { serveClient } from '../../threads/client.ts'
import { DayFiles } from './day-files.ts'
import { logWork, type ThreadInit } from './request-log.ts'
import type { LogStore } from './query.ts'

/** The gateway's own connection logs the same of Redis. */
const SILENT: Log = { info() {}, warn() {}, error() {} }

export async function serve(port: MessagePort, init: ThreadInit): Promise<void> {
  serveClient(port, logWork(await storeOf(init), init.contents))
}

async function storeOf({ place, bounds }: ThreadInit): Promise<LogStore> {
  if ('folder' in place) return new DayFiles(place.folder, bounds)
  // Imported on demand: its client is an optional package.
  const { RedisLog } = await import('./redis-log.ts')
  return new RedisLog({ url: place.redis, holdsLedger: !place.isOwn, bounds, log: SILENT })
}
