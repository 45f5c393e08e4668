/** The tables of usage. Everything in them is derived: of settled calls from the ledger, of circumstances from ended calls. */
import { QUANTITIES } from '../../server/admin/resources/usage.ts'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createFile, lockFile, transact } from '../../state/sqlite/file.ts'

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

export const SETTLED_GROUPS = [
  'account',
  'key',
  'model',
  'deployment',
  'endpoint',
  'outcome',
] as const
const CALLED_GROUPS = ['account', 'key', 'model', 'endpoint', 'code', 'limited_by'] as const

/** Spans of time with sums. A unit is the number of the hour or day since 1970, or of the month since year 0. */
export const ROLLUPS = ['hour', 'day', 'month'] as const
export type Rollup = (typeof ROLLUPS)[number]

/** Tables of sums by group and unit: `<table>_group`, and one for each rollup. */
export interface TableSet {
  readonly table: string
  readonly rollups: readonly Rollup[]
  readonly groups: readonly string[]
}

export const SETTLED: TableSet = { table: 'settled', rollups: ROLLUPS, groups: SETTLED_GROUPS }
export const CALLED: TableSet = { table: 'called', rollups: ROLLUPS, groups: CALLED_GROUPS }
/** Sums of all accounts together, because keys make up nearly all groups. A month of them might not fit into 64 bits. */
export const SETTLED_OVERALL = overall(SETTLED)
export const CALLED_OVERALL = overall(CALLED)

function overall({ table, groups }: TableSet): TableSet {
  return {
    table: `${table}_overall`,
    rollups: ['hour', 'day'],
    groups: groups.filter((name) => name !== 'account' && name !== 'key'),
  }
}

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

/** The unit of a moment, ms since epoch. */
export function unitOf(rollup: Rollup, at: number): number {
  if (rollup === 'hour') return Math.floor(at / HOUR_MS)
  if (rollup === 'day') return Math.floor(at / DAY_MS)
  const date = new Date(at)
  return date.getUTCFullYear() * 12 + date.getUTCMonth()
}

export function startOf(rollup: Rollup, unit: number): number {
  if (rollup === 'hour') return unit * HOUR_MS
  if (rollup === 'day') return unit * DAY_MS
  return Date.UTC(Math.floor(unit / 12), unit % 12)
}

/** Raised when files of the previous version cannot be continued. */
const VERSION = 2

const columns = (names: readonly string[], type: string) =>
  names.map((name) => `${name} ${type}`).join(', ')

const tables = ({ table, groups, rollups }: TableSet, values: string) =>
  `
  CREATE TABLE ${table}_group (id INTEGER PRIMARY KEY, ${columns(groups, 'TEXT NOT NULL')},
    UNIQUE (${groups.join(', ')})) STRICT;` +
  rollups
    .map(
      (rollup) => `
  CREATE TABLE ${table}_${rollup} (unit INTEGER NOT NULL, group_id INTEGER NOT NULL, ${values},
    PRIMARY KEY (unit, group_id)) STRICT, WITHOUT ROWID;
  CREATE INDEX ${table}_${rollup}_group ON ${table}_${rollup} (group_id, unit);`,
    )
    .join('')

/** Columns of charges, and of circumstances. */
export const SETTLED_SUMS = ['calls', 'cost', 'estimated', ...QUANTITIES]
export const CALLED_SUMS = [...COUNTS, ...TOTAL_BUCKETS, ...FIRST_BUCKETS]
const SETTLED_VALUES = [
  'calls INTEGER NOT NULL, cost INTEGER NOT NULL, estimated INTEGER NOT NULL',
  ...QUANTITIES.map((name) => `${name} ${name === 'seconds' ? 'REAL' : 'INTEGER'}`),
].join(', ')
const CALLED_VALUES = columns(CALLED_SUMS, 'INTEGER NOT NULL DEFAULT 0')

const OVERALL = tables(SETTLED_OVERALL, SETTLED_VALUES) + tables(CALLED_OVERALL, CALLED_VALUES)
const SCHEMA = `
  ${tables(SETTLED, SETTLED_VALUES)}
  ${tables(CALLED, CALLED_VALUES)}
  ${OVERALL}
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

/** Tables created where they are missing: older files are continued. */
const ADDED = `
  CREATE TABLE IF NOT EXISTS decided (day INTEGER NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL,
    rule TEXT NOT NULL, mode TEXT NOT NULL, side TEXT NOT NULL, outcome TEXT NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (day, account, key, rule, mode, side, outcome)) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS called_group_limited ON called_group (limited_by) WHERE limited_by <> '';
  CREATE TABLE IF NOT EXISTS failed (unit INTEGER NOT NULL, model TEXT NOT NULL,
    deployment TEXT NOT NULL, class TEXT NOT NULL, attempts INTEGER NOT NULL,
    PRIMARY KEY (unit, model, deployment, class)) STRICT, WITHOUT ROWID;`

const namesOf = ({ table, rollups }: TableSet) =>
  [...rollups, 'group'].map((name) => `${table}_${name}`)

/** Tables of settled calls and bookings, which can be made again from the ledger at any time. */
export const OF_THE_LEDGER = [
  ...namesOf(SETTLED),
  ...namesOf(SETTLED_OVERALL),
  'tagged',
  'booking',
  'progress',
]

/** Tables of hours, which have a limited retention. */
export const HOURS = [
  ...[SETTLED, CALLED, SETTLED_OVERALL, CALLED_OVERALL].map(({ table }) => `${table}_hour`),
  'failed',
]

/** Most gateways that share a folder; each has a file of its own. */
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

/** Opens the first file of a folder that no other process has. */
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
    if (version === 0) db.exec(`BEGIN; ${SCHEMA}; COMMIT`)
    if (version === 1) addOverall(db)
    db.exec(ADDED)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Adds the sums of all accounts, which files of version 1 lack. */
function addOverall(db: DatabaseSync): void {
  transact(db, () => {
    db.exec(OVERALL)
    addUp(db, SETTLED, SETTLED_OVERALL, SETTLED_SUMS)
    addUp(db, CALLED, CALLED_OVERALL, CALLED_SUMS)
    db.exec(`PRAGMA user_version = ${VERSION}`)
  })
}

/** Makes the sums of all accounts from those of each. Called inside a transaction. */
export function addUp(
  db: DatabaseSync,
  { table: each }: TableSet,
  { table: all, groups, rollups }: TableSet,
  sums: readonly string[],
): void {
  const names = groups.join(', ')
  db.exec(`DELETE FROM ${all}_group;
    INSERT INTO ${all}_group (${names}) SELECT DISTINCT ${names} FROM ${each}_group`)
  for (const rollup of rollups) {
    db.exec(`DELETE FROM ${all}_${rollup};
      INSERT INTO ${all}_${rollup} (unit, group_id, ${sums.join(', ')})
      SELECT s.unit, a.id, ${sums.map((name) => `sum(s.${name})`).join(', ')}
      FROM ${each}_${rollup} s JOIN ${each}_group g ON g.id = s.group_id
      JOIN ${all}_group a USING (${names}) GROUP BY s.unit, a.id`)
  }
}
