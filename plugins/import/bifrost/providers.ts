/** Providers of Bifrost and their keys as provider instances, with the models that they serve. */
import { VENDORS, vendorOf } from '../../../providers/vendors.ts'
import type { Settings } from '../shared/settings.ts'
import { isUnset, listOf, numberOf, rawOf, textOf, type Raw, type Say } from '../shared/values.ts'

/** A provider instance, as the configuration has it. */
interface Instance {
  readonly use: string
  readonly timeout?: number
  readonly options: Readonly<Record<string, unknown>>
}

interface Draft {
  readonly aliases: string[]
  readonly deployments: Record<string, unknown>[]
}

/** Names of Bifrost's providers that are called otherwise here. */
const NAMES: ReadonlyMap<string, string> = new Map(
  VENDORS.flatMap(({ name, also }) => (also?.bifrost ? [[also.bifrost, name] as const] : [])),
)
/** Vendors with a login of their own, and the plugin that serves them. */
const CLOUDS: Readonly<Record<string, string>> = {
  azure: 'azure',
  bedrock: 'bedrock',
  vertex: 'google',
}
/** What is put behind an address, by vendor. */
const PATHS: Readonly<Record<string, string>> = { google: '/v1beta', deepgram: '', elevenlabs: '' }
const ALL = '*'
const NAME = /^[^\s\p{Cc}]{1,120}$/u

/** The providers, and the models that their keys may serve. */
export class Providers {
  readonly instances: Record<string, Instance> = {}
  readonly models = new Map<string, Draft>()
  /** Variables that the settings refer to. */
  readonly needs = new Set<string>()
  /** Names of the vendors here, by Bifrost's; absent for those that are not served. */
  readonly #vendors = new Map<string, string>()
  readonly #settings: Settings
  readonly #say: Say

  /** @param say receives what is not as in the source */
  constructor(settings: Settings, say: Say) {
    this.#settings = settings
    this.#say = say
  }

  /** What a provider of Bifrost is called here; undefined for one that is not served. */
  vendorOf(name: string): string | undefined {
    return this.#vendors.get(name)
  }

  add(name: string, provider: Raw): void {
    const where = `providers.${name}`
    const vendor = NAMES.get(name) ?? name
    const use = this.#useOf(name, vendor, provider)
    const network = rawOf(provider.network_config)
    const keys = Array.isArray(provider.keys) ? provider.keys.map(rawOf) : []
    // A server of the operator's own may have no key.
    const served = keys.length > 0 ? keys : [{}]
    if (use === undefined) {
      return this.#say(
        'unserved',
        where,
        'no vendor of this name is known here, and it has no address',
      )
    }
    this.#vendors.set(name, vendor)
    if (vendor !== name) {
      this.#say(
        'differs',
        where,
        `the vendor is called ${vendor} here: clients ask for ${vendor}/… in place of ${name}/…`,
      )
    }
    for (const [member, value] of Object.entries(provider)) {
      if (['keys', 'network_config', 'custom_provider_config'].includes(member) || isUnset(value))
        continue
      this.#say('none', `${where}.${member}`, 'not mapped')
    }
    for (const [index, key] of served.entries()) {
      const options = this.#options({ vendor, use, key, network })
      if (typeof options === 'string') {
        this.#say('unserved', `${where}.keys[${index}]`, `left out: ${options}`)
        continue
      }
      if (key.enabled === false) {
        this.#say('none', `${where}.keys[${index}]`, 'left out: it is switched off in the source')
        continue
      }
      const instance = index === 0 ? vendor : `${vendor}-${index + 1}`
      const seconds = numberOf(network.default_request_timeout_in_seconds)
      this.instances[instance] = {
        use,
        ...(seconds !== undefined && seconds > 0 && { timeout: seconds }),
        options,
      }
      this.#addModels({ name, vendor, instance, key, where: `${where}.keys[${index}]` })
    }
  }

  #useOf(name: string, vendor: string, provider: Raw): string | undefined {
    const cloud = CLOUDS[vendor]
    if (cloud !== undefined) return cloud
    if (vendorOf(vendor)) return vendor
    const base = textOf(rawOf(provider.custom_provider_config).base_provider_type)
    const baseVendor = base === undefined ? undefined : (NAMES.get(base) ?? base)
    const address = textOf(rawOf(provider.network_config).base_url)
    if (address === undefined) return undefined
    if (baseVendor === 'anthropic' || baseVendor === 'google') return baseVendor
    if (baseVendor === undefined) {
      const message =
        'served as a vendor with the API of OpenAI, because its name is not known here: check it'
      this.#say('differs', `providers.${name}`, message)
    }
    return 'openai-compatible'
  }

  #options({
    vendor,
    use,
    key,
    network,
  }: {
    vendor: string
    use: string
    key: Raw
    network: Raw
  }): Record<string, unknown> | string {
    const apiKey = this.#secret(key.value)
    const headers = Object.entries(rawOf(network.extra_headers)).map(
      ([header, value]) => [header, this.#secret(value)] as const,
    )
    const more = headers.length > 0 && { headers: Object.fromEntries(headers) }
    if (vendor === 'azure') {
      const azure = rawOf(key.azure_key_config)
      const endpoint = this.#address(azure.endpoint)
      if (endpoint === undefined) return 'a key of Azure needs "azure_key_config.endpoint"'
      const version = textOf(azure.api_version)
      return {
        baseURL: endpoint,
        ...(apiKey !== undefined && { apiKey }),
        ...(version !== undefined && {
          surface: 'deployments',
          apiVersion: this.#plain(version),
        }),
        ...more,
      }
    }
    if (vendor === 'bedrock') {
      const bedrock = rawOf(key.bedrock_key_config)
      const region = this.#plain(bedrock.region) ?? 'us-east-1'
      const accessKeyId = this.#secret(bedrock.access_key)
      const secretAccessKey = this.#secret(bedrock.secret_key)
      if (accessKeyId !== undefined && secretAccessKey !== undefined)
        return { region, accessKeyId, secretAccessKey }
      return { region, ...(apiKey !== undefined && { apiKey }) }
    }
    if (vendor === 'vertex') {
      const vertex = rawOf(key.vertex_key_config)
      const project = this.#plain(vertex.project_id)
      if (project === undefined) return 'a key of Vertex AI needs "vertex_key_config.project_id"'
      const credentials = this.#secret(vertex.auth_credentials)
      const location = this.#plain(vertex.region) ?? 'us-central1'
      return { vertex: { project, location, ...(credentials !== undefined && { credentials }) } }
    }
    const base = textOf(network.base_url)?.replace(/\/+$/, '')
    const path = PATHS[use] ?? '/v1'
    // An address that is in the environment cannot be completed.
    const whole =
      base === undefined || base.startsWith('env.') || base.endsWith(path) ? base : `${base}${path}`
    return {
      ...(whole !== undefined && { baseURL: this.#address(whole) }),
      ...(apiKey !== undefined && { apiKey }),
      ...more,
    }
  }

  /** The models of a key: those that it names, or all of its vendor. */
  #addModels({
    name,
    vendor,
    instance,
    key,
    where,
  }: {
    name: string
    vendor: string
    instance: string
    key: Raw
    where: string
  }): void {
    const renamed = this.#renamed(key)
    const named = listOf(key.models) ?? []
    const weight = numberOf(key.weight)
    const shared = { provider: instance, ...(weight !== undefined && weight > 0 && { weight }) }
    const add = (model: string, atVendor: string | undefined) => {
      const id = `${vendor}/${model}`
      let draft = this.models.get(id)
      if (!draft) this.models.set(id, (draft = { aliases: [], deployments: [] }))
      const alias = `${name}/${model}`
      if (vendor !== name && model !== ALL && !draft.aliases.includes(alias))
        draft.aliases.push(alias)
      draft.deployments.push({ ...shared, ...(atVendor !== undefined && { model: atVendor }) })
    }
    const isAll = named.length === 0 || named.includes(ALL)
    for (const [alias, model] of renamed) if (isAll || named.includes(alias)) add(alias, model)
    if (isAll && !(vendor in CLOUDS && renamed.size > 0)) {
      if (named.length === 0) {
        this.#say(
          'differs',
          `${where}.models`,
          'an empty list is taken for all models; newer versions of Bifrost take it for none',
        )
      }
      return add(ALL, undefined)
    }
    for (const model of named) {
      if (renamed.has(model) || model === ALL) continue
      if (NAME.test(model)) add(model, model)
      else
        this.#say(
          'unserved',
          where,
          'a name of a model has white space or more than 120 characters',
        )
    }
    if (!isUnset(key.blacklisted_models)) {
      this.#say(
        'wider',
        `${where}.blacklisted_models`,
        'not mapped: name the models that are served',
      )
    }
  }

  /** Names of models and what they are called at the vendor. */
  #renamed(key: Raw): ReadonlyMap<string, string> {
    const configs = ['azure_key_config', 'bedrock_key_config', 'vertex_key_config']
    const maps = [key.aliases, ...configs.map((one) => rawOf(key[one]).deployments)]
    return new Map(
      maps.flatMap((map) =>
        Object.entries(rawOf(map)).flatMap(([alias, model]) => {
          const text = textOf(model)
          return text === undefined || !NAME.test(alias) ? [] : [[alias, text] as const]
        }),
      ),
    )
  }

  #secret(value: unknown): string | undefined {
    return this.#noted(this.#settings.secret(value))
  }

  #plain(value: unknown): string | undefined {
    return this.#noted(this.#settings.plain(value))
  }

  #address(value: unknown): string | undefined {
    return this.#noted(this.#settings.address(value))
  }

  #noted(text: string | undefined): string | undefined {
    const variable = text === undefined ? undefined : /^\$\{(\w+)\}$/.exec(text)?.[1]
    if (variable !== undefined && !this.#settings.env.has(variable)) this.needs.add(variable)
    return text
  }
}
