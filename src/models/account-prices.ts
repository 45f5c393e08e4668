/** Price lists of accounts: the catalog as one of them sees it. Holds, charges and bills follow from the prices of its models. */
import * as v from 'valibot'
import { compilePrices, plainPricing, type Prices, type Pricing } from '../money/prices.ts'
import { modelId, pricingSchema } from './entry.ts'
import { factor, timesFactor, type Factor } from './markup.ts'

const MAX_LISTS = 50
const LISTS = `at most ${MAX_LISTS} price lists`
const ENTRY = '{ factor } or { pricing }'

const listSchema = v.strictObject({
  factor: v.optional(factor, '1'),
  models: v.optional(
    v.record(
      modelId,
      v.union([v.strictObject({ factor }), v.strictObject({ pricing: pricingSchema })], ENTRY),
    ),
    {},
  ),
})
/** A price list of accounts: of a model the entry for its id, else that for `vendor/*`, else the factor. */
export type AccountPrices = v.InferOutput<typeof listSchema>

/** Schema of the price lists, by name. */
export const accountPricesSchema = (name: v.GenericSchema<string, string>) =>
  v.pipe(
    v.record(name, listSchema),
    v.check((lists) => Object.keys(lists).length <= MAX_LISTS, LISTS),
  )

/** What a price list changes of a model. */
interface Priced extends ListedPrices {
  readonly id: string
  readonly vendor: string
  readonly priceChanges: readonly (ListedPrices & { readonly from: number })[]
}

interface ListedPrices {
  readonly pricing: Pricing
  readonly prices: Prices
}

/** A model at the prices of a list; the same object where they are those of the catalog. */
export function atPricesOf<Model extends Priced>(list: AccountPrices, model: Model): Model {
  const entry = entryFor(list, model)
  if (entry && 'pricing' in entry) {
    // These stand until the list is changed.
    return { ...withPricing(model, entry.pricing), priceChanges: [] }
  }
  const by = entry?.factor ?? list.factor
  const pricing = timesFactor(model.pricing, by)
  if (pricing === model.pricing) return model
  const priceChanges = model.priceChanges.map((change) => {
    return { ...change, ...pricesOf(timesFactor(change.pricing, by)) }
  })
  return { ...withPricing(model, pricing), priceChanges }
}

function entryFor(
  { models }: AccountPrices,
  { id, vendor }: Priced,
): { factor: Factor } | { pricing: Pricing } | undefined {
  const name = [id, `${vendor}/*`].find((one) => Object.hasOwn(models, one))
  return name === undefined ? undefined : models[name]
}

function withPricing<Model extends Priced>(model: Model, pricing: Pricing): Model {
  return { ...model, ...pricesOf(pricing) }
}

function pricesOf(written: Pricing): ListedPrices {
  return { pricing: plainPricing(written), prices: compilePrices(written) }
}
