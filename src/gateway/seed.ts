/** Accounts and keys before the first request: those of the configuration's seed, else one account for a first look. */
import { toKeyChange } from '../accounts/stored.ts'
import type { Config } from '../config/config.ts'
import { ConfigError, GatewayError } from '../errors/errors.ts'
import type { Gateway } from './gateway.ts'
import { parsePico } from '../money/money.ts'

/** Accounts and keys that a start has created; none where all of them existed. */
export interface SeedReport {
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
  /** Only of a generated key: shown once, stored nowhere. */
  readonly secret?: string
  /** Owner of the key, unless it is the account for a first look. */
  readonly account?: string
  /** Whether the account for a first look has no key yet. */
  readonly needsKey?: boolean
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
 * Creates the accounts and keys of the configuration's `seed` that do not exist; without a seed and without any account, a
 * local account with 10 USD, and its first key as soon as one is to be made. Idempotent.
 * @throws ConfigError for an account or key that cannot be created
 */
export async function seed(gateway: Gateway, first: FirstKey = {}): Promise<SeedReport> {
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
    if (!GatewayError.is(error)) throw error
    throw new ConfigError('SLUICEGATE_FIRST_KEY', [{ path: '', message: error.message }])
  })
  const shown = first.secret === undefined ? { secret } : {}
  return { accounts: created, keys: [key.id], ...shown }
}

async function seedFrom(
  gateway: Gateway,
  { accounts: wanted }: Config['seed'],
): Promise<SeedReport> {
  const { accounts } = gateway.runtime
  const created = { accounts: [] as string[], keys: [] as string[] }
  for (const { id, name, credits, keys } of wanted) {
    const isThere = async () => (await accounts.account(id)) !== undefined
    if (await made(`account "${id}"`, isThere, () => accounts.createAccount({ id, name }))) {
      created.accounts.push(id)
    }
    // The reference makes the top-up idempotent, also after an interrupted start.
    if (credits !== undefined) await credit(gateway, id, credits)
    for (const { id: key, name: keyName, secret, sha256, ...settings } of keys) {
      const own = { id: key, name: keyName, secret, sha256 }
      const isMade = async () => (await accounts.key(key)) !== undefined
      const make = () => accounts.createKey(id, { ...toKeyChange(settings), ...own })
      if (await made(`key "${key}"`, isMade, make)) created.keys.push(key)
    }
  }
  return created
}

async function credit({ runtime }: Gateway, account: string, usd: string): Promise<void> {
  const amount = parsePico(usd)
  await runtime.ledger.topUp({ account, amount, reference: `seed:${account}`, note: 'seed' })
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
    if (!GatewayError.is(error)) throw error
    if (await isThere()) return false
    throw new ConfigError(`The seed of ${what}`, [
      { path: error.param ?? '', message: error.message },
    ])
  }
}
