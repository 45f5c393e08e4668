/** Where the members of a model's entry come from: several layers, the first of which has the last word. */

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
      merged[id] = isRaw(own) && isRaw(entry) ? { ...entry, ...own } : isRaw(own) ? entry : own
    }
  }
  return merged
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
      if (!served || rest.length === 0 || !Object.hasOwn(providers, vendor)) return [id, entry]
      return [id, { ...entry, deployments: [{ provider: vendor, model: rest.join('/') }] }]
    }),
  )
}

/** Whether a value is a plain object, as a configuration has them. */
export function isRaw(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
