/**
 * The request log that gateways share in Redis: one sorted set per UTC day, whose members are lines, in the order in which
 * their calls arrived, because each begins with the id of its call. Lines of an earlier release have another form, and come
 * first. It is smaller than a log on a disk, because it shares the memory of the ledger. Used by the thread of the log.
 */
import type { Cluster, Redis } from 'ioredis'
import { timeOf, ulidAt } from '../../state/ids.ts'
import type { Log } from '../../state/ledger/ledger.ts'
import { connect, memoryOf, PREFIX, type RedisConnection } from '../../state/redis/connection.ts'
import { DAY_MS, dayOf } from '../day-folder.ts'
import { callIn, keptLine, type KnownCall } from '../record.ts'
import { callOfLine } from './earlier.ts'
import {
  matches,
  type LogPage,
  type LogQuery,
  type Dropped,
  type LogBounds,
  type LogStore,
  type Stored,
} from './query.ts'

/** Most bytes, whatever the bounds allow: a ledger that needs memory has priority. */
const MOST_BYTES = 256 * 1024 * 1024
/** Approximate bytes of a row in Redis. */
const ROW_BYTES = 768
/** Part of the memory that Redis may use, above which nothing is stored. */
const MOST_USED = 0.8
/** Time between two checks of the bounds and of the memory. */
const TRIM_MS = 2000
/** Rows removed at once: more would keep calls waiting. */
const REMOVED = 5000
const PAUSE_MS = 10_000
/** Rows read at once, and read for one page. */
const PAGE_ROWS = 1000
const MOST_ROWS = 20_000
/** Text before the id in a line of the present form, and of an earlier release. */
const STARTS = ['{"id":"req_', ''] as const

interface RedisLogOptions {
  readonly url: string | readonly string[]
  /** Whether the ledger is on the same server; otherwise the server may have any settings. */
  readonly holdsLedger: boolean
  readonly bounds: LogBounds
  readonly log: Log
  /** ms since epoch */
  readonly now?: () => number
}

/** Connects with the first use. */
export class RedisLog implements LogStore {
  readonly #options: RedisLogOptions
  readonly #days: number
  readonly #mostRows: number
  readonly #now: () => number
  #connection: Promise<RedisConnection> | undefined
  #rows = 0
  #trimmedAt = -Infinity
  #paused: { readonly until: number; readonly fault: string } | undefined

  constructor(options: RedisLogOptions) {
    this.#options = options
    this.#days = options.bounds.keep
    this.#mostRows = Math.min(options.bounds.size, MOST_BYTES) / ROW_BYTES
    this.#now = options.now ?? (() => Date.now())
  }

  /** Stores rows; those that Redis does not take are dropped. Never rejects. */
  async store(lines: string): Promise<Stored> {
    const dropped: Partial<Record<Dropped, number>> = {}
    const drop = (reason: Dropped, count: number) =>
      (dropped[reason] = (dropped[reason] ?? 0) + count)
    const first = this.#firstDay()
    let rows = 0
    for (const [day, some] of Map.groupBy(lines.split('\n'), (line) =>
      dayOf(timeOf(bare(callIn(line)))),
    )) {
      if (day < first) drop('late', some.length)
      else if (
        await this.#add(
          day,
          some.map((line) => keptLine(line)),
        )
      )
        rows += some.length
      else drop('disk', some.length)
    }
    const fault = this.#paused?.fault
    return { rows, dropped, bytes: this.#rows * ROW_BYTES, ...(fault !== undefined && { fault }) }
  }

  async list(query: LogQuery): Promise<LogPage> {
    const { from = 0, to, after, limit } = query
    const calls: KnownCall[] = []
    const top = after ?? ulidAt(to ?? this.#now() + DAY_MS)
    let before = to !== undefined && timeOf(top) > to ? ulidAt(to) : top
    const lowest = ulidAt(from)
    const last = dayOf(Math.max(from, Date.parse(this.#firstDay())))
    let looked = 0
    for (let day = dayOf(timeOf(before)); day >= last; day = dayBefore(day)) {
      for (;;) {
        const page = await this.#newest(day, before, lowest)
        for (const call of page) {
          if (matches(call, query)) calls.push(call)
          // One call more than the page tells that there is another page.
          if (calls.length > limit) return this.#pageOf(calls, bare(calls[limit - 1]!), limit)
        }
        looked += page.length
        if (page.length < PAGE_ROWS) break
        before = bare(page.at(-1)!)
        if (looked >= MOST_ROWS) return this.#pageOf(calls, before, limit)
      }
    }
    return { calls, unreadable: [], ...(await this.#completeFrom()) }
  }

  /** The oldest call. Its day may have lost earlier ones to the bound of the size. */
  async #completeFrom(): Promise<Pick<LogPage, 'completeFrom'>> {
    const days = this.#keptDays().map(keyOf)
    const firsts = await this.#ask((client) =>
      Promise.all(days.map((day) => client.zrange(day, 0, 0))),
    )
    const line = firsts.flat()[0]
    return line === undefined ? {} : { completeFrom: timeOf(bare(callOfLine(line))) }
  }

  /** The kept days, oldest first. */
  #keptDays(): string[] {
    const days: string[] = []
    for (let day = dayOf(this.#now()); day >= this.#firstDay(); day = dayBefore(day)) {
      days.unshift(day)
    }
    return days
  }

  async find(id: string): Promise<KnownCall | undefined> {
    const key = keyOf(dayOf(timeOf(id)))
    for (const start of STARTS) {
      const [line] = await this.#ask((client) =>
        client.zrangebylex(key, `[${start}${id}`, `(${start}${id}~`, 'LIMIT', 0, 1),
      )
      if (line !== undefined) return callOfLine(line)
    }
    return undefined
  }

  async #pageOf(calls: readonly KnownCall[], next: string, limit: number): Promise<LogPage> {
    const page = { calls: calls.slice(0, limit), next, searchedTo: timeOf(next), unreadable: [] }
    return { ...page, ...(await this.#completeFrom()) }
  }

  /** The newest calls of a day in both forms, at most {@link PAGE_ROWS}. */
  async #newest(day: string, before: string, lowest: string): Promise<readonly KnownCall[]> {
    const read = (start: string) =>
      this.#ask((client) =>
        client.zrevrangebylex(
          keyOf(day),
          `(${start}${before}`,
          `[${start}${lowest}`,
          'LIMIT',
          0,
          PAGE_ROWS,
        ),
      )
    const lines = (await Promise.all(STARTS.map(read))).flat()
    const calls = lines.map(callOfLine).toSorted((a, b) => (a.id < b.id ? 1 : -1))
    return calls.slice(0, PAGE_ROWS)
  }

  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined)
    connection?.close()
  }

  async #add(day: string, lines: readonly string[]): Promise<boolean> {
    if (this.#paused && this.#now() < this.#paused.until) return false
    this.#paused = undefined
    const key = keyOf(day)
    try {
      await this.#trim()
      if (this.#paused) return false
      const end = Math.ceil((Date.parse(day) + (this.#days + 1) * DAY_MS) / 1000)
      // One transaction, so that no day is kept for ever.
      await this.#ask((client) =>
        client
          .multi()
          .zadd(key, ...lines.flatMap((line) => ['0', line]))
          .expireat(key, end)
          .exec(),
      )
      this.#rows += lines.length
      return true
    } catch (error) {
      const { message, cause = error } = error as Error
      this.#pause(`${(cause as Error).message || message}`)
      return false
    }
  }

  /** Removes the oldest rows above the bound, of all gateways, and checks the memory of Redis. */
  async #trim(): Promise<void> {
    const now = this.#now()
    if (now - this.#trimmedAt < TRIM_MS) return
    this.#trimmedAt = now
    const days = this.#keptDays()
    const counts = await this.#ask((client) =>
      Promise.all(days.map((day) => client.zcard(keyOf(day)))),
    )
    this.#rows = counts.reduce((sum, count) => sum + Number(count), 0)
    let excess = Math.min(Math.ceil(this.#rows - this.#mostRows), REMOVED)
    // A busy log is at its bound all the time.
    if (excess > 0) this.#trimmedAt = -Infinity
    for (const [i, day] of days.entries()) {
      const removed = Math.min(excess, Number(counts[i]))
      if (removed <= 0) continue
      await this.#ask((client) => client.zremrangebyrank(keyOf(day), 0, removed - 1))
      this.#rows -= removed
      excess -= removed
    }
    if (await this.#isFull()) this.#pause('Redis has used most of its memory')
  }

  async #isFull(): Promise<boolean> {
    const servers = await this.#ask(memoryOf)
    return servers.some(({ used, most }) => most > 0 && used > most * MOST_USED)
  }

  #pause(reason: string): void {
    const fault = `the request log cannot be written: ${reason}`
    this.#paused = { until: this.#now() + PAUSE_MS, fault }
  }

  #firstDay(): string {
    return dayOf(this.#now() - (this.#days - 1) * DAY_MS)
  }

  async #ask<T>(send: (client: Redis | Cluster) => Promise<T>): Promise<T> {
    const { url, log, holdsLedger } = this.#options
    this.#connection ??= connect(url, log, holdsLedger).then(({ connection }) => connection)
    this.#connection.catch(() => (this.#connection = undefined))
    const connection = await this.#connection
    return connection.ask(() => send(connection.client))
  }
}

function bare({ id }: KnownCall): string {
  return id.slice(4)
}

function dayBefore(day: string): string {
  return dayOf(Date.parse(day) - DAY_MS)
}

function keyOf(day: string): string {
  return `${PREFIX}:log:${day}`
}
