/** Ledgers of older releases, made from one of this release. */
import type { DatabaseSync } from 'node:sqlite'

/** Makes the tables of schema 8, the last one with sums of 64 bits. Sums have to fit. */
export function toSchema8(db: DatabaseSync): void {
  db.exec(`BEGIN;
    CREATE TABLE account_8 (
      id TEXT NOT NULL PRIMARY KEY,
      balance INTEGER NOT NULL CHECK (balance BETWEEN -9000000000000000000 AND 9000000000000000000),
      paid INTEGER NOT NULL CHECK (paid IN (0, 1)),
      paid_in INTEGER NOT NULL DEFAULT 0 CHECK (paid_in BETWEEN 0 AND 4000000000000000000)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO account_8 SELECT id, usd * 1000000000000 + pico, paid,
      min(paid_in_usd, 3999999) * 1000000000000 + iif(paid_in_usd < 4000000, paid_in_pico, 1000000000000)
      FROM account;
    DROP TABLE account;
    ALTER TABLE account_8 RENAME TO account;

    CREATE TABLE spend_8 (
      account TEXT NOT NULL,
      key TEXT NOT NULL,
      window TEXT NOT NULL,
      amount INTEGER NOT NULL CHECK (amount BETWEEN 0 AND 9000000000000000000),
      PRIMARY KEY (account, key, window)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO spend_8 SELECT account, key, window, usd * 1000000000000 + pico FROM spend;
    DROP TABLE spend;
    ALTER TABLE spend_8 RENAME TO spend;
    CREATE INDEX spend_window ON spend (window);

    CREATE TABLE usage_8 (
      seq INTEGER PRIMARY KEY,
      kind TEXT NOT NULL CHECK (kind IN ('usage', 'top-up', 'adjust', 'orphan')),
      request TEXT NOT NULL,
      account TEXT NOT NULL,
      key TEXT,
      cost INTEGER NOT NULL CHECK (cost BETWEEN -4000000000000000000 AND 4000000000000000000),
      day TEXT,
      at INTEGER NOT NULL,
      body TEXT,
      UNIQUE (request, kind, account)
    ) STRICT;
    INSERT INTO usage_8 SELECT seq, kind, request, account, key, cost, day, at,
      iif(kind = 'usage', body, body ->> 'note') FROM usage ORDER BY seq;
    DROP TABLE usage;
    ALTER TABLE usage_8 RENAME TO usage;
    CREATE INDEX usage_account ON usage (account);
    CREATE INDEX usage_day ON usage (day) WHERE kind = 'usage';
    CREATE INDEX usage_orphan ON usage (kind) WHERE kind = 'orphan';

    CREATE TABLE total_8 (
      account TEXT NOT NULL,
      day TEXT NOT NULL,
      key TEXT NOT NULL,
      requests INTEGER NOT NULL CHECK (requests > 0),
      cost INTEGER NOT NULL CHECK (cost BETWEEN 0 AND 9000000000000000000),
      PRIMARY KEY (account, day, key)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO total_8 SELECT account, day, key, requests, usd * 1000000000000 + pico FROM total;
    DROP TABLE total;
    ALTER TABLE total_8 RENAME TO total;

    CREATE TABLE limits_8 (
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
    INSERT INTO limits_8 SELECT account, key, disabled, expires_at, rpm, concurrency,
      iif(list = '', NULL, CAST(substr(list, instr(list, ',') + 1) AS INTEGER)),
      iif(list = '', NULL, substr(list, 5, instr(list, ',') - 5)), revision FROM limits;
    DROP TABLE limits;
    ALTER TABLE limits_8 RENAME TO limits;

    ALTER TABLE audit DROP COLUMN actor_id;
    ALTER TABLE audit DROP COLUMN session;
    DROP TABLE counter;
    DROP TABLE reset;
    UPDATE meta SET version = 8;
    COMMIT`)
}
