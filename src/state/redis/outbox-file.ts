/**
 * Settlements on disk that Redis has not confirmed: one SQLite file per process, in a folder that several processes may
 * share. A lock beside each file ends with its process, so the next process that starts adopts the file of a dead one.
 *
 * Writes block the main thread until they are on disk. They happen only while Redis cannot be reached, when no calls are
 * admitted, and once per turn of the event loop.
 */
import { mkdirSync, readdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Pico } from '../../money/money.ts'
import type { Settlement } from '../ledger/ledger.ts'
import { createFile, lockFile, transact } from '../sqlite/file.ts'
import { Reserve, RESERVE_USED } from '../sqlite/reserve.ts'

/** A settlement in the file. */
export interface PendingSettlement {
  /** Ascending in the order of arrival. */
  readonly seq: number
  /** When it was written to the file, ms since epoch. */
  readonly at: number
  readonly settlement: Settlement
}

interface Append {
  readonly settlement: Settlement
  readonly resolve: (cost: Pico) => void
  readonly reject: (error: unknown) => void
}

const NAME = /^outbox-(\d+)\.db$/
/** Where no limit is configured. */
const MOST_BYTES = 2 ** 30
const AT_LIMIT = 'it has reached state.outboxLimit'
/** Larger than what a file system puts into the entry of a file itself. */
const PROBE = Buffer.alloc(4096)
/** How long to wait for a lock: an operator may be reading the file. */
const BUSY_TIMEOUT_MS = 2000

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS waiting (
    seq INTEGER PRIMARY KEY,
    account TEXT NOT NULL,
    request TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- the settlement as JSON, its cost in pico-dollars as text
    body TEXT NOT NULL,
    -- 1: for the operator to decide, because it may have been booked
    quarantined INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, request)
  ) STRICT`

/** The file of this process. */
export class OutboxFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #lock: DatabaseSync
  readonly #sql: ReturnType<typeof prepare>
  readonly #reserve: Reserve
  readonly #mostPages: number
  #appends: Append[] = []
  #fault: string | undefined

  /**
   * Takes the first file of the folder that no process has, and moves the settlements of other such files into it.
   * @param folder created if it does not exist
   * @param limitBytes how large the file may become; beyond it, appends are refused
   * @throws Error when it cannot be used
   */
  static open(folder: string, limitBytes = MOST_BYTES): OutboxFile {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    let own: OutboxFile | undefined
    for (let n = 1; !own; n++) own = OutboxFile.#claim(join(folder, `outbox-${n}.db`), limitBytes)
    try {
      for (const name of readdirSync(folder).filter((name) => NAME.test(name))) {
        const other = OutboxFile.#claim(join(folder, name), limitBytes)
        if (!other) continue
        own.#adopt(other)
        other.close()
        other.#reserve.remove()
      }
      return own
    } catch (error) {
      own.close()
      throw error
    }
  }

  static #claim(path: string, limitBytes: number): OutboxFile | undefined {
    const lock = lockFile(`${path}-owner`)
    if (!lock) return undefined
    try {
      return new OutboxFile(path, lock, limitBytes)
    } catch (error) {
      lock.close()
      throw error
    }
  }

  private constructor(path: string, lock: DatabaseSync, limitBytes: number) {
    this.path = path
    this.#lock = lock
    createFile(path)
    this.#db = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
    this.#db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    this.#db.exec(SCHEMA)
    this.#mostPages = Math.floor(limitBytes / this.#pragma('page_size')) + 1
    this.#db.exec(`PRAGMA max_page_count = ${this.#mostPages}`)
    this.#sql = prepare(this.#db)
    this.#reserve = new Reserve(`${path}-reserve`)
  }

  /** Why nothing more can be written, as of the last {@link look}; undefined if it can. */
  get fault(): string | undefined {
    return this.#reserve.used ? RESERVE_USED : this.#fault
  }

  /** Looks whether settlements could be written, and keeps the reserve of the disk. Never rejects. */
  async look(): Promise<void> {
    await this.#reserve.make()
    try {
      if (this.#db.isOpen) this.#fault = this.#isAtLimit() ? AT_LIMIT : await this.#probe()
    } catch (error) {
      this.#fault = (error as Error).message
    }
  }

  /**
   * Resolves when it is on the disk. One of its request that waits already stands.
   * @returns the cost that waits
   * @throws Error when it cannot be written
   */
  append(settlement: Settlement): Promise<Pico> {
    return new Promise((resolve, reject) => {
      if (this.#appends.length === 0) setImmediate(() => this.#flush())
      this.#appends.push({ settlement, resolve, reject })
    })
  }

  /** Pending settlements, oldest first. @param after a `seq` */
  page(after: number, limit: number): PendingSettlement[] {
    const rows = this.#sql.page.all(after, limit) as unknown as Row[]
    return rows.map(({ seq, at, body }) => {
      const { cost, ...settlement } = JSON.parse(body)
      return { seq, at, settlement: { ...settlement, cost: BigInt(cost) } }
    })
  }

  /** Deletes settlements that are booked. */
  remove(seqs: readonly number[]): void {
    transact(this.#db, () => seqs.forEach((seq) => this.#sql.remove.run(seq)))
  }

  /** Marks settlements that are not to be sent any more. */
  quarantine(seqs: readonly number[]): void {
    transact(this.#db, () => seqs.forEach((seq) => this.#sql.quarantine.run(seq)))
  }

  /** Number of pending settlements, time of the oldest (ms since epoch), and number of quarantined ones. */
  summary(): {
    readonly waiting: number
    readonly oldest: number | null
    readonly quarantined: number
  } {
    return this.#sql.summary.get() as ReturnType<OutboxFile['summary']>
  }

  /** Writes pending appends and releases the file. A second call does nothing. */
  close(): void {
    if (!this.#db.isOpen) return
    this.#flush()
    this.#db.close()
    this.#lock.close()
  }

  /** Writes another file, in the background: for a row the main thread would wait. @throws what the disk says */
  async #probe(): Promise<undefined> {
    const path = `${this.path}-probe`
    try {
      await writeFile(path, PROBE, { mode: 0o600 })
    } finally {
      await rm(path, { force: true })
    }
  }

  #isAtLimit(): boolean {
    return this.#pragma('page_count') >= this.#mostPages && this.#pragma('freelist_count') === 0
  }

  #pragma(name: 'page_size' | 'page_count' | 'freelist_count'): number {
    return Number(this.#db.prepare(`PRAGMA ${name}`).get()![name])
  }

  #flush(): void {
    const appends = this.#appends.splice(0)
    if (appends.length === 0) return
    const now = Date.now()
    const costs: Pico[] = []
    try {
      this.#reserve.lend(() =>
        transact(this.#db, () => {
          for (const { settlement } of appends) costs.push(this.#insert(settlement, now))
        }),
      )
    } catch (error) {
      for (const { reject } of appends) reject(error)
      return
    }
    appends.forEach(({ resolve }, i) => resolve(costs[i]!))
  }

  /** @returns the cost that waits */
  #insert(settlement: Settlement, now: number): Pico {
    const { account, request, cost } = settlement
    const body = JSON.stringify({ ...settlement, cost: String(cost) })
    const { changes } = this.#sql.insert.run(account, request, now, body, 0)
    if (Number(changes) === 1) return cost
    const { body: stored } = this.#sql.body.get(account, request) as { body: string }
    return BigInt(JSON.parse(stored).cost)
  }

  /** Writes to this file before it deletes from the other one: after a crash between, settlements are sent twice at worst. */
  #adopt(other: OutboxFile): void {
    const rows = other.#db.prepare('SELECT * FROM waiting ORDER BY seq').all()
    if (rows.length === 0) return
    transact(this.#db, () => {
      for (const { account, request, at, body, quarantined } of rows) {
        this.#sql.insert.run(account!, request!, at!, body!, quarantined!)
      }
    })
    other.#db.exec('DELETE FROM waiting')
  }
}

function prepare(db: DatabaseSync) {
  return {
    insert: db.prepare(
      'INSERT OR IGNORE INTO waiting (account, request, at, body, quarantined) VALUES (?, ?, ?, ?, ?)',
    ),
    body: db.prepare('SELECT body FROM waiting WHERE account = ? AND request = ?'),
    page: db.prepare(
      'SELECT seq, at, body FROM waiting WHERE seq > ? AND quarantined = 0 ORDER BY seq LIMIT ?',
    ),
    remove: db.prepare('DELETE FROM waiting WHERE seq = ?'),
    quarantine: db.prepare('UPDATE waiting SET quarantined = 1 WHERE seq = ?'),
    summary: db.prepare(
      `SELECT count(*) FILTER (WHERE quarantined = 0) AS waiting,
         min(at) FILTER (WHERE quarantined = 0) AS oldest,
         count(*) FILTER (WHERE quarantined = 1) AS quarantined FROM waiting`,
    ),
  }
}

type Row = Omit<PendingSettlement, 'settlement'> & { readonly body: string }
