/**
 * Accounts and keys: creates, finds and changes them. The ledger decides whether a key is admitted; this module sends it the
 * limits of each key, with a revision that distinguishes an outdated record from a current one.
 */
import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { NotFound, RevisionChanged } from '../errors/errors.ts'
import { randomId } from '../state/ids.ts'
import { parsePico } from '../money/money.ts'
import { ACCOUNT, type Ledger, type KeyLimits, teamKey } from '../state/ledger/ledger.ts'
import { inDoubt } from '../state/ledger/doubt.ts'
import type { Records } from '../state/records.ts'
import { Directory } from './directory.ts'
import { secretOf, checkName, need } from './secrets.ts'
import {
  changedAccount,
  changedKey,
  changedTeam,
  checkKeyChange,
  complete,
  type Account,
  type AccountChange,
  type Key,
  type KeyChange,
  type NewKey,
  type ResolvedKey,
  type Team,
  type TeamChange,
} from './stored.ts'
import { atMost } from '../lifetime/cache.ts'
import { countedOf, raised } from './limits.ts'
import { simpleForm } from '../server/admin/resources/limit.ts'
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import type { NewKeySettings } from '../server/admin/resources/team.ts'

// Keys by their secrets: the records of those in use are cached.

interface KnownKeysInit {
  readonly records: Records
  readonly account: (id: string) => Promise<Account | undefined>
  readonly key: (id: string) => Promise<Key | undefined>
  readonly team: (id: string) => Promise<Team | undefined>
  /** Sends the limits of a key and its account to the ledger. */
  readonly announce: (key: ResolvedKey) => Promise<void>
  /** ms since epoch */
  readonly now: () => number
}

const CACHE_ENTRIES = 10_000
const TTL_MS = 60_000
/** Short, so that a key created in another instance is soon known here. */
const UNKNOWN_TTL_MS = 2000

/** The keys of one gateway by the hash of their secrets. */
class KnownKeys {
  readonly #init: KnownKeysInit
  /** It is null for a hash without a key. */
  readonly #cache: LRUCache<string, { readonly resolved: ResolvedKey | null }>
  readonly #loads = new Map<string, Promise<ResolvedKey | null>>()

  constructor(init: KnownKeysInit) {
    this.#init = init
    this.#cache = new LRUCache({
      ...atMost(CACHE_ENTRIES),
      ttl: TTL_MS,
      ttlResolution: 0,
      // What is over stays until it is replaced, for callers whom an old answer serves better than none.
      noDeleteOnStaleGet: true,
      perf: { now: init.now },
    })
  }

  /**
   * The key of a secret, from the cache only.
   * @param sha256 see `hashSecret`
   * @returns null if there is no such key, undefined if the cache does not know and {@link find} has to be called
   */
  peek(sha256: string): ResolvedKey | null | undefined {
    return this.#cache.get(sha256)?.resolved
  }

  /** The last answer about a secret, however old; undefined where there was none. */
  remembered(sha256: string): ResolvedKey | null | undefined {
    return this.#cache.get(sha256, { allowStale: true })?.resolved
  }

  /** The key of a secret, from the cache or the records. Concurrent look-ups of one secret share one load. */
  find(sha256: string): ResolvedKey | null | Promise<ResolvedKey | null> {
    const cached = this.peek(sha256)
    if (cached !== undefined) return cached
    const running = this.#loads.get(sha256)
    if (running) return running
    const load = this.reload(sha256).finally(() => this.#loads.delete(sha256))
    this.#loads.set(sha256, load)
    return load
  }

  /**
   * The key of a secret, from the records: called when the ledger reports that the cached key is outdated. Sends the limits to
   * the ledger again, in case it has lost them or has former defaults. Does not share an earlier load, because that may have
   * read the outdated record.
   */
  async reload(sha256: string): Promise<ResolvedKey | null> {
    const resolved = await this.load(sha256)
    if (resolved) await this.#init.announce(resolved)
    // An entry lives for its time and the millisecond after; one with a time of 0 would live for ever.
    const ttl = resolved ? Math.min(TTL_MS, this.#lifeMs(resolved.key, sha256) - 1) : UNKNOWN_TTL_MS
    if (ttl > 0) this.#cache.set(sha256, { resolved }, { ttl })
    return resolved
  }

  forget(sha256: string): void {
    this.#cache.delete(sha256)
  }

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
    const team = key.team === undefined ? undefined : await init.team(key.team)
    const parts = { key: Object.freeze(key), account: Object.freeze(account) }
    return Object.freeze({ ...parts, ...(team && { team: Object.freeze(team) }) })
  }

  /** Remaining validity of a secret of a key, ms; 0 or less for an invalid one. */
  #lifeMs({ sha256, previous }: Key, secret: string): number {
    if (sha256 === secret) return Infinity
    return previous?.sha256 === secret ? previous.until - this.#init.now() : 0
  }
}

interface Limits {
  readonly rpm: number
  readonly concurrency: number
}

export interface Condition<T> {
  /** The only revision that is changed. */
  readonly expected?: number | undefined
  /** Id of the actor, which the object keeps. */
  readonly by?: string | undefined
  /** It is called with the object before the change. */
  readonly replaced?: (before: T) => void
  /** Throws for a change that the actor may not make. */
  readonly permits?: (next: T, before: T) => void
}

interface AccountsOptions {
  readonly records: Records
  readonly ledger: Ledger
  /** It is called at every use, so that a reloaded configuration applies. */
  readonly defaults: () => { readonly limits: Limits }
  /** ms since epoch */
  readonly now?: () => number
}

const BATCH = 500

/** The accounts and keys of one gateway. Stored as records; keys in use are cached. */
export class Accounts {
  readonly #records: Records
  readonly #ledger: Ledger
  readonly #defaults: () => { readonly limits: Limits }
  readonly #now: () => number
  readonly #keyCache: KnownKeys
  #lastWrite: Promise<unknown> = Promise.resolve()
  readonly directory: Directory

  constructor({ records, ledger, defaults, now = () => Date.now() }: AccountsOptions) {
    this.#records = records
    this.directory = new Directory(records)
    this.#ledger = ledger
    this.#defaults = defaults
    this.#now = now
    this.#keyCache = new KnownKeys({
      records,
      account: (id) => this.account(id),
      key: (id) => this.key(id),
      team: (id) => this.team(id),
      announce: (key) => this.#announceBoth(key),
      now,
    })
  }

  peek(sha256: string): ResolvedKey | null | undefined {
    return this.#keyCache.peek(sha256)
  }

  find(sha256: string): ResolvedKey | null | Promise<ResolvedKey | null> {
    return this.#keyCache.find(sha256)
  }

  /** The last answer about a secret, however old; undefined where there was none. */
  remembered(sha256: string): ResolvedKey | null | undefined {
    return this.#keyCache.remembered(sha256)
  }

  reload(sha256: string): Promise<ResolvedKey | null> {
    return this.#keyCache.reload(sha256)
  }

  /** A key with its account by id, from the records; the ledger has their limits then. */
  async resolve(id: string): Promise<ResolvedKey | null> {
    const key = await this.key(id)
    const account = key && (await this.account(key.account))
    if (!account) return null
    const team = key.team === undefined ? undefined : await this.team(key.team)
    const resolved = { key, account, ...(team && { team }) }
    await this.#announceBoth(resolved)
    return resolved
  }

  /**
   * Creates an account with its settings.
   * @param by id of the actor
   * @throws InvalidRequest for a malformed member, or an id that is taken
   */
  createAccount(
    {
      id = randomId('acct_'),
      name,
      ...init
    }: AccountChange & { id?: string | undefined; name: string },
    by?: string,
  ): Promise<Account> {
    return this.#write(async () => {
      checkName(name)
      const createdAt = this.#now()
      const plain = {
        id,
        name,
        disabled: false,
        revision: Object.keys(init).length > 0 ? createdAt : 0,
        createdAt,
        ...(by !== undefined && { changed: { at: createdAt, by } }),
      }
      checkId(id)
      const account = changedAccount(plain, init)
      const existing = await this.account(account.id)
      need(!existing, 'id', `new; account ${account.id} exists already`)
      // The record is written last: an index may name a missing record, but must not miss an existing one.
      await this.#records.add('accounts', account.id)
      const created = await this.#records.create(`account:${account.id}`, account)
      need(created, 'id', `new; account ${account.id} exists already`)
      await this.#announceAccount(account)
      await this.directory.noteAccount(account)
      return account
    })
  }

  async account(id: string): Promise<Account | undefined> {
    return isId(id) ? complete(await this.#records.get<Account>(`account:${id}`)) : undefined
  }

  /** Existing accounts among the ids, in their order. */
  async accountsOf(ids: readonly string[]): Promise<readonly Account[]> {
    const stored = await this.#records.getMany<Account>(ids.map((id) => `account:${id}`))
    return present(stored.map(complete))
  }

  /**
   * Changes an account. When this resolves, every further `enter` and `hold` of its keys, in every instance, applies the
   * change.
   * @throws InvalidRequest for a malformed member or an archived account, NotFound for an unknown one, RevisionChanged
   */
  changeAccount(
    id: string,
    change: AccountChange,
    condition?: Condition<Account>,
  ): Promise<Account> {
    return this.#write(() =>
      this.#changeAccount(
        id,
        (account) => changedAccount(refuseArchived(account), change),
        condition,
      ),
    )
  }

  /** Refuses an account and its keys for good. The records, money and history stay. @throws NotFound, RevisionChanged */
  async archiveAccount(id: string, condition?: Condition<Account>): Promise<Account> {
    const archivedAt = this.#now()
    // First the account: with it, all its keys are refused at once.
    const account = await this.#write(() =>
      this.#changeAccount(
        id,
        (one) => ({
          ...one,
          disabled: true,
          archivedAt: one.archivedAt ?? archivedAt,
          answers: newSalt(),
        }),
        condition,
      ),
    )
    for (const key of await this.listKeys(id)) {
      if (key.archivedAt === undefined) await this.archiveKey(key.id)
    }
    return account
  }

  /** Makes all stored answers of an account unreadable: no gateway finds one from now on. @throws NotFound, RevisionChanged */
  purgeAnswers(id: string, condition?: Condition<Account>): Promise<Account> {
    return this.#write(() =>
      this.#changeAccount(id, (one) => ({ ...one, answers: newSalt() }), condition),
    )
  }

  /** All accounts, oldest first. @param most number that is enough */
  async listAccounts(most = Infinity): Promise<readonly Account[]> {
    const ids = await this.#records.list('accounts')
    const accounts: Account[] = []
    for (let at = 0; at < ids.length && accounts.length < most; at += BATCH) {
      accounts.push(...(await this.accountsOf(ids.slice(at, at + BATCH))))
    }
    return accounts
  }

  /**
   * Creates a key. The result is the only place where its secret can be read; it is empty if only the SHA-256 was given.
   * @param by id of the actor
   * @param permits throws for a key that the actor may not make
   * @throws InvalidRequest for a malformed member, or an id or secret that is taken; NotFound for an unknown account
   */
  createKey(
    account: string,
    settings: NewKey,
    by?: string,
    permits?: (key: Key) => Promise<void>,
  ): Promise<{ key: Key; secret: string; fromDefaults: readonly string[] }> {
    return this.#write(async () => {
      const owner = await this.account(account)
      if (!owner) throw missing('account', account)
      await this.#checkTeam(account, settings.team)
      const team = settings.team == null ? undefined : await this.team(settings.team)
      const { newKeys } = team ?? owner
      const [init, fromDefaults] = withDefaults(settings, newKeys, this.#now())
      checkKeyChange(init)
      need(owner.archivedAt === undefined, 'account', 'one that is not archived')
      const id = init.id ?? randomId('key_')
      checkId(id)
      need(!(await this.key(id)), 'id', `new; key ${id} exists already`)
      const { secret, sha256, start } = secretOf(init)
      const other = await this.#keyCache.load(sha256)
      need(!other, init.sha256 ? 'sha256' : 'secret', 'new; another key has the same secret')
      const createdAt = this.#now()
      const changed = by === undefined ? {} : { changed: { at: createdAt, by } }
      const state = {
        name: init.name,
        disabled: false,
        revision: 0,
        createdAt,
        ...changed,
      }
      const key = {
        ...changedKey({ id, account, start, sha256, ...state }, init),
        revision: createdAt,
      }
      await permits?.(key)
      // The key's own record is written last: the key does not exist before everything else is in place.
      await Promise.all([
        this.#records.add(`keys:${account}`, id),
        this.#records.put(`hash:${sha256}`, { account, key: id }),
      ])
      const created = await this.#records.create(`key:${id}`, key)
      need(created, 'id', `new; key ${id} exists already`)
      this.#keyCache.forget(sha256)
      await this.#announce(key)
      await this.directory.noteKey(key)
      return { key, secret, fromDefaults }
    })
  }

  async key(id: string): Promise<Key | undefined> {
    return isId(id) ? complete(await this.#records.get<Key>(`key:${id}`)) : undefined
  }

  /** Existing keys among the ids, in their order. */
  async keysOf(ids: readonly string[]): Promise<readonly Key[]> {
    const stored = await this.#records.getMany<Key>(ids.map((id) => `key:${id}`))
    return present(stored.map(complete))
  }

  async listKeys(account?: string): Promise<readonly Key[]> {
    if (account === undefined) {
      const accounts = await this.listAccounts()
      return (await Promise.all(accounts.map(({ id }) => this.listKeys(id)))).flat()
    }
    const ids = isId(account) ? await this.#records.list(`keys:${account}`) : []
    return this.keysOf(ids)
  }

  /**
   * Changes a key. When this resolves, every further `enter` and `hold`, in every instance, applies the change.
   * @throws InvalidRequest for a malformed member or an archived key, NotFound for an unknown one, RevisionChanged
   */
  changeKey(id: string, change: KeyChange, condition?: Condition<Key>): Promise<Key> {
    return this.#write(async () => {
      const { account } = await this.#placeOf(id)
      await this.#checkTeam(account, change.team)
      return this.#changeKey(id, (key) => changedKey(refuseArchived(key), change), condition)
    })
  }

  /** Refuses a key for good. Its record stays. @throws NotFound, RevisionChanged */
  archiveKey(id: string, condition?: Condition<Key>): Promise<Key> {
    const archivedAt = this.#now()
    return this.#write(() =>
      this.#changeKey(
        id,
        (key) => ({ ...key, disabled: true, archivedAt: key.archivedAt ?? archivedAt }),
        condition,
      ),
    )
  }

  /**
   * Gives a key another secret. The previous one works on for a while; an older one ends now.
   * @param overlap seconds from 0; with 0 the previous secret ends now too
   * @param expiresAt a new end of the key, ms since epoch; null for none, absent to leave it as it is
   * @throws InvalidRequest for an archived key, NotFound, RevisionChanged
   */
  rotateKey(
    id: string,
    { overlap, expiresAt }: { overlap: number; expiresAt?: number | null | undefined },
    condition?: Condition<Key>,
  ): Promise<{ key: Key; secret: string }> {
    return this.#write(async () => {
      const { secret, sha256, start } = secretOf({})
      await this.#records.put(`hash:${sha256}`, await this.#placeOf(id))
      const until = this.#now() + overlap * 1000
      const rotate = (key: Key) => {
        const previous = { sha256: key.sha256, start: key.start, until }
        return { ...changedKey(refuseArchived(key), { expiresAt }), sha256, start, previous }
      }
      return { key: await this.#changeKey(id, rotate, condition), secret }
    })
  }

  /** Gives a key the secret that a configuration has for it. The previous one ends now. @throws as {@link Accounts.rotateKey} */
  replaceSecret(
    id: string,
    replacement: { readonly secret?: string | undefined; readonly sha256?: string | undefined },
    condition?: Condition<Key>,
  ): Promise<Key> {
    return this.#write(async () => {
      const { sha256, start } = secretOf(replacement)
      await this.#records.put(`hash:${sha256}`, await this.#placeOf(id))
      const replace = (key: Key) => ({ ...refuseArchived(key), sha256, start, previous: undefined })
      return this.#changeKey(id, replace, condition)
    })
  }

  /** Raises a limit of a key, a team or an account, or ends a raise. @throws InvalidRequest, also for one that is archived; NotFound */
  raise(
    of: 'key' | 'team' | 'account',
    id: string,
    name: string,
    to: Parameters<typeof raised>[2],
    by?: string,
  ): Promise<Account | Key | Team> {
    const condition = { by }
    const now = this.#now()
    const change = <One extends Account | Key | Team>(one: One) =>
      raised(refuseArchived(one), name, to, now)
    return this.#write<Account | Key | Team>(() => {
      if (of === 'key') return this.#changeKey(id, change, condition)
      if (of === 'team') return this.#changeTeam(id, change, condition)
      return this.#changeAccount(id, change, condition)
    })
  }

  // Teams: keys of one account with limits, models and a switch in common.

  /** @param by id of the actor. @throws InvalidRequest for a malformed member or a taken id; NotFound for an unknown account */
  createTeam(
    account: string,
    {
      id = randomId('team_'),
      name,
      ...init
    }: TeamChange & { id?: string | undefined; name: string },
    by?: string,
  ): Promise<Team> {
    return this.#write(async () => {
      checkName(name)
      checkId(id)
      const owner = await this.account(account)
      if (!owner) throw missing('account', account)
      need(owner.archivedAt === undefined, 'account', 'one that is not archived')
      need(!(await this.team(id)), 'id', `new; team ${id} exists already`)
      const createdAt = this.#now()
      const changed = by === undefined ? {} : { changed: { at: createdAt, by } }
      const plain = {
        id,
        account,
        name,
        disabled: false,
        createdAt,
        revision: createdAt,
        ...changed,
      }
      const team = changedTeam(plain, init)
      await this.#records.add(`teams:${account}`, id)
      need(await this.#records.create(`team:${id}`, team), 'id', `new; team ${id} exists already`)
      await this.#announceTeam(team)
      return team
    })
  }

  async team(id: string): Promise<Team | undefined> {
    return isId(id) ? complete(await this.#records.get<Team>(`team:${id}`)) : undefined
  }

  /** Teams of an account, or all, oldest first. */
  async listTeams(account?: string): Promise<readonly Team[]> {
    const accounts = account === undefined ? await this.#records.list('accounts') : [account]
    const ids: string[] = []
    for (const one of accounts)
      if (isId(one)) ids.push(...(await this.#records.list(`teams:${one}`)))
    const stored = await this.#records.getMany<Team>(ids.map((id) => `team:${id}`))
    return present(stored.map(complete))
  }

  /** Changes a team, with the same promise as {@link changeAccount}. */
  changeTeam(id: string, change: TeamChange, condition?: Condition<Team>): Promise<Team> {
    return this.#write(() =>
      this.#changeTeam(id, (team) => changedTeam(refuseArchived(team), change), condition),
    )
  }

  /** Refuses a team and its keys for good. @throws NotFound, RevisionChanged */
  async archiveTeam(id: string, condition?: Condition<Team>): Promise<Team> {
    const archivedAt = this.#now()
    const team = await this.#write(() =>
      this.#changeTeam(
        id,
        (one) => ({ ...one, disabled: true, archivedAt: one.archivedAt ?? archivedAt }),
        condition,
      ),
    )
    for (const key of await this.listKeys(team.account)) {
      if (key.team === id && key.archivedAt === undefined) await this.archiveKey(key.id)
    }
    return team
  }

  async #changeTeam(
    id: string,
    edit: (team: Team) => Team,
    condition?: Condition<Team>,
  ): Promise<Team> {
    const [before, next] = await this.#replace('team', id, () => this.team(id), edit, condition)
    // Cached keys have the old team; the ledger calls them stale.
    await this.#announceTeam(next)
    condition?.replaced?.(before)
    return next
  }

  /** @throws InvalidRequest for a team that is not one of the account */
  async #checkTeam(account: string, team: string | null | undefined): Promise<void> {
    if (team == null) return
    const stored = await this.team(team)
    need(stored?.account === account, 'team_id', `a team of account ${account}`)
    need(stored?.archivedAt === undefined, 'team_id', 'a team that is not archived')
  }

  refresh(): void {
    this.#keyCache.clear()
  }

  /** @throws NotFound, RevisionChanged, and what `edit` throws */
  async #changeKey(id: string, edit: (key: Key) => Key, condition?: Condition<Key>): Promise<Key> {
    const [before, next] = await this.#replace('key', id, () => this.key(id), edit, condition)
    for (const { sha256, previous } of [before, next]) {
      this.#keyCache.forget(sha256)
      if (previous) this.#keyCache.forget(previous.sha256)
    }
    await this.#announce(next)
    await this.directory.noteKey(next)
    condition?.replaced?.(before)
    return next
  }

  /** @throws NotFound, RevisionChanged, and what `edit` throws */
  async #changeAccount(
    id: string,
    edit: (account: Account) => Account,
    condition?: Condition<Account>,
  ): Promise<Account> {
    const read = () => this.account(id)
    const [before, next] = await this.#replace('account', id, read, edit, condition)
    // Cached keys have the old account; the ledger calls them stale.
    await this.#announceAccount(next)
    await this.directory.noteAccount(next)
    condition?.replaced?.(before)
    return next
  }

  /**
   * Replaces a record. The ledger comes after it: an instance that learns from the ledger that it is outdated finds the new
   * record.
   * @returns the record before, and the new one
   */
  async #replace<One extends Account | Key | Team>(
    kind: 'account' | 'key' | 'team',
    id: string,
    read: () => Promise<One | undefined>,
    edit: (one: One) => One,
    { expected, by, permits }: Condition<One> = {},
  ): Promise<[before: One, next: One]> {
    for (;;) {
      const one = await read()
      if (!one) throw missing(kind, id)
      if (expected !== undefined && one.revision !== expected) throw new RevisionChanged(one)
      const at = this.#now()
      const changed = by === undefined ? {} : { changed: { at, by } }
      const next = { ...edit(one), ...changed, revision: Math.max(one.revision + 1, at) }
      permits?.(next, one)
      if (await this.#records.replace(`${kind}:${id}`, next, one.revision)) return [one, next]
    }
  }

  async #placeOf(id: string): Promise<{ account: string; key: string }> {
    const key = await this.key(id)
    if (!key) throw missing('key', id)
    return { account: key.account, key: id }
  }

  async #announceBoth({ key, team, account }: ResolvedKey): Promise<void> {
    await this.#announce(key)
    if (team) await this.#announceTeam(team)
    await this.#announceAccount(account)
  }

  async #announce(key: Key): Promise<void> {
    const limits = { ...this.#defaults().limits, ...ledgerLimits(key) }
    await this.#ledger.limits(key.account, key.id, limits, key.revision)
  }

  /** Sends the limits of an account; the ledger has none of an account that was never changed. */
  async #announceAccount(account: Account): Promise<void> {
    if (account.revision === 0) return
    await this.#ledger.limits(account.id, ACCOUNT, ledgerLimits(account), account.revision)
  }

  async #announceTeam(team: Team): Promise<void> {
    const { account, id, revision } = team
    await this.#ledger.limits(account, teamKey(id), ledgerLimits(team), revision)
  }

  /**
   * Runs writes one after the other, because each reads the record that it replaces.
   * @throws Unavailable for a ledger in doubt, before anything is written: its records could belong to another ledger
   */
  #write<T>(write: () => Promise<T>): Promise<T> {
    const written = this.#lastWrite.then(() => {
      if (this.#ledger.health().doubt !== undefined) throw inDoubt()
      return write()
    })
    this.#lastWrite = written.catch(() => undefined)
    return written
  }
}

/** @throws InvalidRequest */
export function refuseArchived<One extends Account | Key | Team>(one: One): One {
  need(one.archivedAt === undefined, 'id', `one that is not archived; ${one.id} is, for good`)
  return one
}

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined)
}

function missing(kind: string, id: string): NotFound {
  return new NotFound('not_found', `There is no ${kind} ${JSON.stringify(id.slice(0, 64))}.`)
}

/** The limits of an account, a team or a key for the ledger; an absent rate or concurrency does not limit. */
function ledgerLimits(one: Account | Key | Team): KeyLimits {
  const { disabled } = one
  const { rpm, concurrency } = simpleForm(one)
  const counted = countedOf(one)
  const expiresAt = 'expiresAt' in one ? one.expiresAt : undefined
  return {
    disabled,
    ...(expiresAt !== undefined && { expiresAt }),
    ...(rpm !== undefined && { rpm }),
    ...(concurrency !== undefined && { concurrency }),
    ...(counted.length > 0 && { counted }),
    ...('creditLimit' in one &&
      one.creditLimit !== undefined && { credit: parsePico(one.creditLimit) }),
  }
}

const ID = /^[a-z0-9_-]{1,64}$/

/** @throws InvalidRequest for a malformed id */
function checkId(id: string): void {
  need(isId(id), 'id', '1 to 64 lower-case letters, digits, "_" or "-"')
}

function isId(id: string): boolean {
  return ID.test(id)
}

/**
 * A new key with the settings that its team, or its account, has for new keys: a member that is left out is copied.
 * @returns the names of those that were copied, too
 */
function withDefaults(
  own: NewKey,
  newKeys: NewKeySettings | undefined,
  now: number,
): readonly [init: NewKey, copied: readonly string[]] {
  if (!newKeys) return [own, []]
  const { expires_in, ...settings } = newKeys
  const ends = expires_in !== undefined && { expires_at: now + expires_in * 1000 }
  const isLimited = [own.rpm, own.concurrency, own.spendCap, own.limits].some(
    (one) => one !== undefined,
  )
  const left = Object.entries({ ...settings, ...ends }).filter(([name]) => {
    const { stored } = KEY_SETTINGS[name as keyof typeof KEY_SETTINGS]
    return name === 'limits' ? !isLimited : own[stored] === undefined
  })
  const copied = left.map(
    ([name, value]) => [KEY_SETTINGS[name as keyof typeof KEY_SETTINGS].stored, value] as const,
  )
  return [{ ...own, ...Object.fromEntries(copied) }, left.map(([name]) => name)]
}

function newSalt(): string {
  return randomBytes(12).toString('base64url')
}
