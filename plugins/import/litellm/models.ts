/** Models of a configuration: one entry for each name, with a deployment for each model that serves it. */
import { MODALITIES } from './modes.ts'
import { isPrice, pricingOf } from './prices.ts'
import { INSTANCE_MEMBERS, type Instances } from './providers.ts'
import { isUnset, numberOf, rawOf, textOf, type Raw } from './values.ts'
import type { Target } from './vendors.ts'

/** A model here, as the models file has it. */
export interface Entry {
  readonly modality?: string
  readonly price_of?: string
  readonly pricing?: Readonly<Record<string, unknown>>
  aliases?: string[]
  readonly deployments: Readonly<Record<string, unknown>>[]
}

type Say = (where: string, message: string) => void

/** Members of `litellm_params` that a deployment is made of. */
const DEPLOYMENT_MEMBERS: ReadonlySet<string> = new Set([
  'weight',
  'order',
  'timeout',
  'stream_timeout',
  'drop_params',
])
/** Members of `model_info` that say what the gateway asks its vendors or lists itself. */
const KNOWN_INFO =
  /^(id|db_model|mode|base_model|supports_.+|max_tokens|max_(input|output)_tokens)$/
const MODEL_ID = /^[^/\s:]+\/\S+$/
const ALIAS = /^\S{1,120}$/
const RESERVED = 'user'
const MAX_ALIASES = 16

/** The models, and how clients call them. */
export class Models {
  readonly byId = new Map<string, Entry>()
  /** Ids by the names that clients use. */
  readonly #ids = new Map<string, string>()
  readonly #instances: Instances
  readonly #say: Say

  /** @param say receives what is not mapped */
  constructor(instances: Instances, say: Say) {
    this.#instances = instances
    this.#say = say
  }

  /** The id of a model by its name in the source. */
  idOf(name: string): string | undefined {
    return this.#ids.get(name)
  }

  /** Adds an element of `model_list`. @param where its path */
  add(element: unknown, where: string): void {
    const { model_name, litellm_params, model_info, ...others } = rawOf(element)
    const name = textOf(model_name)
    if (name === undefined) return this.#say(where, 'it has no model_name')
    const params = rawOf(litellm_params)
    const info = rawOf(model_info)
    const served = this.#instances.serve(params, (member) =>
      this.#say(`${where}.litellm_params.${member}`, 'the plugin has no such setting'),
    )
    if (typeof served === 'string') return this.#say(where, `left out: ${served}`)
    const { target, provider, options } = served
    const modality = this.#modalityOf(info, where)
    if (modality === null) return undefined
    const isWildcard = name.endsWith('*')
    if (isWildcard && (!/^[^/\s:*]+\/\*$/.test(name) || target.model !== '*')) {
      return this.#say(
        where,
        'left out: a wildcard is vendor/* here, and serves every model by its own name',
      )
    }
    const id = this.#place(name, target.vendor.vendor, where)
    if (id === undefined) return undefined
    if (target.guessed) {
      const message = `served as a vendor like OpenAI, because ${JSON.stringify(target.prefix)} has no plugin here: check it`
      this.#say(`${where}.litellm_params.model`, message)
    }
    const deployment = {
      provider,
      ...(!isWildcard && { model: target.model }),
      ...this.#numbers(params, where),
      ...(Object.keys(options).length > 0 && { options }),
    }
    const { pricing, unmapped } = pricingOf({ ...info, ...params }, modality)
    for (const [member, message] of unmapped) this.#say(`${where}: ${member}`, message)
    // Without a base model it is the vendor's name of it.
    const listed = isWildcard ? undefined : listedAs(textOf(info.base_model), target)
    this.#enter(id, { modality, pricing, listed, deployment }, where)
    this.#sayOthers({ params, info, others }, where)
  }

  /** Another name for a model. */
  addAlias(alias: string, name: string, where: string): void {
    const id = this.#ids.get(name)
    if (id === undefined)
      return this.#say(where, `it means ${JSON.stringify(name)}, which is not there`)
    if (this.#ids.has(alias)) return this.#say(where, 'it is the name of a model as well')
    if (this.#alias(id, alias, where)) this.#ids.set(alias, id)
  }

  /** The id for a name: the name itself if it has the form of one. */
  #place(name: string, vendor: string, where: string): string | undefined {
    const known = this.#ids.get(name)
    if (known !== undefined) return known
    const shaped = MODEL_ID.test(name) && !name.endsWith(':online')
    if (!shaped && !ALIAS.test(name)) {
      this.#say(where, 'left out: its name has white space or more than 120 characters')
      return undefined
    }
    const wished = shaped ? name : `${vendor}/${name}`
    let id = wished
    for (let n = 2; this.byId.has(id); n++) id = `${wished}-${n}`
    this.byId.set(id, { deployments: [] })
    this.#ids.set(name, id)
    if (id !== name) this.#alias(id, name, where)
    return id
  }

  #alias(id: string, alias: string, where: string): boolean {
    const entry = this.byId.get(id)!
    const problem =
      (!ALIAS.test(alias) && 'it has white space or more than 120 characters') ||
      (alias.endsWith(':online') && 'it ends in ":online"') ||
      (alias === RESERVED && '"user" is an address of the API') ||
      (this.byId.has(alias) && 'it is the id of a model') ||
      ((entry.aliases?.length ?? 0) >= MAX_ALIASES &&
        `${id} has ${MAX_ALIASES} other names already`)
    if (problem) {
      this.#say(where, `clients cannot use the name ${JSON.stringify(alias)}: ${problem}`)
      return false
    }
    entry.aliases = [...(entry.aliases ?? []), alias]
    return true
  }

  #enter(
    id: string,
    model: {
      readonly modality: string | undefined
      readonly pricing: Entry['pricing'] | undefined
      /** Its id in price lists. */
      readonly listed: string | undefined
      readonly deployment: Readonly<Record<string, unknown>>
    },
    where: string,
  ): void {
    const { modality, pricing, listed, deployment } = model
    const entry = this.byId.get(id)!
    if (pricing && entry.pricing && JSON.stringify(pricing) !== JSON.stringify(entry.pricing)) {
      this.#say(where, `its prices differ from the first of ${id}: a model has one price list here`)
    }
    const same = ({ provider, model: name }: Readonly<Record<string, unknown>>) =>
      provider === deployment.provider && name === deployment.model
    if (entry.deployments.some(same)) {
      this.#say(where, 'left out: the same model of the same provider is there already')
    } else {
      entry.deployments.push(deployment)
    }
    this.byId.set(id, {
      ...(modality !== undefined && { modality }),
      ...(pricing ? { pricing } : listed !== undefined && listed !== id && { price_of: listed }),
      ...entry,
    })
  }

  /** Null where there is no endpoint for it. */
  #modalityOf(info: Raw, where: string): string | undefined | null {
    const mode = textOf(info.mode)
    if (mode === undefined) return undefined
    if (Object.hasOwn(MODALITIES, mode)) return MODALITIES[mode]
    this.#say(`${where}.model_info.mode`, `left out: there are no ${mode} models here`)
    return null
  }

  #numbers(params: Raw, where: string): Record<string, number> {
    const found: Record<string, number> = {}
    const take = (member: string, name: string, fits: (value: number) => boolean) => {
      if (isUnset(params[member])) return
      const value = numberOf(params[member])
      if (value !== undefined && fits(value)) found[name] = value
      else this.#say(`${where}.litellm_params.${member}`, 'not a number that is possible here')
    }
    const positive = (value: number) => value > 0 && value <= 1_000_000
    take('weight', 'weight', (value) => value > 0)
    take('order', 'priority', Number.isSafeInteger)
    take('timeout', 'timeout', positive)
    take('stream_timeout', 'firstPartTimeout', positive)
    return found
  }

  #sayOthers(
    { params, info, others }: { params: Raw; info: Raw; others: Raw },
    where: string,
  ): void {
    const sayEach = (members: Raw, path: string, isKnown: (name: string) => boolean) => {
      for (const [name, value] of Object.entries(members)) {
        if (!isKnown(name) && !isPrice(name) && !isUnset(value)) {
          this.#say(`${path}.${name}`, 'not mapped')
        }
      }
    }
    const isParam = (name: string) => INSTANCE_MEMBERS.has(name) || DEPLOYMENT_MEMBERS.has(name)
    sayEach(params, `${where}.litellm_params`, isParam)
    sayEach(info, `${where}.model_info`, (name) => KNOWN_INFO.test(name))
    sayEach(others, where, () => false)
  }
}

/** The id of a model in price lists: that of its base model, else of the model that its vendor knows. */
function listedAs(
  base: string | undefined,
  { vendor, model, guessed }: Target,
): string | undefined {
  if (base !== undefined)
    return base.includes('/') ? base.replace(/^azure\//, 'openai/') : `openai/${base}`
  // Names at Azure, and at servers of one's own, are not those of price lists.
  const isOwn = guessed || vendor.plugin === 'azure' || vendor.vendor === 'openai-compatible'
  return isOwn ? undefined : `${vendor.listed ?? vendor.vendor}/${model}`
}
