/** The audit port: changes by the admin API and their actors. Entries are kept for ever and never changed. */
import { isDeepStrictEqual } from 'node:util'
import type { AuditEntry, AuditRow, MemberChange } from '../server/admin/resources/audit.ts'

export type { AuditEntry, AuditRow } from '../server/admin/resources/audit.ts'

/** Filter of entries; all its members have to match. */
export interface AuditFilter {
  readonly actor?: string
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

/** Members that differ. Objects are compared member by member, lists as a whole; null means no value. */
export function changesBetween(before: object, after: object, path = ''): AuditEntry['changes'] {
  const [former, next] = [{ ...before }, { ...after }] as [Values, Values]
  const changes: Record<string, MemberChange> = {}
  for (const name of new Set([...Object.keys(former), ...Object.keys(next)])) {
    const [was, is] = [former[name] ?? undefined, next[name] ?? undefined]
    if (isPlain(was) && isPlain(is)) {
      Object.assign(changes, changesBetween(was, is, `${path}${name}.`))
    } else if (!isDeepStrictEqual(was, is)) {
      changes[path + name] = {
        ...(was !== undefined && { before: was }),
        ...(is !== undefined && { after: is }),
      }
    }
  }
  return changes
}

type Values = Readonly<Record<string, unknown>>

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
