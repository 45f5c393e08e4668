/** Files of SQLite: the database of a ledger with its schema, locks, transactions, errors. */
import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { SCHEMA } from '../ledger/ledger.ts'

/** A folder or file cannot be used. The message tells the operator what to do, in one sentence. */
export class CannotOpen extends Error {}

/** Oldest safe version: an earlier checkpoint could lose committed transactions (https://sqlite.org/wal.html#walresetbug). */
const OLDEST_SQLITE = '3.51.3'
/** How long to wait for a lock: an operator's own `sqlite3` may hold one for a moment. */
const BUSY_TIMEOUT_MS = 2000
/** Pages of a write-ahead log with which it is moved into the file. */
export const CHECKPOINT_PAGES = 2000

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const BUSY = 5
export const CORRUPT = 11
const NOT_A_DATABASE = 26

/** The rows of a ledger. `actor`: who booked it; `team`: that of a call. */
const USAGE = `CREATE TABLE usage (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    account TEXT NOT NULL,
    key TEXT,
    cost INTEGER NOT NULL CHECK (cost BETWEEN -4000000000000000000 AND 4000000000000000000),
    day TEXT,
    at INTEGER NOT NULL,
    body TEXT,
    actor TEXT,
    team TEXT,
    UNIQUE (request, kind, account)
  ) STRICT`

const ACCOUNT = `(
    id TEXT NOT NULL PRIMARY KEY,
    usd INTEGER NOT NULL,
    pico INTEGER NOT NULL CHECK (pico BETWEEN 0 AND 999999999999),
    paid INTEGER NOT NULL CHECK (paid IN (0, 1)),
    paid_in_usd INTEGER NOT NULL DEFAULT 0,
    paid_in_pico INTEGER NOT NULL DEFAULT 0 CHECK (paid_in_pico BETWEEN 0 AND 999999999999),
    -- promotional and expiring credit as JSON; the row up to which all are folded, the number of rows up to it, and their chain
    blocks TEXT,
    base INTEGER NOT NULL DEFAULT 0,
    n INTEGER NOT NULL DEFAULT 0,
    chain TEXT
  ) STRICT, WITHOUT ROWID`

/** `window`: 'lifetime', a day YYYYMMDD or a month YYYYMM. */
const SPEND = `(
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    window TEXT NOT NULL,
    usd INTEGER NOT NULL,
    pico INTEGER NOT NULL CHECK (pico BETWEEN 0 AND 999999999999),
    PRIMARY KEY (account, key, window)
  ) STRICT, WITHOUT ROWID`

/** Totals of folded rows of `usage`, per charged day. */
const TOTAL = `(
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    key TEXT NOT NULL,
    team TEXT NOT NULL DEFAULT '',
    requests INTEGER NOT NULL CHECK (requests > 0),
    usd INTEGER NOT NULL,
    pico INTEGER NOT NULL CHECK (pico BETWEEN 0 AND 999999999999),
    PRIMARY KEY (account, day, key, team)
  ) STRICT, WITHOUT ROWID`

/** `credit`: how far the balance may fall below 0, pico-dollars as text. */
const LIMITS = `(
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    disabled INTEGER NOT NULL CHECK (disabled IN (0, 1)),
    expires_at INTEGER,
    rpm INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    list TEXT NOT NULL,
    credit TEXT,
    revision INTEGER NOT NULL,
    PRIMARY KEY (account, key)
  ) STRICT, WITHOUT ROWID`

/** What is counted for a limit in a window, and what a reset has taken off it. */
const COUNTED = `CREATE TABLE counter (
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    window TEXT NOT NULL,
    usd INTEGER NOT NULL,
    pico INTEGER NOT NULL CHECK (pico BETWEEN 0 AND 999999999999),
    PRIMARY KEY (account, owner, id, window)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE reset (
    account TEXT NOT NULL,
    reference TEXT NOT NULL,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    window TEXT NOT NULL,
    usd INTEGER NOT NULL,
    pico INTEGER NOT NULL CHECK (pico BETWEEN 0 AND 999999999999),
    at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (account, reference)
  ) STRICT, WITHOUT ROWID;`

/** Adds the one row with the identity of a ledger. */
const IDENTIFY = `INSERT INTO identity (id, created)
    VALUES ('ledger_' || lower(hex(randomblob(12))), unixepoch() * 1000);`

/** The tables of a new ledger, each with the text that SQLite has of it after the migrations of an older one. */
const TABLES = `CREATE TABLE meta (version INTEGER NOT NULL) STRICT;
  ${USAGE};
  CREATE INDEX usage_account ON usage (account);
  CREATE INDEX usage_orphan ON usage (kind) WHERE kind = 'orphan';
  CREATE TABLE "account" ${ACCOUNT};
  CREATE TABLE "spend" ${SPEND};
  CREATE INDEX spend_window ON spend (window);
  CREATE TABLE "total" ${TOTAL};
  CREATE TABLE "limits" ${LIMITS};
  ${COUNTED}
  -- expires: ms since epoch
  CREATE TABLE record (
    k TEXT NOT NULL PRIMARY KEY,
    v TEXT NOT NULL,
    expires INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX record_expires ON record (expires) WHERE expires IS NOT NULL;
  CREATE TABLE identity (id TEXT NOT NULL, created INTEGER NOT NULL, folded_to INTEGER NOT NULL DEFAULT 0) STRICT;
  -- members: the changed members as JSON
  CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    members TEXT NOT NULL
  , address TEXT NOT NULL DEFAULT '', actor_id TEXT, session TEXT) STRICT;
  ${IDENTIFY}`

/**
 * Migrations, one for each schema version after the first. Amounts of rows are pico-dollars. A statement would read or copy all
 * rows to drop a check or to add columns, ten seconds for a million. What is stored of a row stays the same, so the text of their
 * table is replaced (https://sqlite.org/lang_altertable.html#otheralter): columns at its end that a row does not have are null.
 */
const MIGRATIONS: readonly string[] = [
  // Totals of folded rows of `usage`, per charged day.
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

  `ALTER TABLE account ADD COLUMN paid_in INTEGER NOT NULL DEFAULT 0
    CHECK (paid_in BETWEEN 0 AND 4000000000000000000);
  UPDATE account SET paid_in = topped.amount FROM (
    SELECT account, CASE
      WHEN -sum(cost / 1000000000) >= 4000000000 THEN 4000000000000000000
      ELSE -sum(cost / 1000000000) * 1000000000 - sum(cost % 1000000000)
    END AS amount
    FROM usage WHERE kind = 'top-up' GROUP BY account
  ) AS topped WHERE topped.account = account.id;`,

  // One row with the identity of this ledger.
  `CREATE TABLE identity (id TEXT NOT NULL, created INTEGER NOT NULL) STRICT;
  ${IDENTIFY}`,

  // Rows of kind 'adjust', whose body is their reason: the last step takes the check of kinds away.
  '',

  // Changes by the admin API; `members`: the changed members as JSON.
  `CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    members TEXT NOT NULL
  ) STRICT;`,

  // Spend of accounts over all their keys, at most MAX_AMOUNT, added up in two parts as above; addresses of changes.
  `INSERT INTO spend (account, key, window, amount)
    SELECT account, '@account', window, CASE
      WHEN sum(amount / 1000000000) >= 4000000000 THEN 4000000000000000000
      ELSE sum(amount / 1000000000) * 1000000000 + sum(amount % 1000000000)
    END
    FROM spend GROUP BY account, window;
  ALTER TABLE audit ADD COLUMN address TEXT NOT NULL DEFAULT '';`,

  // Number of the newest row before the last fold: the number of a folded row is not given again.
  `ALTER TABLE identity ADD COLUMN folded_to INTEGER NOT NULL DEFAULT 0;`,

  // Sums without a ceiling: whole dollars, rounded down, and the picodollars above them. Kinds of rows are not checked any more,
  // bodies of bookings are JSON, limits are a list (`limit-list.ts`). Top-ups, and spend over all keys, are added up anew: both
  // stopped at four million USD.
  `DROP INDEX usage_day;
  -- Kinds are in an index, whose pages are a fifth of the rows.
  CREATE TEMP TABLE booked AS SELECT seq FROM usage WHERE kind <> 'usage';
  UPDATE usage SET body = json_object('note', body)
    WHERE seq IN (SELECT seq FROM booked) AND body IS NOT NULL;

  CREATE TABLE account_next ${ACCOUNT};
  INSERT INTO account_next (id, usd, pico, paid, paid_in_usd, paid_in_pico)
    SELECT id, (balance - pico) / 1000000000000, pico, paid,
      ifnull(topped.usd + topped.rest / 1000000000000, 0), ifnull(topped.rest % 1000000000000, 0)
    FROM (SELECT *, (balance % 1000000000000 + 1000000000000) % 1000000000000 AS pico FROM account)
    LEFT JOIN (
      SELECT account, sum(-cost / 1000000000000) AS usd, sum(-cost % 1000000000000) AS rest
      FROM usage WHERE seq IN (SELECT seq FROM booked) AND kind = 'top-up' GROUP BY account
    ) AS topped ON topped.account = id;
  DROP TABLE booked;
  DROP TABLE account;
  ALTER TABLE account_next RENAME TO account;

  CREATE TABLE spend_next ${SPEND};
  INSERT INTO spend_next
    SELECT account, key, window, amount / 1000000000000, amount % 1000000000000
    FROM spend WHERE key <> '@account';
  INSERT INTO spend_next
    SELECT account, '@account', window,
      sum(usd) + sum(pico) / 1000000000000, sum(pico) % 1000000000000
    FROM spend_next GROUP BY account, window;
  DROP TABLE spend;
  ALTER TABLE spend_next RENAME TO spend;
  CREATE INDEX spend_window ON spend (window);

  CREATE TABLE total_next ${TOTAL};
  INSERT INTO total_next (account, day, key, requests, usd, pico)
    SELECT account, day, key, requests, cost / 1000000000000, cost % 1000000000000 FROM total;
  DROP TABLE total;
  ALTER TABLE total_next RENAME TO total;

  CREATE TABLE limits_next ${LIMITS};
  INSERT INTO limits_next (account, key, disabled, expires_at, rpm, concurrency, list, revision)
    SELECT account, key, disabled, expires_at, rpm, concurrency,
      iif(cap_amount IS NULL, '', 'cap.' || cap_scope || ',' || cap_amount), revision
    FROM limits;
  DROP TABLE limits;
  ALTER TABLE limits_next RENAME TO limits;

  ${COUNTED}

  -- ids of the actors of changes, and of their sessions
  ALTER TABLE audit ADD COLUMN actor_id TEXT;
  ALTER TABLE audit ADD COLUMN session TEXT;

  PRAGMA writable_schema = ON;
  UPDATE sqlite_schema SET sql = '${USAGE}' WHERE type = 'table' AND name = 'usage';
  PRAGMA writable_schema = RESET;`,
]

/**
 * Opens a ledger's database and migrates its schema.
 * @param judge sees the database before anything is changed, and may throw
 * @throws CannotOpen
 */
export function openDatabase(file: string, judge: (db: DatabaseSync) => void): DatabaseSync {
  let db: DatabaseSync | undefined
  try {
    createFile(file)
    db = new DatabaseSync(file, { readBigInts: true, timeout: BUSY_TIMEOUT_MS })
    checkVersion(String(db.prepare('SELECT sqlite_version() AS version').get()!.version))
    judge(db)
    const { journal_mode: mode } = db.prepare('PRAGMA journal_mode = WAL').get()!
    if (mode !== 'wal')
      throw new CannotOpen(
        `${file} is on a file system where SQLite cannot keep a write-ahead log: take a folder on a local disk.`,
      )
    db.exec(`PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
    migrate(db, file)
    return db
  } catch (error) {
    db?.close()
    throw toCannotOpen(file, error)
  }
}

export function openMemoryDatabase(): DatabaseSync {
  const db = new DatabaseSync(':memory:', { readBigInts: true })
  migrate(db, ':memory:')
  return db
}

/** @throws CannotOpen for a version of SQLite that may lose committed transactions */
export function checkVersion(version: string): void {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number)
  const [a = 0, b = 0, c = 0] = OLDEST_SQLITE.split('.').map(Number)
  if ((major - a || minor - b || patch - c) >= 0) return
  throw new CannotOpen(
    `SQLite ${version} in this Node.js may lose committed rows: ${OLDEST_SQLITE} or newer is needed.`,
  )
}

/**
 * Locks a file for the life of this process: the kernel releases the lock even after `kill -9`.
 * @returns the lock, released by `close`; undefined while another process holds it
 */
export function lockFile(file: string): DatabaseSync | undefined {
  createFile(file)
  const lock = new DatabaseSync(file, { timeout: 0 })
  try {
    // The lock then outlives the transaction, so that the file can be written.
    lock.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT')
    return lock
  } catch (error) {
    lock.close()
    if (codeOf(error) === BUSY) return undefined
    throw error
  }
}

/** Creates a file that only its owner may read, unless it exists; SQLite itself would let others read it. */
export function createFile(file: string): void {
  try {
    // Never opens an existing file: closing it would release the locks that this process has on it.
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/** Runs writes in one transaction, which is on disk when this returns. @throws the error of a write; then nothing is stored */
export function transact<Result>(db: DatabaseSync, write: () => Result): Result {
  db.exec('BEGIN IMMEDIATE')
  try {
    const result = write()
    db.exec('COMMIT')
    return result
  } catch (error) {
    // Some errors have rolled back already.
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

function migrate(db: DatabaseSync, file: string): void {
  const tables = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'table'`).all()
  const isLedger = tables.some(({ name }) => name === 'meta')
  if (!isLedger && tables.length > 0)
    throw new CannotOpen(`${file} is a database, but not a ledger.`)
  const version = isLedger ? Number(db.prepare('SELECT version FROM meta').get()!.version) : 0
  if (version === SCHEMA) return
  if (version > SCHEMA) {
    throw new CannotOpen(
      `${file} was written by a newer version: its schema is ${version}, the newest known here ${SCHEMA}.`,
    )
  }
  const steps = [
    'BEGIN IMMEDIATE',
    ...(isLedger ? [...MIGRATIONS.slice(version - 1), 'DELETE FROM meta'] : [TABLES]),
    `INSERT INTO meta VALUES (${SCHEMA})`,
    'COMMIT',
  ]
  db.enableDefensive(false)
  db.exec(steps.join(';\n'))
  db.enableDefensive(true)
}

/** Whether an error reports a damaged database. */
export function isDamage(error: unknown): boolean {
  const code = codeOf(error)
  return code === CORRUPT || code === NOT_A_DATABASE
}

/** Whether a value was read that its column cannot have: a damaged page may still be a page. */
export function isMisread(error: unknown): boolean {
  return error instanceof TypeError || error instanceof SyntaxError
}

export function toCannotOpen(file: string, error: unknown): CannotOpen {
  if (error instanceof CannotOpen) return error
  if (isDamage(error) || isMisread(error)) {
    return new CannotOpen(
      `${file} is damaged or not a database (${(error as Error).message}): restore it from a backup.`,
    )
  }
  return unusable(file, error)
}

export function unusable(path: string, error: unknown): CannotOpen {
  return new CannotOpen(`${path} cannot be used: ${(error as Error).message}.`, { cause: error })
}

/** SQLite's primary result code of an error; 0 for an error of another kind. */
export function codeOf(error: unknown): number {
  return Number((error as { errcode?: number }).errcode) & 0xff
}
