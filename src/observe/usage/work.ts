/** Work of the thread of usage: owns the tables, keeps them level with the ledger, and answers questions. */
import type { OpenAnnouncements } from '../../state/announcements.ts'
import type { LedgerReader } from '../../state/ledger/reader.ts'
import { callsIn } from '../record.ts'
import type { ThreadWork } from '../../threads/client.ts'
import { lastUses } from './last-used.ts'
import { CalledTables } from './called.ts'
import { chargeOf, rowsIn } from './charge.ts'
import { decisionsOf, failuresSince, refusalsIn } from './decisions.ts'
import { LedgerIndex, type Checked, type UsageDifference } from './ledger-index.ts'
import { type Proven, type UsageNotice, type UsageQuestion, type UsageReport } from './messages.ts'
import { answerUsage } from './query.ts'
import { SharedCalls } from './shared-calls.ts'
import { balancesOf, statementOf } from './statement.ts'
import { HOURS, openTables, unitOf, type OpenTables } from './tables.ts'

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
