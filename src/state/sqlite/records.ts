/** Records in the ledger's database, written in the ledger's batches. */
import type { Driver } from 'unstorage'
import type { WorkerClient } from './worker-client.ts'
import type { StoredRecord } from './store.ts'

interface Item {
  readonly key: string
  readonly value: string
  readonly options?: Options
}

interface Options {
  readonly ttl?: number
}

/**
 * A driver for unstorage. An item is on disk when its promise resolves. `ttl` is in seconds. Several items are set together or
 * not at all. The ledger closes the database.
 * @param now ms since epoch
 */
export function sqliteDriver(client: WorkerClient, now: () => number): Driver<never, WorkerClient> {
  const put = async (items: readonly Item[], common: Options = {}) => {
    client.check()
    const at = now()
    const records = items.map(({ key, value, options }): StoredRecord => {
      const ttl = options?.ttl ?? common.ttl
      return { key, value, expires: ttl === undefined ? undefined : Math.ceil(at + ttl * 1000) }
    })
    await client.write('putRecords', [records, at], done)
  }
  const get = async (key: string) => (await client.read('record', key, now())) ?? null

  return {
    name: 'sqlite',
    flags: { ttl: true },
    getInstance: () => client,
    getItem: get,
    async getItems(items) {
      const keys = items.map(({ key }) => key)
      const values = await client.read('records', keys, now())
      return keys.map((key, i) => ({ key, value: values[i] ?? null }))
    },
    hasItem: async (key) => (await get(key)) !== null,
    setItem: (key, value, options: Options) => put([{ key, value }], options),
    setItems: put,
    async removeItem(key) {
      client.check()
      await client.write('removeRecord', [key], done)
    },
    getKeys: (prefix) => client.read('recordKeys', prefix ?? '', now()),
  }
}

function done(): void {}
