/** Entries of models from several layers of configuration and price lists; the first layer that has a member wins. */
import { isWildcard, type ListedModel } from './entry.ts'
import { offered } from './wildcards.ts'

/** A value of a configuration before it is validated. */
type Raw = Readonly<Record<string, unknown>>

/**
 * Entries by model id: each member is taken from the first layer whose entry has it, whole. A first layer that is no object is
 * returned as it is, so that the schema can say what is wrong.
 */
export function mergeModels(first: unknown, ...others: readonly unknown[]): unknown {
  if (first !== undefined && !isRaw(first)) return first
  const merged: Record<string, unknown> = {}
  for (const layer of [first, ...others]) {
    if (!isRaw(layer)) continue
    for (const [id, entry] of Object.entries(layer)) {
      const own = Object.hasOwn(merged, id) ? merged[id] : {}
      merged[id] = isRaw(own) && isRaw(entry) ? below(own, entry) : isRaw(own) ? entry : own
    }
  }
  return merged
}

/** The members of an entry, and those of the layer below that it lacks. Changes of prices belong to the prices they follow. */
function below(own: Raw, { price_changes, ...entry }: Raw): Raw {
  const changes = own.pricing === undefined && price_changes !== undefined && { price_changes }
  return { ...entry, ...changes, ...own }
}

/**
 * The entries with deployments: where an entry has none and a provider has the name of its vendor, that provider serves it, by
 * the rest of the id.
 */
export function withDeployments(models: unknown, providers: unknown): unknown {
  if (!isRaw(models) || !isRaw(providers)) return models
  return Object.fromEntries(
    Object.entries(models).map(([id, entry]) => {
      const [vendor = '', ...rest] = id.split('/')
      const served = isRaw(entry) && entry.deployments === undefined
      if (!served || isWildcard(id) || rest.length === 0 || !Object.hasOwn(providers, vendor))
        return [id, entry]
      return [id, { ...entry, deployments: [{ provider: vendor, model: rest.join('/') }] }]
    }),
  )
}

/**
 * The entries with what the price list says of them, under their `price_of` or else their id: each member that they lack, but for
 * prices, which are taken when the factors are valid (`pricedFrom`).
 */
export function withListed(
  models: unknown,
  listed: Readonly<Record<string, ListedModel>>,
): unknown {
  if (!isRaw(models)) return models
  return Object.fromEntries(
    Object.entries(models).map(([id, entry]) => {
      if (!isRaw(entry) || isWildcard(id)) return [id, entry]
      const model = listedFor(id, entry, listed)
      if (!model) return [id, entry]
      const { modality } = model
      return [id, { ...offered(model), ...(modality && { modality }), ...entry }]
    }),
  )
}

/** The model of a price list that an entry is priced from. */
export function listedFor(
  id: string,
  { price_of }: { readonly price_of?: unknown },
  listed: Readonly<Record<string, ListedModel>>,
): ListedModel | undefined {
  const name = typeof price_of === 'string' ? price_of : id
  return Object.hasOwn(listed, name) ? listed[name] : undefined
}

/** Whether a value is a plain object, as a configuration has them. */
export function isRaw(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
