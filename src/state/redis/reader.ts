/** Reads the rows and sums of the ledger that gateways share, through a connection of its own. */
import { timeOf } from '../ids.ts'
import type {
  ChainBase,
  Log,
  RequestId,
  FoldedTotal,
  LedgerHead,
  LedgerReader,
  ReadRow,
} from '../ledger/ledger.ts'
import { connect, keysOf, rowsKey, type RedisConnection } from './connection.ts'
import { toPico } from './replies.ts'
import { LEDGER } from './schema.ts'
import { accountsIn, baseIn, readFrom, totalsIn } from './rows.ts'

/** Prefix of a book's fields with the lifetime spend of a key. */
const LIFETIME = 's:L:'
/** Prefix of a field with spend over all keys. */
const OF_ALL = `${LIFETIME}@`
const BOOKS = 100
/** Rows that are read at once in search of one. */
const PAGE_ROWS = 1000
const PAGES_BEFORE = 20
/** Latest time between a call and its booking; most are booked within an hour. */
const LATEST_MS = 86_400_000
const HOUR_MS = 3_600_000

/** @throws ConfigError when Redis cannot be reached */
export async function openRedisReader(
  url: string | readonly string[],
  log: Log,
): Promise<LedgerReader> {
  const { connection } = await connect(url, log)
  return new RedisReader(connection)
}

/** Reads books and streams of rows. Every method throws Unavailable while Redis cannot be reached. */
class RedisReader implements LedgerReader {
  readonly shared = true
  readonly #connection: RedisConnection

  constructor(connection: RedisConnection) {
    this.#connection = connection
  }

  async id(): Promise<string> {
    const { client } = this.#connection
    const [id, epoch] = await this.#connection.ask(() => client.hmget(LEDGER, 'id', 'epoch'))
    // A store that was accepted in the place of a newer one has other rows.
    return Number(epoch ?? 0) === 0 ? (id ?? '') : `${id}/${epoch}`
  }

  async heads(accounts?: readonly string[]): Promise<ReadonlyMap<string, LedgerHead>> {
    const ids = accounts ?? (await accountsIn(this.#connection))
    const heads = new Map<string, LedgerHead>()
    for (let i = 0; i < ids.length; i += BOOKS) {
      const some = ids.slice(i, i + BOOKS)
      const read = await Promise.all(some.map((id) => this.#head(id)))
      for (const [j, head] of read.entries()) heads.set(some[j]!, head)
    }
    return heads
  }

  async rows(account: string, from: number, limit: number): Promise<readonly ReadRow[]> {
    const { client } = this.#connection
    const first = Math.max(from, 1)
    const rows = await readFrom(
      (read) => this.#connection.ask(() => read(client)),
      rowsKey(account),
      first,
      limit,
    )
    return rows.map(({ row, day }) => ({ ...row, ...(day && { day }) }))
  }

  /** Finds the row of a call. Rows are in the order of booking: about that of their calls, except for late ones. */
  async charge(account: string, request: RequestId): Promise<ReadRow | undefined> {
    const at = timeOf(request.replace(/^req_/, ''))
    const isIt = (row: ReadRow) => row.kind === 'usage' && row.request === request
    const begin = await this.#firstSince(account, at - HOUR_MS)
    for (let from = begin; ;) {
      const page = await this.rows(account, from, PAGE_ROWS)
      const row = page.find(isIt)
      if (row) return row
      if (page.length < PAGE_ROWS || page.every((row) => row.at > at + LATEST_MS)) break
      from = page.at(-1)!.seq + 1
    }
    // Late rows may have led beyond it.
    for (let pages = 1, from = begin; pages <= PAGES_BEFORE && from > 1; pages++) {
      from = Math.max(1, from - PAGE_ROWS)
      const row = (await this.rows(account, from, PAGE_ROWS)).find(isIt)
      if (row) return row
    }
    return undefined
  }

  async totals(account: string): Promise<readonly FoldedTotal[]> {
    const [key = ''] = keysOf(account, 'f')
    const { client } = this.#connection
    return [...totalsIn(await this.#connection.ask(() => client.hgetall(key)))]
  }

  async base(account: string): Promise<ChainBase> {
    const [key = ''] = keysOf(account, 'f')
    const { client } = this.#connection
    const read = () => client.hmget(key, 'base', 'folded', 'chain')
    const [base, folded, chain] = await this.#connection.ask(read)
    return baseIn(account, { base, folded, chain })
  }

  async close(): Promise<void> {
    this.#connection.close()
  }

  /** A row near the first call at a moment or later. @param at ms since epoch */
  async #firstSince(account: string, at: number): Promise<number> {
    const [book = ''] = keysOf(account, 'book')
    const { client } = this.#connection
    let low = 1
    let high = Number((await this.#connection.ask(() => client.hget(book, 'seq'))) ?? 0)
    while (high - low > PAGE_ROWS) {
      const middle = Math.floor((low + high) / 2)
      const [row] = await this.rows(account, middle, 1)
      if (row && row.at < at) low = middle
      else high = middle
    }
    return low
  }

  /** Reads the head of an account in one step, as each script changes the book in one. */
  async #head(account: string): Promise<LedgerHead> {
    const [key = ''] = keysOf(account, 'book')
    const { client } = this.#connection
    const book = await this.#connection.ask(() => client.hgetall(key))
    const spent = Object.entries(book).filter(
      ([field]) => field.startsWith(LIFETIME) && !field.startsWith(OF_ALL),
    )
    const lifetime = new Map(spent.map(([f, text]) => [f.slice(LIFETIME.length), toPico(text)]))
    return { seq: Number(book.seq ?? 0), balance: toPico(book.bal), lifetime }
  }
}
