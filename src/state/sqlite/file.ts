/** The folder of an embedded ledger: whether it will do, whose it is, and the database in it. Runs in the worker. */
import { accessSync, closeSync, constants, mkdirSync, openSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** Why a folder cannot be used, and what to do about it: one sentence for the operator. */
export class CannotOpen extends Error {}

export interface OpenedFolder {
  readonly db: DatabaseSync
  /** Moves the log into the database, so that it alone is the whole ledger; then gives both up. */
  close(): void
  /** What the operator should know of it. */
  readonly warnings: readonly string[]
}

export const LEDGER_FILE = 'ledger.db'
const OWNER_FILE = 'owner.db'

/** Before it a checkpoint could lose what had been committed (https://sqlite.org/wal.html#walresetbug). */
const OLDEST_SQLITE = '3.51.3'
/** An operator's own `sqlite3` may hold the file for a moment. */
const PATIENCE_MS = 2000
const CHECKPOINT_PAGES = 2000

/** By the type statfs(2) reports. Write-ahead logs need shared memory, which these do not have. */
const NETWORK: Readonly<Record<number, string>> = {
  0x6969: 'NFS',
  0x517b: 'SMB',
  0xfe534d42: 'SMB',
  0xff534d42: 'CIFS',
}
/** What is behind these cannot be seen from here. */
const OPAQUE: Readonly<Record<number, string>> = { 0x65735546: 'FUSE', 0x01021997: '9P' }

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const BUSY = 5
const CORRUPT = 11
const NOT_A_DATABASE = 26

/**
 * Schema versions, each as the step from the one before. Amounts are pico-dollars. The sums are allowed more than any
 * admission does, so that what was let in can be settled whatever it cost.
 */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE account (
    id TEXT NOT NULL PRIMARY KEY,
    balance INTEGER NOT NULL CHECK (balance BETWEEN -9000000000000000000 AND 9000000000000000000),
    paid INTEGER NOT NULL CHECK (paid IN (0, 1))
  ) STRICT, WITHOUT ROWID;

  -- window: 'lifetime', a day YYYYMMDD or a month YYYYMM
  CREATE TABLE spend (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    window TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount BETWEEN 0 AND 9000000000000000000),
    PRIMARY KEY (account, key, window)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX spend_window ON spend (window);

  -- request: of a top-up its reference; day: the one that was charged; body: usage as JSON, of a top-up its note
  CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('usage', 'top-up', 'orphan')),
    request TEXT NOT NULL,
    account TEXT NOT NULL,
    key TEXT,
    cost INTEGER NOT NULL CHECK (cost BETWEEN -4000000000000000000 AND 4000000000000000000),
    day TEXT,
    at INTEGER NOT NULL,
    body TEXT,
    UNIQUE (request, kind, account)
  ) STRICT;
  CREATE INDEX usage_account ON usage (account);

  CREATE TABLE limits (
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
    expires_at INTEGER,
    rpm INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    cap_amount INTEGER,
    cap_scope TEXT,
    revision INTEGER NOT NULL,
    PRIMARY KEY (account, key)
  ) STRICT, WITHOUT ROWID;

  -- expires: ms since epoch
  CREATE TABLE record (
    k TEXT NOT NULL PRIMARY KEY,
    v TEXT NOT NULL,
    expires INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL;`,

  // What rows of `usage` were folded into: of days that were charged.
  `CREATE TABLE total (
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    key TEXT NOT NULL,
    requests INTEGER NOT NULL CHECK (requests > 0),
    cost INTEGER NOT NULL CHECK (cost BETWEEN 0 AND 9000000000000000000),
    PRIMARY KEY (account, day, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX usage_day ON usage (day) WHERE kind = 'usage';
  CREATE INDEX usage_orphan ON usage (kind) WHERE kind = 'orphan';`,
]

/** Makes the folder if need be, claims it for this process, opens the database. @throws Refusal */
export function openFolder(path: string): OpenedFolder {
  prepareFolder(path)
  const warning = judgeFileSystem(path, statfsSync(path).type)
  const owner = claim(path)
  try {
    const db = openDatabase(join(path, LEDGER_FILE))
    const close = () => {
      db.close()
      owner.close()
    }
    return { db, close, warnings: warning === undefined ? [] : [warning] }
  } catch (error) {
    owner.close()
    throw error
  }
}

/** Opens a ledger's database and brings its schema up to date. @throws Refusal */
export function openDatabase(file: string): DatabaseSync {
  createFile(file)
  const db = new DatabaseSync(file, { readBigInts: true, timeout: PATIENCE_MS })
  try {
    checkVersion(String(db.prepare('SELECT sqlite_version() AS version').get()!.version))
    const { journal_mode: mode } = db.prepare('PRAGMA journal_mode = WAL').get()!
    if (mode !== 'wal')
      throw new CannotOpen(`${file} is where SQLite cannot keep a write-ahead log.`)
    db.exec(`PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    migrate(db, file)
    return db
  } catch (error) {
    db.close()
    throw toCannotOpen(file, error)
  }
}

/** A new ledger in memory, which ends with the process. */
export function openMemoryDatabase(): DatabaseSync {
  const db = new DatabaseSync(':memory:', { readBigInts: true })
  migrate(db, ':memory:')
  return db
}

/** @returns a warning where it cannot be known. @param type of statfs(2). @throws Refusal for a network file system */
export function judgeFileSystem(path: string, type: number): string | undefined {
  // The types have 32 bits; some systems extend their sign.
  const number = type >>> 0
  const network = NETWORK[number]
  if (network) {
    throw new CannotOpen(
      `${path} is on a network file system (${network}), where a ledger can be lost: take a folder on a local disk.`,
    )
  }
  const opaque = OPAQUE[number]
  return opaque && `${path} is on ${opaque}: make sure that a local disk is behind it.`
}

/** @param version as SQLite tells it. @throws Refusal for one that may lose what it has committed */
export function checkVersion(version: string): void {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  const [a = 0, b = 0, c = 0] = OLDEST_SQLITE.split('.').map(Number)
  if ((major - a || minor - b || patch - c) >= 0) return
  throw new CannotOpen(
    `SQLite ${version} in this Node.js may lose committed rows: ${OLDEST_SQLITE} or newer is needed.`,
  )
}

function prepareFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** For as long as the process lives: the kernel ends a lock with whoever holds it, however that ends. */
function claim(path: string): DatabaseSync {
  const file = join(path, OWNER_FILE)
  createFile(file)
  const owner = new DatabaseSync(file, { timeout: 0 })
  try {
    owner.exec('BEGIN EXCLUSIVE')
    return owner
  } catch (error) {
    owner.close()
    if (codeOf(error) !== BUSY) throw toCannotOpen(file, error)
    throw new CannotOpen(
      `${path} belongs to a process that is running: one process owns such a folder, several gateways need Redis.`,
    )
  }
}

/** A new file is for its owner only; SQLite would let others read it. */
function createFile(file: string): void {
  try {
    // Never opens one that is there: closing it would end the locks this process has on it.
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw unusable(file, error)
  }
}

function migrate(db: DatabaseSync, file: string): void {
  const tables = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`).all()
  const known = tables.some(({ name }) => name === 'meta')
  if (!known && tables.length > 0) throw new CannotOpen(`${file} is a database, but not a ledger.`)
  const version = known ? Number(db.prepare('SELECT version FROM meta').get()!.version) : 0
  const newest = MIGRATIONS.length
  if (version === newest) return
  if (version > newest) {
    throw new CannotOpen(
      `${file} was written by a newer version: its schema is ${version}, the newest known here ${newest}.`,
    )
  }
  const steps = [
    'BEGIN IMMEDIATE',
    'CREATE TABLE IF NOT EXISTS meta (version INTEGER NOT NULL) STRICT',
    ...MIGRATIONS.slice(version),
    'DELETE FROM meta',
    `INSERT INTO meta VALUES (${newest})`,
    'COMMIT',
  ]
  db.exec(steps.join(';\n'))
}

/** What an operator can do about an error of this file's. */
export function toCannotOpen(file: string, error: unknown): CannotOpen {
  if (error instanceof CannotOpen) return error
  const code = codeOf(error)
  if (code === CORRUPT || code === NOT_A_DATABASE) {
    return new CannotOpen(
      `${file} is damaged or not a database (${(error as Error).message}): restore it from a backup.`,
    )
  }
  return unusable(file, error)
}

function unusable(path: string, error: unknown): CannotOpen {
  return new CannotOpen(`${path} cannot be used: ${(error as Error).message}.`, { cause: error })
}

/** SQLite's primary result code of an error; 0 for one that is not SQLite's. */
export function codeOf(error: unknown): number {
  return Number((error as { errcode?: number }).errcode) & 0xff
}
