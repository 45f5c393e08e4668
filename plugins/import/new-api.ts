/** Installations of new-api, and of one-api, whose tables it has: what their channels, users and tokens become here. */
import type {
  Installation,
  MigratedModel,
  Migration,
  MigrationNote,
  MigrationSource,
} from '../../src/plugin.ts'
import { Channels } from './new-api/channels.ts'
import { Ratios } from './new-api/prices.ts'
import { accountOf, mapTokens, mapUsers } from './new-api/tokens.ts'
import { Settings } from './shared/settings.ts'
import type { Say } from './shared/values.ts'

const MODEL_ID = /^[^/\s:]+\/\S+$/
const NAME = /^[^\s\p{Cc}]{1,120}$/u
const RESERVED = 'user'
/** Options that refuse calls, and the nearest that there is. */
const REFUSING: Readonly<Record<string, string>> = {
  ModelRequestRateLimitEnabled: 'rates of all people are "defaults.limits" here',
  CheckSensitiveEnabled: 'words are refused by guards, for keys with a policy',
}

const source: MigrationSource = {
  name: 'new-api',
  title: 'new-api',
  configured: false,
  tables: [
    { kind: 'channels', columns: ['type', 'key', 'models', 'priority'] },
    { kind: 'tokens', columns: ['user_id', 'key', 'remain_quota'] },
    { kind: 'users', columns: ['username', 'quota'] },
    { kind: 'options', columns: ['key', 'value'] },
  ],
  read,
}
export default source

function read({ tables, accept, listed }: Installation): Migration {
  const notes: MigrationNote[] = []
  const say: Say = (harm, where, message, remedy) => {
    notes.push({ harm, where, message, ...(remedy !== undefined && { remedy }) })
  }
  const rowsOf = (kind: string) => tables.get(kind) ?? []
  const settings = new Settings('NEW_API')
  const channels = new Channels(settings, say)
  for (const [index, row] of rowsOf('channels').entries()) channels.add(row, index + 1)
  const ratios = new Ratios(rowsOf('options'))
  sayOptions(ratios, say)
  const { models, byName } = modelsOf(channels, { ratios, listed, say })
  const users = rowsOf('users')
  const accounts = mapUsers(users, { ratios, say })
  const keys = mapTokens(rowsOf('tokens'), users, { ratios, models: byName, accept, say })
  for (const { account } of keys) {
    if (!accounts.has(account)) accounts.set(account, { name: account, settings: {} })
  }
  return {
    config: {
      admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' },
      providers: channels.providers,
    },
    models,
    env: settings.env,
    needs: [],
    accounts: new Map([...accounts].filter(([id]) => id !== accountOf(''))),
    keys,
    notes,
  }
}

function sayOptions(ratios: Ratios, say: Say): void {
  for (const group of ratios.unequalGroups()) {
    say(
      'lost',
      `options: GroupRatio.${group}`,
      'a model has one price here for all keys; price lists of accounts can differ',
    )
  }
  for (const [name, nearest] of Object.entries(REFUSING)) {
    if (ratios.option(name) === 'true') say('wider', `options: ${name}`, nearest)
  }
}

interface ModelOptions {
  readonly ratios: Ratios
  readonly listed: ReadonlySet<string>
  readonly say: Say
}

/** One model for each name, with a deployment for each channel and key. */
function modelsOf(
  { models: all, waiting }: Pick<Channels, 'models' | 'waiting'>,
  { ratios, listed, say }: ModelOptions,
) {
  const models = new Map<string, MigratedModel>()
  const byName = new Map<string, { id: string; groups: ReadonlySet<string> }>()
  const named = Map.groupBy(all, ({ name }) => name)
  const names = new Set(named.keys())
  for (const [name, found] of named) {
    if (!NAME.test(name)) {
      const { deployment } = found[0]!
      waiting.set(name, { provider: deployment.provider, model: deployment.model })
      say('unserved', 'channels: models', 'a name has white space or more than 120 characters')
      continue
    }
    const [first] = found.toSorted((a, b) => b.priority - a.priority)
    const wished = MODEL_ID.test(name) ? name : `${first!.vendor}/${name}`
    let id = wished
    for (let n = 2; models.has(id) || (id !== name && names.has(id)); n++) id = `${wished}-${n}`
    const highest = first!.priority
    const groups = found.map((one) => one.groups)
    if (new Set(groups.map((one) => [...one].toSorted().join(','))).size > 1) {
      const message = 'all its channels serve everybody who may use the model, whatever their group'
      say('differs', `channels: ${name}`, message)
    }
    const pricing = ratios.pricingOf(name)
    const theirs = `${first!.vendor}/${first!.deployment.model}`
    const isAlias = id !== name && name !== RESERVED && !name.endsWith(':online')
    if (id !== name && !isAlias) {
      say('differs', `channels: ${name}`, 'clients cannot use this name', `they ask for ${id}`)
    }
    models.set(id, {
      ...(pricing && { pricing }),
      ...(theirs !== id && { price_of: priced(theirs, id, listed) }),
      ...(isAlias && { aliases: [name] }),
      deployments: found.map(({ deployment, priority }) => ({
        ...deployment,
        ...(priority !== highest && { priority: highest - priority }),
      })),
    })
    byName.set(name, { id, groups: new Set(groups.flatMap((one) => [...one])) })
  }
  for (const [name, deployment] of waiting) {
    if (byName.has(name)) continue
    const id = (MODEL_ID.test(name) ? name : `unknown/${name}`).replaceAll(/[\s\p{Cc}]+/gu, '-')
    if (!models.has(id)) models.set(id, { enabled: false, deployments: [deployment] })
  }
  return { models, byName }
}

/** The id of a model in price lists: by the name at its vendor, else by the name that clients use. */
function priced(theirs: string, id: string, listed: ReadonlySet<string>): string {
  return listed.has(theirs) || !listed.has(id) ? theirs : id
}
