/** The driver `memory`: the SQLite engine on `:memory:`, with its store in this thread. Its state ends with the process. */
import { EventEmitter } from 'node:events'
import type { DatabaseSync } from 'node:sqlite'
import { createStorage, type Storage } from 'unstorage'
import { Clock } from '../ledger/windows.ts'
import type { LedgerItem, Log, LedgerReader } from '../ledger/ledger.ts'
import type { Audit } from '../audit.ts'
import type { WorkThread } from '../../threads/client.ts'
import { StoredRecords, type Records } from '../records.ts'
import { firstDay, SqliteAudit, sqliteDriver, SqliteLedger } from './engine.ts'
import { openMemoryDatabase } from './file.ts'
import { auditAll, exportDatabase, History, SqliteReader } from './reader.ts'
import { Store, type ToStore, type WorkerBatch } from './store.ts'
import { WorkerClient, type HistoryReader } from './worker-client.ts'

interface MemoryOptions {
  readonly log: Log
  /** ms since epoch; tests bring their own. */
  readonly now?: () => number
  /** Rows kept before the oldest usage rows are folded into totals. */
  readonly maxRows?: number
}

/** A batch of this size keeps the event loop busy for about two milliseconds. */
const MAX_WRITES = 100
/** Writes between two trims. */
const TRIM_WRITES = 500
/** The rows take about 25 MB. */
const MAX_ROWS = 50_000

export function openMemory({ log, now = () => Date.now(), maxRows = MAX_ROWS }: MemoryOptions): {
  readonly ledger: SqliteLedger
  readonly records: Records
  readonly storage: Storage
  readonly audit: Audit
  readonly reader: LedgerReader
} {
  const db = openMemoryDatabase()
  const store = new Store(db)
  const clock = new Clock(now)
  const from = firstDay(clock)
  const client = new WorkerClient(new LocalWorker(store, () => db.close(), maxRows), log, {
    maxWrites: MAX_WRITES,
  })
  const exportItems = async function* (): AsyncGenerator<LedgerItem> {
    // Read in one turn of the event loop: writes use the same connection.
    const items: LedgerItem[] = []
    for await (const item of exportDatabase(db)) items.push(item)
    yield* items
  }
  const ledger = new SqliteLedger({
    client,
    clock,
    from,
    snapshot: store.load(from),
    exportItems,
    openHistory: async () => historyOf(db),
    isNew: true,
    log,
  })
  const storage = createStorage({ driver: sqliteDriver(client, now) })
  return {
    ledger,
    records: new StoredRecords(storage),
    storage,
    audit: new SqliteAudit(client, now),
    reader: new SqliteReader(db),
  }
}

/** Reads a history in this thread, in turns of the event loop of their own. */
function historyOf(db: DatabaseSync): HistoryReader {
  const history = new History(db)
  const pause = () => new Promise<void>((resolve) => setImmediate(resolve))
  return {
    accounts: async () => history.accounts(),
    rows: async () => history.rows(),
    audit: (of) => auditAll(history, of, pause),
    foldable: async (...of) => history.foldable(...of),
    close() {},
  }
}

/** Runs batches in this thread, each in a turn of the event loop of its own. */
class LocalWorker extends EventEmitter implements WorkThread {
  readonly #store: Store
  readonly #closeDatabase: () => void
  readonly #maxRows: number
  #writes = 0

  constructor(store: Store, closeDatabase: () => void, maxRows: number) {
    super()
    this.#store = store
    this.#closeDatabase = closeDatabase
    this.#maxRows = maxRows
  }

  send(message: ToStore): void {
    setImmediate(() => {
      if (!('close' in message)) return this.#run(message)
      this.#closeDatabase()
      this.emit('exit')
    })
  }

  ref(): void {}

  unref(): void {}

  #run(batch: WorkerBatch): void {
    this.emit('message', this.#store.run(batch))
    this.#writes += batch.writes.length
    if (this.#writes < TRIM_WRITES) return
    this.#writes = 0
    this.#store.run({ writes: [{ name: 'trim', args: [this.#maxRows] }], reads: [] })
  }
}
