import { createStorage, type Driver, type Storage } from 'unstorage'
import { checkRecord, StoredRecords, type Life, type Touched } from '../records.ts'
import { PREFIX, type RedisConnection, isCluster } from './connection.ts'
import type { ScriptClient } from './replies.ts'

const DEADLINE_MS = 500
/** Records that money belongs to. */
const OWNED = /^(?:account|key):/
/** Name of the index of changed records, each once, in the order of their last changes. */
const TOUCHED = 'touched'

/** A storage over unstorage's driver. It throws Unavailable while Redis cannot be reached. */
export function redisStorage(connection: RedisConnection, driver: Driver): Storage {
  const ask = <T>(send: () => Promise<T>) => connection.ask(send, DEADLINE_MS)
  // The keys of many records are on several servers of a cluster.
  const getItems: NonNullable<Driver['getItems']> = isCluster(connection.client)
    ? (items) =>
        Promise.all(items.map(async ({ key }) => ({ key, value: await driver.getItem(key) })))
    : driver.getItems!
  return createStorage({
    driver: {
      ...driver,
      getItem: (key) => ask(async () => driver.getItem(key)),
      getItems: (items, options) => ask(async () => getItems(items, options)),
      setItem: (key, value, options) => ask(async () => driver.setItem!(key, value, options)),
      removeItem: (key, options) => ask(async () => driver.removeItem!(key, options)),
    },
  })
}

/**
 * Records in that storage. Every method throws Unavailable while Redis cannot be reached. An index is a sorted set and
 * not a record, so that several gateways can add to it at the same moment.
 */
export class RedisRecords extends StoredRecords {
  readonly #connection: RedisConnection
  #made: (key: string, exists?: () => Promise<boolean>) => void = () => {}

  constructor(connection: RedisConnection, storage: Storage) {
    super(storage)
    this.#connection = connection
  }

  /** @param listener called with each account and key that was written, or removed: then without a way to ask for it */
  onMade(listener: (key: string, exists?: () => Promise<boolean>) => void): void {
    this.#made = listener
  }

  override async put(...args: Parameters<StoredRecords['put']>): Promise<void> {
    await super.put(...args)
    this.#note(args[0])
  }

  override async create(key: string, value: object, { ttlSeconds }: Life = {}): Promise<boolean> {
    checkRecord(key, value)
    const [name, text] = [nameOf(key), JSON.stringify(value)]
    const isMade = await this.#compete(name, text, async (client) => {
      const done =
        ttlSeconds === undefined
          ? await client.set(name, text, 'NX')
          : await client.set(name, text, 'EX', ttlSeconds, 'NX')
      return done === 'OK'
    })
    if (isMade) this.#note(key)
    return isMade
  }

  override async replace(
    key: string,
    value: { readonly revision: number },
    revision: number,
    { ttlSeconds }: Life = {},
  ): Promise<boolean> {
    checkRecord(key, value)
    const args = [JSON.stringify(value), String(revision)]
    if (ttlSeconds !== undefined) args.push(String(ttlSeconds))
    const name = nameOf(key)
    return this.#compete(name, args[0]!, async (client) => {
      const [done] = await client.replace(name, ...args)
      return done === '1'
    })
  }

  override async del(key: string): Promise<boolean> {
    checkRecord(key, {})
    if (OWNED.test(key)) this.#made(key)
    // The connection reads numbers as text.
    return Number(await this.#ask((client) => client.del(nameOf(key)))) === 1
  }

  override list(index: string): Promise<readonly string[]> {
    return this.#ask((client) => client.zrange(indexName(index), 0, -1))
  }

  override listMany(indexes: readonly string[]): Promise<readonly (readonly string[])[]> {
    return this.#ask((client) =>
      Promise.all(indexes.map((index) => client.zrange(indexName(index), 0, -1))),
    )
  }

  override async add(index: string, ...ids: readonly string[]): Promise<void> {
    await this.#ask((client) => client.index(indexName(index), ...ids))
  }

  override async drop(index: string, ...ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#ask((client) => client.zrem(indexName(index), ...ids))
  }

  override async touch(key: string): Promise<void> {
    await this.#ask((client) => client.touchRecord(indexName(TOUCHED), key))
  }

  override async changesSince(cursor: string | undefined): Promise<Touched> {
    const name = indexName(TOUCHED)
    if (cursor === undefined) {
      const [, newest = '0'] = await this.#ask((client) =>
        client.zrange(name, -1, -1, 'WITHSCORES'),
      )
      return { ids: [], cursor: newest }
    }
    const changes = await this.#ask((client) =>
      client.zrangebyscore(name, `(${cursor}`, '+inf', 'WITHSCORES'),
    )
    const ids = changes.filter((_, i) => i % 2 === 0)
    return { ids, cursor: changes.at(-1) ?? cursor }
  }

  override async close(): Promise<void> {
    this.#connection.close()
  }

  #note(key: string): void {
    if (!OWNED.test(key)) return
    this.#made(key, () =>
      this.#ask(async (client) => Number(await client.exists(nameOf(key))) === 1),
    )
  }

  /** Sends a write of which one process succeeds. Sent again after a lost connection, it may find what it has stored itself. */
  #compete(
    name: string,
    text: string,
    send: (client: ScriptClient) => Promise<boolean>,
  ): Promise<boolean> {
    let isAgain = false
    return this.#ask(async (client) => {
      const wasSent = isAgain
      isAgain = true
      return (await send(client)) || (wasSent && (await client.get(name)) === text)
    })
  }

  #ask<T>(send: (client: ScriptClient) => Promise<T>): Promise<T> {
    return this.#connection.ask(() => send(this.#connection.client as ScriptClient), DEADLINE_MS)
  }
}

function nameOf(key: string): string {
  return `${PREFIX}:${key}`
}

function indexName(index: string): string {
  return nameOf(`index:${index}`)
}
