/** Records in Redis, which several gateways share. */
import { createStorage, type Driver } from 'unstorage'
import { createRecords, type Records } from '../records.ts'
import { PREFIX, type RedisConnection } from './connection.ts'
import type { ScriptClient } from './replies.ts'

const DEADLINE_MS = 500

/**
 * Records over unstorage's driver. Every method throws Unavailable while Redis cannot be reached. An index is a sorted set
 * and not a record, so that several gateways can add to it at the same moment.
 */
export function recordsIn(connection: RedisConnection, driver: Driver): Records {
  const store = connection.client as ScriptClient
  const ask = <T>(send: () => Promise<T>) => connection.ask(send, DEADLINE_MS)
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
      // Refuses a malformed key.
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
