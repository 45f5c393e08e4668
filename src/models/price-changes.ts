/** Differences of prices between two catalogs, as an operator reads them. */
import { formatPrice, PRICE_NAMES, type Prices } from '../money/prices.ts'
import type { Model } from './catalog.ts'

/** A price of a model that is another one than before. */
export interface PriceChange {
  readonly model: string
  /** Text such as `openai/gpt-6-sol completion 0.00001 → 0.000012 (+20 %)`. */
  readonly text: string
  /** More than ten times as much or as little, from or to 0, or gone: probably a mistake. */
  readonly isSuspicious: boolean
}

type Priced = Pick<Model, 'id' | 'prices'>

/** The changes of all models that are in both catalogs. */
export function priceChanges(before: readonly Priced[], after: readonly Priced[]): PriceChange[] {
  const byId = new Map(before.map(({ id, prices }) => [id, pricesOf(prices)]))
  return after.flatMap(({ id, prices }) => {
    const old = byId.get(id)
    if (!old) return []
    const now = pricesOf(prices)
    const names = new Set([...old.keys(), ...now.keys()])
    return [...names].flatMap((name) => changeOf(id, name, old.get(name), now.get(name)))
  })
}

function changeOf(
  model: string,
  name: string,
  from: bigint | undefined,
  to: bigint | undefined,
): PriceChange[] {
  if (from === to) return []
  const isSuspicious =
    from !== undefined &&
    (to === undefined || from === 0n || to === 0n || to > 10n * from || from > 10n * to)
  const text = `${model} ${name} ${shown(from)} → ${shown(to)}${percent(from, to)}`
  return [{ model, text, isSuspicious }]
}

function shown(price: bigint | undefined): string {
  return price === undefined ? 'none' : formatPrice(price)
}

function percent(from: bigint | undefined, to: bigint | undefined): string {
  if (!from || to === undefined) return ''
  const change = ((to - from) * 100n) / from
  return ` (${change > 0n ? '+' : ''}${change} %)`
}

/** All prices by a name that tells their tier. A tier has those that differ from the list. */
function pricesOf({ tiers = [], ...base }: Prices): ReadonlyMap<string, bigint> {
  const named = new Map<string, bigint>()
  for (const { from, prices } of [{ from: 0, prices: base }, ...tiers.slice(1)]) {
    for (const name of PRICE_NAMES) {
      const price = prices[name]
      if (price === undefined || (from > 0 && price === base[name])) continue
      named.set(from === 0 ? name : `${name} from ${from} tokens`, price)
    }
  }
  return named
}
