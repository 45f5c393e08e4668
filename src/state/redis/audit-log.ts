/** The audit log in Redis: one stream, which several gateways share. */
import type { Cluster, Redis } from 'ioredis'
import type { Audit, AuditEntry, AuditFilter, AuditRow } from '../audit.ts'
import { PREFIX, type RedisConnection } from './connection.ts'

const STREAM = `${PREFIX}:audit`
/** Entries read at a time while a filter is applied. */
const PAGE_ENTRIES = 200

export class RedisAudit implements Audit {
  readonly #connection: RedisConnection

  constructor(connection: RedisConnection) {
    this.#connection = connection
  }

  async add({ changes, ...entry }: AuditEntry): Promise<void> {
    const texts = Object.entries(entry).filter(
      (one): one is [string, string] => one[1] !== undefined,
    )
    const fields = { ...Object.fromEntries(texts), changes: JSON.stringify(changes) }
    await this.#ask((client) => client.xadd(STREAM, '*', ...Object.entries(fields).flat()))
  }

  async list(filter: AuditFilter, before: string | undefined, limit: number): Promise<AuditRow[]> {
    if (before !== undefined && !/^\d{1,15}-\d{1,9}$/.test(before)) {
      throw new RangeError('expected the id of an entry')
    }
    const { from = 0, to } = filter
    const entries: AuditRow[] = []
    let end = before === undefined ? '+' : `(${before}`
    while (entries.length < limit) {
      const last = end
      const page = await this.#ask((client) =>
        client.xrevrange(STREAM, last, from, 'COUNT', PAGE_ENTRIES),
      )
      const rows = page.map(([id, fields]) => toRow(id, fields))
      entries.push(
        ...rows.filter((row) => passes(row, filter) && (to === undefined || row.at < to)),
      )
      if (page.length < PAGE_ENTRIES) break
      end = `(${page.at(-1)![0]}`
    }
    return entries.slice(0, limit)
  }

  #ask<T>(send: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    return this.#connection.ask(() => send(this.#connection.client))
  }
}

function toRow(id: string, fields: readonly string[]): AuditRow {
  const names = fields.filter((_, i) => i % 2 === 0)
  const field = (name: string) => fields[2 * names.indexOf(name) + 1]
  const [actor = '', action = '', object = ''] = ['actor', 'action', 'object'].map(field)
  // Entries of earlier releases have no address.
  const address = names.includes('address') ? field('address')! : ''
  const changes = JSON.parse(field('changes') ?? '{}')
  const later = ['actor_id', 'session'].filter((name) => names.includes(name))
  const ids = Object.fromEntries(later.map((name) => [name, field(name)]))
  const at = Number.parseInt(id, 10)
  return { id, at, actor, ...ids, address, action, object, changes }
}

function passes(row: AuditRow, { actor, session, action, object }: AuditFilter): boolean {
  return (
    (actor === undefined || row.actor === actor || row.actor_id === actor) &&
    (session === undefined || row.session === session) &&
    (action === undefined || row.action === action) &&
    (object === undefined || row.object === object)
  )
}
