/**
 * Records: small objects by key, stored through unstorage. They are read often and written rarely. Counters and money are in
 * the ledger instead, because unstorage has neither an increment nor a transaction.
 */
import type { Storage } from 'unstorage'
import { isObject } from '../errors/checks.ts'

/** How long a record stays. */
export interface Life {
  /** Time after which the record is gone; without it the record stays. */
  readonly ttlSeconds?: number | undefined
}

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
  /** @throws TypeError for a malformed key, or a value that is not an object */
  put(key: string, value: object, life?: Life): Promise<void>
  /**
   * Stores a record unless its key exists. If several processes create a record at the same moment, one of them succeeds.
   * @returns whether this call stored it. @throws TypeError as {@link Records.put}
   */
  create(key: string, value: object, life?: Life): Promise<boolean>
  /**
   * Stores a record with another revision, unless it was changed since that revision or is gone. If several processes replace
   * the same revision, one of them succeeds.
   * @param revision the revision of the stored record; a stored one without it has revision 0
   * @returns whether this call stored it. @throws TypeError as {@link Records.put}
   */
  replace(
    key: string,
    value: { readonly revision: number },
    revision: number,
    life?: Life,
  ): Promise<boolean>
  /**
   * Reads a record, and stores what `change` makes of it with the next revision, again until no other change came between.
   * @param change gets undefined for a record that does not exist; returns undefined to change nothing
   * @returns the record that was stored; undefined where nothing was changed. @throws TypeError as {@link Records.put}
   */
  update<T extends { readonly revision: number }>(
    key: string,
    change: Change<T>,
    life?: Life,
  ): Promise<T | undefined>
  /**
   * Removes a record. If several processes remove it at the same moment, one of them succeeds.
   * @returns whether this call removed it. @throws TypeError for a malformed key
   */
  del(key: string): Promise<boolean>
  /** The ids in an index, in the order they were added. */
  list(index: string): Promise<readonly string[]>
  /** The ids in many indexes, in their order. */
  listMany(indexes: readonly string[]): Promise<readonly (readonly string[])[]>
  /**
   * Adds ids to an index, each once. Within a process, adds to one index run one after the other. On a storage that several
   * processes share, an engine has to bring an index of its own.
   */
  add(index: string, ...ids: readonly string[]): Promise<void>
  /** Takes ids out of an index. */
  drop(index: string, ...ids: readonly string[]): Promise<void>
  /** Tells the other processes that share the storage that a record has changed. @param key the key of the record */
  touch(key: string): Promise<void>
  /**
   * Keys that were touched after a cursor, and the next cursor; without a cursor only that. Undefined for a storage that
   * belongs to this process.
   */
  changesSince(cursor: string | undefined): Promise<Touched | undefined>
  close(): Promise<void>
}

type Change<T> = (stored: T | undefined) => Awaitable<Omit<T, 'revision'> | undefined>

type Awaitable<T> = T | Promise<T>

export interface Touched {
  readonly ids: readonly string[]
  readonly cursor: string
}

const SEGMENT = /^[\w-]{1,200}$/

/**
 * Records in a storage that belongs to this process. There is one such object per storage, because changes of one record run one
 * after the other.
 */
export class StoredRecords implements Records {
  readonly #storage: Storage
  /** The last change of each record that is being made. */
  readonly #changes = new Map<string, Promise<unknown>>()

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

  async put(key: string, value: object, life?: Life): Promise<void> {
    checkRecord(key, value)
    await this.#set(key, value, life)
  }

  async create(key: string, value: object, life?: Life): Promise<boolean> {
    checkRecord(key, value)
    return this.#inTurn(key, async () => {
      if (await this.get(key)) return false
      await this.#set(key, value, life)
      return true
    })
  }

  async replace(
    key: string,
    value: { readonly revision: number },
    revision: number,
    life?: Life,
  ): Promise<boolean> {
    checkRecord(key, value)
    return this.#inTurn(key, async () => {
      const stored = await this.get<{ readonly revision?: number }>(key)
      if (!stored || (stored.revision ?? 0) !== revision) return false
      await this.#set(key, value, life)
      return true
    })
  }

  async update<T extends { readonly revision: number }>(
    key: string,
    change: Change<T>,
    life?: Life,
  ): Promise<T | undefined> {
    for (;;) {
      const stored = await this.get<T>(key)
      const changed = await change(stored)
      if (!changed) return undefined
      const revision = stored?.revision ?? 0
      const next = { ...changed, revision: revision + 1 } as T
      const isDone = stored
        ? await this.replace(key, next, revision, life)
        : await this.create(key, next, life)
      if (isDone) return next
    }
  }

  async del(key: string): Promise<boolean> {
    checkKey(key)
    return this.#inTurn(key, async () => {
      if (!(await this.#storage.hasItem(key))) return false
      await this.#storage.removeItem(key)
      return true
    })
  }

  async list(index: string): Promise<readonly string[]> {
    return (await this.get<Index>(`index:${index}`))?.ids ?? []
  }

  async listMany(indexes: readonly string[]): Promise<readonly (readonly string[])[]> {
    const records = await this.getMany<Index>(indexes.map((index) => `index:${index}`))
    return records.map((one) => one?.ids ?? [])
  }

  add(index: string, ...ids: readonly string[]): Promise<void> {
    return this.#changeIndex(index, (stored) => [...new Set([...stored, ...ids])])
  }

  drop(index: string, ...ids: readonly string[]): Promise<void> {
    const dropped = new Set(ids)
    return this.#changeIndex(index, (stored) => stored.filter((id) => !dropped.has(id)))
  }

  async touch(_key: string): Promise<void> {}

  async changesSince(_cursor: string | undefined): Promise<Touched | undefined> {
    return undefined
  }

  async close(): Promise<void> {
    await this.#storage.dispose()
  }

  async #changeIndex(
    index: string,
    change: (stored: readonly string[]) => readonly string[],
  ): Promise<void> {
    const key = `index:${index}`
    await this.#inTurn(key, async () => {
      const stored = await this.list(index)
      const ids = change(stored)
      if (ids.length !== stored.length) await this.put(key, { ids })
    })
  }

  async #set(key: string, value: object, { ttlSeconds }: Life = {}): Promise<void> {
    await this.#storage.setItem(key, value, ttlSeconds === undefined ? {} : { ttl: ttlSeconds })
  }

  /** Changes a record after the changes of it that began before. */
  async #inTurn<T>(key: string, change: () => Promise<T>): Promise<T> {
    const before = this.#changes.get(key)
    const turn = (async () => {
      // What an earlier change came to is told to its own caller.
      await before?.catch(() => undefined)
      return change()
    })()
    this.#changes.set(key, turn)
    try {
      return await turn
    } finally {
      if (this.#changes.get(key) === turn) this.#changes.delete(key)
    }
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

/** @throws TypeError for a malformed key, or a value that is not an object */
export function checkRecord(key: string, value: object): void {
  checkKey(key)
  if (!isObject(value)) throw new TypeError('a record has to be an object')
}

/** The message does not repeat the key, which may hold a secret by mistake. */
function checkKey(key: string): void {
  const bad = key.split(':').findIndex((segment) => !SEGMENT.test(segment))
  if (bad < 0) return
  const rule = '1 to 200 ASCII letters, digits, "_" or "-"'
  throw new TypeError(`segment ${bad + 1} of a record key has to be ${rule}`)
}
