/**
 * Accounts and keys: creates, finds and changes them. The ledger decides whether a key is admitted; this module sends it
 * the limits of each key, with a revision that tells an outdated record from a current one.
 */
import { NotFound, RevisionChanged } from '../errors/errors.ts'
import { randomId } from '../state/ids.ts'
import { ACCOUNT, type FreeTierLimits, type Ledger } from '../state/ledger/ledger.ts'
import type { Records } from '../state/records.ts'
import { Directory } from './directory.ts'
import { checkId, checkName, isId, need } from './checks.ts'
import { KnownKeys } from './known-keys.ts'
import { ledgerLimits } from './limits.ts'
import { secretOf } from './secrets.ts'
import {
  changedAccount,
  changedKey,
  checkKeyChange,
  complete,
  type Account,
  type AccountChange,
  type Key,
  type KeyChange,
  type NewKey,
  type ResolvedKey,
} from './stored.ts'

/** Requests per minute and calls at a time. */
interface Limits {
  readonly rpm: number
  readonly concurrency: number
}

/** Of a change. */
export interface Condition<T> {
  /** Only this revision is changed. */
  readonly expected?: number | undefined
  /** Called with the object as it was. */
  readonly replaced?: (before: T) => void
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

/** Records that are read at once. */
const BATCH = 500

/** The accounts and keys of one gateway. Stored as records; keys in use are cached. */
export class Accounts {
  readonly #records: Records
  readonly #ledger: Ledger
  readonly #defaults: () => { readonly limits: Limits }
  readonly #now: () => number
  readonly #known: KnownKeys
  #lastWrite: Promise<unknown> = Promise.resolve()
  /** All accounts and keys in the order of lists. */
  readonly directory: Directory

  constructor({ records, ledger, defaults, now = () => Date.now() }: AccountsOptions) {
    this.#records = records
    this.directory = new Directory(records)
    this.#ledger = ledger
    this.#defaults = defaults
    this.#now = now
    this.#known = new KnownKeys({
      records,
      account: (id) => this.account(id),
      key: (id) => this.key(id),
      announce: (found) => this.#announceBoth(found),
      now,
    })
  }

  /** See {@link KnownKeys.peek}. */
  peek(sha256: string): ResolvedKey | null | undefined {
    return this.#known.peek(sha256)
  }

  /** See {@link KnownKeys.find}. */
  find(sha256: string): Promise<ResolvedKey | null> {
    return this.#known.find(sha256)
  }

  /** See {@link KnownKeys.reload}. */
  reload(sha256: string): Promise<ResolvedKey | null> {
    return this.#known.reload(sha256)
  }

  /** A key of an id with its account, from the records; the ledger has their limits then. */
  async resolve(id: string): Promise<ResolvedKey | null> {
    const key = await this.key(id)
    const account = key && (await this.account(key.account))
    if (!account) return null
    await this.#announceBoth({ key, account })
    return { key, account }
  }

  /** Creates an account. @throws InvalidRequest for a malformed id or name, or an id that is taken */
  createAccount({ id, name }: { id?: string | undefined; name: string }): Promise<Account> {
    return this.#write(async () => {
      checkName(name)
      const account = {
        id: id ?? randomId('acct_'),
        name,
        disabled: false,
        revision: 0,
        createdAt: this.#now(),
      }
      checkId(account.id)
      const known = await this.account(account.id)
      need(!known, 'id', `new; account ${account.id} exists already`)
      // The record is written last: an index may name a missing record, but must not miss an existing one.
      await this.#records.add('accounts', account.id)
      const created = await this.#records.create(`account:${account.id}`, account)
      need(created, 'id', `new; account ${account.id} exists already`)
      await this.directory.noteAccount(account)
      return account
    })
  }

  /** The account of an id; undefined if there is none. */
  async account(id: string): Promise<Account | undefined> {
    return isId(id) ? complete(await this.#records.get<Account>(`account:${id}`)) : undefined
  }

  /** The accounts of ids that exist, in their order. */
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

  /**
   * Refuses an account and its keys for good. The records stay, and so do money and history.
   * @throws NotFound, RevisionChanged
   */
  async archiveAccount(id: string, condition?: Condition<Account>): Promise<Account> {
    const archivedAt = this.#now()
    // First the account: with it, all its keys are refused at once.
    const account = await this.#write(() =>
      this.#changeAccount(
        id,
        (one) => ({ ...one, disabled: true, archivedAt: one.archivedAt ?? archivedAt }),
        condition,
      ),
    )
    for (const key of await this.listKeys(id)) {
      if (key.archivedAt === undefined) await this.archiveKey(key.id)
    }
    return account
  }

  /** All accounts, oldest first. @param most of them are enough */
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
   * @throws InvalidRequest for a malformed member, or an id or secret that is taken; NotFound for an unknown account
   */
  createKey(account: string, init: NewKey): Promise<{ key: Key; secret: string }> {
    return this.#write(async () => {
      checkKeyChange(init)
      const owner = await this.account(account)
      if (!owner) throw missing('account', account)
      need(owner.archivedAt === undefined, 'account', 'one that is not archived')
      const id = init.id ?? randomId('key_')
      checkId(id)
      need(!(await this.key(id)), 'id', `new; key ${id} exists already`)
      const { secret, sha256, start } = secretOf(init)
      const other = await this.#known.load(sha256)
      need(!other, init.sha256 ? 'sha256' : 'secret', 'new; another key has the same secret')
      const createdAt = this.#now()
      const state = { name: init.name, disabled: false, revision: 0, createdAt }
      const key = {
        ...changedKey({ id, account, start, sha256, ...state }, init),
        revision: createdAt,
      }
      // The key's own record is written last: the key does not exist before everything else is in place.
      await Promise.all([
        this.#records.add(`keys:${account}`, id),
        this.#records.put(`hash:${sha256}`, { account, key: id }),
      ])
      const created = await this.#records.create(`key:${id}`, key)
      need(created, 'id', `new; key ${id} exists already`)
      this.#known.forget(sha256)
      await this.#announce(key)
      await this.directory.noteKey(key)
      return { key, secret }
    })
  }

  /** The key of an id; undefined if there is none. */
  async key(id: string): Promise<Key | undefined> {
    return isId(id) ? this.#records.get<Key>(`key:${id}`) : undefined
  }

  /** The keys of ids that exist, in their order. */
  async keysOf(ids: readonly string[]): Promise<readonly Key[]> {
    return present(await this.#records.getMany<Key>(ids.map((id) => `key:${id}`)))
  }

  /** The keys of one account, or of all accounts, oldest first. */
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
    return this.#write(() =>
      this.#changeKey(id, (key) => changedKey(refuseArchived(key), change), condition),
    )
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
   * Gives a key another secret. The one before works on for a while; the one before that ends now.
   * @param overlapSeconds from 0; with 0 the secret before ends now too
   * @throws InvalidRequest for an archived key, NotFound, RevisionChanged
   */
  rotateKey(
    id: string,
    overlapSeconds: number,
    condition?: Condition<Key>,
  ): Promise<{ key: Key; secret: string }> {
    return this.#write(async () => {
      const { secret, sha256, start } = secretOf({})
      await this.#records.put(`hash:${sha256}`, await this.#placeOf(id))
      const until = this.#now() + overlapSeconds * 1000
      const rotate = (key: Key) => {
        const previous = { sha256: key.sha256, start: key.start, until }
        return { ...refuseArchived(key), sha256, start, previous }
      }
      return { key: await this.#changeKey(id, rotate, condition), secret }
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
    this.#known.clear()
  }

  /** @throws NotFound, RevisionChanged, and what `edit` throws */
  async #changeKey(id: string, edit: (key: Key) => Key, condition?: Condition<Key>): Promise<Key> {
    const [before, next] = await this.#replace('key', id, () => this.key(id), edit, condition)
    for (const { sha256, previous } of [before, next]) {
      this.#known.forget(sha256)
      if (previous) this.#known.forget(previous.sha256)
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
    // Cached keys have the account as it was; the ledger calls them stale.
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
  async #replace<One extends Account | Key>(
    kind: 'account' | 'key',
    id: string,
    read: () => Promise<One | undefined>,
    edit: (one: One) => One,
    { expected }: Condition<One> = {},
  ): Promise<[before: One, next: One]> {
    for (;;) {
      const one = await read()
      if (!one) throw missing(kind, id)
      if (expected !== undefined && one.revision !== expected) throw new RevisionChanged(one)
      const next = { ...edit(one), revision: Math.max(one.revision + 1, this.#now()) }
      if (await this.#records.replace(`${kind}:${id}`, next, one.revision)) return [one, next]
    }
  }

  async #placeOf(id: string): Promise<{ account: string; key: string }> {
    const key = await this.key(id)
    if (!key) throw missing('key', id)
    return { account: key.account, key: id }
  }

  async #announceBoth({ key, account }: ResolvedKey): Promise<void> {
    await this.#announce(key)
    await this.#announceAccount(account)
  }

  async #announce(key: Key): Promise<void> {
    const limits = { ...ledgerLimits(key), ...this.#limitsOf(key) }
    await this.#ledger.limits(key.account, key.id, limits, key.revision)
  }

  /** The ledger has nothing of an account that was never changed. */
  async #announceAccount(account: Account): Promise<void> {
    if (account.revision === 0) return
    await this.#ledger.limits(account.id, ACCOUNT, ledgerLimits(account), account.revision)
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

/** @throws InvalidRequest */
function refuseArchived<One extends Account | Key>(one: One): One {
  need(one.archivedAt === undefined, 'id', 'of one that is not archived')
  return one
}

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined)
}

function missing(kind: string, id: string): NotFound {
  return new NotFound('not_found', `There is no ${kind} ${JSON.stringify(id.slice(0, 64))}.`)
}
