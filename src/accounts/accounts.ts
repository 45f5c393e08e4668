/**
 * Accounts and keys: minted, hashed, looked up, changed. Whether a key may enter is the ledger's decision; here it learns
 * the limits to decide with, and a revision that tells an outdated record from a current one.
 */
import { hash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { InvalidRequest, NotFound } from '../errors/errors.ts'
import { randomId } from '../state/ids.ts'
import type { CapScope, FreeTierLimits, KeyLimits, Ledger } from '../state/ledger/ledger.ts'
import { formatPico, MAX_AMOUNT, parsePico } from '../money/money.ts'
import type { Policy } from '../policy/policy.ts'
import type { Records } from '../state/records.ts'

export interface Account {
  readonly id: string
  readonly name: string
  /** ms since epoch */
  readonly createdAt: number
}

export interface Key {
  readonly id: string
  readonly account: string
  readonly name: string
  /** How the secret begins, for lists: `sk-sluice-ab12`, or `seeded` when it is not one of ours. */
  readonly start: string
  readonly sha256: string
  readonly disabled: boolean
  /** ms since epoch */
  readonly expiresAt?: number | undefined
  /** Requests per minute and calls at a time; the configured defaults when absent. */
  readonly rpm?: number | undefined
  readonly concurrency?: number | undefined
  readonly spendCap?: SpendCap | undefined
  /** The only models it may use; all when absent. */
  readonly models?: readonly string[] | undefined
  readonly policy?: Policy | undefined
  /** Higher with every change. */
  readonly revision: number
  /** ms since epoch */
  readonly createdAt: number
}

export interface SpendCap {
  /** Decimal text. */
  readonly usd: string
  readonly scope: CapScope
}

/** What may be said of a key. Absent: as it is; null: no longer. The policy has to be a valid one. */
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

/** A key to be; its secret is minted unless it, or its SHA-256, is given. */
export interface NewKey extends KeyChange {
  readonly name: string
  readonly id?: string | undefined
  readonly secret?: string | undefined
  readonly sha256?: string | undefined
}

/** Requests per minute and calls at a time. */
export interface Limits {
  readonly rpm: number
  readonly concurrency: number
}

export interface ResolvedKey {
  readonly key: Key
  readonly account: Account
}

export interface AccountsOptions {
  readonly records: Records
  readonly ledger: Ledger
  /** Read at every use, so that a new configuration counts. */
  readonly defaults: () => { readonly limits: Limits }
  /** ms since epoch */
  readonly now?: () => number
}

const MARKER = 'sk-sluice-'
const BODY_LENGTH = 40
const CHECK_LENGTH = 6
const START_LENGTH = MARKER.length + 4
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const ID = /^[a-z0-9_-]{1,64}$/
const SHA256 = /^[0-9a-f]{64}$/
const SECRET = /^[\x21-\x7e]{8,512}$/
const NAME_LENGTH = 200
const COUNT = 'a whole number of at least 1'
const USD = `a decimal string such as "12.50", at most ${formatPico(MAX_AMOUNT)}`
const CACHE_ENTRIES = 10_000
const TTL_MS = 60_000
/** Short, so that a key made elsewhere is soon known here. */
const UNKNOWN_TTL_MS = 2000

/** A bearer secret as it is stored and looked up: hexadecimal SHA-256. */
export function hashSecret(secret: string): string {
  return hash('sha256', secret, 'hex')
}

/** False for a secret that claims to be ours and was mistyped; such a one need not be looked up. */
export function hasValidChecksum(secret: string): boolean {
  if (!secret.startsWith(MARKER)) return true
  const body = secret.slice(0, MARKER.length + BODY_LENGTH)
  return secret === body + checksum(body)
}

/** Accounts and keys in their records, with a cache of the keys in use. */
export class Accounts {
  readonly #records: Records
  readonly #ledger: Ledger
  readonly #defaults: () => { readonly limits: Limits }
  readonly #now: () => number
  /** By hash of the secret. */
  readonly #cache: LRUCache<string, { readonly known: ResolvedKey | null }>
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
   * The key of a secret, from the cache alone.
   * @param sha256 see {@link hashSecret}
   * @returns undefined when {@link find} has to be asked, null when there is no such key
   */
  peek(sha256: string): ResolvedKey | null | undefined {
    return this.#cache.get(sha256)?.known
  }

  /** The key of a secret, from the cache or the records. Parallel look-ups of one secret are one look-up. */
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
   * The key of a secret, from the records: for when the ledger says that what we knew is stale. Tells the ledger the
   * limits, so that one that has lost them, or still has former defaults, knows them again. It shares no load that began
   * earlier, because that may have read what is stale.
   */
  async reload(sha256: string): Promise<ResolvedKey | null> {
    const known = await this.#load(sha256)
    if (known) await this.#announce(known.key)
    this.#cache.set(sha256, { known }, { ttl: known ? TTL_MS : UNKNOWN_TTL_MS })
    return known
  }

  /** @throws InvalidRequest for a malformed id or name, or an id that is taken */
  createAccount({ id, name }: { id?: string | undefined; name: string }): Promise<Account> {
    return this.#write(async () => {
      checkName(name)
      const account = { id: id ?? randomId('acct_'), name, createdAt: this.#now() }
      checkId(account.id)
      const known = await this.account(account.id)
      need(!known, 'id', `new; there already is an account ${account.id}`)
      // The record comes last: an index may name what is not there, nothing that is there may be missing from it.
      await this.#records.add('accounts', account.id)
      const created = await this.#records.create(`account:${account.id}`, account)
      need(created, 'id', `new; there already is an account ${account.id}`)
      return account
    })
  }

  async account(id: string): Promise<Account | undefined> {
    return ID.test(id) ? this.#records.get<Account>(`account:${id}`) : undefined
  }

  /** Oldest first. */
  async listAccounts(): Promise<readonly Account[]> {
    const ids = await this.#records.list('accounts')
    return present(await Promise.all(ids.map((id) => this.account(id))))
  }

  /**
   * Makes a key. Its secret is in this answer and nowhere else; empty when only its SHA-256 was given.
   * @throws InvalidRequest for a malformed member, or an id or secret that is taken; NotFound for an unknown account
   */
  createKey(account: string, wanted: NewKey): Promise<{ key: Key; secret: string }> {
    return this.#write(async () => {
      checkChange(wanted)
      if (!(await this.account(account))) throw missing('account', account)
      const id = wanted.id ?? randomId('key_')
      checkId(id)
      need(!(await this.key(id)), 'id', `new; there already is a key ${id}`)
      const { secret, sha256, start } = secretOf(wanted)
      const twin = await this.#load(sha256)
      need(!twin, wanted.sha256 ? 'sha256' : 'secret', 'new; another key has it')
      const createdAt = this.#now()
      const state = { name: wanted.name, disabled: false, revision: 0, createdAt }
      const key = changed({ id, account, start, sha256, ...state }, wanted, createdAt)
      // The key's own record comes last: before it there is no key, after it everything about it is in place.
      await this.#records.add(`keys:${account}`, id)
      await this.#records.put(`hash:${sha256}`, { account, key: id })
      const created = await this.#records.create(`key:${id}`, key)
      need(created, 'id', `new; there already is a key ${id}`)
      this.#cache.delete(sha256)
      await this.#announce(key)
      return { key, secret }
    })
  }

  async key(id: string): Promise<Key | undefined> {
    return ID.test(id) ? this.#records.get<Key>(`key:${id}`) : undefined
  }

  /** Keys of one account, or of all, oldest first. */
  async listKeys(account?: string): Promise<readonly Key[]> {
    if (account === undefined) {
      const accounts = await this.listAccounts()
      return (await Promise.all(accounts.map(({ id }) => this.listKeys(id)))).flat()
    }
    const ids = ID.test(account) ? await this.#records.list(`keys:${account}`) : []
    return present(await Promise.all(ids.map((id) => this.key(id))))
  }

  /**
   * Changes a key. From the moment this resolves every `enter` and `hold`, here and elsewhere, goes by the change.
   * @throws InvalidRequest for a malformed member, NotFound for an unknown key
   */
  changeKey(id: string, change: KeyChange): Promise<Key> {
    return this.#write(async () => {
      checkChange(change)
      const key = await this.key(id)
      if (!key) throw missing('key', id)
      const next = changed(key, change, Math.max(key.revision + 1, this.#now()))
      // First the record, then the ledger: whoever is then told "stale" finds the new record (state design, 2).
      await this.#records.put(`key:${id}`, next)
      this.#cache.delete(next.sha256)
      await this.#announce(next)
      return next
    })
  }

  /** The key's limits or the defaults; while the account is unpaid, none above the free tier's. */
  effectiveLimits(key: Key, paid: boolean, freeTier: FreeTierLimits): Limits {
    const { rpm, concurrency } = this.#limitsOf(key)
    if (paid) return { rpm, concurrency }
    return {
      rpm: Math.min(rpm, freeTier.rpm),
      concurrency: Math.min(concurrency, freeTier.concurrency),
    }
  }

  /** Forgets what is cached, so that new defaults reach the ledger with the next look-up. */
  refresh(): void {
    this.#cache.clear()
  }

  async #load(sha256: string): Promise<ResolvedKey | null> {
    const place = await this.#records.get<{ account: string; key: string }>(`hash:${sha256}`)
    if (!place) return null
    const [account, key] = await Promise.all([this.account(place.account), this.key(place.key)])
    // A hash may be left of a key that was never finished.
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

  /** One write after the other: each reads what it replaces. */
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
    expiresAt: either(change.expiresAt, key.expiresAt),
    rpm: either(change.rpm, key.rpm),
    concurrency: either(change.concurrency, key.concurrency),
    spendCap: either(change.spendCap, key.spendCap),
    models: either(change.models, key.models),
    policy: either(change.policy, key.policy),
    revision,
  }
}

function either<T>(wanted: T | null | undefined, current: T | undefined): T | undefined {
  return wanted === undefined ? current : (wanted ?? undefined)
}

function secretOf({ secret, sha256 }: NewKey): { secret: string; sha256: string; start: string } {
  if (sha256 !== undefined) {
    need(secret === undefined, 'secret', 'left out when "sha256" is given')
    need(SHA256.test(sha256), 'sha256', '64 lower-case hexadecimal digits')
    return { secret: '', sha256, start: 'seeded' }
  }
  const given = secret ?? mint()
  need(SECRET.test(given), 'secret', '8 to 512 visible ASCII characters without spaces')
  need(hasValidChecksum(given), 'secret', `as it was minted, if it begins with "${MARKER}"`)
  // Of a foreign secret the beginning may be all there is to guess.
  const start = given.startsWith(MARKER) ? given.slice(0, START_LENGTH) : 'seeded'
  return { secret: given, sha256: hashSecret(given), start }
}

function mint(): string {
  const digits = Array.from({ length: BODY_LENGTH }, () => BASE62[randomInt(62)])
  const body = MARKER + digits.join('')
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

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined)
}

/** @throws InvalidRequest; members are named as in the admin API and the configuration */
function checkChange({ name, expiresAt, rpm, concurrency, spendCap, models }: KeyChange): void {
  if (name !== undefined) checkName(name)
  need(rpm == null || isCount(rpm), 'rpm_limit', COUNT)
  need(concurrency == null || isCount(concurrency), 'concurrency_limit', COUNT)
  need(expiresAt == null || Number.isSafeInteger(expiresAt), 'expires_at', 'a moment in time')
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
