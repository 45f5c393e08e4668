/** Compares the prices of sources with the present ones: what changes, and what is held back until it is accepted. */
import type { ListedModel } from '../models/entry.ts'
import type { PriceList } from '../models/price-list.ts'
import { listedFor } from '../models/layers.ts'
import { TIER_PRICE_NAMES, type Pricing } from '../money/prices.ts'
import type { HeldMove, PriceMove } from '../server/admin/resources/model.ts'
import {
  pricesByName,
  pricingOf,
  type SourcedModel,
  type SourcedModels,
  moveOf,
  shownPrice,
} from './rows.ts'

/** Two sources that do not agree. */
interface Disagreement extends PriceMove {
  readonly source: string
  readonly other: string
}

/** The result of an import. */
export interface Comparison {
  /** The list as it is after the import. */
  readonly models: PriceList['models']
  readonly added: readonly string[]
  readonly changed: readonly PriceMove[]
  readonly removed: readonly string[]
  readonly held: readonly HeldMove[]
  /** Number of models that are the same as before. */
  readonly same: number
  readonly disagreements: readonly Disagreement[]
}

/** What an import starts with. */
interface Present {
  /** The file that is written. */
  readonly own: PriceList['models']
  /** All lists in use: what the prices are compared with. */
  readonly all: PriceList['models']
}

/** A source that was read. */
interface ReadSource {
  readonly name: string
  readonly read: SourcedModels
}

/** A price per token above it is probably one per million. 10⁻¹⁸ USD. */
const HIGH = 10n ** 15n
/** Sources whose prices differ by more than so many percent disagree. */
const AGREED_PERCENT = 1n

/** What the operator wants of an import. */
interface Choice {
  /** What may be taken over although it is suspicious: ids, or `<id>:<price>`. */
  readonly accepted: ReadonlySet<string>
  /** RFC 3339 time, from which on what was compared counts as checked. */
  readonly now: string
  /** Whether a model is part of the import. */
  readonly isWanted: (id: string) => boolean
}

/** Compares. The first source that has a model gives all its prices. */
export function compare(
  present: Present,
  sources: readonly ReadSource[],
  { accepted, now, isWanted }: Choice,
): Comparison {
  const models: PriceList['models'] = { ...present.own }
  const [added, removed]: [string[], string[]] = [[], []]
  const changed: PriceMove[] = []
  const held: HeldMove[] = []
  let same = 0
  const sourced = new Map<string, SourcedModel>()
  for (const { read } of sources) {
    for (const [id, model] of read.models)
      if (isWanted(id) && !sourced.has(id)) sourced.set(id, model)
  }
  for (const [id, model] of sourced) {
    const old = Object.hasOwn(present.all, id) ? present.all[id] : undefined
    const result = compareModel(old, model, accepted)
    held.push(...result.held)
    if (result.held.length > 0 && result.changed.length === 0) continue
    if (!old && result.held.length > 0) continue
    if (!old) added.push(id)
    else if (result.changed.length > 0) changed.push(...result.changed)
    else if (result.held.length === 0) same++
    const checked_at = old && result.held.length > 0 ? old.checked_at : now
    models[id] = { ...kept(old), ...model.entry, pricing: mutable(result.prices), checked_at }
  }
  dropTakenAliases(models, sourced)
  const names = new Set(sources.map(({ name }) => name))
  for (const [id, { source }] of Object.entries(present.own)) {
    if (sourced.has(id) || !names.has(source) || !isWanted(id)) continue
    if (accepted.has(id)) {
      delete models[id]
      removed.push(id)
      continue
    }
    const reason = `${source} has it no more`
    held.push({ model: id, from: 'listed', to: 'gone', move: '', reason, accept: id })
  }
  return {
    models,
    added,
    changed,
    removed,
    held,
    same,
    disagreements: disagreementsOf(sources, isWanted),
  }
}

/** Removes aliases that a source now gives to another model of the same vendor, such as the name of the latest one. */
function dropTakenAliases(
  models: PriceList['models'],
  sourced: ReadonlyMap<string, SourcedModel>,
): void {
  const keyOf = (id: string, alias: string) => `${id.slice(0, id.indexOf('/'))}/${alias}`
  const owners = new Map(
    [...sourced].flatMap(([id, { entry }]) =>
      (entry.aliases ?? []).map((alias) => [keyOf(id, alias), id] as const),
    ),
  )
  for (const [id, { aliases, ...entry }] of Object.entries(models)) {
    if (!aliases) continue
    const own = aliases.filter((alias) => (owners.get(keyOf(id, alias)) ?? id) === id)
    if (own.length < aliases.length)
      models[id] = own.length > 0 ? { ...entry, aliases: own } : entry
  }
}

/** An entry with prices that a person wrote. */
interface OwnPrices {
  readonly id: string
  readonly pricing: Pricing
  /** What a price list calls it, where that is not its id. */
  readonly price_of?: string | undefined
}

/** Prices that a person wrote and that are other ones than in the list: `from` the list, `to` the own one. */
export function ownDifferences(
  entries: readonly OwnPrices[],
  listed: PriceList['models'],
): PriceMove[] {
  return entries.flatMap(({ id, pricing, price_of }) => {
    const listedModel = listedFor(id, { price_of }, listed)
    if (!listedModel) return []
    const [theirs, own] = [pricesByName(listedModel.pricing), pricesByName(pricing)]
    return [...new Set([...theirs.keys(), ...own.keys()])].flatMap((price) => {
      const [from, to] = [theirs.get(price), own.get(price)]
      if (from === to) return []
      const shown = { from: shownPrice(from), to: shownPrice(to), move: moveOf(from, to) }
      return [{ model: id, price, ...shown }]
    })
  })
}

/** Why a new model would be free by mistake: routers, for instance, cost what their models cost. */
function freeOf(prices: ReadonlyMap<string, bigint>): string | undefined {
  if ([...prices.values()].every((price) => price === 0n)) return 'all its prices are 0'
  const [prompt, completion] = [prices.get('prompt'), prices.get('completion')]
  if (prompt === undefined || completion === undefined) return undefined
  return (prompt === 0n) === (completion === 0n)
    ? undefined
    : `its ${prompt === 0n ? 'prompt' : 'completion'} is 0`
}

interface ModelResult {
  readonly prices: ReadonlyMap<string, bigint>
  readonly changed: readonly PriceMove[]
  readonly held: readonly HeldMove[]
}

function compareModel(
  old: ListedModel | undefined,
  { id, prices: now, doubts }: SourcedModel,
  accepted: ReadonlySet<string>,
): ModelResult {
  const before = old ? pricesByName(old.pricing) : new Map<string, bigint>()
  const isAccepted = (name: string) => accepted.has(id) || accepted.has(`${id}:${name}`)
  const doubt = doubts.get('')
  if (doubt !== undefined && !accepted.has(id)) {
    if (old && isSame(before, now)) return { prices: before, changed: [], held: [] }
    const whole = { model: id, from: old ? 'listed' : 'none', to: 'doubtful', move: '' }
    return { prices: before, changed: [], held: [{ ...whole, reason: doubt, accept: id }] }
  }
  const free = old || accepted.has(id) ? undefined : freeOf(now)
  if (free !== undefined) {
    const whole = { model: id, from: 'none', to: '0', move: '' }
    return { prices: now, changed: [], held: [{ ...whole, reason: free, accept: id }] }
  }
  const prices = new Map<string, bigint>()
  const changed: PriceMove[] = []
  const held: HeldMove[] = []
  for (const name of new Set([...before.keys(), ...now.keys(), ...doubts.keys()])) {
    if (name === '') continue
    const [from, to] = [before.get(name), now.get(name)]
    const reason =
      from === to && from !== undefined
        ? undefined
        : suspicion(name, from, to, doubts, old !== undefined)
    const move = {
      model: id,
      price: name,
      from: shownPrice(from),
      to: shownPrice(to),
      move: moveOf(from, to),
    }
    if (reason !== undefined && !isAccepted(name)) {
      if (from !== undefined) prices.set(name, from)
      held.push({ ...move, reason, accept: `${id}:${name}` })
      continue
    }
    if (to !== undefined) prices.set(name, to)
    if (from !== to) changed.push(move)
  }
  return { prices, changed, held }
}

/** Why a change is held back; undefined for one that is taken over. @param isListed whether the model was there before */
function suspicion(
  name: string,
  from: bigint | undefined,
  to: bigint | undefined,
  doubts: ReadonlyMap<string, string>,
  isListed: boolean,
): string | undefined {
  const doubt = doubts.get(name)
  if (doubt !== undefined) return doubt
  if (to === undefined) return 'the price is gone'
  if (
    to > HIGH &&
    TIER_PRICE_NAMES.some((one) => one !== 'request' && one === name.split('@')[0])
  ) {
    return 'above 0.001 USD a token: probably a price per million'
  }
  if (from === undefined) return isListed && to === 0n ? 'to 0' : undefined
  if (from === 0n || to === 0n) return from === 0n ? 'from 0' : 'to 0'
  return to >= 10n * from || from >= 10n * to ? 'ten times as much or as little' : undefined
}

function isSame(one: ReadonlyMap<string, bigint>, other: ReadonlyMap<string, bigint>): boolean {
  return one.size === other.size && [...one].every(([name, price]) => other.get(name) === price)
}

/** What an entry keeps that a source does not say. */
function kept(old: ListedModel | undefined): Partial<ListedModel> {
  if (!old) return {}
  const { pricing: _, source: __, checked_at: ___, ...rest } = old
  return rest
}

function mutable(prices: ReadonlyMap<string, bigint>): ListedModel['pricing'] {
  return pricingOf(prices) as ListedModel['pricing']
}

function disagreementsOf(
  sources: readonly ReadSource[],
  isWanted: Choice['isWanted'],
): Disagreement[] {
  const first = new Map<string, { readonly source: string; readonly model: SourcedModel }>()
  const disagreements: Disagreement[] = []
  for (const { name: other, read } of sources) {
    for (const [id, model] of read.models) {
      if (!isWanted(id)) continue
      const earlier = first.get(id)
      if (!earlier) {
        first.set(id, { source: other, model })
        continue
      }
      for (const [name, from] of earlier.model.prices) {
        const to = model.prices.get(name)
        if (to === undefined || !differs(from, to)) continue
        const shown = { from: shownPrice(from), to: shownPrice(to), move: moveOf(from, to) }
        disagreements.push({ model: id, price: name, ...shown, source: earlier.source, other })
      }
    }
  }
  return disagreements
}

function differs(one: bigint, other: bigint): boolean {
  const [low, high] = one < other ? [one, other] : [other, one]
  return (high - low) * 100n > low * AGREED_PERCENT
}
