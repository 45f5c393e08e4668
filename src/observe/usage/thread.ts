/** The thread of usage. */
import { parentPort, workerData } from 'node:worker_threads'
import type { Log } from '../../state/ledger/ledger.ts'
import { openSource } from '../../state/open-reader.ts'
import { serveClient } from '../thread-client.ts'
import type { UsageInit, UsageNotice, UsageQuestion, UsageReport } from './messages.ts'
import { UsageWork } from './work.ts'

const PAGE_ROWS = 1000

const { folder, source } = workerData as UsageInit
serveClient<UsageNotice, UsageQuestion, UsageReport>(parentPort!, (report) => {
  const warn = (message: string) => report({ warning: message })
  // The gateway's own connection has said the same.
  const log = { info() {}, warn() {}, error: warn } as unknown as Log
  const now = () => Date.now()
  const openLedger = () => openSource(source, log)
  return new UsageWork({ folder, openLedger, pageRows: PAGE_ROWS, now, report })
})
