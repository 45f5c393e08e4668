/** What vendors name as their models, against what is served: what `discover` of a wildcard changes, and what `models discover` reports. */
import type { OfferedModel } from '../plugin.ts'
import { CAPABILITIES } from './capabilities.ts'
import type { Model } from './catalog.ts'
import {
  isModality,
  type ListedModel,
  type Modality,
  type ModelEntry,
  type WildcardEntry,
} from './entry.ts'

/** The answer of a vendor to the question for its models. */
export interface Offers {
  /** Whether it is a server of the operator's own: its models cost nothing, and no list needs to have them. */
  readonly isLocal: boolean
  readonly models: readonly OfferedModel[]
}

/** Models of one vendor that are read. */
const MAX_MODELS = 5000
const COUNTS = ['contextLength', 'maxOutputTokens', 'createdAt'] as const

/** What is wrong with the models that a plugin names; empty where nothing is. */
export function offerProblems(offered: unknown): string[] {
  if (!Array.isArray(offered)) return ['it gave no list of models']
  if (offered.length > MAX_MODELS)
    return [`it named ${offered.length} models, at most 5,000 are read`]
  const ids = new Set<unknown>()
  return offered.flatMap((one: unknown, index) => {
    const problem = offerProblem(one)
    const { id } = Object(one) as { readonly id?: unknown }
    const isTwice = ids.has(id)
    ids.add(id)
    if (problem !== undefined) return [`model ${index}: ${problem}`]
    return isTwice ? [`model ${index}: ${String(id)} is named twice`] : []
  })
}

function offerProblem(offered: unknown): string | undefined {
  const { id, ...members } = Object(offered) as Readonly<Record<string, unknown>>
  if (typeof id !== 'string' || !/^\S{1,200}$/.test(id))
    return 'expected "id", a text of at most 200 characters without white space'
  for (const name of COUNTS) {
    const count = members[name]
    if (count !== undefined && !(Number.isSafeInteger(count) && (count as number) > 0))
      return `expected "${name}" of ${id} to be a positive integer`
  }
  const { capabilities = [] } = members
  const names: readonly unknown[] = CAPABILITIES
  if (!Array.isArray(capabilities) || !capabilities.every((one) => names.includes(one)))
    return `expected "capabilities" of ${id} to be a list of words such as "TOOLS"`
  return undefined
}

/** The models that a plugin names, each once, without those that are wrong. @throws Error for what is no list */
export function readOffers(offered: unknown): readonly OfferedModel[] {
  if (!Array.isArray(offered)) throw new Error('its plugin gave no list of models')
  const right = offered.filter((one): one is OfferedModel => offerProblem(one) === undefined)
  return [...new Map(right.map((one) => [one.id, one])).values()].slice(0, MAX_MODELS)
}

type Entries = Readonly<Record<string, ModelEntry>>

/**
 * The models with what their vendors offer: of a wildcard with `discover` those that the vendor names, and of a server of the
 * operator's own all of them, at 0. A vendor that has not answered yet changes nothing.
 */
export function withOffers<Own extends Entries>(
  models: Own,
  wildcards: Readonly<Record<string, WildcardEntry>>,
  offersOf: (provider: string) => Offers | undefined,
): Own {
  const entries = Object.entries(wildcards).flatMap(([id, wildcard]) => {
    const offers =
      wildcard.enabled && wildcard.discover ? offersOf(providerOf(id, wildcard)) : undefined
    return offers ? [[id, { wildcard, offers }] as const] : []
  })
  if (entries.length === 0) return models
  const byId = new Map(entries)
  const kept = Object.entries(models).filter(([id, { wildcard }]) => {
    const answered = wildcard === undefined ? undefined : byId.get(wildcard)
    return (
      !answered || answered.offers.models.some((one) => plain(one.id) === plain(withoutVendor(id)))
    )
  })
  const added = entries.flatMap(([id, { wildcard, offers }]) =>
    offers.isLocal ? offers.models.map((one) => localEntry(id, wildcard, one)) : [],
  )
  return { ...Object.fromEntries(added), ...Object.fromEntries(kept) } as Own
}

/** The provider whose models a wildcard serves. */
export function providerOf(
  id: string,
  { deployments }: Pick<WildcardEntry, 'deployments'>,
): string {
  return deployments?.[0]?.provider ?? id.slice(0, id.indexOf('/'))
}

function localEntry(
  wildcard: string,
  entry: WildcardEntry,
  { id: name, contextLength, capabilities, ...offered }: OfferedModel,
): [id: string, entry: ModelEntry] {
  const modality = entry.modality ?? modalityOf(name, offered.modality)
  const isPriced = entry.pricing !== undefined
  const pricing = entry.pricing ?? (modality === 'chat' ? FREE_CHAT : FREE)
  const [deployment] = entry.deployments ?? []
  return [
    `${wildcard.slice(0, -1)}${name}`,
    {
      ...entry,
      modality,
      pricing,
      free_tier: entry.free_tier || !isPriced,
      ...(entry.context_length === undefined &&
        contextLength !== undefined && { context_length: contextLength }),
      ...(!entry.capabilities &&
        capabilities && { capabilities: capabilities as NonNullable<ModelEntry['capabilities']> }),
      aliases: [],
      created: offered.createdAt ?? 0,
      wildcard,
      deployments: [
        {
          ...(deployment ?? { weight: 1, priority: 0, options: {} }),
          provider: providerOf(wildcard, entry),
          model: name,
        },
      ],
    },
  ]
}

const FREE_CHAT = { prompt: '0', completion: '0' }
const FREE = { prompt: '0' }

/** Servers that do not tell serve chat, and embeddings under names that say so. */
function modalityOf(name: string, modality: string | undefined): Modality {
  if (modality !== undefined && isModality(modality)) return modality
  return /embed|bge-|minilm/i.test(name) ? 'embedding' : 'chat'
}

function withoutVendor(id: string): string {
  return id.slice(id.indexOf('/') + 1)
}

/** What is offered by the vendor of a provider, and what of it is served. Names are those at the vendor. */
export interface OfferReport {
  readonly provider: string
  readonly offered: number
  readonly served: readonly string[]
  /** A price list has them, and no entry names them. */
  readonly listed: readonly string[]
  /** No price list has them. */
  readonly unpriced: readonly string[]
  /** They are served, and the vendor does not name them. */
  readonly gone: readonly string[]
}

/** Compares the offers of a vendor with the models that are served, and with the price list. */
export function compareOffers(
  provider: string,
  { models: offered, isLocal }: Offers,
  served: readonly Model[],
  listed: Readonly<Record<string, ListedModel>>,
): OfferReport {
  const names = new Set(
    served.flatMap(({ deployments }) =>
      deployments.flatMap((one) => (one.provider === provider ? [plain(one.model)] : [])),
    ),
  )
  const ids = [...new Set(offered.map(({ id }) => plain(id)))].toSorted()
  const others = ids.filter((id) => !names.has(id))
  const isListed = (id: string) => Object.hasOwn(listed, `${provider}/${id}`)
  return {
    provider,
    offered: ids.length,
    served: ids.filter((id) => names.has(id)),
    listed: others.filter((id) => isLocal || isListed(id)),
    unpriced: isLocal ? [] : others.filter((id) => !isListed(id)),
    gone: [...names].filter((name) => !ids.includes(name)).toSorted(),
  }
}

/** A name without `:latest`, which may be left out. */
function plain(name: string): string {
  return name.replace(/:latest$/, '')
}
