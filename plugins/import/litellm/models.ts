/** Models of a configuration: one entry for each name, with a deployment for each model that serves it. */
import type { MigratedModel } from '../../../src/plugin.ts'
import { MODALITIES } from './modes.ts'
import { SourceNames } from './names.ts'
import { INSTANCE_MEMBERS, type Instances, type Served } from './providers.ts'
import { isUnset, listOf, numberOf, rawOf, textOf, type Raw, type Say } from '../shared/values.ts'
import { priceIdsOf } from './vendors.ts'
import { readDecimal, writeDecimal } from '../shared/decimal.ts'
import { secondPrices, TOKEN_PRICES } from './price-names.ts'

/** Members of `litellm_params` that a deployment is made of. */
const DEPLOYMENT_MEMBERS: ReadonlySet<string> = new Set([
  'weight',
  'order',
  'timeout',
  'stream_timeout',
  'drop_params',
])
/** Members of `model_info` that say what the gateway asks its vendors or lists itself, or that are read. */
const KNOWN_INFO =
  /^(id|db_model|mode|base_model|access_groups|supports_.+|max_tokens|max_(input|output)_tokens)$/
/** What is known of single members that have no counterpart. */
const LOST: Readonly<Record<string, string>> = {
  rpm: 'not counted here: a 429 of the vendor rests the deployment, and another one is asked',
  tpm: 'not counted here: a 429 of the vendor rests the deployment, and another one is asked',
}
/** Numbers that a deployment is asked with by default, and their names in `defaults`. */
const DEFAULT_NUMBERS: Readonly<Record<string, string>> = {
  temperature: 'temperature',
  top_p: 'top_p',
  top_k: 'top_k',
  max_tokens: 'max_completion_tokens',
  max_completion_tokens: 'max_completion_tokens',
  seed: 'seed',
  presence_penalty: 'presence_penalty',
  frequency_penalty: 'frequency_penalty',
}
const MODEL_ID = /^[^/\s:]+\/\S+$/
const ALIAS = /^[^\s\p{Cc}]{1,120}$/u
const VENDOR_WILDCARD = /^[^/\s:*]+\/\*$/
const RESERVED = 'user'
const MAX_ALIASES = 16

/** A model while it is put together. */
interface Draft {
  modality?: string
  pricing?: NonNullable<MigratedModel['pricing']>
  price_of?: string
  context_length?: number
  defaults?: Readonly<Record<string, unknown>>
  readonly aliases: string[]
  readonly deployments: Readonly<Record<string, unknown>>[]
  /** A deployment that is not served, and the note about it. */
  readonly waiting: { readonly provider: string; readonly model: string }[]
}

/** What an entry says of a model. */
interface Entry {
  readonly name: string
  readonly params: Raw
  readonly info: Raw
  readonly where: string
}

/** The models, and how clients call them. */
export class Models {
  readonly names: SourceNames
  /** Every vendor is served whose key is in the environment. */
  isOpen = false
  readonly #drafts = new Map<string, Draft>()
  /** Names of the source that have the form of an id: no other model gets them as its id. */
  readonly #reserved = new Set<string>()
  readonly #instances: Instances
  readonly #listed: ReadonlySet<string>
  readonly #say: Say

  /** @param listed ids in price lists @param say receives what is not as in the source */
  constructor(instances: Instances, listed: ReadonlySet<string>, say: Say) {
    this.#instances = instances
    this.#listed = listed
    this.#say = say
    this.names = new SourceNames(listed)
  }

  /** The entries by id. One without a deployment that is served waits, not enabled. */
  byId(): Map<string, MigratedModel> {
    return new Map(
      [...this.#drafts].map(
        ([id, { aliases, deployments, waiting, ...draft }]): [string, MigratedModel] => {
          if (deployments.length === 0) return [id, { enabled: false, deployments: waiting }]
          return [id, { ...draft, ...(aliases.length > 0 && { aliases }), deployments }]
        },
      ),
    )
  }

  /** Adds the elements of `model_list`. */
  addAll(list: readonly unknown[]): void {
    const entries = list.flatMap((element, index) => {
      const { model_name, litellm_params, model_info, ...others } = rawOf(element)
      const where = `model_list[${index}]`
      const name = textOf(model_name)
      if (name === undefined) {
        this.#say('unserved', where, 'it has no model_name')
        return []
      }
      for (const [member, value] of Object.entries(others)) {
        if (!isUnset(value)) this.#say('lost', `${where}.${member}`, 'not mapped')
      }
      return [{ name, params: rawOf(litellm_params), info: rawOf(model_info), where }]
    })
    for (const { name } of entries) if (isShaped(name)) this.#reserved.add(name)
    // Wildcards first: an id must not be taken for a model that one of them serves.
    for (const entry of entries) if (entry.name.includes('*')) this.#addWildcard(entry)
    for (const entry of entries) if (!entry.name.includes('*')) this.#add(entry)
  }

  /** Another name for a model. */
  addAlias(alias: string, name: string, where: string): void {
    const id = this.names.idOf(name)
    if (id === undefined) {
      return this.#say('lost', where, `it means ${JSON.stringify(name)}, which is not there`)
    }
    if (this.names.idOf(alias) !== undefined) {
      return this.#say('differs', where, 'it is the name of a model as well, which counts')
    }
    if (this.#alias(id, alias, where)) this.names.addAlias(alias, name)
  }

  #addWildcard(entry: Entry): void {
    const { name, where, params } = entry
    if (name === '*' && textOf(params.model) === '*') {
      this.isOpen = true
      const message =
        '"*" is "extends: starter": all models of each vendor whose key is in the environment'
      return this.#say('wider', where, message, 'take "extends" out of gateway.config.yaml')
    }
    const served = this.#serve(entry)
    if (typeof served === 'string') return this.#wait(entry, name, served)
    const { target, provider, options } = served
    if (name === '*' && target.model === '*') {
      this.names.addWildcard('', `${target.vendor}/`)
      this.#say(
        'differs',
        where,
        `"*" is ${target.vendor}/*: the models of this vendor that price lists have, by their own names`,
      )
    } else if (!VENDOR_WILDCARD.test(name) || target.model !== '*') {
      const reason = 'a wildcard is vendor/* here, and serves every model by its own name'
      return this.#wait(entry, name, reason)
    } else if (
      target.line &&
      name.slice(0, -2) === target.prefix &&
      target.prefix !== target.vendor
    ) {
      this.names.addWildcard(`${target.prefix}/`, `${target.vendor}/`)
      this.#say(
        'differs',
        where,
        `the vendor is called ${target.vendor} here: clients ask for ${target.vendor}/… in place of ${target.prefix}/…`,
      )
    } else {
      this.names.addWildcard(name.slice(0, -1), name.slice(0, -1))
    }
    const [{ id: prefix } = { id: '' }] = this.names.wildcards.slice(-1)
    const draft = this.#draft(`${prefix}*`)
    const { pricing } = this.#pricing(entry, undefined)
    if (pricing) draft.pricing ??= pricing
    draft.deployments.push({
      provider,
      ...this.#numbers(params, where),
      ...(Object.keys(options).length > 0 && { options }),
    })
    this.#sayOthers(entry)
  }

  #add(entry: Entry): void {
    const { name, params, info, where } = entry
    for (const group of listOf(info.access_groups) ?? []) this.names.addToGroup(group, name)
    const served = this.#serve(entry)
    if (typeof served === 'string') return this.#wait(entry, name, served)
    const { target, provider, options } = served
    const mode = textOf(info.mode)
    const modality = mode === undefined ? undefined : MODALITIES[mode]
    const id = this.#place(entry, target)
    if (id === undefined) return undefined
    if (target.guessed) {
      const message = `served as a vendor with the API of OpenAI, because ${JSON.stringify(target.prefix)} is not known here: check it`
      this.#say('differs', `${where}.litellm_params.model`, message)
    }
    const draft = this.#draft(id)
    if (modality !== undefined) draft.modality ??= modality
    this.#price(id, draft, entry, target)
    this.#addDefaults(id, draft, entry)
    const context = numberOf(info.max_input_tokens)
    if (context !== undefined && Number.isSafeInteger(context) && context > 0) {
      draft.context_length ??= context
    }
    const own = { ...options, ...(isCohereRerank(target, modality) && { rerank: 'cohere' }) }
    const same = (one: Raw) => one.provider === provider && one.model === target.model
    if (draft.deployments.some(same)) {
      this.#say('none', where, 'the same model of the same provider is there already')
    } else {
      draft.deployments.push({
        provider,
        model: target.model,
        ...this.#numbers(params, where),
        ...(Object.keys(own).length > 0 && { options: own }),
      })
    }
    this.#sayOthers(entry)
  }

  /** Where an entry is served, or why it is not. */
  #serve({ params, info, where }: Entry): Served | string {
    const mode = textOf(info.mode)
    if (mode !== undefined && !Object.hasOwn(MODALITIES, mode)) {
      return `there are no models of the mode ${JSON.stringify(mode.slice(0, 40))} here`
    }
    if (!isUnset(info.team_id)) {
      return 'it is a model of one team, and here all keys without a list could use it'
    }
    return this.#instances.serve(params, (member) =>
      this.#say('lost', `${where}.litellm_params.${member}`, 'the plugin has no such setting'),
    )
  }

  /** A deployment that is not served. Without another one the model is written, and not enabled. */
  #wait({ params, where }: Entry, name: string, reason: string): void {
    const [, prefix = 'unknown', model = ''] =
      /^(?:([^/]*)\/)?(.*)$/s.exec(textOf(params.model) ?? '') ?? []
    const existing = this.names.idOf(name)
    const id = existing ?? this.#free(isShaped(name) ? name : `${slug(prefix)}/${name}`, name)
    this.#draft(id).waiting.push({ provider: slug(prefix), model: model || name })
    if (existing === undefined) this.names.add(name, id)
    this.#say('unserved', where, reason, 'it is in models.yaml, and not enabled')
  }

  #draft(id: string): Draft {
    let draft = this.#drafts.get(id)
    if (!draft) {
      draft = { aliases: [], deployments: [], waiting: [] }
      this.#drafts.set(id, draft)
    }
    return draft
  }

  /** An id that no other model has. @param name the name by which clients ask for it */
  #free(wished: string, name: string): string {
    const clean = wished.replaceAll(/[\s\p{Cc}]+/gu, '-')
    const isTaken = (id: string) => this.#drafts.has(id) || (id !== name && this.#reserved.has(id))
    let id = clean
    for (let n = 2; isTaken(id); n++) id = `${clean}-${n}`
    return id
  }

  /** The id for a name: the name itself if it has the form of one. */
  #place(entry: Entry, target: Served['target']): string | undefined {
    const { name, where } = entry
    const existing = this.names.idOf(name)
    // Another entry of the name was not served: clients ask by it all the same.
    if (existing !== undefined) {
      if (name !== existing && !this.#draft(existing).aliases.includes(name)) {
        this.#alias(existing, name, where)
      }
      return existing
    }
    if (!ALIAS.test(name)) {
      this.#wait(entry, name, 'its name has white space or more than 120 characters')
      return undefined
    }
    const wished = isShaped(name) ? name : `${target.vendor}/${name}`
    // A wildcard of the source serves another model by this id.
    const isTaken =
      !isShaped(name) &&
      target.model !== name &&
      this.names.isCovered(wished) &&
      this.#listed.has(wished)
    const id = this.#free(isTaken ? `${wished}-2` : wished, name)
    this.#draft(id)
    this.names.add(name, id)
    if (id !== name) this.#alias(id, name, where)
    return id
  }

  #alias(id: string, alias: string, where: string): boolean {
    const { aliases } = this.#draft(id)
    const problem =
      (!ALIAS.test(alias) && 'it has white space or more than 120 characters') ||
      (alias.endsWith(':online') && 'it ends in ":online"') ||
      (alias === RESERVED && '"user" is an address of the API') ||
      (this.#drafts.has(alias) && 'it is the id of a model') ||
      (aliases.length >= MAX_ALIASES && `${id} has ${MAX_ALIASES} other names already`)
    if (problem) {
      const message = `clients cannot use the name ${JSON.stringify(alias)}: ${problem}`
      this.#say('differs', where, message, `they ask for ${id}`)
      return false
    }
    aliases.push(alias)
    return true
  }

  /** Parameters of a deployment that apply where a request does not say them: here they belong to the model. */
  #addDefaults(id: string, draft: Draft, { params, where }: Entry): void {
    if (!isTexts(draft.modality) || draft.modality === 'embedding') return
    const own = defaultsOf(params)
    if (draft.deployments.length === 0) {
      if (Object.keys(own).length > 0) draft.defaults = own
    } else if (JSON.stringify(own) !== JSON.stringify(draft.defaults ?? {})) {
      const message = `its default parameters differ from the first of ${id}: a model has one list of them here`
      this.#say('differs', where, message)
    }
  }

  /** Prices of the source, else the id under which a price list has the model. */
  #price(id: string, draft: Draft, entry: Entry, target: Served['target']): void {
    const { pricing } = this.#pricing(entry, draft.modality)
    if (pricing) {
      const first = draft.pricing ?? pricing
      if (JSON.stringify(pricing) !== JSON.stringify(first)) {
        const message = `its prices differ from the first of ${id}: a model has one price list here`
        this.#say('differs', entry.where, message)
      }
      draft.pricing = first
      delete draft.price_of
      return
    }
    if (draft.pricing || draft.price_of !== undefined) return
    if (target.line?.local && isTexts(draft.modality)) {
      draft.pricing = { prompt: '0', ...(draft.modality !== 'embedding' && { completion: '0' }) }
      const message = 'charged 0 USD, because it is a server of your own without a price'
      return this.#say('differs', entry.where, message)
    }
    // Without a base model it is the vendor's name of it.
    const base = textOf(entry.info.base_model)
    const ids = base === undefined ? target.listed : priceIdsOf(base, target.vendor)
    const listed = ids.find((one) => this.#listed.has(one)) ?? ids[0]
    if (listed !== undefined && listed !== id) draft.price_of = listed
  }

  #pricing({ params, info, where }: Entry, modality: string | undefined) {
    const { pricing, unmapped } = pricingOf({ ...info, ...params }, modality)
    for (const [member, message] of unmapped) this.#say('differs', `${where}.${member}`, message)
    return { pricing }
  }

  #numbers(params: Raw, where: string): Record<string, number> {
    const numbers: Record<string, number> = {}
    const take = (member: string, name: string, fits: (value: number) => boolean) => {
      if (isUnset(params[member])) return
      const value = numberOf(params[member])
      if (value !== undefined && fits(value)) numbers[name] = value
      else {
        const message = 'not a number that is possible here'
        this.#say('differs', `${where}.litellm_params.${member}`, message)
      }
    }
    const isPositive = (value: number) => value > 0 && value <= 1_000_000
    take('weight', 'weight', (value) => value > 0)
    take('order', 'priority', Number.isSafeInteger)
    take('timeout', 'timeout', isPositive)
    take('stream_timeout', 'firstPartTimeout', isPositive)
    return numbers
  }

  #sayOthers({ params, info, where }: Entry): void {
    for (const [member, value] of Object.entries(params)) {
      const isKnown = INSTANCE_MEMBERS.has(member) || DEPLOYMENT_MEMBERS.has(member)
      if (isKnown || isPrice(member) || isUnset(value)) continue
      const place = `${where}.litellm_params.${member}`
      if (Object.hasOwn(defaultsOf({ [member]: value }), DEFAULT_NAMES[member] ?? member)) continue
      this.#say('lost', place, LOST[member] ?? 'not mapped')
    }
    for (const [member, value] of Object.entries(info)) {
      if (KNOWN_INFO.test(member) || isPrice(member) || isUnset(value)) continue
      this.#say('none', `${where}.model_info.${member}`, 'not mapped')
    }
  }
}

/** Names in `defaults` of members that are called otherwise. */
const DEFAULT_NAMES: Readonly<Record<string, string>> = {
  ...DEFAULT_NUMBERS,
  reasoning_effort: 'reasoning',
}
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
const VERBOSITIES = ['low', 'medium', 'high']

/** The members of a deployment that are defaults of a model here. */
function defaultsOf(params: Raw): Record<string, unknown> {
  const defaults: Record<string, unknown> = {}
  for (const [member, name] of Object.entries(DEFAULT_NUMBERS)) {
    const value = numberOf(params[member])
    if (value !== undefined) defaults[name] ??= value
  }
  const { reasoning_effort: effort, stop, verbosity } = params
  if (EFFORTS.includes(effort as string)) defaults.reasoning = { effort }
  if (
    typeof stop === 'string' ||
    (Array.isArray(stop) && stop.every((one) => typeof one === 'string'))
  )
    defaults.stop = stop
  if (VERBOSITIES.includes(verbosity as string)) defaults.verbosity = verbosity
  return defaults
}

function isCohereRerank({ vendor }: Served['target'], modality: string | undefined): boolean {
  return vendor === 'cohere' && modality === 'rerank'
}

/** Whether models are paid by the token of a text. */
function isTexts(modality = 'chat'): boolean {
  return modality === 'chat' || modality === 'embedding'
}

/** Whether a name has the form of an id. */
function isShaped(name: string): boolean {
  return MODEL_ID.test(name) && ALIAS.test(name) && !name.endsWith(':online')
}

/** A name as a provider can have it. */
function slug(text: string): string {
  return (
    text
      .toLowerCase()
      .replaceAll(/[^a-z0-9_-]+/g, '-')
      .replace(/^[^a-z0-9]+/, '')
      .slice(0, 60) || 'unknown'
  )
}

// Prices of models in a configuration: USD per unit, as text.

/** Prices here by LiteLLM's names. */
const NAMES: Readonly<Record<string, string>> = {
  ...TOKEN_PRICES,
  output_cost_per_image: 'image',
  ocr_cost_per_page: 'page',
  input_cost_per_image: 'image',
  input_cost_per_character: 'character',
  input_cost_per_second: 'second',
  input_cost_per_request: 'request',
  input_cost_per_query: 'search_unit',
}
const TIER = /^(.+)_above_(\d+)k_tokens$/
/** Prices that tiers may have. */
const PER_TOKEN = /token|cache/
const FRACTION_DIGITS = 18
/** The price of an image that is made, which counts before that of one that is sent. */
const MADE_IMAGE = 'output_cost_per_image'
const SENT_IMAGE = 'input_cost_per_image'
/** Prices for other units than tokens, and the modality that pays them. */
const UNITS: Readonly<Record<string, string>> = {
  image: 'image',
  page: 'ocr',
  character: 'speech',
  second: 'transcription',
}

/** The prices of a model; undefined where none are given. */
interface Pricing {
  readonly pricing: Readonly<Record<string, unknown>> | undefined
  /** Members that are no prices here, with a reason. */
  readonly unmapped: readonly (readonly [name: string, message: string])[]
}

/** Whether a member is a price of LiteLLM's. */
function isPrice(name: string): boolean {
  return Object.hasOwn(NAMES, name) || /_cost(_|$)|_pricing$/.test(name)
}

/**
 * The prices among members of a model. Every number is read from its text.
 * @param modality undefined where the source does not say it: then a model with prices for tokens is one for chat
 */
function pricingOf(members: Raw, modality: string | undefined): Pricing {
  const base: Record<string, string> = {}
  const tiers = new Map<number, Record<string, string>>()
  const unmapped: [string, string][] = []
  for (const [name, value] of Object.entries(members)) {
    if (!isPrice(name) || isUnset(value)) continue
    if (name === SENT_IMAGE && !isUnset(members[MADE_IMAGE])) {
      if (value !== members[MADE_IMAGE]) unmapped.push([name, `${MADE_IMAGE} counts`])
      continue
    }
    const [, stem = name, thousands] = TIER.exec(name) ?? []
    const price = Object.hasOwn(NAMES, stem) ? NAMES[stem] : undefined
    // A number that is none of the file's texts, such as one of a YAML alias, has gone through a float.
    const text = typeof value === 'string' ? textOf(value) : undefined
    const amount = text === undefined ? undefined : readDecimal(text)
    const written = amount === undefined ? undefined : writeDecimal(amount, FRACTION_DIGITS)
    if (price === undefined || (thousands !== undefined && !PER_TOKEN.test(stem))) {
      unmapped.push([name, 'a price that has no counterpart'])
    } else if (written === undefined) {
      unmapped.push([
        name,
        `not a number of at most ${FRACTION_DIGITS} fractional digits that is written out`,
      ])
    } else if (thousands === undefined) {
      base[price] = written
    } else {
      const from = Number(thousands) * 1000 + 1
      tiers.set(from, { ...tiers.get(from), [price]: written })
    }
  }
  const paying = modality ?? ('prompt' in base || 'completion' in base ? 'chat' : undefined)
  for (const [unit, payer] of Object.entries(UNITS)) {
    if (!(unit in base) || paying === undefined || paying === payer) continue
    delete base[unit]
    unmapped.push([`price by the ${unit}`, `${paying} models have no such price`])
  }
  for (const name of secondPrices((one) => !(Number(base[one] ?? 0) > 0))) {
    delete base[name]
    unmapped.push([`price by the ${name}`, 'another of its prices is for the same'])
  }
  if (Object.keys(base).length === 0) {
    for (const from of tiers.keys()) {
      unmapped.push([`…_above_${(from - 1) / 1000}k_tokens`, 'a tier without prices below it'])
    }
    return { pricing: undefined, unmapped }
  }
  const overrides = [...tiers]
    .toSorted(([a], [b]) => a - b)
    .map(([from, prices]) => ({ min_prompt_tokens: from, ...prices }))
  return { pricing: { ...base, ...(overrides.length > 0 && { overrides }) }, unmapped }
}
