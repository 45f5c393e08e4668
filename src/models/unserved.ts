/** Names that clients have asked for and that mean no model: what the operator is told of them, and how to change it. */
import { LRUCache } from 'lru-cache'

/** Why a name is not served. */
export type UnservedReason = 'no_price' | 'unknown' | 'ambiguous' | 'disabled' | 'gone'

/** A name that is not served. */
export interface UnservedName {
  readonly name: string
  readonly reason: UnservedReason
  readonly asked: number
  /** Accounts that have asked, of the last ones. */
  readonly accounts: readonly string[]
  /** ms since epoch */
  readonly firstAt: number
  readonly lastAt: number
  /** A command or a setting that changes it. */
  readonly remedy: string
}

/** Names that are remembered. */
const MAX_NAMES = 200
/** Letters of a name that are kept. */
const MAX_LETTERS = 100
/** Accounts that are remembered of a name. */
const MAX_ACCOUNTS = 10
const HOUR_MS = 3_600_000
/** Lines in an hour. */
const MAX_LINES = 20

/** What a configuration says of names that are not in its catalog. */
interface Offered {
  readonly providers: Readonly<Record<string, unknown>>
  readonly models: Readonly<Record<string, { readonly enabled: boolean }>>
  readonly unpriced?: readonly { readonly id: string }[]
}

/** Why a name means no model. @param candidates models that the name may mean */
export function reasonOf(
  name: string,
  candidates: readonly string[],
  { providers, models, unpriced = [] }: Offered,
): UnservedReason {
  if (candidates.length > 1) return 'ambiguous'
  if (Object.hasOwn(models, name) && !models[name]!.enabled) return 'disabled'
  const vendor = name.slice(0, Math.max(0, name.indexOf('/')))
  const priceless = unpriced.some(({ id }) => id === name) || Object.hasOwn(providers, vendor)
  return priceless ? 'no_price' : 'unknown'
}

/** Remembers the names of one process, and logs each of them once an hour. */
export class Unserved {
  readonly #names = new LRUCache<string, UnservedName & { toldAt: number }>({ max: MAX_NAMES })
  #hour = 0
  #lines = 0
  #others: () => Promise<readonly (readonly UnservedName[])[]> = async () => []

  /**
   * A name was asked for.
   * @param now ms since epoch
   * @param meant a near id, which the client is told
   * @returns the line for the log; undefined where one was written lately
   */
  note(
    id: string,
    reason: UnservedReason,
    account: string,
    now: number,
    meant?: string,
  ): string | undefined {
    const name = shown(id)
    const existing = this.#names.get(name)
    const accounts = [account, ...(existing?.accounts ?? []).filter((one) => one !== account)]
    const row = {
      name,
      reason,
      asked: (existing?.asked ?? 0) + 1,
      accounts: accounts.slice(0, MAX_ACCOUNTS),
      firstAt: existing?.firstAt ?? now,
      lastAt: now,
      remedy: remedyFor(name, reason, meant),
      toldAt: existing?.toldAt ?? -Infinity,
    }
    const isDue = now - row.toldAt >= HOUR_MS && this.#mayTell(now)
    if (isDue) row.toldAt = now
    this.#names.set(name, row)
    if (!isDue) return undefined
    const times = row.asked === 1 ? 'once' : `${row.asked} times`
    return `"${name}" was asked for ${times} and is not served: ${SENTENCES[reason]}\n  ${row.remedy}`
  }

  /** Adds the names of the other processes that serve the same address. @param others never rejects */
  join(others: () => Promise<readonly (readonly UnservedName[])[]>): void {
    this.#others = others
  }

  /** The names of all processes, the one that was asked for last first. */
  async all(): Promise<readonly UnservedName[]> {
    const tables = [this.list(), ...(await this.#others())]
    const groups = Map.groupBy(tables.flat(), ({ name }) => name)
    return [...groups.values()]
      .map(sum)
      .toSorted((a, b) => b.lastAt - a.lastAt)
      .slice(0, MAX_NAMES)
  }

  /** The names of this process, the one that was asked for last first. */
  list(): readonly UnservedName[] {
    return [...this.#names.values()].map((entry) => {
      const { toldAt: _, ...row } = entry
      return row
    })
  }

  #mayTell(now: number): boolean {
    const hour = Math.floor(now / HOUR_MS)
    if (hour !== this.#hour) this.#lines = 0
    this.#hour = hour
    return this.#lines++ < MAX_LINES
  }
}

/** One name of several processes. */
function sum(rows: readonly UnservedName[]): UnservedName {
  const latest = rows.reduce((one, other) => (other.lastAt > one.lastAt ? other : one))
  const accounts = [...new Set([latest, ...rows].flatMap((row) => row.accounts))]
  return {
    ...latest,
    asked: rows.reduce((asked, row) => asked + row.asked, 0),
    accounts: accounts.slice(0, MAX_ACCOUNTS),
    firstAt: Math.min(...rows.map(({ firstAt }) => firstAt)),
  }
}

const SENTENCES: Readonly<Record<UnservedReason, string>> = {
  no_price: 'no price list has it.',
  unknown: 'no model has this name, and no vendor of this name is configured.',
  ambiguous: 'several models have this name.',
  disabled: 'its entry has "enabled: false".',
  gone: 'its vendor offers it no more.',
}

function remedyFor(name: string, reason: UnservedReason, meant?: string): string {
  if (meant !== undefined && (reason === 'no_price' || reason === 'unknown'))
    return `the client may mean ${JSON.stringify(meant)}     or: ${remedyFor(name, reason)}`
  switch (reason) {
    case 'no_price':
      return (
        `sluicegate models import --only ${quoted(name)} --write     ` +
        `or: models: { ${JSON.stringify(name)}: { pricing: { prompt: '…', completion: '…' } } }`
      )
    case 'ambiguous':
      return 'names: { prefer: [<vendor>] } chooses one'
    case 'gone':
      return `models: { ${JSON.stringify(name)}: { enabled: false } }     or: deployments of another model under this name`
    case 'disabled':
      return `models: { ${JSON.stringify(name)}: { enabled: true } }`
    case 'unknown':
      return 'sluicegate vendors lists the vendors and their keys     or: an alias of a model'
  }
}

/** A word for a shell: quoted where it is none by itself. */
function quoted(name: string): string {
  return /^[\w./:@-]+$/.test(name) ? name : `'${name.replaceAll("'", '?')}'`
}

/** A name as a log can hold it. */
function shown(name: string): string {
  return name.slice(0, MAX_LETTERS).replaceAll(/[\p{Cc}\p{Cf}"]/gu, '?')
}
