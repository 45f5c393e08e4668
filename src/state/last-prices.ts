/** The prices with which gateways last served, as one record, so that a start can tell which ones changed since. */
import type { Model } from '../models/catalog.ts'
import { priceChanges, type PriceChange } from '../models/price-changes.ts'
import { compilePrices, type Pricing } from '../money/prices.ts'
import type { Records } from './records.ts'

type PricedModel = Pick<Model, 'id' | 'pricing' | 'prices'>

interface LastPrices {
  /** Number of times the record was replaced. */
  readonly replaced: number
  /** Prices by the id of the model. */
  readonly models: Readonly<Record<string, Pricing>>
}

const LAST = 'prices:last'

/**
 * Replaces the stored prices by those of this gateway.
 * @returns the differences; none at first, and none where another gateway that starts with the same prices has reported them
 */
export async function exchangePrices(
  records: Records,
  models: readonly PricedModel[],
): Promise<PriceChange[]> {
  const stored = await records.get<LastPrices>(LAST)
  const now = Object.fromEntries(models.map(({ id, pricing }) => [id, pricing]))
  if (stored && isSame(stored.models, now)) return []
  const changes = stored ? changesSince(stored.models, models) : []
  const replaced = (stored?.replaced ?? 0) + 1
  // One of the gateways that start together creates the record of this turn. All replace the prices: one may end before it has.
  const isFirst = changes.length > 0 && (await records.create(turnKey(replaced), {}))
  await records.put(LAST, { replaced, models: now } satisfies LastPrices)
  if (replaced > 1) await records.del(turnKey(replaced - 1))
  return isFirst ? changes : []
}

function turnKey(replaced: number): string {
  return `prices:last-${replaced}`
}

/** Changes of the models that are in both. */
function changesSince(stored: LastPrices['models'], models: readonly PricedModel[]): PriceChange[] {
  const moved = models.filter(
    ({ id, pricing }) => Object.hasOwn(stored, id) && !isSame(stored[id]!, pricing),
  )
  const before = moved.map(({ id }) => ({ id, prices: compilePrices(stored[id]!) }))
  return priceChanges(before, moved)
}

/** Whether two values are the same text. Entries that are only written in another order count as different at first. */
function isSame(one: object, other: object): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
