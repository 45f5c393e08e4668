/** Installations of Bifrost: what the providers and the governance of its config.json become here. */
import type {
  Installation,
  MigratedAccount,
  MigratedModel,
  Migration,
  MigrationNote,
  MigrationSource,
} from '../../src/plugin.ts'
import { accountOf, mapVirtualKeys } from './bifrost/keys.ts'
import { Providers } from './bifrost/providers.ts'
import { Settings } from './shared/settings.ts'
import { isRaw, isUnset, rawOf, type Say } from './shared/values.ts'

/** The notes about sections that are not taken over. */
const SECTIONS: Readonly<Record<string, readonly [harm: MigrationNote['harm'], message: string]>> =
  {
    mcp: ['lost', 'tools of MCP servers are not called here'],
    plugins: ['lost', 'not taken over: guards, sinks and search engines are set up in their place'],
    vector_store: ['lost', 'answers are not looked up by their meaning'],
    client: ['none', 'not mapped'],
    config_store: ['none', 'accounts and keys are in the state of this gateway'],
    logs_store: ['none', 'calls are in the log of this gateway'],
    encryption_key: ['none', 'not taken over: keys are stored by their hash'],
    auth_config: ['none', 'not taken over: the admin API has a token of its own'],
  }
const GOVERNANCE: ReadonlySet<string> = new Set([
  'virtual_keys',
  'budgets',
  'rate_limits',
  'customers',
  'teams',
])
const READ: ReadonlySet<string> = new Set(['$schema', 'providers', 'governance'])

const source: MigrationSource = {
  name: 'bifrost',
  title: 'Bifrost',
  configured: true,
  tables: [],
  read,
}
export default source

function read({ config, accept, listed }: Installation): Migration {
  if (!isRaw(config) || !isRaw(config.providers)) {
    throw new TypeError('it has no "providers", as a config.json of Bifrost does')
  }
  const notes: MigrationNote[] = []
  const say: Say = (harm, where, message, remedy) => {
    notes.push({ harm, where, message, ...(remedy !== undefined && { remedy }) })
  }
  const settings = new Settings('BIFROST', variableOf)
  const providers = new Providers(settings, say)
  for (const [name, provider] of Object.entries(config.providers)) {
    providers.add(name, rawOf(provider))
  }
  const governance = rawOf(config.governance)
  for (const [section, value] of Object.entries(config)) {
    if (READ.has(section) || isUnset(value)) continue
    const [harm, message] = SECTIONS[section] ?? ['lost', 'not mapped']
    say(harm, section, message)
  }
  for (const [member, value] of Object.entries(governance)) {
    if (GOVERNANCE.has(member) || isUnset(value)) continue
    const [harm, message] = SECTIONS[member] ?? ['lost', 'not mapped']
    say(harm, `governance.${member}`, message)
  }
  const keys = mapVirtualKeys(governance, { providers, listed, accept, say })
  const accounts = new Map<string, MigratedAccount>()
  for (const { account, name } of keys.owners) accounts.set(account, { name, settings: {} })
  return {
    config: { admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' }, providers: providers.instances },
    models: modelsOf(providers),
    env: settings.env,
    needs: [...providers.needs].toSorted(),
    accounts: new Map([...accounts].filter(([id]) => id !== accountOf(undefined))),
    keys: keys.keys,
    notes,
  }
}

/** The variable that a text such as `env.OPENAI_API_KEY` names. */
function variableOf(text: string): string | undefined {
  return /^env\.([A-Za-z_]\w*)$/.exec(text)?.[1]
}

function modelsOf({ models }: Pick<Providers, 'models'>): Map<string, MigratedModel> {
  return new Map(
    [...models].map(([id, { aliases, deployments }]) => [
      id,
      { ...(aliases.length > 0 && { aliases }), deployments },
    ]),
  )
}
