/** The audit log in the ledger's database, written in the ledger's batches. */
import type { Audit, AuditEntry, AuditFilter, AuditRow } from '../audit.ts'
import type { WorkerClient } from './worker-client.ts'

/** Entries in table `audit`. The ledger closes the database. */
export class SqliteAudit implements Audit {
  readonly #client: WorkerClient
  readonly #now: () => number

  constructor(client: WorkerClient, now: () => number) {
    this.#client = client
    this.#now = now
  }

  async add(entry: AuditEntry): Promise<void> {
    this.#client.check()
    // Amounts in answers may be objects that only JSON can write, and that no thread takes.
    const plain = JSON.parse(JSON.stringify(entry)) as AuditEntry
    await this.#client.write('addChange', [plain, this.#now()], () => undefined)
  }

  async list(filter: AuditFilter, before: string | undefined, limit: number): Promise<AuditRow[]> {
    const last = before === undefined ? Infinity : Number(before)
    if (before !== undefined && !/^\d{1,15}$/.test(before)) {
      throw new RangeError('expected the id of an entry')
    }
    return this.#client.read('changes', filter, last, limit)
  }
}
