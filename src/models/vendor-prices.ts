/** What vendors are paid: prices of deployments beside the selling prices of their model. They move no balance. */
import type { Pricing } from '../money/prices.ts'
import type { ListedModel, ModelEntry, VendorPrices } from './entry.ts'
import { firstFactor, timesFactor, type Factor } from './markup.ts'

type Written = ModelEntry['deployments'][number]
type Listed = Readonly<Record<string, ListedModel>>

/** Prices by which the vendor's own amount counts, and nothing else. */
const REPORTED: Pricing = { vendor_usd: '1' }

/**
 * What the vendor of each deployment is paid. It is known from the deployment's `cost`, else from the price list: of the first id
 * that it has of `cost.price_of`, `<provider>/<model>`, the entry's `price_of`, and the entry's id. Without any it is unknown,
 * and never 0.
 * @param factorOf the factor of the list prices that a provider is paid
 */
export function withVendorPrices(
  id: string,
  entry: ModelEntry,
  listed: Listed,
  factorOf: (provider: string) => Factor | undefined,
): ModelEntry {
  const deployments = entry.deployments.map((deployment) => {
    const vendor = vendorPricesOf(id, entry, deployment, listed, factorOf)
    return vendor ? { ...deployment, vendor } : deployment
  })
  return { ...entry, deployments }
}

/** The same of a name that no list has, and a wildcard with prices covers. */
export function unlistedVendorPrices(
  { cost }: Written,
  { vendor_usd: byVendor }: Pricing,
): VendorPrices | undefined {
  if (cost && 'pricing' in cost) return { pricing: cost.pricing, changes: [] }
  const isReported = byVendor !== undefined || (cost !== undefined && 'reported' in cost)
  return isReported ? { pricing: REPORTED, changes: [] } : undefined
}

function vendorPricesOf(
  id: string,
  entry: ModelEntry,
  { cost, provider, model }: Written,
  listed: Listed,
  factorOf: (provider: string) => Factor | undefined,
): VendorPrices | undefined {
  if (cost && 'pricing' in cost) return { pricing: cost.pricing, changes: [] }
  const own = cost && 'factor' in cost ? cost.factor : undefined
  const by = firstFactor(own, factorOf(provider))
  const other = cost && 'price_of' in cost ? cost.price_of : undefined
  const ids = [other, `${provider}/${model}`, entry.price_of, id]
  const listedId = ids.find((one) => one !== undefined && Object.hasOwn(listed, one))
  const isReported =
    (cost && 'reported' in cost) || (entry.pricing as Pricing).vendor_usd !== undefined
  const reported = isReported ? REPORTED : {}
  if (listedId === undefined) {
    // A factor of 0 needs no list: models on a server of the operator's own cost nothing more.
    if (isZero(by)) return { pricing: timesFactor(entry.pricing, by), changes: [] }
    return isReported ? { pricing: reported, changes: [] } : undefined
  }
  const { pricing, price_changes: changes = [] } = listed[listedId]!
  const priced = (list: Pricing) => {
    const paid = timesFactor(list, by)
    return isReported ? { ...paid, ...reported } : paid
  }
  return {
    pricing: priced(pricing),
    changes: changes.map((change) => ({ from: change.from, pricing: priced(change.pricing) })),
  }
}

function isZero(by: Factor): boolean {
  return !/[1-9]/.test(by.replace(/[eE].*$/, ''))
}
