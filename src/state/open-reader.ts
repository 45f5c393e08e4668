/** Opens the reader of a ledger, in the thread that reads. */
import type { Log } from './ledger/ledger.ts'
import type { LedgerReader, LedgerSource } from './ledger/reader.ts'
import { openReader } from './sqlite/reader.ts'

/** @throws Error when the ledger cannot be read */
export async function openSource(source: LedgerSource, log: Log): Promise<LedgerReader> {
  if (source.driver === 'file') return openReader(source.file, source.inode)
  // Imported on demand: its client is an optional package.
  const { openRedisReader } = await import('./redis/reader.ts')
  return openRedisReader(source.url, log)
}
