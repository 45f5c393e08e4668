/** SQLite ledgers for tests: in a folder that is removed with the test and with a log that can be read, or in memory. */
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'
import { openSqlite, type SqliteLedger } from '../../../src/state/sqlite/engine.ts'
import type {
  Admitted,
  HoldGranted,
  KeyLimits,
  Lease,
  Log,
  Settlement,
  UsageRow,
} from '../../../src/state/ledger/ledger.ts'
import type { Audit } from '../../../src/state/audit.ts'
import type { Records } from '../../../src/state/records.ts'
import type { StoreCommand } from '../../../src/state/sqlite/store.ts'
import { openMemory } from '../../../src/state/sqlite/memory.ts'
import { folder } from '../../_folder.ts'
import { holdOf } from '../_hold.ts'

// The command line does it too. The ledger's thread starts in a third of the time.
enableCompileCache()

/** A script that writes until it is killed. */
export const WRITER = join(import.meta.dirname, '_writer.ts')
export const LIMITS = { disabled: false, rpm: 100_000, concurrency: 100_000 } satisfies KeyLimits
export const SILENT = { info() {}, warn() {}, error() {} } as unknown as Log
export const KEY = { account: 'acct', key: 'key' }
export const NOON = Date.UTC(2026, 4, 15, 12)
export const DAY = '20260515'
export const USAGE: UsageRow = {
  at: NOON,
  endpoint: '/v1/chat/completions',
  model: 'vendor/model',
  deployment: 'west/model',
  outcome: 'completed',
  lines: [{ source: 'model', usage: { promptTokens: 3, completionTokens: 4 } }],
}

export interface Opened {
  readonly path: string
  readonly ledger: SqliteLedger
  readonly records: Records
  readonly audit: Audit
  /** Everything that was logged, with its level. */
  readonly logged: string[]
}

/** Opens the ledger of a folder, by default a new one; it is closed with the test. */
export async function open(
  path?: string,
  now: () => number = () => NOON,
  copies?: number,
): Promise<Opened> {
  path ??= await folder({})
  const logged: string[] = []
  const write =
    (level: string) =>
    (...args: unknown[]) =>
      void logged.push([level, ...args].join(' '))
  const log = { info: write('info'), warn: write('warn'), error: write('error') } as unknown as Log
  const { ledger, records, audit } = await openSqlite({ path, copies, log, now })
  onTestFinished(() =>
    ledger.close().catch((error: Error) => {
      // A test that loses a ledger has seen that.
      if (error.name !== 'LostState') throw error
    }),
  )
  return { path, ledger, records, audit, logged }
}

/** The same with 10 USD in `acct`, and a `key` with limits that no test reaches. */
export async function openPaid(path?: string, now?: () => number): Promise<Opened> {
  const opened = await open(path, now)
  await opened.ledger.book({
    kind: 'top-up',
    account: 'acct',
    amount: 10n ** 13n,
    reference: 'first',
  })
  await opened.ledger.limits('acct', 'key', LIMITS, 1)
  return opened
}

/** Opens a ledger and records in memory. */
export function openInMemory(options: Omit<Parameters<typeof openMemory>[0], 'log'> = {}) {
  return openMemory({ log: SILENT, ...options })
}

/** Admits a call, up to its hold. */
export function admit(ledger: SqliteLedger, request: string, hold = 0n): Lease & HoldGranted {
  const lease = { ...KEY, request }
  const freeTier = { rpm: 1, concurrency: 1 }
  const entered = ledger.enter({ ...lease, revision: 1, freeTier }) as Admitted
  const held = ledger.hold({ ...lease, at: entered.at, ...holdOf(hold), free: false })
  if (!held.ok) throw new Error(`${request} was refused: ${held.why}`)
  return { ...lease, ...held }
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

/** The result of SQLite's integrity check. */
export function integrityOf(path: string): unknown {
  using db = new DatabaseSync(join(path, 'ledger.db'))
  return db.prepare('PRAGMA integrity_check').get()!.integrity_check
}

export function settlement(request: string, cost: bigint, day = DAY): Settlement {
  return { ...KEY, request, day, cost, usage: USAGE }
}

/** A settlement as the store is asked to write it. */
export function charge(
  request: string,
  cost = 3n,
  { account = KEY.account, body = '{}' } = {},
): StoreCommand<'settle'> {
  return { name: 'settle', args: [request, account, KEY.key, DAY, cost, NOON, body, null, null] }
}

/** The history of a ledger whose rows are nowhere. */
export const NO_HISTORY = {
  accounts: async () => [],
  rows: async () => 0,
  audit: async () => new Map(),
  foldable: async () => ({ steps: [], months: new Map(), next: undefined }),
  close() {},
}
