/** The audit port: changes by the admin API and their actors. Entries are kept for ever and never changed. */
import type { AuditEntry, AuditRow } from '../server/admin/resources/audit.ts'

export type { AuditEntry, AuditRow } from '../server/admin/resources/audit.ts'

/** Filter of entries; all its members have to match. */
export interface AuditFilter {
  /** A name or an id. */
  readonly actor?: string
  readonly session?: string
  readonly action?: string
  readonly object?: string
  /** ms since epoch, inclusive. */
  readonly from?: number
  /** ms since epoch, exclusive. */
  readonly to?: number
}

export interface Audit {
  /** Resolves when the entry is durable. @throws Unavailable while the store cannot be written */
  add(entry: AuditEntry): Promise<void>
  /**
   * Newest first.
   * @param before an id: only entries older than that one
   * @throws RangeError for an id that no entry can have; Unavailable while the store cannot be read
   */
  list(filter: AuditFilter, before: string | undefined, limit: number): Promise<AuditRow[]>
}
