/** Opens the reader of a ledger, and the messages between its gateways, in the thread that reads. */
import type { OpenAnnouncements } from './announcements.ts'
import type { Log, LedgerReader, LedgerSource } from './ledger/ledger.ts'
import { openReader } from './sqlite/reader.ts'

/** @throws Error when the ledger cannot be read */
export async function openSource(source: LedgerSource, log: Log): Promise<LedgerReader> {
  if (source.driver === 'file') return openReader(source.file, source.inode)
  // Imported on demand: its client is an optional package.
  const { openRedisReader } = await import('./redis/reader.ts')
  return openRedisReader(source.url, log)
}

/** The messages between gateways of a ledger; undefined for a single gateway. @throws Error when it cannot be reached */
export async function openAnnouncements(
  source: LedgerSource,
  log: Log,
): Promise<OpenAnnouncements | undefined> {
  if (source.driver === 'file') return undefined
  const { openRedisAnnouncements } = await import('./redis/announcements.ts')
  return openRedisAnnouncements(source.url, log)
}
