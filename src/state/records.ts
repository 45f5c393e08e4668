/**
 * Records: small objects by key, stored through unstorage. They are read often and written rarely. Counters and money are in
 * the ledger instead, because unstorage has neither an increment nor a transaction.
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
  /** The records of many keys, in their order. @throws as {@link Records.get} */
  getMany<T extends object>(keys: readonly string[]): Promise<readonly (T | undefined)[]>
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
   * @returns whether this call stored it. @throws TypeError as {@link Records.put}
   */
  create(key: string, value: object): Promise<boolean>
  /**
   * Stores a record with another revision, unless it was changed since that revision or is gone. If several processes replace
   * the same revision, one of them succeeds.
   * @param revision of the stored record; a stored one without it has revision 0
   * @returns whether this call stored it. @throws TypeError as {@link Records.put}
   */
  replace(key: string, value: { readonly revision: number }, revision: number): Promise<boolean>
  /** @throws TypeError for a malformed key */
  del(key: string): Promise<void>
  /** The ids in an index, in the order they were added. */
  list(index: string): Promise<readonly string[]>
  /** The ids in many indexes, in their order. */
  listMany(indexes: readonly string[]): Promise<readonly (readonly string[])[]>
  /**
   * Adds ids to an index, each once. Within a process, adds to one index run one after the other. On a storage that several
   * processes share, an engine has to bring an index of its own.
   */
  add(index: string, ...ids: readonly string[]): Promise<void>
  /** Tells the other processes that share the storage that a record has changed. @param key of the record */
  touch(key: string): Promise<void>
  /**
   * Keys that were touched after a cursor, and the next cursor; without a cursor only that. Undefined for a storage that
   * belongs to this process.
   */
  changesSince(cursor: string | undefined): Promise<Touched | undefined>
  close(): Promise<void>
}

export interface Touched {
  readonly ids: readonly string[]
  readonly cursor: string
}

const SEGMENT = /^[\w-]{1,200}$/

/** Records in a storage. There is one such object per storage, because adds to an index have to queue in one place. */
export class StoredRecords implements Records {
  readonly #storage: Storage
  /** The last add to each index. */
  readonly #adds = new Map<string, Promise<void>>()
  /** The last change of each record that is being made. */
  readonly #changes = new Map<string, Promise<boolean>>()

  constructor(storage: Storage) {
    this.#storage = storage
  }

  async get<T extends object>(key: string): Promise<T | undefined> {
    checkKey(key)
    return toRecord<T>(key, await this.#storage.getItem<T>(key))
  }

  async getMany<T extends object>(keys: readonly string[]): Promise<readonly (T | undefined)[]> {
    for (const key of keys) checkKey(key)
    const items = keys.length === 0 ? [] : await this.#storage.getItems<T>([...keys])
    return items.map(({ value }, i) => toRecord<T>(keys[i]!, value))
  }

  async put(
    key: string,
    value: object,
    { ttlSeconds }: { readonly ttlSeconds?: number | undefined } = {},
  ): Promise<void> {
    checkKey(key)
    if (!isObject(value)) throw new TypeError('a record has to be an object')
    await this.#storage.setItem(key, value, ttlSeconds === undefined ? {} : { ttl: ttlSeconds })
  }

  create(key: string, value: object): Promise<boolean> {
    return this.#putWhere(key, value, (stored) => stored === undefined)
  }

  replace(key: string, value: { readonly revision: number }, revision: number): Promise<boolean> {
    return this.#putWhere<{ readonly revision?: number }>(
      key,
      value,
      (stored) => stored !== undefined && (stored.revision ?? 0) === revision,
    )
  }

  /** The storage belongs to this process, whose changes of one record run one after the other. */
  async #putWhere<T extends object>(
    key: string,
    value: object,
    isRight: (stored: T | undefined) => boolean,
  ): Promise<boolean> {
    const before = this.#changes.get(key)
    const change = (async () => {
      // What an earlier change came to is told to its own caller.
      await before?.catch(() => undefined)
      if (!isRight(await this.get<T>(key))) return false
      await this.put(key, value)
      return true
    })()
    this.#changes.set(key, change)
    try {
      return await change
    } finally {
      if (this.#changes.get(key) === change) this.#changes.delete(key)
    }
  }

  async del(key: string): Promise<void> {
    checkKey(key)
    await this.#storage.removeItem(key)
  }

  async list(index: string): Promise<readonly string[]> {
    return (await this.get<Index>(`index:${index}`))?.ids ?? []
  }

  async listMany(indexes: readonly string[]): Promise<readonly (readonly string[])[]> {
    const records = await this.getMany<Index>(indexes.map((index) => `index:${index}`))
    return records.map((one) => one?.ids ?? [])
  }

  async add(index: string, ...ids: readonly string[]): Promise<void> {
    const added = this.#addAfter(this.#adds.get(index), index, ids)
    this.#adds.set(index, added)
    try {
      await added
    } finally {
      if (this.#adds.get(index) === added) this.#adds.delete(index)
    }
  }

  async touch(_key: string): Promise<void> {}

  async changesSince(_cursor: string | undefined): Promise<Touched | undefined> {
    return undefined
  }

  async close(): Promise<void> {
    await this.#storage.dispose()
  }

  async #addAfter(previous: Promise<void> | undefined, index: string, added: readonly string[]) {
    // The caller of the failed add gets the error.
    await previous?.catch(() => undefined)
    const stored = await this.list(index)
    const ids = [...new Set([...stored, ...added])]
    if (ids.length > stored.length) await this.put(`index:${index}`, { ids })
  }
}

interface Index {
  readonly ids: readonly string[]
}

function toRecord<T extends object>(key: string, value: T | null): T | undefined {
  if (value === null) return undefined
  if (isObject(value)) return value
  throw new Error(`a stored ${key.split(':', 1)[0]} record is not an object`)
}

/** The message does not repeat the key, which may hold a secret by mistake. */
function checkKey(key: string): void {
  const bad = key.split(':').findIndex((segment) => !SEGMENT.test(segment))
  if (bad < 0) return
  const rule = '1 to 200 ASCII letters, digits, "_" or "-"'
  throw new TypeError(`segment ${bad + 1} of a record key has to be ${rule}`)
}
