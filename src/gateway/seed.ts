/**
 * Accounts and keys before the first request: those that the configuration seeds, else one account to try the gateway
 * with; and the text that a start prints.
 */
import { styleText } from 'node:util'
import type { KeyChange } from '../accounts/accounts.ts'
import type { Config } from '../config/config.ts'
import { ConfigError, GatewayError } from '../errors/errors.ts'
import type { Gateway } from './gateway.ts'
import { formatPico, parsePico } from '../money/money.ts'
import { readPolicy } from '../policy/policy.ts'

/** Created by a start; empty when everything existed. */
interface SeedReport {
  readonly accounts: readonly string[]
  readonly keys: readonly string[]
  /** Only of a generated key: shown once, stored nowhere. */
  readonly secret?: string
}

/** Settings of a key as operators write them. Null clears, absent stays. */
interface KeySettings {
  readonly name?: string | undefined
  readonly disabled?: boolean | undefined
  readonly rpm_limit?: number | null | undefined
  readonly concurrency_limit?: number | null | undefined
  readonly spend_cap?:
    | {
        /** Decimal text. */
        readonly usd: string
        readonly scope: 'lifetime' | 'day' | 'month'
      }
    | null
    | undefined
  /** ISO 8601. */
  readonly expires_at?: string | null | undefined
  readonly models?: readonly string[] | null | undefined
  readonly policy?: object | null | undefined
}

const LOCAL = { id: 'local', name: 'Local', usd: '10' }

/** How to set an admin token. */
export const NO_TOKEN =
  'set SLUICEGATE_ADMIN_TOKEN (8 characters or more) and, in a configuration of your own, ' +
  'admin: { token: "${SLUICEGATE_ADMIN_TOKEN}" }; then start the gateway again.'

/**
 * Creates the accounts and keys of the configuration's `seed` that do not exist; without a seed and without any
 * account, a local account with 10 USD and one key. Idempotent.
 * @throws ConfigError for an account or key that cannot be created
 */
export async function seed(gateway: Gateway): Promise<SeedReport> {
  const { accounts, config } = gateway.runtime
  if (config.seed.accounts.length > 0) return seedFrom(gateway, config.seed)
  const { id, name, usd } = LOCAL
  const there = await accounts.listAccounts()
  // A start that was interrupted has left the account without a key.
  const begun = there.length === 1 && there[0]!.id === id && !(await accounts.listKeys(id)).length
  if (there.length > 0 && !begun) return { accounts: [], keys: [] }
  const isThere = async () => (await accounts.account(id)) !== undefined
  const isNew = await made(`account "${id}"`, isThere, () => accounts.createAccount({ id, name }))
  if (!isNew && !begun) return { accounts: [], keys: [] }
  await credit(gateway, id, usd)
  const { key, secret } = await accounts.createKey(id, { name: 'First key' })
  return { accounts: isNew ? [id] : [], keys: [key.id], secret }
}

/** The settings in the form of a key record. @throws InvalidRequest `invalid_policy` */
export function toKeyChange(settings: KeySettings): KeyChange {
  const { name, disabled, models, expires_at, policy } = settings
  return {
    name,
    disabled,
    models,
    rpm: settings.rpm_limit,
    concurrency: settings.concurrency_limit,
    spendCap: settings.spend_cap,
    expiresAt: expires_at == null ? expires_at : Date.parse(expires_at),
    policy: policy && readPolicy(policy),
  }
}

/** A URL that clients can call: the address of all interfaces is replaced by a local one. */
export function callableUrl(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
}

/**
 * The text that a start prints: address, key, next steps.
 * @param listening the server's URL, without `/v1`
 */
export function welcome(report: SeedReport, gateway: Gateway, listening: string): string {
  const url = callableUrl(listening)
  const { catalog, config } = gateway.runtime
  const secret = report.secret ?? '$API_KEY'
  const model = catalog.all().find(({ modality }) => modality === 'chat')
  const lines = [
    `${bold(`Gateway ${gateway.version}`)} at ${bold(url)}`,
    '',
    `  Base URL  ${url}/v1`,
    ...keyLines(report),
    ...(config.state.driver === 'file' ? [`  Data      ${config.state.path}`] : []),
    ...(model ? ['', 'Try it:', '', ...curlLines(url, secret, model.id)] : []),
    '',
    `Models: ${url}/v1/models`,
    config.admin.token === undefined
      ? `The admin API is off: ${NO_TOKEN}`
      : `Admin API: ${url}/admin, with the admin token; "accounts", "keys" and "credits" use it.`,
    ...(config.state.driver === 'memory'
      ? ['State is kept in memory: accounts, keys and credits end with this process.']
      : []),
  ]
  return `${lines.join('\n')}\n\n`
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
 * Creates a record. Of several gateways that start together, one creates it and the others find it.
 * @returns whether this one created it
 * @throws ConfigError: at a start there is no request that could be invalid
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

function keyLines({ accounts, keys, secret }: SeedReport): string[] {
  if (secret !== undefined) {
    return [
      `  API key   ${bold(secret)}`,
      `            (shown only now; account "${LOCAL.id}", ${formatPico(parsePico(LOCAL.usd))} USD)`,
    ]
  }
  if (accounts.length + keys.length === 0) return []
  return [`  Seeded    ${[...accounts, ...keys].join(', ')}`]
}

function curlLines(url: string, secret: string, model: string): string[] {
  const body = { model, messages: [{ role: 'user', content: 'Hello' }] }
  return [
    `  curl ${url}/v1/chat/completions \\`,
    `    -H "Authorization: Bearer ${secret}" \\`,
    '    -H "Content-Type: application/json" \\',
    `    -d '${JSON.stringify(body)}'`,
  ]
}

/** Colours for a terminal only: in a file or a pipe they are noise. */
function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout })
}
