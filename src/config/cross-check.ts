/** Checks between the sections of a configuration. */
import { GatewayError, type ConfigIssue } from '../errors/errors.ts'
import { didYouMean, show } from '../errors/issues.ts'
import { misplacedChanges, misplacedTiers, type ModelEntry } from '../models/entry.ts'
import { clashes } from '../models/names.ts'
import { preparePolicy, readPolicy } from '../policy/policy.ts'
import type { Settings } from './schema.ts'

/** Issues between the sections of a configuration that is valid by its schema. */
export async function crossCheck(
  config: Omit<Settings, 'models'> & { readonly models: Readonly<Record<string, ModelEntry>> },
): Promise<ConfigIssue[]> {
  const providers = Object.keys(config.providers)
  const models = Object.entries(config.models).filter(([, model]) => model.enabled)
  return [
    ...clashes(models.map(([id, { aliases }]) => ({ id, aliases }))).map(
      ({ id, index, message }) => ({ path: `models.${id}.aliases.${index}`, message }),
    ),
    ...models.flatMap(([id, { pricing }]) =>
      misplacedTiers(pricing).map(({ index, message }) => ({
        path: `models.${id}.pricing.overrides.${index}.min_prompt_tokens`,
        message,
      })),
    ),
    ...models.flatMap(([id, model]) =>
      misplacedChanges(model).map(({ path, message }) => ({
        path: `models.${id}.${path}`,
        message,
      })),
    ),
    ...models.flatMap(([id, model]) =>
      model.deployments.flatMap(({ provider }, index) => {
        if (providers.includes(provider)) return []
        const path = `models.${id}.deployments.${index}.provider`
        const near = didYouMean(provider, providers)
        return [
          { path, message: `expected the name of a provider, found ${show(provider)}; ${near}` },
        ]
      }),
    ),
    ...models.flatMap(([id, model]) => {
      const names = model.deployments.map(({ provider, model }) => `${provider}/${model}`)
      return repeated(names, (index) => `models.${id}.deployments.${index}`)
    }),
    ...checkWorkers(config),
    ...checkLog(config),
    ...checkSearch(config.search),
    ...checkSinks(config),
    ...checkTokens(config.admin),
    ...(await checkSeed(config.seed)),
  ]
}

/** Workers share limits and money, which only Redis lets several processes do. */
function checkWorkers({
  server: { workers },
  state: { driver },
}: Pick<Settings, 'server' | 'state'>): ConfigIssue[] {
  if (driver === 'redis' || workers === 1) return []
  const why =
    driver === 'file'
      ? 'the file of a ledger has one owner, and several processes would wait for each other'
      : 'each process would have limits and balances of its own'
  const message = `expected 1 with state.driver ${show(driver)}, found ${show(workers)}: ${why}. Use state.driver "redis" for several workers`
  return [{ path: 'server.workers', message }]
}

/** A request log in Redis is one that gateways share. */
function checkLog({ log: { url }, state: { driver } }: Pick<Settings, 'log' | 'state'>) {
  if (url === undefined || driver === 'redis') return []
  const message = `expected none with state.driver ${show(driver)}: the request log is in files or in memory then, and only gateways that share a state have it in Redis`
  return [{ path: 'log.url', message }]
}

function checkSearch({ default: chosen, engines }: Settings['search']): ConfigIssue[] {
  if (chosen === undefined || Object.hasOwn(engines, chosen)) return []
  const near = didYouMean(chosen, Object.keys(engines))
  const message = `expected the name of a search engine, found ${show(chosen)}; ${near}`
  return [{ path: 'search.default', message }]
}

/** Calls reach sinks as lines of the request log. */
function checkSinks({ sinks, log: { requests } }: Pick<Settings, 'sinks' | 'log'>): ConfigIssue[] {
  if (sinks.length === 0 || requests) return []
  return [{ path: 'log.requests', message: 'expected true, because sinks get calls from it' }]
}

/** A name says in the audit log who it was, so each stands for one token. */
function checkTokens({ token, tokens }: Settings['admin']): ConfigIssue[] {
  const names = ['admin', ...tokens.map((one) => one.name)]
  const secrets = [token, ...tokens.map((one) => one.token)]
  const pathOf = (member: string) => (index: number) =>
    index === 0 ? 'admin.token' : `admin.tokens.${index - 1}.${member}`
  return [
    ...repeated(names, (index) =>
      index === 0 ? 'the name of admin.token' : pathOf('name')(index),
    ),
    ...repeated(secrets, pathOf('token')),
  ]
}

async function checkSeed({ accounts }: Settings['seed']): Promise<ConfigIssue[]> {
  const keys = accounts.flatMap((account, a) =>
    account.keys.map((key, k) => ({ ...key, path: `seed.accounts.${a}.keys.${k}` })),
  )
  const policies: ConfigIssue[] = []
  for (const { policy, path } of keys) {
    policies.push(...(await checkPolicy(policy, `${path}.policy`)))
  }
  const accountIds = accounts.map(({ id }) => id)
  const keyIds = keys.map(({ id }) => id)
  return [
    ...repeated(accountIds, (index) => `seed.accounts.${index}.id`),
    ...repeated(keyIds, (index) => `${keys[index]!.path}.id`),
    ...(['sha256', 'secret'] as const).flatMap((member) => {
      const values = keys.map((key) => key[member])
      return repeated(values, (index) => `${keys[index]!.path}.${member}`)
    }),
    ...policies,
  ]
}

async function checkPolicy(policy: unknown, path: string): Promise<ConfigIssue[]> {
  if (policy === undefined) return []
  await preparePolicy(policy)
  try {
    readPolicy(policy, path)
    return []
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    return [{ path: error.param ?? path, message: error.message }]
  }
}

/** Issues for values that occur more than once; undefined may. */
function repeated(
  values: readonly (string | undefined)[],
  pathOf: (index: number) => string,
): ConfigIssue[] {
  return values.flatMap((value, index) => {
    const first = value === undefined ? index : values.indexOf(value)
    return first === index
      ? []
      : [{ path: pathOf(index), message: `is the same as ${pathOf(first)}` }]
  })
}
