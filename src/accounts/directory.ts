/**
 * All accounts and keys of the state in memory, in short form, so that lists are searched and sorted without reading every
 * record. It is read in the background after the start, and follows every later change.
 */
import { Unavailable } from '../errors/errors.ts'
import type { Records } from '../state/records.ts'
import { complete, type Account, type Key } from './stored.ts'

/** Members for searching and sorting lists. */
export interface ListedAccount extends Pick<
  Account,
  'id' | 'name' | 'disabled' | 'createdAt' | 'timeZone'
> {
  readonly archived: boolean
  /** Searchable texts in lower case, one a line. */
  readonly texts: string
}

/** Members for searching and sorting lists; the policy is not kept, because it may be large. */
export interface ListedKey extends Pick<
  Key,
  'id' | 'account' | 'team' | 'name' | 'disabled' | 'expiresAt' | 'createdAt'
> {
  readonly archived: boolean
  /** The form is that of {@link ListedAccount.texts}. */
  readonly texts: string
  readonly hasPolicy: boolean
  /** Whether its spend is limited. */
  readonly hasCap: boolean
}

export interface DirectoryView {
  readonly accounts: ReadonlyMap<string, ListedAccount>
  readonly keys: ReadonlyMap<string, ListedKey>
  /** Number of keys of each account that are not archived. */
  readonly keyCounts: ReadonlyMap<string, number>
}

/** Records read at a time: calls wait while they are parsed. */
const BATCH = 100

export class Directory {
  readonly #records: Records
  #entries: Promise<Entries> | undefined
  #loaded: Entries | undefined
  #closed = false
  /** Position in the changes of other processes. */
  #cursor: string | undefined
  /** Hears of each change that this process makes. @param key the key of that account, where it is a key that was changed */
  onChange: (account: string, key?: string) => void = () => {}

  constructor(records: Records) {
    this.#records = records
  }

  prepare(): void {
    // The next list tries again, and gets the error.
    this.#begun().catch(() => undefined)
  }

  /** Everything that is stored, with the changes of other processes. @throws Unavailable */
  async view(): Promise<DirectoryView> {
    const entries = await this.#begun()
    const changes = await this.#records.changesSince(this.#cursor)
    if (!changes) return entries
    this.#cursor = changes.cursor
    await this.#read(entries, changes.ids, true)
    return entries
  }

  async noteAccount(account: Account): Promise<void> {
    this.#loaded?.put(account)
    this.onChange(account.id)
    await this.#records.touch(`account:${account.id}`)
  }

  async noteKey(key: Key): Promise<void> {
    this.#loaded?.put(key)
    this.onChange(key.account, key.id)
    await this.#records.touch(`key:${key.id}`)
  }

  /** Ends a reading that is under way. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#entries?.catch(() => undefined)
  }

  #begun(): Promise<Entries> {
    return (this.#entries ??= this.#load())
  }

  async #load(): Promise<Entries> {
    // Changes while the records are read are noted in the same entries.
    const entries = (this.#loaded = new Entries())
    try {
      this.#cursor = (await this.#records.changesSince(undefined))?.cursor
      const accounts = await this.#records.list('accounts')
      await this.#read(
        entries,
        accounts.map((id) => `account:${id}`),
      )
      for (const some of batchesOf(accounts)) {
        const lists = await this.#records.listMany(some.map((id) => `keys:${id}`))
        await this.#read(
          entries,
          lists.flat().map((id) => `key:${id}`),
        )
      }
      return entries
    } catch (error) {
      this.#entries = this.#loaded = this.#cursor = undefined
      throw error
    }
  }

  /** @param again whether existing entries are replaced */
  async #read(entries: Entries, names: readonly string[], again = false): Promise<void> {
    for (const some of batchesOf(names)) {
      if (this.#closed) throw stopping()
      const records = await this.#records.getMany<Account | Key>(some)
      for (const one of records.map(complete)) {
        if (one && (again || !entries.has(one))) entries.put(one)
      }
    }
  }
}

/** The error of a list that is requested while the gateway ends: part of it would look like the whole. */
export function stopping(): Unavailable {
  return new Unavailable('service_unavailable', 'The gateway is stopping.')
}

class Entries implements DirectoryView {
  readonly accounts = new Map<string, ListedAccount>()
  readonly keys = new Map<string, ListedKey>()
  readonly keyCounts = new Map<string, number>()

  has(one: Account | Key): boolean {
    return 'account' in one ? this.keys.has(one.id) : this.accounts.has(one.id)
  }

  put(one: Account | Key): void {
    const { id, name, disabled, createdAt, archivedAt } = one
    const archived = archivedAt !== undefined
    const common = { id, name, disabled, createdAt, archived }
    if (!('account' in one)) {
      const { timeZone } = one
      this.accounts.set(id, { ...common, timeZone, texts: textsOf(id, name) })
      return
    }
    const { start, team, expiresAt, policy, limits = [] } = one
    const account = this.accounts.get(one.account)?.id ?? one.account
    this.#count(account, Number(!archived) - Number(this.#isCounted(id)))
    const hasPolicy = policy !== undefined
    const texts = textsOf(id, name, start)
    this.keys.set(id, {
      ...common,
      account,
      team,
      expiresAt,
      hasPolicy,
      hasCap: limits.some(({ unit }) => unit === 'usd'),
      texts,
    })
  }

  #isCounted(id: string): boolean {
    return this.keys.get(id)?.archived === false
  }

  #count(account: string, more: number): void {
    if (more !== 0) this.keyCounts.set(account, (this.keyCounts.get(account) ?? 0) + more)
  }
}

function textsOf(...texts: readonly string[]): string {
  return texts.join('\n').toLowerCase()
}

function* batchesOf<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  for (let at = 0; at < items.length; at += BATCH) yield items.slice(at, at + BATCH)
}
