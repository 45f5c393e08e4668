/** The items of answers, remembered for a short time so that a client can refer to one by its id. */
import { hash } from 'node:crypto'
import { inTime } from '../lifetime/scope.ts'
import { sealKey, type AnswerStorage } from './storage.ts'

/** The owner of the items: no other caller can name or read them. */
export interface Owner {
  /** The id of the API key. */
  readonly key: string
  /** The API key as it was sent, from which the seal is made. */
  readonly secret: string
}

/** Finds items of the caller by their ids. */
export type Recall = (ids: readonly string[]) => Promise<ReadonlyMap<string, object>>

const MOST_ITEM_BYTES = 256 * 1024
const MOST_KEY_ITEMS = 400
const MOST_KEY_BYTES = 8 * 1024 * 1024
const MOST_BYTES = 64 * 1024 * 1024
/** Entries that are read at the same time. */
const READ_AT_ONCE = 64
const READ_MS = 3000

/** What this gateway has written. */
interface Written {
  readonly name: string
  readonly key: string
  readonly bytes: number
  /** Steady ms. */
  readonly until: number
}

/**
 * The memory of one gateway. It lists what it wrote, and removes the oldest first where a key or the gateway has too much. A fault of
 * the storage is a miss.
 */
export class ItemMemory {
  readonly #storage: AnswerStorage
  readonly #warn: (message: string) => void
  /** What was written, by name, the oldest first. */
  readonly #written = new Map<string, Written>()
  /** The same of each key, and their size. */
  readonly #byKey = new Map<string, { readonly names: Set<string>; bytes: number }>()
  #bytes = 0
  /** Items whose writing has not ended, by name: they are found too. */
  readonly #writing = new Map<string, { readonly item: object; readonly done: Promise<unknown> }>()

  /** @param warn is called for faults of the storage */
  constructor(storage: AnswerStorage, warn: (message: string) => void) {
    this.#storage = storage
    this.#warn = warn
  }

  /** Keeps items that have an id and are not too large. Does not wait. */
  keep({ key, secret }: Owner, items: readonly object[], ttlSeconds: number): void {
    const now = performance.now()
    const seal = sealKey(secret, key, 'items')
    for (const item of items) {
      const { id } = item as { readonly id?: unknown }
      const value = Buffer.from(JSON.stringify(item))
      if (typeof id !== 'string' || value.length > MOST_ITEM_BYTES) continue
      const name = nameOf(key, id)
      this.#forget(name)
      this.#note({ name, key, bytes: value.length, until: now + ttlSeconds * 1000 })
      const writing = {
        item,
        done: this.#storage.put(name, value, ttlSeconds, seal).catch((error: unknown) => {
          this.#warn(`an item of an answer could not be remembered: ${String(error)}`)
        }),
      }
      this.#writing.set(name, writing)
      void writing.done.then(() => {
        if (this.#writing.get(name) === writing) this.#writing.delete(name)
      })
    }
    this.#tidy(key, now)
  }

  /** The items that are known, by their ids. */
  async recall({ key, secret }: Owner, ids: readonly string[]): Promise<Map<string, object>> {
    const seal = sealKey(secret, key, 'items')
    const items = new Map<string, object>()
    const read = async (id: string) => {
      const name = nameOf(key, id)
      const value = this.#writing.get(name)?.item ?? (await this.#storage.get(name, seal))
      if (value) items.set(id, value instanceof Buffer ? JSON.parse(value.toString()) : value)
    }
    try {
      for (let at = 0; at < ids.length; at += READ_AT_ONCE) {
        const late = () => new Error('the storage has not answered in time')
        await inTime(
          Promise.all(ids.slice(at, at + READ_AT_ONCE).map(read)).then(() => undefined),
          READ_MS,
          late,
        )
      }
    } catch (error) {
      this.#warn(`items of answers could not be read: ${String(error)}`)
    }
    return items
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    await Promise.all([...this.#writing.values()].map(({ done }) => done))
  }

  #note(written: Written): void {
    const { name, key, bytes } = written
    const own = this.#byKey.get(key) ?? { names: new Set(), bytes: 0 }
    this.#byKey.set(key, own)
    own.names.add(name)
    own.bytes += bytes
    this.#bytes += bytes
    this.#written.set(name, written)
  }

  /** Forgets what is over, and the oldest above the bounds. */
  #tidy(key: string, now: number): void {
    for (const { name, until } of this.#written.values()) {
      if (until > now && this.#bytes <= MOST_BYTES) break
      this.#remove(name)
    }
    const own = this.#byKey.get(key)
    for (const name of own?.names ?? []) {
      if (own!.names.size <= MOST_KEY_ITEMS && own!.bytes <= MOST_KEY_BYTES) break
      this.#remove(name)
    }
  }

  #remove(name: string): void {
    this.#forget(name)
    // The entry is removed after it is written. Where that fails, it ends with its time.
    const written = this.#writing.get(name)?.done ?? Promise.resolve()
    this.#writing.delete(name)
    void written.then(() => this.#storage.drop(name)).catch(() => {})
  }

  #forget(name: string): void {
    const written = this.#written.get(name)
    if (!written) return
    const own = this.#byKey.get(written.key)!
    own.names.delete(name)
    own.bytes -= written.bytes
    if (own.names.size === 0) this.#byKey.delete(written.key)
    this.#bytes -= written.bytes
    this.#written.delete(name)
  }
}

/** The name of an entry: only who knows the id of the key and of the item can ask for it. */
function nameOf(key: string, id: string): string {
  return `item:${hash('sha256', `${key} ${id}`).slice(0, 40)}`
}
