/**
 * Settlements on disk that no store has confirmed: one SQLite file per process, in a folder that several may share. Each
 * has a lock beside it that ends with its process, so that what a dead one has left is found by the next that starts.
 *
 * Writing waits for the disk on the main thread: it happens only while the store is away, when nothing new is let in, and
 * once per turn of the event loop however many calls end in it.
 */
import { closeSync, mkdirSync, openSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { Settlement } from '../ledger/ledger.ts'

export interface PendingSettlement {
  /** Ascending in the order of arrival. */
  readonly seq: number
  /** When it was written down, ms since epoch. */
  readonly at: number
  readonly settlement: Settlement
}

interface Append {
  readonly settlement: Settlement
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const NAME = /^outbox-(\d+)\.db$/
/** SQLite's result code for a file that someone else has locked (https://sqlite.org/rescode.html). */
const BUSY = 5

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS waiting (
    seq INTEGER PRIMARY KEY,
    account TEXT NOT NULL,
    request TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- the settlement as JSON, its cost in pico-dollars as text
    body TEXT NOT NULL,
    -- 1: for the operator to decide, because nobody knows whether it was booked
    quarantined INTEGER NOT NULL DEFAULT 0,
    UNIQUE (account, request)
  ) STRICT`

/** The file of this process. */
export class OutboxFile {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #lock: DatabaseSync
  readonly #insert: StatementSync
  readonly #page: StatementSync
  readonly #remove: StatementSync
  readonly #quarantine: StatementSync
  readonly #summary: StatementSync
  #appends: Append[] = []

  /**
   * Takes the first file of the folder that nobody has, and moves into it what is left in others.
   * @param folder made if it is not there
   * @throws Error when it cannot be used
   */
  static open(folder: string): OutboxFile {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    let own: OutboxFile | undefined
    for (let n = 1; !own; n++) own = OutboxFile.#claim(join(folder, `outbox-${n}.db`))
    try {
      for (const name of readdirSync(folder).filter((name) => NAME.test(name))) {
        const other = OutboxFile.#claim(join(folder, name))
        if (!other) continue
        own.#adopt(other)
        other.close()
      }
      return own
    } catch (error) {
      own.close()
      throw error
    }
  }

  static #claim(path: string): OutboxFile | undefined {
    const lock = openDatabase(`${path}-owner`, 0)
    try {
      lock.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      lock.close()
      if (((error as { errcode?: number }).errcode ?? 0) % 256 === BUSY) return undefined
      throw error
    }
    try {
      return new OutboxFile(path, lock)
    } catch (error) {
      lock.close()
      throw error
    }
  }

  private constructor(path: string, lock: DatabaseSync) {
    this.path = path
    this.#lock = lock
    // An operator may be reading it.
    this.#db = openDatabase(path, 2000)
    this.#db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    this.#db.exec(SCHEMA)
    const prepare = (sql: string) => this.#db.prepare(sql)
    this.#insert = prepare(
      'INSERT OR IGNORE INTO waiting (account, request, at, body, quarantined) VALUES (?, ?, ?, ?, ?)',
    )
    this.#page = prepare(
      'SELECT seq, at, body FROM waiting WHERE seq > ? AND quarantined = 0 ORDER BY seq LIMIT ?',
    )
    this.#remove = prepare('DELETE FROM waiting WHERE seq = ?')
    this.#quarantine = prepare('UPDATE waiting SET quarantined = 1 WHERE seq = ?')
    this.#summary = prepare(
      `SELECT count(*) FILTER (WHERE quarantined = 0) AS waiting, min(at) FILTER (WHERE quarantined = 0) AS oldest,
        count(*) FILTER (WHERE quarantined = 1) AS quarantined FROM waiting`,
    )
  }

  /** Resolves when it is on the disk. @throws Error when it cannot be written */
  append(settlement: Settlement): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#appends.length === 0) setImmediate(() => this.#flush())
      this.#appends.push({ settlement, resolve, reject })
    })
  }

  /** Up to `limit` that wait, oldest first, after one of them. */
  page(after: number, limit: number): PendingSettlement[] {
    const rows = this.#page.all(after, limit) as unknown as (Omit<PendingSettlement, 'settlement'> &
      Body)[]
    return rows.map(({ seq, at, body }) => {
      const { cost, ...settlement } = JSON.parse(body)
      return { seq, at, settlement: { ...settlement, cost: BigInt(cost) } }
    })
  }

  remove(seqs: readonly number[]): void {
    this.#transact(() => seqs.forEach((seq) => this.#remove.run(seq)))
  }

  /** Sets some aside that are no longer to be sent. */
  quarantine(seqs: readonly number[]): void {
    this.#transact(() => seqs.forEach((seq) => this.#quarantine.run(seq)))
  }

  /** How many wait, since when (ms since epoch), and how many were set aside. */
  summary(): {
    readonly waiting: number
    readonly oldest: number | null
    readonly quarantined: number
  } {
    return this.#summary.get() as ReturnType<OutboxFile['summary']>
  }

  /** Writes what is under way, and gives the file up. Does nothing a second time. */
  close(): void {
    if (!this.#db.isOpen) return
    this.#flush()
    this.#db.close()
    this.#lock.close()
  }

  #flush(): void {
    const appends = this.#appends.splice(0)
    if (appends.length === 0) return
    const now = Date.now()
    try {
      this.#transact(() => {
        for (const { settlement } of appends) {
          const { account, request, cost } = settlement
          const body = JSON.stringify({ ...settlement, cost: String(cost) })
          this.#insert.run(account, request, now, body, 0)
        }
      })
    } catch (error) {
      for (const { reject } of appends) reject(error)
      return
    }
    for (const { resolve } of appends) resolve()
  }

  /** First into this file, then out of that one: between the two it is in both, and sent twice at worst. */
  #adopt(other: OutboxFile): void {
    const rows = other.#db.prepare('SELECT * FROM waiting ORDER BY seq').all()
    if (rows.length === 0) return
    this.#transact(() => {
      for (const { account, request, at, body, quarantined } of rows) {
        this.#insert.run(account!, request!, at!, body!, quarantined!)
      }
    })
    other.#db.exec('DELETE FROM waiting')
  }

  #transact(write: () => void): void {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      write()
      this.#db.exec('COMMIT')
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }
}

interface Body {
  readonly body: string
}

/** @param patienceMs how long to wait for someone else's lock */
function openDatabase(path: string, patienceMs: number): DatabaseSync {
  try {
    // For its owner only. Never opens one that is there: closing it would end the locks this process has on it.
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  return new DatabaseSync(path, { timeout: patienceMs })
}
