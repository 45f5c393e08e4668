/** Records in Redis, for several gateways. */
import { createStorage, type Driver } from 'unstorage'
import { createRecords, type Records } from '../records.ts'
import { PREFIX, type RedisConnection } from './connection.ts'
import type { ScriptClient } from './replies.ts'

const DEADLINE_MS = 500

/**
 * Records of unstorage's driver, with deadlines: Unavailable while the store is away. An index is a sorted set instead of
 * a record, so that gateways that add to it at the same moment lose nothing.
 */
export function recordsIn(connection: RedisConnection, driver: Driver): Records {
  const store = connection.client as ScriptClient
  const ask = <T>(send: () => Promise<T>) => connection.ask(DEADLINE_MS, send)
  const storage = createStorage({
    driver: {
      ...driver,
      getItem: (key) => ask(async () => driver.getItem(key)),
      setItem: (key, value, options) => ask(async () => driver.setItem!(key, value, options)),
      removeItem: (key, options) => ask(async () => driver.removeItem!(key, options)),
    },
  })
  const records = createRecords(storage)
  return {
    ...records,
    async create(key, value) {
      // Refuses what is malformed.
      if (await records.get(key)) return false
      const text = JSON.stringify(value)
      return (await ask(() => store.set(`${PREFIX}:${key}`, text, 'NX'))) === 'OK'
    },
    list: (index) => ask(() => store.zrange(nameOf(index), 0, -1)),
    async add(index, ...ids) {
      await ask(() => store.index(nameOf(index), ...ids))
    },
    async close() {
      connection.close()
    },
  }
}

function nameOf(index: string): string {
  return `${PREFIX}:index:${index}`
}
