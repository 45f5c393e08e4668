/** `check` and `init`: commands without a running gateway. */
import { randomBytes } from 'node:crypto'
import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { relative } from 'node:path'
import type { Model } from '../models/catalog.ts'
import { isSelling, marginsOf } from '../models/margins.ts'
import { byVendor, unpricedVendors, written } from '../models/by-vendor.ts'
import { lintOfWritten, type Finding } from '../models/lint.ts'
import type { Pricing } from '../money/prices.ts'
import type { Origin } from '../config/origins.ts'
import type { LoadedConfig } from '../config/config.ts'
import { servedInWords } from '../import/served.ts'
import { idleGuards, type IdleGuard } from '../guard/policy-check.ts'
import { createGateway, type Gateway } from '../gateway/gateway.ts'
import { oidcClients } from '../server/login.ts'
import { CommandError, type Arguments } from './command.ts'
import { configurationOf } from './configuration.ts'
import { print, table, toJson, say } from './output.ts'
import { UpstreamFailure } from '../errors/errors.ts'
import { inTime } from '../lifetime/scope.ts'
import type { Provider } from '../plugin.ts'
import { waysInWords } from '../upstream/egress.ts'
import { settingsOf, type Setting } from '../config/settings.ts'

const CONFIG_FILE = 'gateway.config.yaml'
const ENV_FILE = '.env'
const TOKEN = 'SLUICEGATE_ADMIN_TOKEN'
const IGNORE_FILE = '.gitignore'

/**
 * Sets up everything that `serve` does, except the state, which a running gateway may be using, and tries logins.
 * @throws ConfigError; CommandError if there are warnings and `--strict` is given
 */
export async function check(args: Arguments): Promise<void> {
  const { loaded, options } = await configurationOf(args)
  const { file, config } = loaded
  const gateway = await createGateway({
    ...loaded,
    config: { ...config, state: { driver: 'memory' } },
  })
  const catalog = gateway.runtime.catalog.at()
  const models = catalog.all()
  const logins = await tryLogins(gateway).finally(() => gateway.close())
  const idle = idleGuards(gateway.runtime.guards)
  const { lists } = config.prices
  const findings = [...lintOfWritten(models, { lists }), ...idle]
  const warnings = findings.filter(({ level }) => level === 'warning')
  const vendors = config.unpriced?.filter(({ id }) => !loaded.origins.ownModels().includes(id))
  const remarked = [...loaded.network.warnings, ...unpricedVendors(vendors)]
  const count =
    warnings.length + remarked.length + logins.filter(({ error }) => error !== null).length
  const { ofModels, others } = originsOf(loaded)
  const { egress, providers } = gateway.runtime
  // Until now only logins have connected.
  const ofLogins = [...providers].flatMap(([name, { logIn, address }]) =>
    logIn ? egress.loginWays(name, address) : [],
  )
  const ways = [...egress.ways, ...ofLogins]
  if (args.on.has('json')) {
    const listed = models.map((model) => ({
      ...summaryOf(model),
      origins: Object.fromEntries(ofModels.get(model.id) ?? []),
    }))
    const settings = others.map(settingInJson)
    const { warnings } = loaded.network
    const value = { file, models: listed, settings, findings, logins, ways, network: warnings }
    process.stdout.write(toJson(value))
    return refuseWarnings(args, count)
  }
  const valid = models.length === 1 ? '1 model' : `${models.length} models`
  const own = ownModels(loaded, models)
  const line = own.size === 0 ? '' : `${servedInWords([...own.values()])}\n`
  const isBuiltIn = file === options.builtIn
  const inAll = own.size === 0 ? '' : ' in all'
  const all = args.on.has('models')
  const sells = isSelling(models, lists)
  const shown = all ? models : written(models)
  const missing = [...own].filter(([, reason]) => reason === 'no price').map(([id]) => id)
  say(
    line +
      priceless(missing) +
      `${isBuiltIn ? 'The built-in configuration' : relative(process.cwd(), file)} is valid: ${valid}${inAll}.\n\n` +
      table(
        sells ? [...HEADINGS, 'VENDOR USD PER UNIT'] : HEADINGS,
        shown.map((model) => [
          ...rowOf(model, ofModels.get(model.id)),
          ...(sells ? [vendorInWords(model)] : []),
        ]),
        ['PRICES FROM', 'CAN'],
      ) +
      (all ? '' : vendorLines(models, new Set(catalog.offered()))),
  )
  say(settingsTable(others))
  if (ways.length > 0) say(`\n${waysInWords(ways).join('\n')}\n`)
  for (const text of remarked) say(`warning: ${text}\n`)
  say(remarks(shown, warnings, logins))
  refuseWarnings(args, count)
  if (missing.length > 0) throw new CommandError(NOT_SERVED)
}

const NOT_SERVED =
  'Models without a price are not served: give each a "pricing", or run "sluicegate models import".'

/** The reason, by id, why a model that a person has written is not served. */
function ownModels(
  { origins, config }: LoadedConfig,
  models: readonly Model[],
): Map<string, string | undefined> {
  const wildcards = models.flatMap(({ wildcard }) => wildcard ?? [])
  const served = new Set([...models.map(({ id }) => id), ...wildcards])
  for (const [id, wildcard] of Object.entries(config.wildcards ?? {})) {
    if (wildcard.enabled && wildcard.unlisted) served.add(id)
  }
  const priceless = new Set(config.unpriced?.map(({ id }) => id))
  return new Map(
    origins.ownModels().map((id) => {
      if (served.has(id)) return [id, undefined]
      return [id, priceless.has(id) ? 'no price' : 'disabled']
    }),
  )
}

/** A line for each vendor whose models come with its key. @param offered those that clients are told of */
function vendorLines(models: readonly Model[], offered: ReadonlySet<Model>): string {
  const ended = Map.groupBy(
    models.filter((one) => !offered.has(one)),
    ({ vendor }) => vendor,
  )
  const lines = byVendor(models).map(({ vendor, models: count, checked }) => {
    const age = checked === undefined ? '' : `, prices of ${checked}`
    const past = ended.get(vendor)?.length
    const left = past === undefined ? '' : `; not listed, because past their end: ${past}`
    return `${vendor}/*: ${count === 1 ? '1 model' : `${count} models`}${age}${left}\n`
  })
  return lines.length === 0 ? '' : `\n${lines.join('')}`
}

function priceless(ids: readonly string[]): string {
  return ids.map((id) => `not served, because no list has a price: ${id}\n`).join('')
}

const HEADINGS = ['MODEL', 'CAN', 'USD', 'PRICES FROM']

/** @param origins the origins of the members of its entry */
function rowOf(model: Model, origins: ReadonlyMap<string, readonly Origin[]> = new Map()) {
  const { id, modality, capabilities, priceSource } = model
  const prices = [
    ...pricesInWords(model.pricing),
    ...model.priceChanges.map(
      (change) =>
        `from ${new Date(change.from).toISOString()}: ${pricesInWords(change.pricing).join(', ')}`,
    ),
  ]
  const listed = capabilities && [...capabilities].map((one) => one.toLowerCase()).join(' ')
  const able = modality === 'chat' ? (listed ?? 'all, not listed') : modality
  const { from, checked_at } = priceSource
  const source = [
    checked_at === undefined ? from : `${from} ${checked_at.slice(0, 10)}`,
    ...namesOf(origins.get('pricing') ?? []),
  ]
  return [id, able || 'text alone', prices, source]
}

/** @throws CommandError if there are warnings and `--strict` is given */
function refuseWarnings(args: Arguments, warnings: number): void {
  if (!args.on.has('strict') || warnings === 0) return
  throw new CommandError(`${warnings === 1 ? '1 warning' : `${warnings} warnings`} with --strict.`)
}

const HAVE_CAPABILITIES = new Set(['chat', 'image', 'transcription'])

function remarks(
  models: readonly Model[],
  warnings: readonly (Finding | IdleGuard)[],
  logins: readonly LoginResult[],
): string {
  const unlisted = models.filter(({ capabilities }) => capabilities === undefined)
  const unknown = unlisted.filter(({ modality }) => HAVE_CAPABILITIES.has(modality)).length
  const hint =
    unknown > 0 &&
    `${unknown === 1 ? '1 model' : `${unknown} models`} with unknown capabilities: everything is ` +
      'passed to the vendor. List them to have requests refused early.'
  const lines = warnings.map((one) => {
    const place = 'guard' in one ? `guard ${one.guard}` : one.model
    return `warning: ${place}: ${one.message} (${one.code})`
  })
  const shown = [...(hint ? [hint] : []), ...lines, ...logins.map(loginInWords)]
  return shown.length === 0 ? '' : `\n${shown.join('\n')}\n`
}

/** Writes a configuration and an admin token. @throws CommandError if the file exists and `--force` is not given */
export async function init(args: Arguments): Promise<void> {
  try {
    await writeFile(CONFIG_FILE, STARTER, { flag: args.on.has('force') ? 'w' : 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new CommandError(`${CONFIG_FILE} exists already; --force overwrites it.`)
  }
  const token = await addToken()
  await keepOutOfGit()
  const made = token ? `made an admin token in ${ENV_FILE}` : `kept the admin token in ${ENV_FILE}`
  const value = { config: CONFIG_FILE, env: ENV_FILE, token_added: token }
  print(
    args,
    value,
    () => `Wrote ${CONFIG_FILE} and ${made}. Next: sluicegate check, then sluicegate serve.\n`,
  )
}

/** Adds a token; keeps an existing one, because programs may use it. @returns whether one was added */
async function addToken(): Promise<boolean> {
  const text = await readFile(ENV_FILE, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error
  })
  if (new RegExp(`^(?:export )?${TOKEN}=.`, 'm').test(text)) return false
  const lineEnd = text === '' || text.endsWith('\n') ? '' : '\n'
  const line = `${lineEnd}${TOKEN}=${randomBytes(24).toString('base64url')}\n`
  await appendFile(ENV_FILE, line, { mode: 0o600 })
  return true
}

/** Keeps the token and the ledger out of a repository, unless the folder has rules of its own for that. */
async function keepOutOfGit(): Promise<void> {
  try {
    await writeFile(IGNORE_FILE, `${ENV_FILE}\ndata/\n`, { flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

function pricesInWords({ overrides = [], ...base }: Pricing): string[] {
  return [
    ...named(base),
    ...overrides.map(
      ({ min_prompt_tokens: from, ...own }) => `from ${from} tokens: ${named(own).join(', ')}`,
    ),
  ]
}

/** Prices that are not per token. */
const PER_UNIT: ReadonlySet<string> = new Set([
  'request',
  'web_search',
  'image',
  'page',
  'character',
  'second',
  'search_unit',
])

/** Text such as `prompt 2.5/M`, for a million tokens, or `page 0.01`. */
function named(prices: object): string[] {
  return Object.entries(prices).map(([name, price]) =>
    PER_UNIT.has(name) ? `${name} ${price}` : `${name} ${millionTimes(String(price))}/M`,
  )
}

/** A decimal text times a million, exactly. */
function millionTimes(price: string): string {
  const [whole = '', fraction = ''] = price.split('.')
  const digits = fraction.padEnd(6, '0')
  const moved = `${whole}${digits.slice(0, 6)}.${digits.slice(6)}`
  return moved.replace(/^0+(?=\d)/, '').replace(/\.?0*$/, '')
}

/** Text such as `prompt 0.000001 (16.6 %)`, with the margin; a dash where it is not known. */
function vendorInWords(model: Model): string[] {
  return (marginsOf(model) ?? []).map(
    ({ price, vendor, percent }) =>
      `${price} ${vendor}${percent === null ? '' : ` (${percent} %)`}`,
  )
}

function summaryOf(whole: Model) {
  const { id, modality, freeTier, pricing, deployments, ...model } = whole
  return {
    id,
    modality,
    free_tier: freeTier,
    pricing,
    capabilities: model.capabilities ? [...model.capabilities] : null,
    price_changes: model.priceChanges.map(({ from, pricing: later }) => ({
      from: new Date(from).toISOString(),
      pricing: later,
    })),
    price_source: model.priceSource,
    margins: marginsOf(whole),
    aliases: model.aliases,
    deployments: deployments.map((one) => one.id),
  }
}

/** The configuration that `init` writes. It works without changes and names the next steps. */
const STARTER = `# Mock models, and models of every vendor whose API key is in .env.
extends: starter
# Every member is described by: sluicegate docs configuration

server:
  host: 127.0.0.1
  port: 8787

# Folder for accounts, keys and the ledger. One process at a time can use it.
state:
  driver: file
  path: ./data

# The token is in .env, next to this file.
admin:
  token: \${SLUICEGATE_ADMIN_TOKEN}

# Providers of your own, beside those of the starter.
# Remove the "#" here and below.
# providers:
#   house:
#     use: openai-compatible
#     options:
#       baseURL: http://127.0.0.1:8000/v1
#       quirks: vllm

# Models of your own, and members of the starter's models that differ.
# Prices are USD per unit, as text.
models:
  mock/echo:
    name: Echo
  # house/gpt-oss-120b:
  #   pricing: { prompt: '0.00000015', completion: '0.0000006' }
`

// Tries the logins of providers that get their credentials by themselves, for `check`.

interface LoginResult {
  readonly provider: string
  /** The source of the credentials; null if the login failed. */
  readonly source: string | null
  /** ISO 8601; null for credentials that do not expire. */
  readonly expires_at: string | null
  readonly error: string | null
}

/** A provider limits its login itself; this is for one that does not. */
const LIMIT_SECONDS = 15

function tryLogins(gateway: Gateway): Promise<LoginResult[]> {
  const { providers, mask, config } = gateway.runtime
  const clean = (text: string) => mask.clean(text)
  const results = [...providers].flatMap(([name, provider]) =>
    provider.logIn ? [tryLogin(name, provider, clean)] : [],
  )
  // Providers by which people sign in are asked too.
  const clients = oidcClients(gateway)
  const ofPeople = Object.entries(config.admin.login.oidc).map(([name, provider]) => {
    const logIn = () => clients.reach(provider).then(() => ({ source: provider.issuer }))
    return tryLogin(`${OF_PEOPLE}${name}`, { logIn }, clean)
  })
  return Promise.all([...results, ...ofPeople])
}

/** Prefix of the names of providers by which people sign in. */
const OF_PEOPLE = 'admin.login.oidc.'

function loginInWords({ provider, source, expires_at: at, error }: LoginResult): string {
  if (provider.startsWith(OF_PEOPLE)) {
    return error === null
      ? `${provider} answers: ${source}`
      : `warning: ${provider}: the provider does not answer: ${error} (login)`
  }
  if (error !== null) return `warning: ${provider}: the login failed: ${error} (login)`
  return `${provider} is logged in: ${source}${at === null ? '' : `, until ${at}`}`
}

async function tryLogin(
  name: string,
  provider: Pick<Provider, 'logIn'>,
  clean: (text: string) => string,
): Promise<LoginResult> {
  const limit = new AbortController()
  try {
    const login = Promise.resolve(provider.logIn!(limit.signal))
    const late = () => new Error(`it took more than ${LIMIT_SECONDS} seconds`)
    const { source, expiresAt } = await inTime(login, LIMIT_SECONDS * 1000, late)
    const at = expiresAt === undefined ? null : new Date(expiresAt).toISOString()
    return { provider: name, source: clean(source), expires_at: at, error: null }
  } catch (error) {
    return { provider: name, source: null, expires_at: null, error: clean(reasonOf(error)) }
  } finally {
    limit.abort()
  }
}

/** The cause of a failure is for the operator, its message for the client. */
function reasonOf(error: unknown): string {
  const reason = UpstreamFailure.is(error) && error.cause instanceof Error ? error.cause : error
  if (!(reason instanceof Error)) return String(reason)
  // "fetch failed" alone says neither what nor where.
  const { message, cause } = reason
  return cause instanceof Error ? `${message}: ${cause.message}` : message
}

// The origins of settings, as `check` shows them.

interface ConfigOrigins {
  /** The keys are the id of a model and the member of its entry; without defaults. */
  readonly ofModels: ReadonlyMap<string, ReadonlyMap<string, Origin[]>>
  /** All settings that are not in the entry of a model. */
  readonly others: readonly Setting[]
}

function originsOf(loaded: LoadedConfig): ConfigOrigins {
  const ofModels = new Map<string, Map<string, Origin[]>>()
  const others: Setting[] = []
  for (const setting of settingsOf(loaded)) {
    const [section, id, member] = setting.path
    if (section !== 'models' || id === undefined || member === undefined) {
      others.push(setting)
      continue
    }
    if (setting.origin.from === 'default') continue
    let members = ofModels.get(id)
    if (!members) ofModels.set(id, (members = new Map()))
    const origins = members.get(member) ?? []
    const isKnown = namesOf(origins).includes(originInWords(setting.origin))
    members.set(member, isKnown ? origins : [...origins, setting.origin])
  }
  return { ofModels, others }
}

function namesOf(origins: readonly Origin[]): string[] {
  return [...new Set(origins.map(originInWords))]
}

function settingInJson({ path, value, origin }: Setting): object {
  return { path: path.join('.'), value, origin }
}

function settingsTable(settings: readonly Setting[]): string {
  const rows = settings
    .filter(({ origin }) => origin.from !== 'default')
    .map(({ path, value, origin }) => [
      path.join('.'),
      typeof value === 'object' ? JSON.stringify(value) : value,
      originInWords(origin),
    ])
  return rows.length === 0 ? '' : `\n${table(['SETTING', 'VALUE', 'FROM'], rows)}`
}

/** An origin in a few words, such as `gateway.config.yaml` or `OPENAI_API_KEY`. */
export function originInWords({ from, file, name }: Origin): string {
  return name ?? file ?? from
}
