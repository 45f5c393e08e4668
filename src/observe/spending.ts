/**
 * Checks balances and caps beside the calls: after a start those of all accounts and of all keys with a cap or an end, slowly;
 * then those in use, those that were changed, and those with an alert.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { countedOf, zoneOf } from '../accounts/limits.ts'
import type { Accounts } from '../accounts/accounts.ts'
import type { Account, Key } from '../accounts/stored.ts'
import { formatPico, parsePico, type Pico } from '../money/money.ts'
import {
  ACCOUNT,
  teamKey,
  type AccountTotals,
  type KeySpend,
  type Ledger,
} from '../state/ledger/ledger.ts'
import type { ZoneRule } from '../state/ledger/windows.ts'
import { kindOf } from '../state/ledger/limit-list.ts'
import { ruleOf } from '../state/ledger/zone.ts'
import { simpleForm, type LimitMembers } from '../server/admin/resources/limit.ts'
import type { Looked } from '../server/admin/resources/alert.ts'
import type { Finding } from './alerts.ts'
import type { MoneyMetrics } from './metrics.ts'

interface Ids {
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
}
type TopSpenders = (most: number) => Promise<Ids>

interface SpendingOptions {
  readonly accounts: Pick<Accounts, 'accountsOf' | 'keysOf' | 'listTeams'>
  readonly ledger: Pick<Ledger, 'balances' | 'key' | 'counters'>
  /** `below`: a balance below it is low, unless the account has a bound of its own. `top`: number of spenders in the metrics. */
  readonly settings: () => {
    readonly below: Pico
    readonly top: number | undefined
    /** The zone of accounts without one of their own. */
    readonly timeZone: string
    /** Names of the price lists of accounts. */
    readonly lists: readonly string[]
  }
  readonly top: TopSpenders
  /** What has to be looked at before it is known that nothing is wrong. */
  readonly everything: () => Promise<Ids>
  /** Whether calls of an account were refused before this process has begun. */
  readonly wasEmpty: (account: string) => boolean
  /** Hears of each account that was looked at. */
  readonly looked?: (account: Account, balance: Pico) => void
  readonly metrics: MoneyMetrics
  readonly warn: (message: string) => void
  /** ms since epoch. */
  readonly wallClock?: () => number
}

const LOOK_MS = 10_000
const TOP_MS = 60_000
/** Most accounts, and keys, of one check; further ones wait for the next. */
const MOST = 500
/** Most accounts and keys that wait; beyond it, some are checked when they are used again. */
const MOST_WAITING = 20_000
/** Part of one processor that the look at everything takes. */
const SHARE = 0.05
const WEEK_MS = 7 * 24 * 3_600_000

/** The money of one gateway's accounts and keys. The owner calls {@link Spending.tick} from time to time. */
export class Spending {
  readonly #options: SpendingOptions
  readonly #wallClock: () => number
  /** Accounts used since their last check. */
  readonly #accounts = new Set<string>()
  readonly #keys = new Set<string>()
  /** Accounts whose calls were refused for their balance since their last check. */
  readonly #refused = new Set<string>()
  /** Findings by account and by key. */
  readonly #ofAccounts = new Map<string, readonly Finding[]>()
  readonly #ofKeys = new Map<string, readonly Finding[]>()
  #top: Ids | undefined
  #topAt = -Infinity
  #lookedAt = -Infinity
  #looking: Promise<void> | undefined
  #looked: Looked = { done: 0, of: 0, complete: false }
  #everything: Promise<void> | undefined
  #turn: Promise<unknown> = Promise.resolve()
  readonly #closing = new AbortController()

  constructor(options: SpendingOptions) {
    this.#options = options
    this.#wallClock = options.wallClock ?? (() => Date.now())
  }

  /** How many of everything were looked at since the start. */
  get looked(): Looked {
    return this.#looked
  }

  /** Something was charged, booked or changed. @param isRefused whether a call was, because the balance is too low */
  touched(account: string, key?: string, isRefused = false): void {
    if (key !== undefined && this.#keys.size < MOST_WAITING) this.#keys.add(key)
    if (this.#accounts.size < MOST_WAITING) this.#accounts.add(account)
    if (isRefused && this.#refused.size < MOST_WAITING) this.#refused.add(account)
  }

  /** Findings that are bad, or between. */
  findings(): Finding[] {
    return [...this.#ofAccounts.values(), ...this.#ofKeys.values()].flat()
  }

  /** Checks what is due. Resolves when no check is under way, and never rejects. @param now steady ms */
  tick(now: number): Promise<void> | undefined {
    this.#everything ??= this.#lookAtEverything()
    if (this.#looking || now - this.#lookedAt < LOOK_MS) return this.#looking
    this.#lookedAt = now
    return (this.#looking = this.#look(now)
      .catch((error: unknown) => {
        // The ledger itself logs that it cannot be reached.
        this.#options.warn(`balances and caps could not be looked at: ${(error as Error).message}`)
      })
      .finally(() => (this.#looking = undefined)))
  }

  /** Resolves when no check is under way: checks read the ledger. */
  async close(): Promise<void> {
    this.#lookedAt = Infinity
    this.#closing.abort()
    await Promise.all([this.#looking, this.#everything])
  }

  /** Looks at all again, after a change of a bound that holds for all. */
  again(): void {
    const before = this.#everything
    this.#everything = (async () => {
      await before
      await this.#lookAtEverything()
    })()
  }

  /** Never rejects: it begins again where the ledger cannot be read. */
  async #lookAtEverything(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      try {
        const { accounts, keys } = await this.#options.everything()
        this.#looked = { done: 0, of: accounts.length + keys.length, complete: false }
        await this.#batches(accounts, (ids) => this.#lookAtAccounts(ids))
        await this.#batches(keys, (ids) => this.#lookAtKeys(ids))
        if (!signal.aborted) this.#looked = { ...this.#looked, complete: true }
        return
      } catch {
        // The ledger itself logs that it cannot be reached.
        await sleep(LOOK_MS, undefined, { signal, ref: false }).catch(() => {})
      }
    }
  }

  async #batches(
    ids: readonly string[],
    look: (ids: readonly string[]) => Promise<unknown>,
  ): Promise<void> {
    const { signal } = this.#closing
    for (let at = 0; at < ids.length && !signal.aborted; at += MOST) {
      const some = ids.slice(at, at + MOST)
      const began = process.cpuUsage()
      await look(some)
      this.#looked = { ...this.#looked, done: this.#looked.done + some.length }
      // Work alone is counted: on a busy machine most of the time is spent waiting.
      const { user, system } = process.cpuUsage(began)
      const pauseMs = (((user + system) / 1000) * (1 - SHARE)) / SHARE
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  async #look(now: number): Promise<void> {
    const { metrics, settings } = this.#options
    const { top } = settings()
    await this.#rank(top, now)
    const accounts = takeBatch(this.#accounts, [
      ...this.#ofAccounts.keys(),
      ...(this.#top?.accounts ?? []),
    ])
    const keys = takeBatch(this.#keys, [...this.#ofKeys.keys(), ...(this.#top?.keys ?? [])])
    const ofAccounts = await this.#lookAtAccounts(accounts)
    const ofKeys = await this.#lookAtKeys(keys)
    if (top === undefined) return metrics.clear()
    // Beside the largest spenders, as many with an alert.
    const shown = <Item extends { readonly id: string }>(
      items: readonly (readonly [Item, ...unknown[]])[],
      ranked: readonly string[],
      wrong: ReadonlyMap<string, unknown>,
    ) => {
      const first = new Set(ranked.slice(0, top))
      const others = items.filter(([{ id }]) => !first.has(id) && wrong.has(id)).slice(0, top)
      return new Set([...first, ...others.map(([{ id }]) => id)])
    }
    const someAccounts = shown(ofAccounts, this.#top?.accounts ?? [], this.#ofAccounts)
    const someKeys = shown(ofKeys, this.#top?.keys ?? [], this.#ofKeys)
    metrics.set({
      balances: ofAccounts
        .filter(([{ id }]) => someAccounts.has(id))
        .map(([{ id }, { balance }]) => ({ account: id, balance })),
      keys: ofKeys
        .filter(([{ id }]) => someKeys.has(id))
        .map(([key, spend]) => {
          const cap = simpleForm(key).spendCap
          const remaining = cap && parsePico(cap.usd) - spend[cap.scope]
          return { key: key.id, spend, ...(cap && { remaining }) }
        }),
    })
  }

  async #rank(top: number | undefined, now: number): Promise<void> {
    if (top === undefined) this.#top = undefined
    else if (!this.#top || now - this.#topAt >= TOP_MS) {
      this.#topAt = now
      this.#top = await this.#options.top(top)
    }
  }

  /** One look after the other: a balance that was read before a refusal would undo what a later look has found. */
  #lookAtAccounts(ids: readonly string[]): Promise<(readonly [Account, AccountTotals])[]> {
    const looking = this.#turn.then(() => this.#checkAccounts(ids))
    this.#turn = looking.catch(() => {})
    return looking
  }

  async #checkAccounts(ids: readonly string[]): Promise<(readonly [Account, AccountTotals])[]> {
    if (ids.length === 0) return []
    const { accounts, ledger, settings } = this.#options
    const { below, lists } = settings()
    const stored = await accounts.accountsOf(ids)
    const totals = await ledger.balances(stored.map(({ id }) => id))
    const checked = stored.map((account, i) => [account, totals[i]!] as const)
    for (const [account, money] of checked) {
      const wasEmpty = this.#ofAccounts
        .get(account.id)
        ?.some(({ kind, state }) => kind === 'balance.empty' && state === 'wrong')
      const isEmpty =
        (wasEmpty || this.#options.wasEmpty(account.id)) &&
        money.balance <= -parsePico(account.creditLimit ?? '0')
      this.#options.looked?.(account, money.balance)
      const isRefused = this.#refused.delete(account.id) || isEmpty
      keep(this.#ofAccounts, account.id, [
        ...accountFindings(account, money, below, isRefused),
        ...(account.archivedAt === undefined ? await this.#capsOf(account) : []),
        ...listFindings(account, lists),
      ])
    }
    return checked
  }

  async #lookAtKeys(ids: readonly string[]): Promise<(readonly [Key, KeySpend])[]> {
    if (ids.length === 0) return []
    const { accounts, ledger } = this.#options
    const shown = new Set(this.#top?.keys)
    const stored = await accounts.keysOf(ids)
    const owners = await accounts.accountsOf([...new Set(stored.map(({ account }) => account))])
    const zones = new Map(owners.map((one) => [one.id, this.#zoneOf(one)]))
    const now = this.#wallClock()
    const looked = await Promise.all(
      stored.map(async (key) => {
        const { id, account, archivedAt, disabled } = key
        const zone = zones.get(account)
        const isEnded = archivedAt !== undefined || disabled
        const owned = { account, owner: id, record: key }
        const caps = isEnded ? [] : await capFindings(ledger, `key ${id}`, owned, zone, now)
        keep(this.#ofKeys, id, [...keyFindings(key, now), ...caps])
        if (!simpleForm(key).spendCap && !shown.has(id)) return undefined
        return [key, await ledger.key(account, id, zone)] as const
      }),
    )
    return looked.filter((one) => one !== undefined)
  }

  #zoneOf(account: Account): ZoneRule | undefined {
    return ruleOf(zoneOf(account, this.#options.settings()), this.#wallClock())
  }

  /** Findings on the caps of an account and its teams. */
  async #capsOf(account: Account): Promise<Finding[]> {
    const { accounts, ledger } = this.#options
    const teams = (await accounts.listTeams(account.id)).filter((team) => !team.disabled)
    const [zone, now] = [this.#zoneOf(account), this.#wallClock()]
    const owned = [
      [`account ${account.id}`, ACCOUNT, account] as const,
      ...teams.map((team) => [`team ${team.id}`, teamKey(team.id), team] as const),
    ]
    const findings = owned.map(([object, owner, record]) =>
      capFindings(ledger, object, { account: account.id, owner, record }, zone, now),
    )
    return (await Promise.all(findings)).flat()
  }
}

/** Removes some of those that wait, and adds those to check again. */
function takeBatch(waiting: Set<string>, again: readonly string[]): string[] {
  const ids = new Set(again)
  for (const id of waiting) {
    if (ids.size >= MOST + again.length) break
    waiting.delete(id)
    ids.add(id)
  }
  return [...ids]
}

function keep(
  map: Map<string, readonly Finding[]>,
  id: string,
  findings: readonly Finding[],
): void {
  const open = findings.filter(({ state }) => state !== 'well')
  if (open.length > 0) map.set(id, open)
  else map.delete(id)
}

function accountFindings(
  account: Account,
  { balance, paid }: AccountTotals,
  below: Pico,
  isRefused: boolean,
): Finding[] {
  const { id, alertBelow, archivedAt, creditLimit } = account
  if (archivedAt !== undefined) return []
  const bound = alertBelow === undefined ? below : parsePico(alertBelow)
  const low = balance < bound ? 'wrong' : balance * 5n >= bound * 6n ? 'well' : 'between'
  return [
    ...(paid && bound > 0n
      ? [
          finding('balance.low', id, low, `the balance of account ${id} is below ${usd(bound)}`, {
            balance_usd: balance,
            threshold_usd: bound,
          }),
        ]
      : []),
    finding(
      'balance.empty',
      id,
      isRefused ? 'wrong' : 'well',
      `calls of account ${id} are refused, because its balance is too low`,
      { balance_usd: balance, threshold_usd: -parsePico(creditLimit ?? '0') },
    ),
  ]
}

function listFindings({ id, priceList, archivedAt }: Account, lists: readonly string[]): Finding[] {
  if (priceList === undefined || archivedAt !== undefined) return []
  const state = lists.includes(priceList) ? 'well' : 'wrong'
  const message = `calls of account ${id} are refused, because its price list "${priceList}" is not configured`
  return [finding('price_list.missing', id, state, message)]
}

function keyFindings(key: Key, now: number): Finding[] {
  const { id, expiresAt, archivedAt, disabled } = key
  if (archivedAt !== undefined || disabled) return []
  const expiring = expiresAt !== undefined && expiresAt > now && expiresAt - now <= WEEK_MS
  const day = expiring ? new Date(expiresAt).toISOString().slice(0, 10) : ''
  return [
    finding('key.expiring', id, expiring ? 'wrong' : 'well', `the key ${id} expires on ${day}`),
  ]
}

/** Findings on limits of money for a day or longer, against the value in force. @param owner a key, `@team:<id>` or `@account` */
async function capFindings(
  ledger: Pick<Ledger, 'counters'>,
  object: string,
  { account, owner, record }: { account: string; owner: string; record: LimitMembers },
  zone: ZoneRule | undefined,
  now: number,
): Promise<Finding[]> {
  if (!countedOf(record).some(({ id }) => isWatched(id))) return []
  const counters = await ledger.counters(account, owner, zone)
  return counters.flatMap(({ limit, used }) => {
    const { id, raised } = limit
    if (!isWatched(id)) return []
    const value = raised && now < raised.until ? raised.value : limit.value
    const percent = value === 0n ? 100n : (used * 100n) / value
    const of = (raise: bigint, end: bigint) =>
      percent >= raise ? 'wrong' : percent < end ? 'well' : 'between'
    const name = id.slice('cap.'.length)
    const models = limit.models ? ` for ${limit.models.join(', ')}` : ''
    const message = (part: string) =>
      `${object} has spent ${part} of its cap of ${usd(value)} (${kindOf(id).window}${models})`
    const named = `${object} ${name}`
    const amounts = { spent_usd: used, cap_usd: value }
    return [
      finding('cap.80', named, of(80n, 75n), message('80 %'), amounts),
      finding('cap.100', named, of(100n, 95n), message('all'), amounts),
    ]
  })
}

function isWatched(id: string): boolean {
  const { unit, window } = kindOf(id)
  return unit === 'usd' && window !== '5h'
}

function finding(
  kind: Finding['kind'],
  object: string,
  state: Finding['state'],
  message: string,
  amounts?: Readonly<Record<string, Pico>>,
): Finding {
  const figures =
    amounts &&
    Object.fromEntries(Object.entries(amounts).map(([name, one]) => [name, formatPico(one)]))
  return { kind, object, state, message, ...(figures && { figures }) }
}

function usd(amount: Pico): string {
  return `${formatPico(amount)} USD`
}
