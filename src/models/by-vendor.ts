/** Models that come with the key of a vendor, in words: so many that a list of them helps no reader. */
import type { Model } from './catalog.ts'
import { isWildcard } from './entry.ts'

/** How many models the wildcard of a vendor serves, and how old their prices are. */
interface OfVendor {
  readonly vendor: string
  readonly models: number
  /** The day on which the oldest of the prices was compared; undefined for prices that a person wrote. */
  readonly checked: string | undefined
}

/** Models that a person wrote, one by one. */
export function written(models: readonly Model[]): readonly Model[] {
  return models.filter(({ wildcard }) => wildcard === undefined)
}

/** The other models by vendor, the most numerous first. */
export function byVendor(models: readonly Model[]): readonly OfVendor[] {
  const others = models.filter(({ wildcard }) => wildcard !== undefined)
  return [...Map.groupBy(others, ({ vendor }) => vendor)]
    .map(([vendor, own]) => {
      const days = own.flatMap(({ priceSource: { checked_at } }) => checked_at?.slice(0, 10) ?? [])
      return { vendor, models: own.length, checked: days.toSorted()[0] }
    })
    .toSorted((a, b) => b.models - a.models)
}

/** Text such as `openai 158 models, groq 17 (prices of 2026-11-28)`; undefined where there are none. */
export function vendorsInWords(models: readonly Model[]): string | undefined {
  const vendors = byVendor(models)
  if (vendors.length === 0) return undefined
  const counts = vendors.map(({ vendor, models: count }, i) =>
    i > 0 ? `${vendor} ${count}` : `${vendor} ${count} ${count === 1 ? 'model' : 'models'}`,
  )
  const oldest = vendors.flatMap(({ checked }) => checked ?? []).toSorted()[0]
  return `${counts.join(', ')}${oldest === undefined ? '' : ` (prices of ${oldest})`}`
}

/** A sentence for each `vendor/*` of whose vendor no list has a price: it serves nothing. */
export function unpricedVendors(unpriced: readonly { readonly id: string }[] = []): string[] {
  return unpriced.flatMap(({ id }) =>
    isWildcard(id)
      ? [
          `${id} serves no model, because no price list has one of this vendor. With prices it serves every name: ` +
            `models: { ${JSON.stringify(id)}: { pricing: { prompt: '…', completion: '…' } } }`,
        ]
      : [],
  )
}
