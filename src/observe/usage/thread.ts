import type { MessagePort } from 'node:worker_threads'
import type { Log } from '../../state/ledger/ledger.ts'
import { openAnnouncements, openSource } from '../../state/open-reader.ts'
import { serveClient } from '../../threads/client.ts'
import {
  UsageWork,
  type UsageInit,
  type UsageNotice,
  type UsageQuestion,
  type UsageReport,
} from './work.ts'

const PAGE_ROWS = 1000

export function serve(port: MessagePort, { folder, source }: UsageInit): void {
  serveClient<UsageNotice, UsageQuestion, UsageReport>(port, (report) => {
    const warn = (message: string) => report({ warning: message })
    // The gateway's own connection logs the same.
    const log = { info() {}, warn() {}, error: warn } as unknown as Log
    const now = () => Date.now()
    const openLedger = () => openSource(source, log)
    return new UsageWork({
      folder,
      openLedger,
      openAnnouncements: () => openAnnouncements(source, log),
      pageRows: PAGE_ROWS,
      now,
      report,
    })
  })
}
