/** Runs beside a ledger that is in use: verifies it at the start, folds old rows, copies it, updates statistics. */
import { formatPico } from '../../money/money.ts'
import { DAY_MS } from './clock.ts'
import type { Ledger, Log } from './ledger.ts'

/** Options of {@link Maintenance}. */
export interface MaintenanceOptions {
  readonly ledger: Pick<Ledger, 'verify' | 'fold' | 'health'>
  /** Whether the ledger is verified at the start. A store that several gateways share is too large for that. */
  readonly verifies: boolean
  /** Writes the copy of a day, where copies are kept. */
  readonly copy?: (() => Promise<void>) | undefined
  /** Updates the database's own statistics, where it has any. */
  readonly optimize?: () => Promise<void>
  /** Days after which usage rows are folded. Without it they are kept for ever. */
  readonly retentionDays?: number | undefined
  /** ms since epoch */
  readonly now: () => number
  readonly log: Log
}

const WEEK_DAYS = 7
/** Discrepancies that are logged one by one. */
const MAX_LOGGED = 10

/** Runs daily until it is stopped. A failure is logged, and tried again the next day. */
export class Maintenance {
  readonly #options: MaintenanceOptions
  readonly #timer: NodeJS.Timeout
  #days = 0

  constructor(options: MaintenanceOptions) {
    this.#options = options
    this.#timer = setInterval(() => {
      this.#days++
      void this.#daily()
      const { optimize } = options
      if (optimize && this.#days % WEEK_DAYS === 0) void this.#attempt('optimized', optimize)
    }, DAY_MS)
    this.#timer.unref()
    void this.#begin()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #begin(): Promise<void> {
    if (this.#options.verifies) await this.#attempt('verified', () => this.#verify())
    await this.#daily()
  }

  async #daily(): Promise<void> {
    await this.#attempt('folded', () => this.#fold())
    const { copy } = this.#options
    if (copy) await this.#attempt('copied', copy)
  }

  async #verify(): Promise<void> {
    const { ledger, log } = this.#options
    const found = await ledger.verify()
    for (const { account, what, stored, recomputed } of found.slice(0, MAX_LOGGED)) {
      const sums = `${formatPico(stored)} is kept, ${formatPico(recomputed)} is the sum of the rows`
      log.error(`the ledger of account ${account} does not add up: ${what}: ${sums}`)
    }
    if (found.length > MAX_LOGGED)
      log.error(`and ${found.length - MAX_LOGGED} more that do not add up`)
  }

  async #fold(): Promise<void> {
    const { ledger, retentionDays, now, log } = this.#options
    if (retentionDays === undefined) return
    const rows = await ledger.fold(new Date(now() - retentionDays * DAY_MS))
    if (rows > 0) log.info(`${rows} usage rows older than ${retentionDays} days were folded`)
  }

  async #attempt(what: string, attempt: () => Promise<void>): Promise<void> {
    const { ledger, log } = this.#options
    try {
      await attempt()
    } catch (error) {
      // The ledger was closed meanwhile: the next start does it again.
      if (ledger.health().ok) log.error(`the ledger cannot be ${what}`, error)
    }
  }
}
