/** Accounts and keys before the first request: those of the configuration's seed, else one account for a first look. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { hashSecret } from '../accounts/secrets.ts'
import { changedLimits } from '../accounts/limits.ts'
import {
  toAccountChange,
  toKeyChange,
  toTeamChange,
  type Account,
  type Key,
  type Team,
} from '../accounts/stored.ts'
import { ACCOUNT_SETTINGS } from '../server/admin/resources/account.ts'
import { KEY_SETTINGS } from '../server/admin/resources/key.ts'
import { isSimple } from '../server/admin/resources/limit.ts'
import type { Settings } from '../server/admin/resources/settings.ts'
import { TEAM_SETTINGS } from '../server/admin/resources/team.ts'
import type { Config } from '../config/config.ts'
import { ConfigError, GatewayError, Unavailable } from '../errors/errors.ts'
import type { Runtime } from '../pipeline/pipeline.ts'
import { parsePico } from '../money/money.ts'

/** What has a current configuration. */
interface Running {
  readonly runtime: Runtime
}

/** Accounts and keys that a start has created; none where all of them existed. */
export interface SeedReport {
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
  /** The secret of a generated key: shown once, stored nowhere. */
  readonly secret?: string
  /** Owner of the key, unless it is the account for a first look. */
  readonly account?: string
  /** Whether the account for a first look has no key yet. */
  readonly needsKey?: boolean
}

/** The pause between two tries. */
const PAUSE_MS = 1000

/**
 * The seed of a running gateway. While the store cannot be written it is tried again, and the gateway is not ready. The owner
 * closes it.
 */
export class Seeding {
  readonly #gateway: Running
  readonly #pauseMs: number
  readonly #closing = new AbortController()
  #last: Promise<unknown> = Promise.resolve()
  #isPending = false

  constructor(gateway: Running, pauseMs = PAUSE_MS) {
    this.#gateway = gateway
    this.#pauseMs = pauseMs
  }

  /** Whether the store does not have the seed yet. */
  get isPending(): boolean {
    return this.#isPending
  }

  /**
   * Applies the seed, see {@link seed}.
   * @returns the report, which comes later where the store cannot be written now; undefined where the gateway was closed before
   * @throws ConfigError for an account or key that cannot be created
   */
  async begin(first?: FirstKey): Promise<{ readonly report: Promise<SeedReport | undefined> }> {
    try {
      const report = await this.#try(first)
      return { report: Promise.resolve(report) }
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error
      this.#isPending = true
      const message = 'the seed is not in the ledger yet, and is tried again every second'
      this.#gateway.runtime.log.warn(message, error)
      return { report: this.#repeat(first) }
    }
  }

  /** Applies the seed of a configuration that was loaded again. An account or key that cannot be made does not undo the rest. */
  async again(): Promise<void> {
    const { config, log } = this.#gateway.runtime
    // Where it is pending the next try takes the new one.
    if (config.seed.accounts.length === 0 || this.#isPending) return
    await this.begin().catch((error: Error) => log.error(error.message))
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#last
  }

  /** One try after the other, because each reads what it writes. */
  #try(first?: FirstKey): Promise<SeedReport> {
    const tried = this.#last.then(() => seed(this.#gateway, first))
    this.#last = tried.catch(() => {})
    return tried
  }

  async #repeat(first?: FirstKey): Promise<SeedReport | undefined> {
    const { signal } = this.#closing
    for (;;) {
      await sleep(this.#pauseMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return undefined
      try {
        const report = await this.#try(first)
        this.#isPending = false
        this.#gateway.runtime.log.info('the seed is in the ledger now')
        return report
      } catch (error) {
        if (error instanceof Unavailable) continue
        this.#isPending = false
        this.#gateway.runtime.log.error((error as Error).message)
        return { accounts: [], keys: [] }
      }
    }
  }
}

/** Treatment of the first key where the configuration seeds nothing. */
interface FirstKey {
  /** A key of the operator's, from `SLUICEGATE_FIRST_KEY`. */
  readonly secret?: string | undefined
  /** Otherwise: whether one is generated. Only where a person sees it, because a log would keep it. */
  readonly generate?: boolean
}

export const LOCAL = { id: 'local', name: 'Local', usd: '10' }

/**
 * Creates the accounts, teams and keys of the configuration's `seed` that do not exist; without a seed and without any account, a
 * local account with 10 USD, and its first key as soon as one is to be made. Idempotent.
 * @throws ConfigError for an account or key that cannot be created
 */
export async function seed(gateway: Running, first: FirstKey = {}): Promise<SeedReport> {
  const { accounts, config } = gateway.runtime
  if (config.seed.accounts.length > 0) return seedFrom(gateway, config.seed)
  const { id, name, usd } = LOCAL
  const there = await accounts.listAccounts(2)
  // An interrupted start, or one that no person saw, has left the account without a key.
  const isKeyless = async () => (await accounts.listKeys(id)).length === 0
  const begun = there.length === 1 && there[0]!.id === id && (await isKeyless())
  if (there.length > 0 && !begun) return { accounts: [], keys: [] }
  const isThere = async () => (await accounts.account(id)) !== undefined
  const isNew = await made(`account "${id}"`, isThere, () => accounts.createAccount({ id, name }))
  if (!isNew && !begun) return { accounts: [], keys: [] }
  await credit(gateway, id, usd)
  const created = isNew ? [id] : []
  if (first.secret === undefined && !first.generate) {
    return { accounts: created, keys: [], needsKey: true }
  }
  const init = { name: 'First key', secret: first.secret }
  const { key, secret } = await accounts.createKey(id, init).catch((error: unknown) => {
    if (!isRefusal(error)) throw error
    throw new ConfigError('SLUICEGATE_FIRST_KEY', [{ path: '', message: error.message }])
  })
  const shown = first.secret === undefined ? { secret } : {}
  return { accounts: created, keys: [key.id], ...shown }
}

async function seedFrom(
  gateway: Running,
  { accounts: wanted }: Config['seed'],
): Promise<SeedReport> {
  const { accounts } = gateway.runtime
  const created = { accounts: [] as string[], keys: [] as string[] }
  for (const { id, name, credits, teams, keys, ...own } of wanted) {
    const change = toAccountChange({ ...own, name })
    const isThere = async () => (await accounts.account(id)) !== undefined
    // One write, because a start that ends between two would leave the account without its limits.
    const settings = Object.keys(own).length > 0 ? change : {}
    const makeAccount = () => accounts.createAccount({ ...settings, id, name })
    if (await made(`account "${id}"`, isThere, makeAccount)) created.accounts.push(id)
    else {
      const stored = await accounts.account(id)
      const members = accountDifferences({ ...own, name }, stored)
      await follow(gateway, `account:${id}`, members, async () => {
        await accounts.changeAccount(id, change, BY_SEED)
      })
    }
    for (const { id: team, ...of } of teams) {
      const wants = toTeamChange(of)
      const isMade = async () => (await accounts.team(team)) !== undefined
      const make = () => accounts.createTeam(id, { ...wants, id: team, name: of.name })
      if (await made(`team "${team}"`, isMade, make)) continue
      const stored = await accounts.team(team)
      const members = teamDifferences(id, of, stored)
      await follow(gateway, `team:${team}`, members, async () => {
        await accounts.changeTeam(team, wants, BY_SEED)
      })
    }
    // The reference makes the top-up idempotent, also after an interrupted start.
    if (credits !== undefined) await credit(gateway, id, credits)
    for (const { id: key, name: keyName, secret, sha256, ...settings } of keys) {
      const own = { id: key, name: keyName, secret, sha256 }
      const isMade = async () => (await accounts.key(key)) !== undefined
      const make = () => accounts.createKey(id, { ...toKeyChange(settings), ...own })
      if (await made(`key "${key}"`, isMade, make)) {
        created.keys.push(key)
        continue
      }
      const members = differences(id, own, settings, await accounts.key(key))
      await follow(gateway, `key:${key}`, members, async () => {
        if (members.includes('secret')) await accounts.replaceSecret(key, own, BY_SEED)
        const isOther = members.some((member) => member !== 'secret')
        if (isOther)
          await accounts.changeKey(key, { ...toKeyChange(settings), name: keyName }, BY_SEED)
      })
    }
  }
  return created
}

const BY_SEED = { by: 'seed' }

/**
 * Makes an object of the store what the file says, with `seed.manage`; tells the operator otherwise that the file has no effect.
 * @param members that differ. A key stays in its account
 */
async function follow(
  { runtime: { config, log, audit, alerts } }: Running,
  object: string,
  members: readonly string[],
  change: () => Promise<void>,
): Promise<void> {
  const what = object.replace(/:(.*)$/, ' "$1"')
  if (members.length === 0) return
  if (!config.seed.manage || members.includes('account')) {
    const message = `seed: ${what} differs from the store in ${members.join(', ')}; the store is used. Set seed.manage: true to make it follow the file.`
    log.warn(message)
    // A secret is changed for a reason: the old one goes on until an operator acts.
    const kind = 'seed.differs'
    if (members.includes('secret') && !config.alerts.off.includes(kind)) {
      alerts.once({ kind, object, message })
    }
    return
  }
  try {
    await change()
  } catch (error) {
    if (!isRefusal(error)) throw error
    log.warn(`seed: ${what} does not follow the file: ${error.message}`)
    return
  }
  const changes = Object.fromEntries(members.map((member) => [member, { after: 'as the seed' }]))
  const action = `${object.slice(0, object.indexOf(':'))}.update`
  await audit.add({ actor: 'seed', actor_id: 'seed', address: '', action, object, changes })
  log.info(`seed: ${what} follows the file in ${members.join(', ')}`)
}

function nameDifference(
  name: string | undefined,
  stored: Account | Team | Key | undefined,
): string[] {
  return name === undefined || !stored || stored.name === name ? [] : ['name']
}

/** Members of an account, a team or a key that the seed names, and those of them that are stored otherwise. */
export function seededMembers(
  { accounts }: Config['seed'],
  kind: 'account' | 'team' | 'key',
  record: Account | Team | Key,
): { readonly named: readonly string[]; readonly different: readonly string[] } {
  const isOf = ({ id }: { readonly id: string }) => id === record.id
  const names = (one: object) =>
    Object.entries(one).flatMap(([name, value]) =>
      name === 'id' || value === undefined ? [] : [name],
    )
  for (const { keys, teams, credits: _, ...account } of accounts) {
    if (kind === 'account' && isOf(account)) {
      return { named: names(account), different: accountDifferences(account, record as Account) }
    }
    const team = kind === 'team' && teams.find(isOf)
    if (team) {
      const different = teamDifferences(account.id, team, record as Team)
      return { named: names(team), different }
    }
    const key = kind === 'key' && keys.find(isOf)
    if (!key) continue
    const { id: _id, name, secret, sha256, ...settings } = key
    const different = differences(account.id, { name, secret, sha256 }, settings, record as Key)
    return { named: ['secret', 'name', ...names(settings)], different }
  }
  return { named: [], different: [] }
}

type Seeded = Config['seed']['accounts'][number]

function accountDifferences(
  own: Omit<Seeded, 'id' | 'credits' | 'teams' | 'keys'>,
  stored: Account | undefined,
): string[] {
  return [
    ...nameDifference(own.name, stored),
    ...changes(ACCOUNT_SETTINGS, toAccountChange(own), stored),
  ]
}

function teamDifferences(
  account: string,
  own: Omit<Seeded['teams'][number], 'id'>,
  stored: Team | undefined,
): string[] {
  return [
    ...(stored?.account === account ? [] : ['account']),
    ...nameDifference(own.name, stored),
    ...changes(TEAM_SETTINGS, toTeamChange(own), stored),
  ]
}

/** Members of a seeded key whose stored value is another one. The secret is compared by its hash. */
function differences(
  account: string,
  {
    name,
    secret,
    sha256,
  }: { name: string; secret?: string | undefined; sha256?: string | undefined },
  settings: Parameters<typeof toKeyChange>[0],
  stored: Key | undefined,
): string[] {
  if (!stored) return []
  const hash = sha256 ?? hashSecret(secret!)
  return [
    ...(stored.account === account ? [] : ['account']),
    ...(stored.sha256 === hash ? [] : ['secret']),
    ...nameDifference(name, stored),
    ...changes(KEY_SETTINGS, toKeyChange(settings), stored),
  ]
}

/** Settings of the file whose stored value is another one. */
function changes(
  settings: Settings,
  change: object,
  stored: Account | Team | Key | undefined,
): string[] {
  const wanted = change as Readonly<Record<string, unknown>>
  const present: Readonly<Record<string, unknown>> = { ...stored }
  const isSame = (kept: string) => {
    const value = wanted[kept]
    if (value === undefined || !stored) return true
    if (kept !== 'limits' && !Object.hasOwn(isSimple, kept)) {
      return isDeepStrictEqual(value, present[kept])
    }
    return isDeepStrictEqual(changedLimits(stored, { [kept]: value }, 0), stored.limits ?? [])
  }
  return Object.entries({ disabled: { stored: 'disabled' }, ...settings }).flatMap(
    ([member, { stored: kept }]) => (isSame(kept) ? [] : [member]),
  )
}

async function credit({ runtime }: Running, account: string, usd: string): Promise<void> {
  const amount = parsePico(usd)
  await runtime.ledger.book({
    account,
    kind: 'top-up',
    amount,
    reference: `seed:${account}`,
    note: 'seed',
    actor: 'seed',
    facts: { cause: 'seed' },
  })
}

/**
 * Creates a record. If several gateways start together, one creates it and the others find it.
 * @returns whether this one created it. @throws ConfigError: at a start there is no request that could be invalid
 */
async function made(
  what: string,
  isThere: () => Promise<boolean>,
  make: () => Promise<unknown>,
): Promise<boolean> {
  if (await isThere()) return false
  try {
    await make()
    return true
  } catch (error) {
    if (!isRefusal(error)) throw error
    if (await isThere()) return false
    throw refusedSeed(what, error)
  }
}

/** A store that cannot be written now refuses nothing of the seed. */
function isRefusal(error: unknown): error is GatewayError {
  return GatewayError.is(error) && !(error instanceof Unavailable)
}

function refusedSeed(what: string, { param, message }: GatewayError): ConfigError {
  return new ConfigError(`The seed of ${what}`, [{ path: param ?? '', message }])
}
