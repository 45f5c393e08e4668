/** Reads an account in Redis: its rows in pages, and a snapshot of its sums. */
import type { Cluster, Redis } from 'ioredis'
import { beginChain } from '../ledger/chain.ts'
import { readBody } from '../ledger/bookings.ts'
import type { ChainBase, LedgerRow, FoldedTotal } from '../ledger/ledger.ts'
import { accountPrefix, type RedisConnection, serversOf } from './connection.ts'

/** A row with the UTC day that was charged, `YYYYMMDD`; '' when no day was. */
export interface DatedRow {
  readonly row: LedgerRow
  readonly day: string
}

export interface Snapshot {
  readonly book: Readonly<Record<string, string>>
  /** `<key>[@<team>]|<request>` to the hold of a call; see `scripts.ts`. */
  readonly holds: Readonly<Record<string, string>>
  /** `<key>[@<team>]|<request>` */
  readonly leases: readonly string[]
  /**
   * Folded rows: see {@link totalsIn}; `rows` is the number of those that went, `at` the moment before which they were folded. `base` is
   * the last row up to which all were folded, `folded` the number of rows up to it, `chain` their chain.
   */
  readonly folded: Readonly<Record<string, string>>
  /** Sequence of the last row. */
  readonly seq: number
}

/** Runs a read on a client, with a deadline. */
export type RedisQuery = <T>(read: (client: Redis | Cluster) => Promise<T>) => Promise<T>

export const PAGE_ROWS = 200

/** Rows, newest first. @param stream the key of the rows */
export async function* readRows(
  ask: RedisQuery,
  stream: string,
  before: number,
): AsyncGenerator<DatedRow> {
  for (let last = before; last > 1;) {
    const newest = last === Infinity ? '+' : String(last - 1)
    const page = await ask((client) => client.xrevrange(stream, newest, '-', 'COUNT', PAGE_ROWS))
    for (const [id, pairs] of page) yield toRow(id, pairs)
    if (page.length < PAGE_ROWS) return
    last = seqOf(page.at(-1)![0])
  }
}

/** Rows, oldest first, in pages. @param last the highest sequence to read. @param first the lowest */
export async function* readPages(
  ask: RedisQuery,
  stream: string,
  last: number,
  first = 1,
): AsyncGenerator<readonly DatedRow[]> {
  for (let from = first; from <= last;) {
    const [oldest, newest] = [String(from), last === Infinity ? '+' : String(last)]
    const page = await ask((client) => client.xrange(stream, oldest, newest, 'COUNT', PAGE_ROWS))
    if (page.length === 0) return
    yield page.map(([id, pairs]) => toRow(id, pairs))
    from = seqOf(page.at(-1)![0]) + 1
  }
}

/** Some rows, oldest first. @param from the lowest sequence to read */
export async function readFrom(
  ask: RedisQuery,
  stream: string,
  from: number,
  limit: number,
): Promise<readonly DatedRow[]> {
  const page = await ask((client) => client.xrange(stream, String(from), '+', 'COUNT', limit))
  return page.map(([id, pairs]) => toRow(id, pairs))
}

/** One row, unless it was folded. */
export async function readRow(
  ask: RedisQuery,
  stream: string,
  seq: number,
): Promise<DatedRow | undefined> {
  const [entry] = await ask((client) => client.xrange(stream, String(seq), String(seq)))
  return entry && toRow(...entry)
}

/** Reads a snapshot in one transaction. @param prefix the prefix of the account's keys */
export async function snapshotOf(client: Redis | Cluster, prefix: string): Promise<Snapshot> {
  const results = await client
    .multi()
    .hgetall(`${prefix}book`)
    .hgetall(`${prefix}h`)
    .zrange(`${prefix}ls`, 0, -1)
    .hgetall(`${prefix}f`)
    .exec()
  const [book, holds, leases, folded] = (results ?? []).map(([error, result]) => {
    if (error) throw error
    return result
  }) as [Snapshot['book'], Snapshot['holds'], Snapshot['leases'], Snapshot['folded']]
  return { book, holds, leases, folded, seq: Number(book.seq ?? 0) }
}

export async function accountsIn(connection: RedisConnection): Promise<string[]> {
  const [start, end] = accountPrefix('*').split('*') as [string, string]
  const accounts = new Set<string>()
  for (const node of serversOf(connection.client)) {
    let cursor = '0'
    do {
      const match = `${start}*${end}book`
      const scan = () => node.scan(cursor, 'MATCH', match, 'COUNT', 1000)
      const [next, keys] = await connection.ask(scan)
      for (const key of keys) accounts.add(key.slice(start.length, -`${end}book`.length))
      cursor = next
    } while (cursor !== '0')
  }
  return [...accounts].sort()
}

/** Where the rows begin that are not folded. @param fields the fields of the hash of folded rows: see {@link Snapshot} */
export function baseIn(
  account: string,
  { base, folded, chain }: { readonly [name: string]: string | null | undefined },
): ChainBase {
  return {
    seq: Number(base ?? 0),
    n: Number(folded ?? 0),
    chain: chain ?? beginChain(account).chain,
  }
}

/** Totals of the fields `n|<day>|<key>[|<team>]`, the number of rows, and `c|…`, their cost. */
export function* totalsIn(folded: Snapshot['folded']): Generator<FoldedTotal> {
  for (const [field, rows] of Object.entries(folded)) {
    const [kind, day = '', key = '', team] = field.split('|')
    const of = { key, ...(team !== undefined && { team }) }
    if (kind === 'n')
      yield { ...of, day, rows: Number(rows), cost: BigInt(folded[`c${field.slice(1)}`]!) }
  }
}

function seqOf(id: string): number {
  return Number.parseInt(id, 10)
}

function toRow(id: string, pairs: readonly string[]): DatedRow {
  const [kind = '', request = '', key, cost = '', day = '', at, body, actor] = pairs.filter(
    (_, i) => i % 2,
  )
  const row = {
    seq: seqOf(id),
    kind: kind as LedgerRow['kind'],
    request,
    ...(key && { key }),
    at: Number(at),
    cost: BigInt(cost),
    ...readBody(kind as LedgerRow['kind'], body),
    ...(actor && { actor }),
  }
  return { row, day }
}
