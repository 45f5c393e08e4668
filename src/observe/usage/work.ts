/** Work of the thread of usage: owns the tables, keeps them level with the ledger, and answers questions. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import type { OpenAnnouncements } from '../../state/announcements.ts'
import type { LedgerReader, RequestId, LedgerSource } from '../../state/ledger/ledger.ts'
import { callsIn, type DecidedRule } from '../record.ts'
import type { NotedPoint } from '../../state/ledger/chain.ts'
import type { ThreadWork } from '../../threads/client.ts'
import { CalledTables, SharedCalls } from './called.ts'
import { chargeOf, rowsIn, type ChargeOfCall } from './charge.ts'
import {
  LedgerIndex,
  type NewBooking,
  type Checked,
  NO_CHAIN,
  type UsageDifference,
} from './ledger-index.ts'
import { SettledTables } from './settled.ts'
import { journalOf, type Journal, type JournalQuery } from './journal.ts'
import { balancesOf, statementOf, type Dates, type StatementSums } from './statement.ts'
import { Proof, type ChainsChecked, type MissingBooking, type MissingMoney } from './proof.ts'
import { answerUsage, type TooLarge, type UsageAnswer, type UsageQuery } from './query.ts'
import {
  unitOf,
  type TableSet,
  SETTLED,
  CALLED,
  SETTLED_BY_KEY,
  SETTLED_OVERALL,
  CALLED_BY_KEY,
  CALLED_OVERALL,
  SETTLED_SUMMARIES,
  FORMER_SUMS,
  EARNED_SUMS,
  CALLED_SUMS,
  addUp,
  startOf,
  TAGGED_QUANTITIES,
} from './tables.ts'
import { QUANTITIES, type BalancePoint } from '../../server/admin/resources/usage.ts'
import { createFile, lockFile, transact } from '../../state/sqlite/file.ts'

/** How long an answer may wait for the newest rows. */
const CHECK_MS = 250
const TICK_MS = 10_000
const EXCHANGE_MS = 1000
const RETRY_MS = 10_000
/** Number of ticks between two comparisons of all heads. */
const COMPARE_TICKS = 360
/** Retention of hours and their circumstances; days and months have none. */
const KEPT_HOURS = 400 * 24

interface WorkOptions {
  /** It is absent for tables in memory. */
  readonly folder: string | undefined
  readonly openLedger: () => Promise<LedgerReader>
  /** Opens the messages between gateways of one state; absent for a single gateway. */
  readonly openAnnouncements?: () => Promise<OpenAnnouncements | undefined>
  /** Rows that are read and written in one turn of the event loop. */
  readonly pageRows: number
  /** ms since epoch */
  readonly now: () => number
  readonly report: (report: UsageReport) => void
}

interface Opened {
  readonly tables: OpenTables
  readonly called: CalledTables
  /** Exchange of calls with other gateways. */
  readonly shared: SharedCalls | undefined
  readonly announcements: OpenAnnouncements | undefined
  readonly reader: LedgerReader
  readonly index: LedgerIndex
  readonly proof: Proof
}

/** Opens tables and ledger with the first message. */
export class UsageWork implements ThreadWork<UsageNotice, UsageQuestion> {
  readonly #options: WorkOptions
  #opened: Promise<Opened> | undefined
  #timer: NodeJS.Timeout | undefined
  #exchanging: NodeJS.Timeout | undefined
  #ticks = 0
  #isDoubted = false

  constructor(options: WorkOptions) {
    this.#options = options
  }

  take({ accounts, booked, called, isDoubted }: UsageNotice): void {
    const wasDoubted = this.#isDoubted
    this.#isDoubted = isDoubted ?? wasDoubted
    this.#use(async ({ index, called: tables, shared }) => {
      index.isFrozen = this.#isDoubted
      // Another ledger, or an older one, was accepted; or the right one is back.
      if (wasDoubted && !this.#isDoubted) {
        await index.open()
        this.#compare(index)
      }
      if (called !== undefined && shared) shared.add(called)
      else if (called !== undefined) tables.add(callsIn(called))
      if (booked !== undefined) index.book(rowsIn(booked))
      if (accounts) index.note(accounts)
    })
  }

  async answer(question: UsageQuestion): Promise<unknown> {
    const opened = await this.#open()
    const { index, called, tables, proof } = opened
    const proven = <Result>(checked: Checked, result: Result): Proven<Result> => ({
      result,
      checked,
      since: called.since(),
    })
    const check = (accounts?: readonly string[]) =>
      index.check(accounts, performance.now() + CHECK_MS)
    if ('usage' in question || 'decisions' in question || 'failures' in question) {
      await exchange(opened)
    }
    if ('usage' in question) {
      const { accounts, queries } = question.usage
      const checked = await check(accounts)
      const answers = queries.map((query) => answerUsage(tables.db, query, this.#options.now()))
      return proven(checked, answers)
    }
    if ('statement' in question) {
      const { account, from, to, zone } = question.statement
      const checked = await check([account])
      return proven(checked, statementOf(tables.db, account, { from, to, zone }))
    }
    if ('balances' in question) {
      const { account, rollup, from, to, zone } = question.balances
      const checked = await check([account])
      return proven(checked, balancesOf(tables.db, account, rollup, { from, to, zone }))
    }
    if ('journal' in question) {
      const query = question.journal
      const checked = await check(query.accounts.map(([id]) => id))
      return proven(checked, await journalOf(tables.db, opened.reader, query))
    }
    if ('decisions' in question) return decisionsOf(tables.db, question.decisions)
    if ('refusals' in question) return refusalsIn(tables.db, question.refusals)
    if ('failures' in question) return failuresSince(tables.db, question.failures)
    if ('charge' in question) {
      const { request, account } = question.charge
      await check(account === undefined ? undefined : [account])
      return chargeOf(opened.reader, tables.db, request, account)
    }
    if ('newestCredit' in question) return newestCredit(tables.db, question.newestCredit)
    if ('due' in question) return dueBlocks(tables.db, question.due)
    if ('lastUsed' in question) return lastUses(tables.db, question.lastUsed)
    if ('verify' in question) return proven(await index.verify(), undefined)
    if ('chains' in question) {
      await index.check(undefined, Infinity, true)
      return proof.chains(unitOf('month', question.chains))
    }
    if ('bases' in question) return proof.bases()
    if ('missing' in question) return proof.missing()
    if ('missingBookings' in question) return proof.missingBookings()
    if ('checkChains' in question) return proof.checkChains(question.checkChains)
    return index.rebuild()
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearInterval(this.#exchanging)
    const opened = await this.#opened?.catch(() => undefined)
    if (!opened) return
    await exchange(opened)
    await opened.index.close()
    await opened.reader.close()
    opened.announcements?.close()
    opened.tables.close()
  }

  #open(): Promise<Opened> {
    if (!this.#opened) {
      this.#opened = this.#begin()
      this.#opened.catch(() => {
        // A message after the pause tries again.
        setTimeout(() => (this.#opened = undefined), RETRY_MS).unref()
      })
    }
    return this.#opened
  }

  async #begin(): Promise<Opened> {
    const { folder, openLedger, openAnnouncements, pageRows, now, report } = this.#options
    const reader = await openLedger()
    let tables: OpenTables | undefined
    let announcements: OpenAnnouncements | undefined
    try {
      announcements = await openAnnouncements?.()
      tables = openTables(folder)
      const { db } = tables
      const differs = (differences: readonly UsageDifference[]) => report({ differences })
      const lacks = (account: string) => report({ lacks: account })
      const booked = (bookings: readonly NewBooking[]) => report({ booked: bookings })
      const index = new LedgerIndex({ db, reader, pageRows, now, differs, lacks, booked })
      index.isFrozen = this.#isDoubted
      await index.open()
      // What a kill has left untold.
      index.tellBookings()
      // Questions that are not about all accounts need not wait for it.
      this.#compare(index)
      this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
      const called = new CalledTables(db)
      const shared = announcements && new SharedCalls(announcements.announcements, db, called)
      const proof = new Proof({ db, reader, pageRows })
      const opened = { tables, called, shared, announcements, reader, index, proof }
      if (shared) this.#exchanging ??= setInterval(() => void exchange(opened), EXCHANGE_MS).unref()
      return opened
    } catch (error) {
      tables?.close()
      announcements?.close()
      await reader.close()
      throw error
    }
  }

  #compare(index: LedgerIndex): void {
    index.compare().catch((error: Error) => this.#options.report({ warning: error.message }))
  }

  #tick(): void {
    this.#ticks++
    this.#use(({ index, tables: { db } }) => {
      this.#options.report({ lag: index.lag })
      index.lookAgain()
      if (this.#ticks % COMPARE_TICKS !== 0) return
      const oldest = unitOf('hour', this.#options.now()) - KEPT_HOURS
      for (const table of HOURS) {
        db.prepare(`DELETE FROM ${table} WHERE unit < ?`).run(oldest)
      }
      this.#compare(index)
    })
  }

  /** Logs failures; the ledger keeps all rows, and calls do not depend on this work. */
  #use(work: (opened: Opened) => void | Promise<void>): void {
    this.#open()
      .then(work)
      .catch((error: unknown) => this.#options.report({ warning: (error as Error).message }))
  }
}

/** Exchanges calls. While other gateways cannot be reached, calls wait, and an answer lacks them. */
async function exchange({ shared }: Opened): Promise<void> {
  await shared?.exchange().catch(() => undefined)
}

/** It is raised when files of the previous version cannot be continued. */
const VERSION = 10

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

const EARNED = 'INTEGER NOT NULL DEFAULT 0'
const SETTLED_VALUES = [
  'calls INTEGER NOT NULL, billions INTEGER NOT NULL, rest INTEGER NOT NULL, estimated INTEGER NOT NULL',
  ...QUANTITIES.map((name) => `${name} ${name === 'seconds' ? 'REAL' : 'INTEGER'}`),
  columns(EARNED_SUMS, EARNED),
].join(', ')

const CALLED_VALUES = columns(CALLED_SUMS, 'INTEGER NOT NULL DEFAULT 0')

const BY_ACCOUNT = SETTLED_SUMMARIES.filter((set) => set !== SETTLED_OVERALL)
const CALLED_KEYS = tables(CALLED_BY_KEY, CALLED_VALUES)
const SUMMARIES = BY_ACCOUNT.map((set) => tables(set, SETTLED_VALUES)).join('')
const OVERALL = tables(SETTLED_OVERALL, SETTLED_VALUES) + tables(CALLED_OVERALL, CALLED_VALUES)

/** Sums by tag and by end user: of days, or of months. */
const tagged = (table: 'tagged' | 'tagged_month') => `
  CREATE TABLE ${table} (unit INTEGER NOT NULL, account TEXT NOT NULL, key TEXT NOT NULL,
    kind TEXT NOT NULL, value TEXT NOT NULL, calls INTEGER NOT NULL, billions INTEGER NOT NULL, rest INTEGER NOT NULL,
    ${columns(TAGGED_QUANTITIES, 'INTEGER')}, ${columns(EARNED_SUMS, EARNED)},
    PRIMARY KEY (unit, account, kind, value, key)) STRICT, WITHOUT ROWID;
  CREATE INDEX ${table}_account ON ${table} (account, unit);`

/** The chain of an account before it was read again. */
const NOTED = `
  CREATE TABLE noted (account TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL,
    chain TEXT NOT NULL) STRICT, WITHOUT ROWID;`

const SCHEMA = `
  ${tables(SETTLED, SETTLED_VALUES)}
  ${tables(CALLED, CALLED_VALUES)}
  ${OVERALL}
  ${SUMMARIES}
  ${CALLED_KEYS}
  ${tagged('tagged')}
  ${tagged('tagged_month')}
  CREATE TABLE booking (account TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
    kind TEXT NOT NULL, amount INTEGER NOT NULL, reference TEXT NOT NULL, note TEXT, actor TEXT, expires INTEGER, details TEXT,
    promotional INTEGER NOT NULL DEFAULT 0, balance TEXT,
    PRIMARY KEY (account, seq)) STRICT, WITHOUT ROWID;
  -- The last row of an account that is in the tables, and the chain from the row after the base to it.
  CREATE TABLE progress (account TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL,
    request TEXT NOT NULL, n INTEGER NOT NULL, chain TEXT NOT NULL, after INTEGER NOT NULL,
    month INTEGER NOT NULL, blocks TEXT NOT NULL DEFAULT '[]') STRICT, WITHOUT ROWID;
  ${NOTED}
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

/** Tables of hours, which have a limited retention. */
const HOURS = [
  ...[SETTLED, CALLED, SETTLED_OVERALL, CALLED_OVERALL].map(({ table }) => `${table}_hour`),
  'failed',
]

/** Most gateways that share a folder; each has a file of its own. */
const MOST_FILES = 32

/** A database of usage that belongs to this process. */
interface OpenTables {
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
    if (version === 1 || version === 2) renew(db, version)
    if (Number(version) > 0 && Number(version) < 4) addChains(db)
    if (Number(version) > 0 && Number(version) < 6) addTeams(db, Number(version))
    if (Number(version) > 0 && Number(version) < 5) addSummaries(db)
    if (Number(version) > 0 && Number(version) < 7) addTaggedMonths(db)
    if (Number(version) > 0 && Number(version) < 8) addEnds(db)
    if (Number(version) > 0 && Number(version) < 9) addCalledKeys(db)
    if (Number(version) > 0 && Number(version) < VERSION) addEarnings(db)
    db.exec(ADDED)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** Parts a cost into two columns. Files of version 1 lack the sums of all accounts too. */
function renew(db: DatabaseSync, version: number): void {
  const sets = version === 1 ? [SETTLED] : [SETTLED, SETTLED_OVERALL]
  const parted = sets.flatMap(({ table, rollups }) => rollups.map((rollup) => `${table}_${rollup}`))
  transact(db, () => {
    for (const table of [...parted, 'tagged']) {
      db.exec(`ALTER TABLE ${table} RENAME COLUMN cost TO rest;
        ALTER TABLE ${table} ADD COLUMN billions INTEGER NOT NULL DEFAULT 0;
        UPDATE ${table} SET billions = rest / 1000000000, rest = rest % 1000000000`)
    }
    if (version === 1) {
      db.exec(OVERALL)
      addUp(db, SETTLED, SETTLED_OVERALL, FORMER_SUMS)
      addUp(db, CALLED, CALLED_OVERALL, CALLED_SUMS)
    }
    db.exec('PRAGMA user_version = 3')
  })
}

/** Adds when credit ends. No booking from before has an end. */
function addEnds(db: DatabaseSync): void {
  transact(db, () =>
    db.exec(`ALTER TABLE booking ADD COLUMN expires INTEGER; PRAGMA user_version = 8`),
  )
}

/** Adds circumstances by key, made of what is there. */
function addCalledKeys(db: DatabaseSync): void {
  transact(db, () => {
    db.exec(CALLED_KEYS)
    addUp(db, CALLED, CALLED_BY_KEY, CALLED_SUMS)
    db.exec(`PRAGMA user_version = 9`)
  })
}

/**
 * Adds what calls have earned. Of calls that were read before it is unknown; accounts with promotional or expiring credit are read again.
 */
function addEarnings(db: DatabaseSync): void {
  const sets = [SETTLED, ...SETTLED_SUMMARIES].flatMap(({ table, rollups }) =>
    rollups.map((rollup) => `${table}_${rollup}`),
  )
  transact(db, () => {
    for (const table of [...sets, 'tagged', 'tagged_month']) {
      const present = new Set(
        db
          .prepare(`PRAGMA table_info(${table})`)
          .all()
          .map((one) => one.name),
      )
      for (const name of EARNED_SUMS) {
        if (!present.has(name)) db.exec(`ALTER TABLE ${table} ADD COLUMN ${name} ${EARNED}`)
      }
    }
    db.exec(`ALTER TABLE booking ADD COLUMN details TEXT;
      ALTER TABLE booking ADD COLUMN promotional ${EARNED};
      ALTER TABLE booking ADD COLUMN balance TEXT;
      ALTER TABLE progress ADD COLUMN blocks TEXT NOT NULL DEFAULT '[]';
      PRAGMA user_version = ${VERSION}`)
    const tables = new SettledTables(db)
    const others = `SELECT DISTINCT account FROM booking WHERE kind IN ('promo', 'refund', 'expire') OR expires > 0`
    for (const { account } of db.prepare(others).all()) tables.remove(String(account))
  })
}

/** Adds what chains need. Their rows are read again, because files of version 3 have none. */
function addChains(db: DatabaseSync): void {
  transact(db, () =>
    db.exec(`ALTER TABLE booking ADD COLUMN actor TEXT;
      ALTER TABLE progress ADD COLUMN n INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE progress ADD COLUMN chain TEXT NOT NULL DEFAULT '${NO_CHAIN}';
      ALTER TABLE progress ADD COLUMN after INTEGER NOT NULL DEFAULT 0;
      ALTER TABLE progress ADD COLUMN month INTEGER NOT NULL DEFAULT 0;
      ${NOTED}
      PRAGMA user_version = 4`),
  )
}

/**
 * Adds the sums by account, by model and by key, made of what is there, and quantities of tags and end users, which stay unknown
 * for earlier days until the index is made again.
 */
function addSummaries(db: DatabaseSync): void {
  transact(db, () => {
    db.exec(SUMMARIES)
    for (const name of ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens']) {
      db.exec(`ALTER TABLE tagged ADD COLUMN ${name} INTEGER`)
    }
    for (const set of BY_ACCOUNT) addUp(db, SETTLED, set, FORMER_SUMS)
    db.exec('PRAGMA user_version = 6')
  })
}

/** Adds the team of a call, which calls of earlier releases do not have. @param version that of the file */
function addTeams(db: DatabaseSync, version: number): void {
  transact(db, () => {
    for (const { table, groups } of version < 5
      ? [SETTLED, CALLED]
      : [SETTLED, CALLED, SETTLED_BY_KEY]) {
      const former = groups.filter((name) => name !== 'team').join(', ')
      db.exec(`CREATE TABLE named_group (id INTEGER PRIMARY KEY, ${columns(groups, 'TEXT NOT NULL')},
          UNIQUE (${groups.join(', ')})) STRICT;
        INSERT INTO named_group (id, team, ${former}) SELECT id, '', ${former} FROM ${table}_group;
        DROP TABLE ${table}_group;
        ALTER TABLE named_group RENAME TO ${table}_group`)
    }
    // Files of versions before 5 get further tables next.
    if (version === 5) db.exec('PRAGMA user_version = 6')
  })
}

/** Adds the sums by tag and by end user of months, made of those of days. */
function addTaggedMonths(db: DatabaseSync): void {
  const month = (part: '%Y' | '%m') =>
    `CAST(strftime('${part}', unit * 86400, 'unixepoch') AS INTEGER)`
  const sums = ['calls', 'billions', 'rest', ...TAGGED_QUANTITIES]
  transact(db, () =>
    db.exec(`${tagged('tagged_month')}
      INSERT INTO tagged_month (unit, account, kind, value, key, ${sums.join(', ')})
      SELECT ${month('%Y')} * 12 + ${month('%m')} - 1 AS month, account, kind, value, key,
        ${sums.map((name) => `sum(${name})`).join(', ')}
      FROM tagged GROUP BY month, account, kind, value, key;
      PRAGMA user_version = 7`),
  )
}

// Sums of decisions of guards, and of failures of vendors. They cover this gateway, and may miss calls.

/** Filters of decisions. Values of one filter are alternatives. */
interface DecisionsQuery {
  /** ms since epoch, half-open; widened to whole days. */
  readonly from: number
  readonly to: number
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
}

interface CountedDecision extends DecidedRule {
  readonly calls: number
}

export interface DecisionSums {
  /** Oldest first; `start` in ms since epoch. */
  readonly days: readonly (CountedDecision & { readonly start: number })[]
  readonly keys: readonly (CountedDecision & { readonly account: string; readonly key: string })[]
}

/** Most keys and rules of one answer. */
const MOST_KEYS = 500

function decisionsOf(db: DatabaseSync, { from, to, accounts, keys }: DecisionsQuery): DecisionSums {
  const conditions = ['day BETWEEN ? AND ?']
  const values: SQLInputValue[] = [unitOf('day', from), unitOf('day', Math.max(from, to - 1))]
  for (const [column, wanted] of [
    ['account', accounts],
    ['key', keys],
  ] as const) {
    if (wanted.length === 0) continue
    conditions.push(`${column} IN (${wanted.map(() => '?').join(', ')})`)
    values.push(...wanted)
  }
  const where = conditions.join(' AND ')
  const sum = (columns: string, rest: string) =>
    db
      .prepare(`SELECT ${columns}, sum(calls) AS calls FROM decided WHERE ${where} ${rest}`)
      .all(...values) as unknown[]
  const groups = 'rule, mode, side, outcome'
  const days = sum(
    `day, ${groups}`,
    `GROUP BY day, ${groups} ORDER BY day, rule, mode, side, outcome`,
  ) as (CountedDecision & { readonly day: number })[]
  const byKey = sum(
    `account, key, ${groups}`,
    `AND rule <> '' GROUP BY account, key, ${groups} ORDER BY sum(calls) DESC, key, rule LIMIT ${MOST_KEYS}`,
  ) as DecisionSums['keys']
  return {
    days: days.map(({ day, ...one }) => ({ ...one, start: startOf('day', day) })),
    keys: byKey,
  }
}

interface RefusalSum {
  readonly limit: string
  readonly refused: number
  readonly keys: readonly { readonly key: string; readonly refused: number }[]
}

/** Range of refusals, ms since epoch, half-open, widened to whole hours; and the number of keys for each limit. */
interface RefusalsQuery {
  readonly from: number
  readonly to: number
  readonly keys: number
}

/** The limits that refused calls of a range, the most frequent first. */
function refusalsIn(db: DatabaseSync, { from, to, keys }: RefusalsQuery): RefusalSum[] {
  const rows = db
    .prepare(
      // Few groups have a limit: they are found by an index of their own.
      `SELECT g.limited_by AS "limit", g.key AS key, sum(s.refused) AS refused
       FROM called_group g CROSS JOIN called_hour s
         ON s.group_id = g.id AND s.unit >= ? AND s.unit <= ?
       WHERE g.limited_by <> '' GROUP BY g.limited_by, g.key ORDER BY sum(s.refused) DESC`,
    )
    .all(unitOf('hour', from), unitOf('hour', Math.max(from, to - 1)))
  const refused = rows as unknown[] as (RefusalSum & { readonly key: string })[]
  return [...Map.groupBy(refused, ({ limit }) => limit)]
    .map(([limit, own]) => ({
      limit,
      refused: own.reduce((sum, one) => sum + one.refused, 0),
      keys: own.slice(0, keys).map(({ key, refused }) => ({ key, refused })),
    }))
    .toSorted((one, other) => other.refused - one.refused)
}

export interface FailureSum {
  readonly model: string
  readonly deployment: string
  readonly class: string
  readonly attempts: number
}

/** The failures since a moment, ms since epoch, which is widened to a whole hour. */
function failuresSince(db: DatabaseSync, from: number): readonly FailureSum[] {
  const select = db.prepare(
    `SELECT model, deployment, class, sum(attempts) AS attempts FROM failed WHERE unit >= ?
     GROUP BY model, deployment, class ORDER BY attempts DESC`,
  )
  return select.all(unitOf('hour', from)) as unknown[] as FailureSum[]
}

interface DueBlock {
  readonly account: string
  /** `<kind>:<reference>` of its booking. */
  readonly name: string
}

/** `seq` of the newest credit of an account; 0 without one. */
function newestCredit(db: DatabaseSync, account: string): number {
  const credits = `SELECT ifnull(max(seq), 0) AS seq FROM booking WHERE account = ? AND kind IN ('top-up', 'promo')`
  return Number(db.prepare(credits).get(account)!.seq)
}

function dueBlocks(db: DatabaseSync, now: number): DueBlock[] {
  const due = db.prepare(
    `SELECT account, kind || ':' || reference AS name FROM booking AS one
     WHERE expires <= ? AND NOT EXISTS (SELECT 1 FROM booking AS ended WHERE ended.account = one.account
       AND ended.kind = 'expire' AND ended.reference = one.kind || ':' || one.reference)`,
  )
  return due.all(now) as unknown as DueBlock[]
}

// Last use of keys: the hour of their last charged call.

interface AccountKey {
  readonly account: string
  readonly key: string
}

interface LastUse extends AccountKey {
  /** When the hour begins, ms since epoch. */
  readonly at: number
}

const LAST = 'SELECT max(unit) FROM settled_hour WHERE group_id = g.id'

/** Last uses of these keys, or of all; keys without a call in the retained hours are left out. */
function lastUses(db: DatabaseSync, keys: readonly AccountKey[] | 'all'): readonly LastUse[] {
  const select = `SELECT account, key, max((${LAST})) AS unit FROM settled_group g`
  const rows =
    keys === 'all'
      ? db.prepare(`${select} GROUP BY account, key`).all()
      : oneByOne(db.prepare(`${select} WHERE account = ? AND key = ?`), keys)
  const used = rows as unknown[] as (AccountKey & { readonly unit: number | null })[]
  return used.flatMap(({ account, key, unit }) =>
    unit === null ? [] : [{ account, key, at: startOf('hour', unit) }],
  )
}

function oneByOne(select: StatementSync, keys: readonly AccountKey[]): unknown[] {
  return keys.map(({ account, key }) => select.get(account, key))
}

export interface UsageInit {
  readonly folder: string | undefined
  readonly source: LedgerSource
}

/** Accounts that may have new rows, charges that were booked just now, and ended calls, both as lines. */
export interface UsageNotice {
  readonly accounts?: readonly string[]
  readonly booked?: string
  readonly called?: string
  /** Whether the ledger is not the one that was used until now; absent where that has not changed. */
  readonly isDoubted?: boolean
}

/** The accounts of an answer; absent for all. They are compared with the ledger first. */
interface Scope {
  readonly accounts?: readonly string[] | undefined
}

export interface UsageQuestions {
  usage: {
    readonly ask: Scope & { readonly queries: readonly UsageQuery[] }
    readonly answer: Proven<readonly (UsageAnswer | TooLarge)[]>
  }
  statement: {
    readonly ask: Dates & { readonly account: string }
    readonly answer: Proven<StatementSums>
  }
  balances: {
    readonly ask: Dates & { readonly account: string; readonly rollup: 'hour' | 'day' }
    readonly answer: Proven<readonly BalancePoint[]>
  }
  journal: { readonly ask: JournalQuery; readonly answer: Proven<Journal> }
  decisions: { readonly ask: DecisionsQuery; readonly answer: DecisionSums }
  refusals: { readonly ask: RefusalsQuery; readonly answer: readonly RefusalSum[] }
  /** Failures of vendors since a moment, ms since epoch. */
  failures: { readonly ask: number; readonly answer: readonly FailureSum[] }
  charge: {
    readonly ask: {
      readonly request: RequestId
      /** Owner of the call; absent where it is unknown. */
      readonly account?: string
    }
    readonly answer: ChargeOfCall | undefined
  }
  newestCredit: { readonly ask: string; readonly answer: number }
  /** Blocks of credit whose end is not booked. Asked with a moment, ms since epoch. */
  due: { readonly ask: number; readonly answer: readonly DueBlock[] }
  lastUsed: { readonly ask: readonly AccountKey[] | 'all'; readonly answer: readonly LastUse[] }
  verify: { readonly ask: true; readonly answer: Proven<undefined> }
  /** Chains of accounts with rows in the month of a moment, ms since epoch, or later. */
  chains: { readonly ask: number; readonly answer: ReturnType<Proof['chains']> }
  /** Where the folded rows of each account end. */
  bases: { readonly ask: true; readonly answer: Awaited<ReturnType<Proof['bases']>> }
  /** Recomputes all chains. It asks with noted places by account. */
  checkChains: {
    readonly ask: ReadonlyMap<string, readonly NotedPoint[]>
    readonly answer: ChainsChecked
  }
  /** What the tables have and the ledger has not: sums of accounts, and bookings. */
  missing: { readonly ask: true; readonly answer: readonly MissingMoney[] }
  missingBookings: { readonly ask: true; readonly answer: readonly MissingBooking[] }
  /** Reads the whole ledger again, in the background. */
  rebuild: { readonly ask: true; readonly answer: undefined }
}

/** An answer with the result of the comparison with the ledger. */
export interface Proven<Result> {
  readonly result: Result
  readonly checked: Checked
  /** When circumstances begin, ms since epoch; undefined where there are none yet. */
  readonly since: number | undefined
}

export type UsageQuestion = {
  [Name in keyof UsageQuestions]: { readonly [_ in Name]: UsageQuestions[Name]['ask'] }
}[keyof UsageQuestions]

export type UsageReport =
  | { readonly lag: number }
  | { readonly differences: readonly UsageDifference[] }
  | { readonly lacks: string }
  /** Bookings of the last day: of all gateways the first one that hears of each tells it. */
  | { readonly booked: readonly NewBooking[] }
  | { readonly warning: string }
