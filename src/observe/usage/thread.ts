import type { MessagePort } from 'node:worker_threads'
import type { Log, LedgerReader, LedgerSource } from '../../state/ledger/ledger.ts'
import { serveClient } from '../../threads/client.ts'
import {
  UsageWork,
  type UsageInit,
  type UsageNotice,
  type UsageQuestion,
  type UsageReport,
} from './work.ts'
import type { OpenAnnouncements } from '../../state/announcements.ts'
import { openReader } from '../../state/sqlite/reader.ts'

const PAGE_ROWS = 1000

export function serve(port: MessagePort, { folder, source }: UsageInit): void {
  serveClient<UsageNotice, UsageQuestion, UsageReport>(port, (report) => {
    const warn = (message: string) => report({ warning: message })
    // The gateway's own connection logs the same.
    const log: Log = { info() {}, warn() {}, error: warn }
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

// Opens the reader of a ledger, and the messages between its gateways, in the thread that reads.

/** @throws Error when the ledger cannot be read */
export async function openSource(source: LedgerSource, log: Log): Promise<LedgerReader> {
  if (source.driver === 'file') return openReader(source.file, source.inode)
  // Imported on demand: its client is an optional package.
  const { openRedisReader } = await import('../../state/redis/reader.ts')
  return openRedisReader(source.url, log)
}

/** The messages between gateways of a ledger; undefined for a single gateway. @throws Error when it cannot be reached */
export async function openAnnouncements(
  source: LedgerSource,
  log: Log,
): Promise<OpenAnnouncements | undefined> {
  if (source.driver === 'file') return undefined
  const { openRedisAnnouncements } = await import('../../state/redis/announcements.ts')
  return openRedisAnnouncements(source.url, log)
}
