/** Messages between gateways: one stream per topic, of which Redis keeps the newest messages. */
import type { Announcements, Heard, OpenAnnouncements, Topic } from '../announcements.ts'
import type { Log } from '../ledger/ledger.ts'
import { connect, PREFIX, type RedisConnection } from './connection.ts'

const DEADLINE_MS = 500
const PAGE = 500
const KEPT: Readonly<Record<Topic, number>> = {
  settled: 10_000,
  live: 5000,
  events: 5000,
  end: 1000,
  // This holds about a second's messages of each gateway.
  called: 1000,
}

/** Opens a connection for messages alone. @throws ConfigError when Redis cannot be reached */
export async function openRedisAnnouncements(
  url: string | readonly string[],
  log: Log,
): Promise<OpenAnnouncements> {
  // Messages are no money, so any settings of the servers will do.
  const { connection } = await connect(url, log, false)
  const announcements = new RedisAnnouncements(connection)
  return { announcements, close: () => connection.close() }
}

export class RedisAnnouncements implements Announcements {
  readonly #connection: RedisConnection

  constructor(connection: RedisConnection) {
    this.#connection = connection
  }

  async tell(topic: Topic, message: string): Promise<void> {
    const { client } = this.#connection
    const add = () => client.xadd(keyOf(topic), 'MAXLEN', '~', KEPT[topic], '*', 'm', message)
    await this.#connection.ask(add, DEADLINE_MS)
  }

  async hear(topic: Topic, cursor: string | undefined): Promise<Heard> {
    const { client } = this.#connection
    const key = keyOf(topic)
    const read = (): Promise<readonly [id: string, fields: string[]][]> =>
      cursor === undefined
        ? client.xrevrange(key, '+', '-', 'COUNT', 1)
        : client.xrange(key, `(${cursor}`, '+', 'COUNT', PAGE)
    const entries = await this.#connection.ask(read, DEADLINE_MS)
    const newest = entries.at(-1)?.[0] ?? cursor ?? '0-0'
    if (cursor === undefined) return { messages: [], cursor: newest }
    return { messages: entries.map(([, [, message = '']]) => message), cursor: newest }
  }
}

function keyOf(topic: Topic): string {
  return `${PREFIX}:${topic}`
}
