/**
 * Records: small objects by key, through unstorage. For what is read often and written rarely; nothing that counts goes
 * through here, because unstorage cannot increment (state design, sections 1 and 2).
 */
import type { Storage } from 'unstorage'
import { isObject } from '../errors/checks.ts'

/**
 * Keys are segments joined by `:`, each of 1 to 200 ASCII letters, digits, `_` or `-`; no key may be the beginning of
 * another. Values are plain objects that JSON can hold, amounts in them decimal strings.
 */
export interface Records {
  /** @throws TypeError for a malformed key; Error when what is stored is not an object */
  get<T extends object>(key: string): Promise<T | undefined>
  /**
   * @param options.ttlSeconds when the record may be forgotten; a storage without expiry, such as memory, keeps it
   * @throws TypeError for a malformed key, or a value that is not an object
   */
  put(
    key: string,
    value: object,
    options?: { readonly ttlSeconds?: number | undefined },
  ): Promise<void>
  /**
   * Puts what must not be there yet. Of several processes that create a record at the same moment, one does.
   * @returns whether this one did
   * @throws TypeError as {@link Records.put}
   */
  create(key: string, value: object): Promise<boolean>
  /** @throws TypeError for a malformed key */
  del(key: string): Promise<void>
  /** The ids in an index, in the order they were added. */
  list(index: string): Promise<readonly string[]>
  /**
   * Adds ids to an index, each once. Adds to one index wait for each other within a process; two processes that add at the
   * same moment can lose what one of them added from the list, never the records it names.
   */
  add(index: string, ...ids: readonly string[]): Promise<void>
  close(): Promise<void>
}

const SEGMENT = /^[\w-]{1,200}$/

/** Records in an unstorage; the only ones in it, since adds to an index have to queue in one place. */
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
    // Whoever made the failed add was told.
    await previous?.catch(() => undefined)
    const there = await list(index)
    const ids = [...new Set([...there, ...added])]
    if (ids.length > there.length) await put(`index:${index}`, { ids })
  }

  return {
    get,
    put,
    list,
    // Whoever shares these records is in this process, and creates one after the other.
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

/** The key itself is not repeated: a caller's mistake may have put a secret into it. */
function checkKey(key: string): void {
  const bad = key.split(':').findIndex((segment) => !SEGMENT.test(segment))
  if (bad < 0) return
  const rule = '1 to 200 ASCII letters, digits, "_" or "-"'
  throw new TypeError(`segment ${bad + 1} of a record key has to be ${rule}`)
}
