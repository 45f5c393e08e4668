/** Daily work beside a ledger in use, also soon after the start: checks and verifies it, folds old rows, copies it, updates statistics. */
import { setTimeout as sleep } from 'node:timers/promises'
import { formatPico } from '../../money/money.ts'
import type { Archive } from './archive.ts'
import { DAY_MS } from './windows.ts'
import type { Discrepancy, Ledger, Log } from './ledger.ts'

interface MaintenanceOptions {
  readonly ledger: Pick<Ledger, 'fold' | 'health' | 'state'>
  /** Whether there is nothing yet that could be checked or verified. */
  readonly isNew?: boolean
  /** Checks the file, where there is one. @returns whether it is sound; otherwise the rest of the work is left out */
  readonly check?: () => Promise<boolean>
  /**
   * Recomputes every sum; undefined where another gateway of the same store does.
   * @param isWhole whether from the first row on, as once a week, and not from where the last time ended
   */
  readonly verify: (isWhole: boolean) => Promise<readonly Discrepancy[] | undefined>
  /** Writes the copy of a day, where copies are kept. */
  readonly copy?: (() => Promise<void>) | undefined
  /** Updates the database's own statistics, where it has any. */
  readonly optimize?: () => Promise<void>
  /** Days after which usage rows are folded. Absent: never. */
  readonly retentionDays?: number | undefined
  /** Takes rows before they are folded. */
  readonly archive?: Pick<Archive, 'append' | 'prune'> | undefined
  /** ms since epoch */
  readonly now: () => number
  readonly log: Log
}

const WEEK_DAYS = 7
/** Time from the start until the first work: a command that opens a ledger for a moment ends before it, and starts no threads for it. */
const FIRST_MS = 1000
/** Most discrepancies that are logged one by one. */
const MAX_LOGGED = 10

/** Folds a ledger. @returns the number of rows that went */
export async function foldInto(
  archive: Pick<Archive, 'append'> | undefined,
  ledger: Pick<Ledger, 'fold' | 'state'>,
  before: Date,
): Promise<number> {
  if (!archive) return ledger.fold(before)
  const { id = '' } = await ledger.state()
  return ledger.fold(before, (month, lines) => archive.append(month, lines, id))
}

const WORK_MS = 20
const REST_MS = 80

/** Makes work pause, so that it runs at most 20 ms in 100. @returns a function to call between two steps */
export function paced(): () => Promise<void> {
  let until = performance.now() + WORK_MS
  return async () => {
    if (performance.now() < until) return
    await sleep(REST_MS)
    until = performance.now() + WORK_MS
  }
}

/** Runs soon after the start, and daily until it is stopped. A failure is logged, and tried again the next day. */
export class Maintenance {
  readonly #options: MaintenanceOptions
  readonly #timer: NodeJS.Timeout
  readonly #first: NodeJS.Timeout
  #stopped = false
  #days = 0
  #discrepancies = 0

  constructor(options: MaintenanceOptions) {
    this.#options = options
    this.#timer = setInterval(() => {
      this.#days++
      void this.#daily()
      const { optimize } = options
      if (optimize && this.#days % WEEK_DAYS === 0) void this.#attempt('optimized', optimize)
    }, DAY_MS)
    this.#timer.unref()
    this.#first = setTimeout(() => void this.#daily(options.isNew), FIRST_MS).unref()
  }

  get discrepancies(): number {
    return this.#discrepancies
  }

  stop(): void {
    this.#stopped = true
    clearTimeout(this.#first)
    clearInterval(this.#timer)
  }

  async #daily(isNew = false): Promise<void> {
    const { check, copy } = this.#options
    const isWhole = this.#days % WEEK_DAYS === 0
    let sound = true
    if (check && !isNew) await this.#attempt('checked', async () => void (sound = await check()))
    if (!sound) return
    if (!isNew) await this.#attempt('verified', () => this.#verify(isWhole))
    await this.#attempt('folded', () => this.#fold())
    if (copy) await this.#attempt('copied', copy)
  }

  async #verify(isWhole: boolean): Promise<void> {
    const { verify, log } = this.#options
    const discrepancies = await verify(isWhole)
    if (!discrepancies) return
    this.#discrepancies = discrepancies.length
    for (const { account, what, stored, recomputed } of discrepancies.slice(0, MAX_LOGGED)) {
      const sums = `${formatPico(stored)} is kept, ${formatPico(recomputed)} is the sum of the rows`
      log.error(`the ledger of account ${account} does not add up: ${what}: ${sums}`)
    }
    if (discrepancies.length > MAX_LOGGED)
      log.error(`and ${discrepancies.length - MAX_LOGGED} more that do not add up`)
  }

  async #fold(): Promise<void> {
    const { ledger, retentionDays, archive, now, log } = this.#options
    if (retentionDays === undefined) return
    const before = new Date(now() - retentionDays * DAY_MS)
    const rows = await foldInto(archive, ledger, before)
    await archive?.prune(now())
    if (rows > 0) log.info(`${rows} usage rows older than ${retentionDays} days were folded`)
  }

  async #attempt(what: string, attempt: () => Promise<void>): Promise<void> {
    const { ledger, log } = this.#options
    if (this.#stopped) return
    try {
      await attempt()
    } catch (error) {
      // The ledger was closed meanwhile: the next start does it again.
      if (!this.#stopped && ledger.health().ok) log.error(`the ledger cannot be ${what}`, error)
    }
  }
}
