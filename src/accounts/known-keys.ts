/** Keys by their secrets: the records of those in use are cached. */
import { LRUCache } from 'lru-cache'
import { atMost } from '../lifetime/cache.ts'
import type { Records } from '../state/records.ts'
import type { Account, Key, ResolvedKey } from './stored.ts'

/** What {@link KnownKeys} works with. */
interface KnownKeysInit {
  readonly records: Records
  readonly account: (id: string) => Promise<Account | undefined>
  readonly key: (id: string) => Promise<Key | undefined>
  /** Tells the ledger the limits of a key and its account. */
  readonly announce: (found: ResolvedKey) => Promise<void>
  /** ms since epoch */
  readonly now: () => number
}

const CACHE_ENTRIES = 10_000
const TTL_MS = 60_000
/** Short, so that a key created in another instance is soon known here. */
const UNKNOWN_TTL_MS = 2000

/** The keys of one gateway by the hash of their secrets. */
export class KnownKeys {
  readonly #init: KnownKeysInit
  /** Null for a hash without a key. */
  readonly #cache: LRUCache<string, { readonly known: ResolvedKey | null }>
  /** Look-ups in progress, by hash. */
  readonly #loads = new Map<string, Promise<ResolvedKey | null>>()

  constructor(init: KnownKeysInit) {
    this.#init = init
    this.#cache = new LRUCache({
      ...atMost(CACHE_ENTRIES),
      ttl: TTL_MS,
      ttlResolution: 0,
      perf: { now: init.now },
    })
  }

  /**
   * The key of a secret, from the cache only.
   * @param sha256 see `hashSecret`
   * @returns null if there is no such key, undefined if the cache does not know and {@link find} has to be called
   */
  peek(sha256: string): ResolvedKey | null | undefined {
    return this.#cache.get(sha256)?.known
  }

  /** The key of a secret, from the cache or the records. Concurrent look-ups of one secret share one load. */
  async find(sha256: string): Promise<ResolvedKey | null> {
    const cached = this.peek(sha256)
    if (cached !== undefined) return cached
    const running = this.#loads.get(sha256)
    if (running) return running
    const load = this.reload(sha256).finally(() => this.#loads.delete(sha256))
    this.#loads.set(sha256, load)
    return load
  }

  /**
   * The key of a secret, from the records: called when the ledger reports that the cached key is outdated. Sends the limits
   * to the ledger again, in case it has lost them or has former defaults. Does not share a load that began earlier, because
   * that may have read the outdated record.
   */
  async reload(sha256: string): Promise<ResolvedKey | null> {
    const known = await this.load(sha256)
    if (known) await this.#init.announce(known)
    // An entry lives for its time and the millisecond after; one with a time of 0 would live for ever.
    const ttl = known ? Math.min(TTL_MS, this.#lifeMs(known.key, sha256) - 1) : UNKNOWN_TTL_MS
    if (ttl > 0) this.#cache.set(sha256, { known }, { ttl })
    return known
  }

  /** The record of a key has changed. */
  forget(sha256: string): void {
    this.#cache.delete(sha256)
  }

  /** Forgets all keys. */
  clear(): void {
    this.#cache.clear()
  }

  /** The key of a secret, from the records, without any cache. */
  async load(sha256: string): Promise<ResolvedKey | null> {
    const place = await this.#init.records.get<{ account: string; key: string }>(`hash:${sha256}`)
    if (!place) return null
    const init = this.#init
    const [account, key] = await Promise.all([init.account(place.account), init.key(place.key)])
    // The hash of a key whose creation was interrupted, or of a secret that has ended.
    if (!account || !key || this.#lifeMs(key, sha256) <= 0) return null
    return Object.freeze({ account: Object.freeze(account), key: Object.freeze(key) })
  }

  /** How long a secret of a key goes on working, ms; 0 or less for one that does not. */
  #lifeMs({ sha256, previous }: Key, secret: string): number {
    if (sha256 === secret) return Infinity
    return previous?.sha256 === secret ? previous.until - this.#init.now() : 0
  }
}
