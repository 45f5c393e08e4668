/**
 * Accounts and keys: creates, finds and changes them; makes, hashes and checks secrets. The ledger decides whether a key is admitted; this module
 * sends it the limits of each key, with a revision that tells an outdated record from a current one.
 */
import { LRUCache } from 'lru-cache'
import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { InvalidRequest, NotFound } from '../errors/errors.ts'
import { randomId } from '../state/ids.ts'
import type { CapScope, FreeTierLimits, KeyLimits, Ledger } from '../state/ledger/ledger.ts'
import { formatPico, MAX_AMOUNT, parsePico } from '../money/money.ts'
import type { Policy } from '../policy/policy.ts'
import type { Records } from '../state/records.ts'

/** An account: the owner of keys and of a balance. */
export interface Account {
  readonly id: string
  readonly name: string
  /** ms since epoch */
  readonly createdAt: number
}

/** An API key. Its secret is never stored, only the hash. */
export interface Key {
  readonly id: string
  readonly account: string
  readonly name: string
  /** What lists show of the secret: `sk-sluice-ab12`; for one of another origin what was said, or `seeded`. */
  readonly start: string
  /** Hexadecimal SHA-256 of the secret. */
  readonly sha256: string
  readonly disabled: boolean
  /** ms since epoch */
  readonly expiresAt?: number | undefined
  /** Requests per minute; when absent, the configured default. */
  readonly rpm?: number | undefined
  /** Calls at a time; when absent, the configured default. */
  readonly concurrency?: number | undefined
  readonly spendCap?: SpendCap | undefined
  /** The models that the key can use; when absent, all. */
  readonly models?: readonly string[] | undefined
  readonly policy?: Policy | undefined
  /** Grows with every change. */
  readonly revision: number
  /** ms since epoch */
  readonly createdAt: number
}

/** The most that a key can spend in a period. */
interface SpendCap {
  /** USD as decimal text. */
  readonly usd: string
  readonly scope: CapScope
}

/** A change of a key. Absent members stay, null removes a setting. The policy has to be validated already. */
export interface KeyChange {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
  readonly expiresAt?: number | null | undefined
  readonly rpm?: number | null | undefined
  readonly concurrency?: number | null | undefined
  readonly spendCap?: SpendCap | null | undefined
  readonly models?: readonly string[] | null | undefined
  readonly policy?: Policy | null | undefined
}

/** A key to create. A secret is generated unless `secret` or `sha256` is given. */
interface NewKey extends KeyChange {
  readonly name: string
  readonly id?: string | undefined
  readonly secret?: string | undefined
  readonly sha256?: string | undefined
  /** What lists show of the secret; with `sha256` only. */
  readonly start?: string | undefined
}

/** Requests per minute and calls at a time. */
interface Limits {
  readonly rpm: number
  readonly concurrency: number
}

/** A key with its account. */
export interface ResolvedKey {
  readonly key: Key
  readonly account: Account
}

/** What {@link Accounts} works with. */
interface AccountsOptions {
  readonly records: Records
  readonly ledger: Ledger
  /** Called at every use, so that a reloaded configuration applies. */
  readonly defaults: () => { readonly limits: Limits }
  /** ms since epoch */
  readonly now?: () => number
}

const ID = /^[a-z0-9_-]{1,64}$/
const SHA256 = /^[0-9a-f]{64}$/
const SECRET = /^[\x21-\x7e]{8,512}$/
const NAME_LENGTH = 200
const COUNT = 'a whole number of at least 1'
const USD = `a decimal string such as "12.50", at most ${formatPico(MAX_AMOUNT)}`
const CACHE_ENTRIES = 10_000
const TTL_MS = 60_000
/** Short, so that a key created in another instance is soon known here. */
const UNKNOWN_TTL_MS = 2000

/** The accounts and keys of one gateway. Stored as records; keys in use are cached. */
export class Accounts {
  readonly #records: Records
  readonly #ledger: Ledger
  readonly #defaults: () => { readonly limits: Limits }
  readonly #now: () => number
  /** Keys by hash of the secret; null for a hash without a key. */
  readonly #cache: LRUCache<string, { readonly known: ResolvedKey | null }>
  /** Look-ups in progress, by hash. */
  readonly #loads = new Map<string, Promise<ResolvedKey | null>>()
  #lastWrite: Promise<unknown> = Promise.resolve()

  constructor({ records, ledger, defaults, now = () => Date.now() }: AccountsOptions) {
    this.#records = records
    this.#ledger = ledger
    this.#defaults = defaults
    this.#now = now
    this.#cache = new LRUCache({ max: CACHE_ENTRIES, ttl: TTL_MS, ttlResolution: 0, perf: { now } })
  }

  /**
   * The key of a secret, from the cache only.
   * @param sha256 see {@link hashSecret}
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
    const known = await this.#load(sha256)
    if (known) await this.#announce(known.key)
    this.#cache.set(sha256, { known }, { ttl: known ? TTL_MS : UNKNOWN_TTL_MS })
    return known
  }

  /** Creates an account. @throws InvalidRequest for a malformed id or name, or an id that is taken */
  createAccount({ id, name }: { id?: string | undefined; name: string }): Promise<Account> {
    return this.#write(async () => {
      checkName(name)
      const account = { id: id ?? randomId('acct_'), name, createdAt: this.#now() }
      checkId(account.id)
      const known = await this.account(account.id)
      need(!known, 'id', `new; account ${account.id} exists already`)
      // The record is written last: an index may name a missing record, but must not miss an existing one.
      await this.#records.add('accounts', account.id)
      const created = await this.#records.create(`account:${account.id}`, account)
      need(created, 'id', `new; account ${account.id} exists already`)
      return account
    })
  }

  /** The account of an id; undefined if there is none. */
  async account(id: string): Promise<Account | undefined> {
    return ID.test(id) ? this.#records.get<Account>(`account:${id}`) : undefined
  }

  /** All accounts, oldest first. */
  async listAccounts(): Promise<readonly Account[]> {
    const ids = await this.#records.list('accounts')
    return present(await Promise.all(ids.map((id) => this.account(id))))
  }

  /**
   * Creates a key. The result is the only place where its secret can be read; it is empty if only the SHA-256 was given.
   * @throws InvalidRequest for a malformed member, or an id or secret that is taken; NotFound for an unknown account
   */
  createKey(account: string, init: NewKey): Promise<{ key: Key; secret: string }> {
    return this.#write(async () => {
      checkChange(init)
      if (!(await this.account(account))) throw missing('account', account)
      const id = init.id ?? randomId('key_')
      checkId(id)
      need(!(await this.key(id)), 'id', `new; key ${id} exists already`)
      const { secret, sha256, start } = secretOf(init)
      const other = await this.#load(sha256)
      need(!other, init.sha256 ? 'sha256' : 'secret', 'new; another key has the same secret')
      const createdAt = this.#now()
      const state = { name: init.name, disabled: false, revision: 0, createdAt }
      const key = changed({ id, account, start, sha256, ...state }, init, createdAt)
      // The key's own record is written last: the key does not exist before everything else is in place.
      await this.#records.add(`keys:${account}`, id)
      await this.#records.put(`hash:${sha256}`, { account, key: id })
      const created = await this.#records.create(`key:${id}`, key)
      need(created, 'id', `new; key ${id} exists already`)
      this.#cache.delete(sha256)
      await this.#announce(key)
      return { key, secret }
    })
  }

  /** The key of an id; undefined if there is none. */
  async key(id: string): Promise<Key | undefined> {
    return ID.test(id) ? this.#records.get<Key>(`key:${id}`) : undefined
  }

  /** The keys of one account, or of all accounts, oldest first. */
  async listKeys(account?: string): Promise<readonly Key[]> {
    if (account === undefined) {
      const accounts = await this.listAccounts()
      return (await Promise.all(accounts.map(({ id }) => this.listKeys(id)))).flat()
    }
    const ids = ID.test(account) ? await this.#records.list(`keys:${account}`) : []
    return present(await Promise.all(ids.map((id) => this.key(id))))
  }

  /**
   * Changes a key. When this resolves, every further `enter` and `hold`, in every instance, applies the change.
   * @param replaced called with the key as it was
   * @throws InvalidRequest for a malformed member, NotFound for an unknown key
   */
  changeKey(id: string, change: KeyChange, replaced?: (before: Key) => void): Promise<Key> {
    return this.#write(async () => {
      checkChange(change)
      const key = await this.key(id)
      if (!key) throw missing('key', id)
      const next = changed(key, change, Math.max(key.revision + 1, this.#now()))
      // First the record, then the ledger: an instance that learns from the ledger that it is outdated finds the new record.
      await this.#records.put(`key:${id}`, next)
      this.#cache.delete(next.sha256)
      await this.#announce(next)
      replaced?.(key)
      return next
    })
  }

  /** The limits of the key, or the defaults. While the account is unpaid, those of the free tier apply where they are lower. */
  effectiveLimits(key: Key, paid: boolean, freeTier: FreeTierLimits): Limits {
    const { rpm, concurrency } = this.#limitsOf(key)
    if (paid) return { rpm, concurrency }
    return {
      rpm: Math.min(rpm, freeTier.rpm),
      concurrency: Math.min(concurrency, freeTier.concurrency),
    }
  }

  /** Empties the cache, so that new defaults reach the ledger with the next look-up. */
  refresh(): void {
    this.#cache.clear()
  }

  async #load(sha256: string): Promise<ResolvedKey | null> {
    const place = await this.#records.get<{ account: string; key: string }>(`hash:${sha256}`)
    if (!place) return null
    const [account, key] = await Promise.all([this.account(place.account), this.key(place.key)])
    // The hash of a key whose creation was interrupted.
    if (!account || key?.sha256 !== sha256) return null
    return Object.freeze({ account: Object.freeze(account), key: Object.freeze(key) })
  }

  async #announce(key: Key): Promise<void> {
    const { id, account, disabled, expiresAt, spendCap, revision } = key
    const cap = spendCap && { amount: parsePico(spendCap.usd), scope: spendCap.scope }
    const limits: KeyLimits = {
      ...this.#limitsOf(key),
      disabled,
      ...(expiresAt !== undefined && { expiresAt }),
      ...(cap && { cap }),
    }
    await this.#ledger.limits(account, id, limits, revision)
  }

  #limitsOf({ rpm, concurrency }: Key): Limits {
    const { limits } = this.#defaults()
    return { rpm: rpm ?? limits.rpm, concurrency: concurrency ?? limits.concurrency }
  }

  /** Runs writes one after the other, because each reads the record that it replaces. */
  #write<T>(write: () => Promise<T>): Promise<T> {
    const written = this.#lastWrite.then(write)
    this.#lastWrite = written.catch(() => undefined)
    return written
  }
}

function changed(key: Key, change: KeyChange, revision: number): Key {
  return {
    ...key,
    name: change.name ?? key.name,
    disabled: change.disabled ?? key.disabled,
    expiresAt: updated(change.expiresAt, key.expiresAt),
    rpm: updated(change.rpm, key.rpm),
    concurrency: updated(change.concurrency, key.concurrency),
    spendCap: updated(change.spendCap, key.spendCap),
    models: updated(change.models, key.models),
    policy: updated(change.policy, key.policy),
    revision,
  }
}

function updated<T>(change: T | null | undefined, current: T | undefined): T | undefined {
  return change === undefined ? current : (change ?? undefined)
}

function secretOf({ secret, sha256, start }: NewKey): {
  secret: string
  sha256: string
  start: string
} {
  if (sha256 !== undefined) {
    need(secret === undefined, 'secret', 'left out when "sha256" is given')
    need(SHA256.test(sha256), 'sha256', '64 lower-case hexadecimal digits')
    return { secret: '', sha256, start: start ?? OTHER_ORIGIN }
  }
  need(start === undefined, 'start', 'left out without "sha256"')
  const given = secret ?? newSecret()
  need(SECRET.test(given), 'secret', '8 to 512 visible ASCII characters without spaces')
  need(
    hasValidChecksum(given),
    'secret',
    `complete and without a typing error, as "${PREFIX}" keys have a checksum`,
  )
  return { secret: given, sha256: hashSecret(given), start: startOf(given) }
}

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined)
}

/** @throws InvalidRequest; members are named as in the admin API and the configuration */
function checkChange({ name, expiresAt, rpm, concurrency, spendCap, models }: KeyChange): void {
  if (name !== undefined) checkName(name)
  need(rpm == null || isCount(rpm), 'rpm_limit', COUNT)
  need(concurrency == null || isCount(concurrency), 'concurrency_limit', COUNT)
  need(expiresAt == null || Number.isSafeInteger(expiresAt), 'expires_at', 'a valid point in time')
  need(spendCap == null || isAmount(spendCap.usd), 'spend_cap.usd', USD)
  need(models == null || models.length > 0, 'models', 'null or a list with at least one model')
}

function checkName(name: string): void {
  const length = name.trim().length
  need(length > 0 && length <= NAME_LENGTH, 'name', `a text of 1 to ${NAME_LENGTH} characters`)
}

function checkId(id: string): void {
  need(ID.test(id), 'id', '1 to 64 lower-case letters, digits, "_" or "-"')
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

function isAmount(usd: string): boolean {
  try {
    return parsePico(usd) <= MAX_AMOUNT
  } catch {
    return false
  }
}

function need(holds: boolean, param: string, expected: string): void {
  if (holds) return
  throw new InvalidRequest('invalid_value', `"${param}" has to be ${expected}.`, { param })
}

function missing(kind: string, id: string): NotFound {
  return new NotFound('not_found', `There is no ${kind} ${JSON.stringify(id.slice(0, 64))}.`)
}

/** Beginning of every secret that is generated here. */
export const PREFIX = 'sk-sluice-'
const BODY_LENGTH = 40
const CHECK_LENGTH = 6
const START_LENGTH = PREFIX.length + 4
/** What lists show of a secret that was not made here. */
const OTHER_ORIGIN = 'seeded'
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** Hexadecimal SHA-256 of a secret, the form in which secrets are stored and looked up. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/**
 * Whether a secret can be valid: false for one with our prefix and a wrong checksum, which is mistyped and does not need
 * a look-up. Secrets of another origin have no checksum and count as valid.
 */
export function hasValidChecksum(secret: string): boolean {
  if (!secret.startsWith(PREFIX)) return true
  const body = secret.slice(0, PREFIX.length + BODY_LENGTH)
  return secret === body + checksum(body)
}

/** A new random secret: prefix, forty base-62 digits (238 bits) and a checksum. */
function newSecret(): string {
  const digits = Array.from({ length: BODY_LENGTH }, () => BASE62[randomInt(62)])
  const body = PREFIX + digits.join('')
  return body + checksum(body)
}

/** CRC-32 in base 62, most significant digit first. */
function checksum(text: string): string {
  let digits = ''
  for (let rest = crc32(text); digits.length < CHECK_LENGTH; rest = Math.floor(rest / 62)) {
    digits = BASE62[rest % 62]! + digits
  }
  return digits
}

/** The first characters of a secret, for lists. A secret of another origin may be short, so nothing of it is shown. */
function startOf(secret: string): string {
  return secret.startsWith(PREFIX) ? secret.slice(0, START_LENGTH) : OTHER_ORIGIN
}
