/** What is left of selling prices after the vendors are paid, and what is probably not meant about it. */
import {
  formatPrice,
  PRICE_NAMES,
  pricesUpTo,
  type PriceName,
  type Prices,
} from '../money/prices.ts'
import { atPricesOf, type AccountPrices } from './account-prices.ts'
import type { Model } from './catalog.ts'

type Lists = Readonly<Record<string, AccountPrices>>

/** What is probably not meant, as `lint.ts` reports it. */
interface Doubt {
  readonly code: 'sold-below-cost' | 'markup-differs' | 'cost-unknown'
  readonly level: 'warning' | 'note'
  readonly message: string
}

/** A price of a model, what its vendor is paid for the same unit, and the margin in percent of the price. */
interface Margin {
  readonly price: PriceName
  readonly vendor: string
  readonly percent: number | null
}

/** Whether anything here is sold at other prices than vendors are paid; otherwise margins say nothing. */
export function isSelling(models: readonly Model[], lists: Lists = {}): boolean {
  return (
    Object.keys(lists).length > 0 ||
    models.some(({ prices, deployments }) =>
      deployments.some(({ cost }) => cost !== undefined && cost !== prices),
    )
  )
}

/** The margins of a model by the prices that its vendors are paid; null where the first of them is unknown. */
export function marginsOf({ prices, deployments }: Model): readonly Margin[] | null {
  const [first] = deployments.toSorted((a, b) => a.priority - b.priority)
  const paid = first?.cost
  if (!paid) return null
  return PRICE_NAMES.flatMap((price): Margin[] => {
    const [sold, vendor] = [prices[price], paid[price]]
    if (vendor === undefined) return []
    const percent = sold ? Number(((sold - vendor) * 1000n) / sold) / 10 : null
    return [{ price, vendor: formatPrice(vendor), percent }]
  })
}

/** @param lists price lists of accounts */
export function doubtsOf(model: Model, lists: Lists): Doubt[] {
  const named = Object.entries(lists).map(([name, list]) => {
    return [` on the price list ${name}`, atPricesOf(list, model).prices] as const
  })
  const below = [['', model.prices] as const, ...named].flatMap(([where, prices]) =>
    model.deployments.flatMap(({ id, cost }) => {
      const names = cost && cost !== prices ? pricesBelow(prices, cost) : []
      const message = `${names.join(', ')}${where}: less than the vendor of ${id} is paid`
      return names.length > 0
        ? [{ code: 'sold-below-cost', level: 'warning', message } as const]
        : []
    }),
  )
  const unknown = model.deployments.filter(({ cost }) => cost === undefined)
  const message = `what the vendor is paid is not known: ${unknown.map(({ id }) => id).join(', ')}`
  return [
    ...below,
    ...(model.markups ? [differing(model.markups)] : []),
    ...(unknown.length > 0 ? [{ code: 'cost-unknown', level: 'note', message } as const] : []),
  ]
}

function differing(markups: NonNullable<Model['markups']>): Doubt {
  const words = markups.map(([provider, factor]) => `${provider} ${factor}`).join(', ')
  const message = `its providers have different markups, and that of the first counts: ${words}`
  return { code: 'markup-differs', level: 'warning', message }
}

/** Prices that are below what is paid, in any tier. A free model is given away on purpose. */
function pricesBelow(prices: Prices, cost: Prices): PriceName[] {
  const tiers = pricesUpTo(prices, Infinity)
  const isFree = tiers.every((list) => PRICE_NAMES.every((name) => (list[name] ?? 0n) === 0n))
  if (isFree) return []
  return PRICE_NAMES.filter((name) => {
    const paid = cost[name]
    return paid !== undefined && prices[name] !== undefined && prices[name] < paid
  })
}
