/** Opens and closes the state that survives a restart: the ledger, the records, the audit log. */
import type { ConsolaInstance } from 'consola'
import type { Storage } from 'unstorage'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { LoadedConfig } from '../config/config.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Announcements } from '../state/announcements.ts'
import type { Audit } from '../state/audit.ts'
import type { Ledger, LedgerReader, LedgerSource } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'
import { Archive } from '../state/ledger/archive.ts'
import { openSqlite } from '../state/sqlite/engine.ts'
import { LEDGER_FILE } from '../state/sqlite/folder.ts'
import { openMemory } from '../state/sqlite/memory.ts'
import { packageVersion } from './version.ts'

/** State that outlives a gateway. */
export interface OpenState {
  readonly ledger: Ledger
  readonly records: Records
  /** The storage of the records, for entries that are none. */
  readonly storage: Storage
  readonly audit: Audit
  /** It is absent for a state of one gateway. */
  readonly announcements?: Announcements
  /** Rows of the ledger, for readers beside the engine. */
  readonly source: LedgerSource | LedgerReader
  /** Takes rows before they are folded; absent where none are kept. */
  readonly archive?: Archive | undefined
}

/** Opens records and ledger; the caller closes them. @param gateway the id of the one that opens them. @throws ConfigError when they cannot be opened */
export async function openState(
  { config: { state }, file, otherDataFolders }: LoadedConfig,
  log: ConsolaInstance,
  gateway?: string,
): Promise<OpenState> {
  if (state.driver === 'file') {
    refuseOtherLedger(file, state.path, otherDataFolders)
    const { path, retention: retentionDays, copies } = state
    const archive = archiveOf(state.archive, log)
    const opened = await openSqlite({ path, retentionDays, archive, copies, log })
    const ledgerFile = join(path, LEDGER_FILE)
    const source = { driver: 'file', file: ledgerFile, inode: statSync(ledgerFile).ino } as const
    return { ...opened, source, archive }
  }
  if (state.driver === 'redis') {
    // Imported on demand: its client is an optional package.
    const { openRedis } = await import('../state/redis/engine.ts')
    const { url, outbox, outboxLimit, outboxKept, retention: retentionDays } = state
    const archive = archiveOf(state.archive, log)
    const opened = await openRedis({
      url,
      archive,
      outbox,
      outboxLimit,
      outboxKept,
      retentionDays,
      log,
      ...(gateway && { gateway }),
    })
    return { ...opened, source: { driver: 'redis', url }, archive }
  }
  const { reader, ...opened } = openMemory({ log })
  return { ...opened, source: reader }
}

function archiveOf(
  settings: Extract<LoadedConfig['config']['state'], { archive: unknown }>['archive'],
  log: ConsolaInstance,
): Archive | undefined {
  if (settings === false || settings.path === undefined) return undefined
  const { path: folder, keep: keepDays, size: sizeBytes } = settings
  return new Archive({ folder, keepDays, sizeBytes, release: packageVersion(), log })
}

/** Refuses to begin a ledger at zero because another folder was chosen by accident. @throws ConfigError that names both folders */
function refuseOtherLedger(file: string, path: string, others: readonly string[]): void {
  const hasLedger = (folder: string) => existsSync(join(folder, LEDGER_FILE))
  const other = hasLedger(path) ? undefined : others.find(hasLedger)
  if (other === undefined) return
  const message =
    `there is no ledger in ${path}, but one in ${other}: ` +
    `start with --data ${other} to use it, or with --data ${path} to begin a new one`
  throw new ConfigError(file, [{ path: 'state.path', message }])
}

/** @param patience see {@link Ledger.close} */
export async function closeState(
  { ledger, records }: OpenState,
  patience?: AbortSignal,
): Promise<void> {
  try {
    await ledger.close(patience)
  } finally {
    await records.close()
  }
}
