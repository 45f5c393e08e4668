/** Work of the thread of usage: owns the tables, keeps them level with the ledger, and answers questions. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { OpenAnnouncements } from '../../state/announcements.ts'
import type { LedgerReader } from '../../state/ledger/ledger.ts'
import { callsIn } from '../record.ts'
import type { ThreadWork } from '../../threads/client.ts'
import { CalledTables, SharedCalls } from './called.ts'
import { chargeOf, rowsIn } from './charge.ts'
import { decisionsOf, failuresSince, refusalsIn } from './decisions.ts'
import { LedgerIndex, type Checked, type UsageDifference } from './ledger-index.ts'
import { type Proven, type UsageNotice, type UsageQuestion, type UsageReport } from './messages.ts'
import { answerUsage } from './query.ts'
import { balancesOf, statementOf, lastUses } from './statement.ts'
import {
  unitOf,
  type TableSet,
  SETTLED,
  CALLED,
  SETTLED_OVERALL,
  CALLED_OVERALL,
  SETTLED_SUMS,
  CALLED_SUMS,
  addUp,
} from './tables.ts'
import { QUANTITIES } from '../../server/admin/resources/usage.ts'
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
  /** Absent for tables in memory. */
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
}

/** Opens tables and ledger with the first message. */
export class UsageWork implements ThreadWork<UsageNotice, UsageQuestion> {
  readonly #options: WorkOptions
  #opened: Promise<Opened> | undefined
  #timer: NodeJS.Timeout | undefined
  #exchanging: NodeJS.Timeout | undefined
  #ticks = 0

  constructor(options: WorkOptions) {
    this.#options = options
  }

  take({ accounts, booked, called }: UsageNotice): void {
    this.#use(({ index, called: tables, shared }) => {
      if (called !== undefined && shared) shared.add(called)
      else if (called !== undefined) tables.add(callsIn(called))
      if (booked !== undefined) index.book(rowsIn(booked))
      if (accounts) index.note(accounts)
    })
  }

  async answer(question: UsageQuestion): Promise<unknown> {
    const opened = await this.#open()
    const { index, called, tables } = opened
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
      const { account, from, to } = question.statement
      const checked = await check([account])
      return proven(checked, statementOf(tables.db, account, from, to))
    }
    if ('balances' in question) {
      const { account, rollup, from, to } = question.balances
      const checked = await check([account])
      return proven(checked, balancesOf(tables.db, account, rollup, from, to))
    }
    if ('decisions' in question) return decisionsOf(tables.db, question.decisions)
    if ('refusals' in question) return refusalsIn(tables.db, question.refusals)
    if ('failures' in question) return failuresSince(tables.db, question.failures)
    if ('charge' in question) {
      const { request, account } = question.charge
      if (account === undefined) await check()
      return chargeOf(opened.reader, tables.db, request, account)
    }
    if ('lastUsed' in question) return lastUses(tables.db, question.lastUsed)
    if ('verify' in question) return proven(await index.verify(), undefined)
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
      const index = new LedgerIndex({ db, reader, pageRows, now, differs })
      await index.open()
      // Questions that are not about all accounts need not wait for it.
      this.#compare(index)
      this.#timer ??= setInterval(() => this.#tick(), TICK_MS).unref()
      const called = new CalledTables(db)
      const shared = announcements && new SharedCalls(announcements.announcements, db, called)
      const opened = { tables, called, shared, announcements, reader, index }
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
