/**
 * Which ledger a folder holds. The ledger has an identity, and the file that locks the folder remembers it with its size, so
 * that a ledger that is gone is not taken for a new one.
 */
import type { DatabaseSync } from 'node:sqlite'
import { transact } from './file.ts'

/** What is remembered of a ledger. */
export interface KnownLedger {
  readonly identity: string
  /** ms since epoch */
  readonly created: number
  readonly accounts: number
  /** Number of the newest row. */
  readonly seq: number
  /** Time of the newest row, ms since epoch; without rows that of the creation. */
  readonly written: number
}

/** The identity of a database; undefined for one without, such as a ledger of an older version. */
export function identityOf(db: DatabaseSync): string | undefined {
  const known = db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'identity'`).get()
  return known && (db.prepare('SELECT id FROM identity').get()?.id as string | undefined)
}

/** What there is to remember of a ledger now. */
export function describe(db: DatabaseSync): KnownLedger {
  const row = db
    .prepare(
      `SELECT id AS identity, created, (SELECT count(*) FROM account) AS accounts,
        max(folded_to, ifnull(newest.seq, 0)) AS seq, newest.at
      FROM identity LEFT JOIN (SELECT seq, at FROM usage ORDER BY seq DESC LIMIT 1) AS newest`,
    )
    .get()!
  const [created, accounts, seq] = [row.created, row.accounts, row.seq].map(Number)
  const written = Number(row.at ?? created)
  return { identity: String(row.identity), created, accounts, seq, written } as KnownLedger
}

/** What the file of a lock remembers; undefined if nothing. */
export function recall(lock: DatabaseSync): KnownLedger | undefined {
  if (!lock.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'known'`).get()) return undefined
  return lock.prepare('SELECT * FROM known').get() as KnownLedger | undefined
}

/** Replaces what the file of a lock remembers. */
export function remember(lock: DatabaseSync, known: KnownLedger): void {
  const { identity, created, accounts, seq, written } = known
  transact(lock, () => {
    lock.exec(`CREATE TABLE IF NOT EXISTS known (identity TEXT NOT NULL, created INTEGER NOT NULL,
      accounts INTEGER NOT NULL, seq INTEGER NOT NULL, written INTEGER NOT NULL) STRICT;
      DELETE FROM known`)
    const insert = lock.prepare('INSERT INTO known VALUES (?, ?, ?, ?, ?)')
    insert.run(identity, created, accounts, seq, written)
  })
}

/** Empties the memory of a lock's file. */
export function forget(lock: DatabaseSync): void {
  lock.exec('DROP TABLE IF EXISTS known')
}
