/**
 * Records: small objects by key, stored through unstorage. They are read often and written rarely. Counters and money are
 * in the ledger instead, because unstorage has neither an increment nor a transaction.
 */
import type { Storage } from 'unstorage'
import { isObject } from '../errors/checks.ts'

/**
 * Keys are segments joined by `:`, each of 1 to 200 ASCII letters, digits, `_` or `-`. No key may be a prefix of another,
 * because file storages keep `a` and `a:b` as a file and a folder. Values are plain JSON objects with amounts as decimal
 * strings.
 */
export interface Records {
  /** @throws TypeError for a malformed key; Error when the stored value is not an object */
  get<T extends object>(key: string): Promise<T | undefined>
  /**
   * @param options.ttlSeconds time after which the record is gone
   * @throws TypeError for a malformed key, or a value that is not an object
   */
  put(
    key: string,
    value: object,
    options?: { readonly ttlSeconds?: number | undefined },
  ): Promise<void>
  /**
   * Stores a record unless its key exists. If several processes create a record at the same moment, one of them succeeds.
   * @returns whether this call stored it
   * @throws TypeError as {@link Records.put}
   */
  create(key: string, value: object): Promise<boolean>
  /** @throws TypeError for a malformed key */
  del(key: string): Promise<void>
  /** The ids in an index, in the order they were added. */
  list(index: string): Promise<readonly string[]>
  /**
   * Adds ids to an index, each once. Within a process, adds to one index run one after the other. On a storage that several
   * processes share, an engine has to bring an index of its own.
   */
  add(index: string, ...ids: readonly string[]): Promise<void>
  close(): Promise<void>
}

const SEGMENT = /^[\w-]{1,200}$/

/** Records in a storage. There is one such object per storage, because adds to an index have to queue in one place. */
export function createRecords(storage: Storage): Records {
  const adds = new Map<string, Promise<void>>()

  async function get<T extends object>(key: string): Promise<T | undefined> {
    checkKey(key)
    const value = await storage.getItem<T>(key)
    if (value === null) return undefined
    if (!isObject(value))
      throw new Error(`a stored ${key.split(':', 1)[0]} record is not an object`)
    return value
  }

  async function put(
    key: string,
    value: object,
    { ttlSeconds }: { readonly ttlSeconds?: number | undefined } = {},
  ): Promise<void> {
    checkKey(key)
    if (!isObject(value)) throw new TypeError('a record has to be an object')
    await storage.setItem(key, value, ttlSeconds === undefined ? {} : { ttl: ttlSeconds })
  }

  async function list(index: string): Promise<readonly string[]> {
    return (await get<Index>(`index:${index}`))?.ids ?? []
  }

  async function addAfter(
    previous: Promise<void> | undefined,
    index: string,
    added: readonly string[],
  ) {
    // The caller of the failed add has the error.
    await previous?.catch(() => undefined)
    const stored = await list(index)
    const ids = [...new Set([...stored, ...added])]
    if (ids.length > stored.length) await put(`index:${index}`, { ids })
  }

  return {
    get,
    put,
    list,
    // The storage belongs to this process, whose callers create records one after the other.
    async create(key, value) {
      if (await get(key)) return false
      await put(key, value)
      return true
    },
    async del(key) {
      checkKey(key)
      await storage.removeItem(key)
    },
    async add(index, ...ids) {
      const added = addAfter(adds.get(index), index, ids)
      adds.set(index, added)
      try {
        await added
      } finally {
        if (adds.get(index) === added) adds.delete(index)
      }
    },
    async close() {
      await storage.dispose()
    },
  }
}

interface Index {
  readonly ids: readonly string[]
}

/** The message does not repeat the key, which may hold a secret by mistake. */
function checkKey(key: string): void {
  const bad = key.split(':').findIndex((segment) => !SEGMENT.test(segment))
  if (bad < 0) return
  const rule = '1 to 200 ASCII letters, digits, "_" or "-"'
  throw new TypeError(`segment ${bad + 1} of a record key has to be ${rule}`)
}
