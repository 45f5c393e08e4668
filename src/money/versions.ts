/** Versions of prices: what tells two price lists apart, for rows of the ledger that name the one they were charged by. */
import { hash } from 'node:crypto'
import { formatPrice } from './decimal.ts'
import { PRICE_NAMES, type PriceName, type Prices, type Pricing } from './prices.ts'

/** Hex digits of a version. */
const DIGITS = 16

const known = new WeakMap<Prices, string>()

/** The version of prices: the same for prices that charge the same, on every machine. */
export function versionOf(prices: Prices): string {
  let version = known.get(prices)
  if (version === undefined) {
    const text = JSON.stringify(pricingOf(prices))
    version = hash('sha256', text).slice(0, DIGITS)
    known.set(prices, version)
  }
  return version
}

/** Prices as text again, in one form: names sorted, and in a tier only the prices that differ from the list. */
export function pricingOf({ tiers = [], ...base }: Prices): Pricing {
  const names = PRICE_NAMES.toSorted()
  const textsOf = (prices: Prices, than: Prices) =>
    Object.fromEntries(
      names.flatMap((name: PriceName) => {
        const price = prices[name]
        return price === undefined || price === than[name] ? [] : [[name, formatPrice(price)]]
      }),
    )
  // A tier repeats those of the list; it cannot lack one of them.
  const overrides = tiers
    .filter(({ from }) => from > 0)
    .map(({ from, prices }) => ({ min_prompt_tokens: from, ...textsOf(prices, base) }))
  return { ...textsOf(base, {}), ...(overrides.length > 0 && { overrides }) }
}
