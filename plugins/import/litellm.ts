/** Installations of LiteLLM: what its configuration and its tables become here. */
import type { Installation, Migration, MigrationNote, MigrationSource } from '../../src/plugin.ts'
import { readCache, readFallbacks, withAnswers } from './litellm/answers.ts'
import { mapKeys } from './litellm/keys.ts'
import { Models } from './litellm/models.ts'
import { Instances } from './litellm/providers.ts'
import { groupAliases, readSections } from './litellm/sections.ts'
import { Settings } from './shared/settings.ts'
import { isRaw, type Say } from './shared/values.ts'

const source: MigrationSource = {
  name: 'litellm',
  title: 'LiteLLM',
  configured: true,
  tables: [
    { kind: 'keys', columns: ['token'] },
    { kind: 'teams', columns: ['team_id', 'team_alias'] },
    { kind: 'organizations', columns: ['organization_id', 'organization_alias'] },
    { kind: 'users', columns: ['user_id', 'user_role'] },
    { kind: 'groups', columns: ['access_group_id', 'access_group_name'] },
    { kind: 'budgets', columns: ['budget_id', 'max_budget'] },
  ],
  read,
}
export default source

function read({ config: raw, tables, accept, listed }: Installation): Migration {
  if (!isRaw(raw) || (raw.model_list !== undefined && !Array.isArray(raw.model_list))) {
    throw new TypeError('it is no LiteLLM configuration: expected "model_list", a list of models')
  }
  const notes: MigrationNote[] = []
  const say: Say = (harm, where, message, remedy) => {
    notes.push({ harm, where, message, ...(remedy !== undefined && { remedy }) })
  }
  const settings = new Settings('LITELLM', (text) => /^os\.environ\/(\w+)$/.exec(text)?.[1])
  const instances = new Instances(settings)
  const models = new Models(instances, listed, say)
  models.addAll((raw.model_list ?? []) as readonly unknown[])
  for (const [alias, name] of groupAliases(raw)) {
    models.addAlias(alias, name, `router_settings.model_group_alias.${alias}`)
  }
  const { server, routing, sinks, guards } = readSections(raw, settings, say)
  const { own, shared } = readFallbacks(raw, models.names, say)
  const cache = readCache(raw, say)
  const routed = { ...routing, ...(shared.length > 0 && { fallbacks: shared }) }
  const config = {
    ...(models.isOpen && { extends: 'starter' }),
    ...(Object.keys(server).length > 0 && { server }),
    admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' },
    providers: Object.fromEntries(instances.byName),
    ...(Object.keys(routed).length > 0 && { routing: routed }),
    ...(cache && { answers: cache.section }),
    ...(guards && { guards }),
    ...(sinks.length > 0 && { sinks }),
  }
  const { accounts, teams, keys } = mapKeys({ tables, names: models.names, accept, say })
  const named = variablesIn([config.providers, sinks, cache?.section ?? {}])
  return {
    config,
    models: withAnswers(models.byId(), own, cache?.use),
    env: settings.env,
    needs: [...new Set([...named, ...instances.variables])].filter(
      (name) => !settings.env.has(name),
    ),
    accounts,
    teams,
    keys,
    notes,
  }
}

/** Names of the variables that settings refer to. */
function variablesIn(settings: object): string[] {
  const names = JSON.stringify(settings).matchAll(/(?<!\$)\$\{(\w+)\}/g)
  return [...new Set([...names].map(([, name]) => name!))]
}
