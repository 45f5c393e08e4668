/** The tables of usage. Everything in them is derived: of settled calls from the ledger, of circumstances from ended calls. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createFile, lockFile } from '../../state/sqlite/file.ts'

/** Quantities of calls. NULL is "never reported", 0 is zero. */
export const QUANTITIES = [
  'prompt_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'images',
  'pages',
  'seconds',
  'characters',
  'searches',
  'search_units',
] as const

/** A column of quantities. */
export type Quantity = (typeof QUANTITIES)[number]

/** Upper bounds of the histograms of times, ms; a last bucket has the rest. */
export const BOUNDS = [
  25, 50, 100, 250, 500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000, 120_000, 300_000,
]
const BUCKETS = BOUNDS.length + 1

/** Columns of the histogram of whole calls, and of that of first parts. */
export const TOTAL_BUCKETS = Array.from({ length: BUCKETS }, (_, i) => `t${i}`)
export const FIRST_BUCKETS = Array.from({ length: BUCKETS }, (_, i) => `f${i}`)

/** Sums of circumstances. `refused`: by a limit; `errors`: failed otherwise. */
export const COUNTS = ['calls', 'errors', 'refused', 'blocked'] as const

/** What the rows of settled calls are grouped by. */
export const SETTLED_GROUPS = [
  'account',
  'key',
  'model',
  'deployment',
  'endpoint',
  'outcome',
] as const
/** What those of circumstances are grouped by. */
export const CALLED_GROUPS = ['account', 'key', 'model', 'endpoint', 'code', 'limited_by'] as const

/** Spans of time that are added up. A unit is the number of the hour or day since 1970, or of the month since year 0. */
export const ROLLUPS = ['hour', 'day', 'month'] as const
/** One of {@link ROLLUPS}. */
export type Rollup = (typeof ROLLUPS)[number]

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** The unit of a moment, ms since epoch. */
export function unitOf(rollup: Rollup, at: number): number {
  if (rollup === 'hour') return Math.floor(at / HOUR_MS)
  if (rollup === 'day') return Math.floor(at / DAY_MS)
  const date = new Date(at)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

/** When a unit begins, ms since epoch. */
export function startOf(rollup: Rollup, unit: number): number {
  if (rollup === 'hour') return unit * HOUR_MS
  if (rollup === 'day') return unit * DAY_MS
  return Date.UTC(Math.floor(unit / 12), unit % 12)
}

/** Changed when older files cannot be continued; they are made anew then. */
const VERSION = 1

const columns = (names: readonly string[], type: string) =>
  names.map((name) => `${name} ${type}`).join(', ')

const group = (table: string, names: readonly string[]) => `
  CREATE TABLE ${table} (id INTEGER PRIMARY KEY, ${columns(names, 'TEXT NOT NULL')},
    UNIQUE (${names.join(', ')})) STRICT;`

const rollups = (table: string, values: string) =>
  ROLLUPS.map(
    (rollup) => `
  CREATE TABLE ${table}_${rollup} (unit INTEGER NOT NULL, group_id INTEGER NOT NULL, ${values},
    PRIMARY KEY (unit, group_id)) STRICT, WITHOUT ROWID;
  CREATE INDEX ${table}_${rollup}_group ON ${table}_${rollup} (group_id, unit);`,
  ).join('')

const SETTLED_VALUES = [
  'calls INTEGER NOT NULL, cost INTEGER NOT NULL, estimated INTEGER NOT NULL',
  ...QUANTITIES.map((name) => `${name} ${name === 'seconds' ? 'REAL' : 'INTEGER'}`),
].join(', ')
const CALLED_VALUES = columns(
  [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS],
  'INTEGER NOT NULL DEFAULT 0',
)

const SCHEMA = `
  ${group('settled_group', SETTLED_GROUPS)}
  ${rollups('settled', SETTLED_VALUES)}
  ${group('called_group', CALLED_GROUPS)}
  ${rollups('called', CALLED_VALUES)}
  CREATE TABLE tagged (unit INTEGER NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL,
    kind TEXT NOT NULL, value TEXT NOT NULL, calls INTEGER NOT NULL, cost INTEGER NOT NULL,
    prompt_tokens INTEGER, completion_tokens INTEGER,
    PRIMARY KEY (unit, account, kind, value, key)) STRICT, WITHOUT ROWID;
  CREATE INDEX tagged_account ON tagged (account, unit);
  CREATE TABLE booking (account TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
    kind TEXT NOT NULL, amount INTEGER NOT NULL, reference TEXT NOT NULL, note TEXT,
    PRIMARY KEY (account, seq)) STRICT, WITHOUT ROWID;
  -- The last row of an account that is in the tables.
  CREATE TABLE progress (account TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL,
    request TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  PRAGMA user_version = ${VERSION};`

/** Made where they are missing: files that were made before them are continued. */
const ADDED = `
  CREATE TABLE IF NOT EXISTS decided (day INTEGER NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL,
    rule TEXT NOT NULL, mode TEXT NOT NULL, side TEXT NOT NULL, outcome TEXT NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (day, account, key, rule, mode, side, outcome)) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS failed (unit INTEGER NOT NULL, model TEXT NOT NULL,
    deployment TEXT NOT NULL, class TEXT NOT NULL, attempts INTEGER NOT NULL,
    PRIMARY KEY (unit, model, deployment, class)) STRICT, WITHOUT ROWID;`

/** Tables of settled calls and bookings, which can be made again from the ledger at any time. */
export const OF_THE_LEDGER = [
  ...ROLLUPS.map((rollup) => `settled_${rollup}`),
  'settled_group',
  'tagged',
  'booking',
  'progress',
]

/** Gateways that share a folder; each has a file of its own. */
const MOST_FILES = 32

/** A database of usage that belongs to this process. */
export interface OpenTables {
  readonly db: DatabaseSync
  close(): void
}

/** Opens the tables of a folder, or empty ones in memory. @throws SQLite's errors, and those of the file system */
export function openTables(folder: string | undefined): OpenTables {
  if (folder === undefined) {
    const db = new DatabaseSync(':memory:')
    db.exec(SCHEMA + ADDED)
    return { db, close: () => db.close() }
  }
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const { name, lock } = claim(folder)
  try {
    const db = openFile(join(folder, `${name}.db`))
    return {
      db,
      close() {
        db.close()
        lock.close()
      },
    }
  } catch (error) {
    lock.close()
    throw error
  }
}

/** The first file of a folder that no other process has. */
function claim(folder: string) {
  for (let number = 1; number <= MOST_FILES; number++) {
    const name = number === 1 ? 'usage' : `usage-${number}`
    const lock = lockFile(join(folder, `${name}.lock`))
    if (lock) return { name, lock }
  }
  throw new Error(`${folder} is in use by ${MOST_FILES} gateways`)
}

function openFile(file: string): DatabaseSync {
  createFile(file)
  const db = new DatabaseSync(file, { timeout: 2000 })
  try {
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16000')
    const { user_version: version } = db.prepare('PRAGMA user_version').get()!
    if (Number(version) > VERSION) throw new Error(`${file} was written by a newer version`)
    if (version !== VERSION) db.exec(`BEGIN; ${SCHEMA}; COMMIT`)
    db.exec(ADDED)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
