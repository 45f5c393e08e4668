/**
 * Usage of calls by account, key, model and time, proved by the ledger's own sums. A thread makes the sums from the ledger's
 * rows and the ended calls; nothing on the way of a request waits for it.
 */
import { extname } from 'node:path'
import type { ConsolaInstance } from 'consola'
import { formatPico } from '../../money/money.ts'
import type { BookedCharge, LedgerReader, LedgerSource } from '../../state/ledger/ledger.ts'
import { LineLimit } from '../access-log.ts'
import { LocalThread, startWorker, ThreadClient, type WorkThread } from '../../threads/client.ts'
import type { NewBooking, UsageDifference } from './ledger-index.ts'
import {
  UsageWork,
  type UsageInit,
  type UsageNotice,
  type UsageQuestion,
  type UsageQuestions,
  type UsageReport,
} from './work.ts'

interface UsageOptions {
  /** It is absent for tables in memory. */
  readonly folder: string | undefined
  /** The ledger; a reader is used in this thread. */
  readonly source: LedgerSource | LedgerReader
  /** Makes others hand over collected calls, before a question. */
  readonly collect: () => void
  /** Whether the ledger is not the one that was used until now. */
  readonly isDoubted: () => boolean
  /** It is called where a shared ledger has lost rows of an account for good. */
  readonly lacks: (account: string) => void
  /** It is called for bookings of the last day that were read; some were reported before. */
  readonly booked?: (bookings: readonly NewBooking[]) => void
  readonly log: Pick<ConsolaInstance, 'error' | 'warn'>
}

/** Rows read in one turn of the event loop of calls. */
const LOCAL_PAGE_ROWS = 100
/** Most characters of lines that are handed over at once; further ones are left out. */
const MOST_CHARACTERS = 4 * 1024 * 1024

class Lines {
  #lines: string[] = []
  #length = 0

  /** @returns false where there is no room for them */
  add(lines: string): boolean {
    if (this.#length > MOST_CHARACTERS) return false
    this.#lines.push(lines)
    this.#length += lines.length
    return true
  }

  /** All lines, separated by line feeds; '' where there are none. */
  take(): string {
    const lines = this.#lines.join('\n')
    this.#lines = []
    this.#length = 0
    return lines
  }
}

/** The index of usage. The owner calls `flush` from time to time, and `close` before it closes the ledger. */
export class UsageIndex {
  readonly #options: UsageOptions
  readonly #thread: ThreadClient<UsageNotice, UsageQuestion, UsageReport>
  /** Accounts with new rows of this gateway. */
  readonly #own = new Set<string>()
  /** Accounts with new rows, of any gateway, that have to be read. */
  readonly #unread = new Set<string>()
  /** It is called with accounts that have new rows of any gateway. */
  onNew: (accounts: readonly string[]) => void = () => {}
  /** It is called with accounts that have new rows of this gateway. */
  onSettled: (accounts: readonly string[]) => void = () => {}
  readonly #booked = new Lines()
  readonly #called = new Lines()
  readonly #lines = new LineLimit(() => {}, 1)
  #isDoubted = false
  /** Number of rows of the ledger that were not read yet, as last reported. */
  lag = 0
  differences = 0

  constructor(options: UsageOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      name: 'the index of usage',
      start: () => startThread(options),
      heard: (report) => this.#onReport(report),
      ended: () => {},
      log: options.log,
    })
  }

  settled(account: string): void {
    this.#own.add(account)
    this.#unread.add(account)
  }

  /** Queues a charge that was booked by this gateway: its row need not be read. */
  booked(charge: BookedCharge): void {
    this.#own.add(charge.account)
    if (!this.#booked.add(lineOfCharge(charge))) this.#unread.add(charge.account)
  }

  settledElsewhere(accounts: Iterable<string>): void {
    for (const account of accounts) this.#unread.add(account)
  }

  called(lines: string): void {
    this.#called.add(lines)
  }

  flush(): void {
    const [own, accounts] = [[...this.#own], [...this.#unread]]
    const [booked, called] = [this.#booked.take(), this.#called.take()]
    const all = new Set([...own, ...accounts])
    const isDoubted = this.#options.isDoubted()
    const hasChanged = isDoubted !== this.#isDoubted
    if (all.size === 0 && called === '' && !hasChanged) return
    this.#isDoubted = isDoubted
    if (own.length > 0) this.onSettled(own)
    if (all.size > 0) this.onNew([...all])
    this.#thread.post({
      accounts,
      ...(booked !== '' && { booked }),
      ...(called !== '' && { called }),
      ...(hasChanged && { isDoubted }),
    })
    this.#own.clear()
    this.#unread.clear()
  }

  /** @throws Unavailable while the index cannot be read */
  ask<Name extends keyof UsageQuestions>(
    name: Name,
    ask: UsageQuestions[Name]['ask'],
  ): Promise<UsageQuestions[Name]['answer']> {
    this.#options.collect()
    this.flush()
    return this.#thread.ask({ [name]: ask } as UsageQuestion)
  }

  /** Hands over the rest, within two seconds, unless it would end with the gateway: tables in memory that no other gateway reads. */
  close(): Promise<void> {
    const { folder, source } = this.#options
    if (folder !== undefined || !('heads' in source)) this.flush()
    return this.#thread.close()
  }

  #onReport(report: UsageReport): void {
    const { log } = this.#options
    if ('lag' in report) this.lag = report.lag
    else if ('lacks' in report) this.#options.lacks(report.lacks)
    else if ('booked' in report) this.#options.booked?.(report.booked)
    else if ('warning' in report) {
      const message = `the index of usage is behind: ${report.warning}`
      if (this.#lines.admits(message, performance.now())) log.warn(message)
    } else {
      this.differences += report.differences.length
      for (const one of report.differences.slice(0, 10)) log.error(lineOf(one))
    }
  }
}

function lineOf({ account, key, indexed, ledger }: UsageDifference): string {
  const what = key === undefined ? `balance of account ${account}` : `spend of key ${key}`
  const sums = `${formatPico(indexed)} instead of ${formatPico(ledger)}`
  return `usage differs from the ledger: the ${what} is ${sums}; the account is read again`
}

function startThread({ folder, source }: UsageOptions): WorkThread {
  if ('heads' in source) {
    const openLedger = async () => source
    const now = () => Date.now()
    return new LocalThread<UsageNotice, UsageQuestion, UsageReport>(
      (report) => new UsageWork({ folder, openLedger, pageRows: LOCAL_PAGE_ROWS, now, report }),
    )
  }
  const script = new URL(`./thread${extname(import.meta.url)}`, import.meta.url)
  const workerData: UsageInit = { folder, source }
  return startWorker('usage', script, workerData)
}

/** A charge as a line: its row need not be read from the ledger. */
export function lineOfCharge(charge: BookedCharge): string {
  const { account, previous, seq, request, key, day, at, cost, body } = charge
  return `${JSON.stringify([account, previous, seq, request, key, day, at, `${cost}`]).slice(0, -1)},${body}]`
}
