/** A LiteLLM configuration as a configuration of the gateway. */
import { Models, type Entry } from './models.ts'
import { Instances, type Instance } from './providers.ts'
import { Settings } from './settings.ts'
import { isRaw, isUnset, numberOf, rawOf, textOf, type Note, type Raw } from './values.ts'

/** What a configuration becomes. */
export interface Configuration {
  /** `gateway.config.yaml` */
  readonly config: Readonly<Record<string, unknown>>
  readonly providers: ReadonlyMap<string, Instance>
  /** `models.yaml` */
  readonly models: ReadonlyMap<string, Entry>
  /** Secrets for `.env`, by variable. */
  readonly env: ReadonlyMap<string, string>
  /** Further variables that the configuration reads. */
  readonly needs: readonly string[]
  /** The id of a model by its name in the source. */
  readonly idOf: (name: string) => string | undefined
  readonly notes: readonly Note[]
}

const FALLBACK = 'a fallback answers with another model than was asked and priced'
const REASONS: Readonly<Record<string, string>> = {
  fallbacks: FALLBACK,
  default_fallbacks: FALLBACK,
  context_window_fallbacks: FALLBACK,
  content_policy_fallbacks: FALLBACK,
  database_url: 'accounts and keys are imported with --keys',
}
const NOT_MAPPED = 'not mapped'
const MAX_ATTEMPTS = 10
const MAX_SECONDS = 1_000_000

/**
 * Maps a configuration, member by member.
 * @param source numbers are texts, as `readYaml` gives them
 * @throws TypeError if it is no configuration
 */
export function mapConfiguration(source: unknown): Configuration {
  if (!isRaw(source) || (source.model_list !== undefined && !Array.isArray(source.model_list))) {
    throw new TypeError('it is no LiteLLM configuration: expected "model_list", a list of models')
  }
  const notes: Note[] = []
  const say = (where: string, message: string) => {
    notes.push({ source: 'configuration', where, message })
  }
  const settings = new Settings()
  const instances = new Instances(settings)
  const models = new Models(instances, say)
  const list = (source.model_list ?? []) as readonly unknown[]
  for (const [index, element] of list.entries()) models.add(element, `model_list[${index}]`)

  const sections = new Sections(say)
  const router = rawOf(source.router_settings)
  for (const [alias, meant] of Object.entries(rawOf(router.model_group_alias))) {
    const name = textOf(isRaw(meant) ? meant.model : meant) ?? ''
    models.addAlias(alias, name, `router_settings.model_group_alias.${alias}`)
  }
  const routing = sections.router(router)
  const server = sections.litellm(rawOf(source.litellm_settings), routing)
  sections.general(rawOf(source.general_settings))
  for (const name of Object.keys(rawOf(source.environment_variables))) {
    say(`environment_variables.${name}`, 'set it in the environment of the gateway, or in .env')
  }
  for (const [name, value] of Object.entries(source)) {
    if (!SECTIONS.has(name) && !isUnset(value)) say(name, NOT_MAPPED)
  }
  const config = {
    ...(Object.keys(server).length > 0 && { server }),
    admin: { token: '${SLUICEGATE_ADMIN_TOKEN}' },
    providers: Object.fromEntries(instances.byName),
    ...(Object.keys(routing).length > 0 && { routing }),
  }
  return {
    config,
    providers: instances.byName,
    models: models.byId,
    env: settings.env,
    needs: variablesIn(config.providers).filter((name) => !settings.env.has(name)),
    idOf: (name) => models.idOf(name),
    notes,
  }
}

/** Names of the variables that settings refer to. */
function variablesIn(settings: object): string[] {
  const names = JSON.stringify(settings).matchAll(/(?<!\$)\$\{(\w+)\}/g)
  return [...new Set([...names].map(([, name]) => name!))]
}

const SECTIONS: ReadonlySet<string> = new Set([
  'model_list',
  'router_settings',
  'litellm_settings',
  'general_settings',
  'environment_variables',
])

/** The sections beside the models. */
class Sections {
  readonly #say: (where: string, message: string) => void

  constructor(say: (where: string, message: string) => void) {
    this.#say = say
  }

  /** `router_settings` as `routing`. */
  router(router: Raw): Record<string, number> {
    const routing: Record<string, number> = {}
    for (const [name, value] of Object.entries(router)) {
      const where = `router_settings.${name}`
      if (isUnset(value) || name === 'model_group_alias') continue
      if (name === 'num_retries') this.#attempts(value, where, routing)
      else if (name === 'cooldown_time') this.#seconds(value, where, routing, 'cooldown')
      else if (name !== 'routing_strategy') this.#other(where, name)
      else if (textOf(value) !== 'simple-shuffle') {
        this.#say(where, 'deployments are drawn by weight, load and health here')
      }
    }
    return routing
  }

  /** `litellm_settings` as `server`. @param routing gets the number of attempts, unless the router has one */
  litellm(settings: Raw, routing: Record<string, number>): Record<string, number> {
    const server: Record<string, number> = {}
    for (const [name, value] of Object.entries(settings)) {
      const where = `litellm_settings.${name}`
      if (isUnset(value) || name === 'drop_params') continue
      if (name === 'request_timeout') this.#seconds(value, where, server, 'requestTimeout')
      else if (name === 'num_retries' && routing.attempts === undefined) {
        this.#attempts(value, where, routing)
      } else this.#other(where, name)
    }
    return server
  }

  general(settings: Raw): void {
    for (const [name, value] of Object.entries(settings)) {
      // The admin token is a new one.
      if (name !== 'master_key' && !isUnset(value)) this.#other(`general_settings.${name}`, name)
    }
  }

  #attempts(value: unknown, where: string, routing: Record<string, number>): void {
    const retries = numberOf(value)
    if (retries === undefined || !Number.isSafeInteger(retries)) {
      return this.#say(where, 'not a number that is possible here')
    }
    if (retries >= MAX_ATTEMPTS) this.#say(where, `cut to ${MAX_ATTEMPTS} attempts`)
    routing.attempts = Math.min(retries + 1, MAX_ATTEMPTS)
  }

  #seconds(value: unknown, where: string, into: Record<string, number>, name: string): void {
    const seconds = numberOf(value)
    const least = name === 'cooldown' ? 0 : Number.MIN_VALUE
    if (seconds === undefined || seconds < least || seconds > MAX_SECONDS) {
      return this.#say(where, 'not a number of seconds that is possible here')
    }
    into[name] = seconds
  }

  #other(where: string, name: string): void {
    this.#say(where, REASONS[name] ?? NOT_MAPPED)
  }
}
