/** Entries for all models of a vendor, `vendor/*`: the models that they add, and what is wrong with them. */
import { parsePrice, PRICE_NAMES, type Pricing } from '../money/prices.ts'
import { timesFactor, type Factor } from './markup.ts'
import { unlistedVendorPrices } from './vendor-prices.ts'
import {
  isModality,
  missingPrices,
  VENDOR_PRICE,
  type ListedModel,
  type ModelEntry,
  type WildcardEntry,
} from './entry.ts'

/** A wildcard with prices: it also serves models that no list has. */
export type PricedWildcard = Omit<WildcardEntry, 'pricing'> & { readonly pricing: Pricing }

const WILDCARD = /^[^/\s:*]+\/\*$/
/** A model name that a wildcard with prices accepts. A name with `..` is refused where it is used, so it stays below the vendor's path. */
const NAME = /^[A-Za-z0-9][\w.:@+/-]{0,127}$/

/**
 * The prices of names that no list has; undefined where they are refused. What the vendor reports is charged at its own amount;
 * holds, and answers without an amount, take the highest prices that the list has for the vendor. Both are multiplied.
 */
export function unlistedPricing(
  id: string,
  { unpriced, pricing }: WildcardEntry,
  listed: Readonly<Record<string, ListedModel>>,
  by: Factor,
): Pricing | undefined {
  if (unpriced === undefined) return pricing
  if (unpriced === 'refuse') return undefined
  return unpriced === VENDOR_PRICE
    ? timesFactor({ ...highestOf(id.slice(0, -1), listed), vendor_usd: '1' }, by)
    : unpriced
}

function highestOf(prefix: string, listed: Readonly<Record<string, ListedModel>>): Pricing {
  const highest = { prompt: '0', completion: '0' }
  for (const [id, { pricing, modality = 'chat' }] of Object.entries(listed)) {
    if (!id.startsWith(prefix) || modality !== 'chat') continue
    for (const list of [pricing, ...(pricing.overrides ?? [])]) {
      for (const name of ['prompt', 'completion'] as const) {
        const price = list[name]
        if (price && parsePrice(price) > parsePrice(highest[name])) highest[name] = price
      }
    }
  }
  return highest
}

/** What is wrong with a valid wildcard: messages by the member that is meant. */
export function wildcardIssues(
  id: string,
  { free_tier, pricing, deployments, unlisted }: WildcardEntry,
  providers: readonly string[],
): { readonly member?: string; readonly message: string }[] {
  const vendor = vendorOf(id)
  if (!WILDCARD.test(id)) {
    return [{ message: 'expected "vendor/*", the vendor and nothing else before "/*"' }]
  }
  const issues: { member?: string; message: string }[] = []
  if (deployments === undefined && !providers.includes(vendor)) {
    const message = `expected a list of deployments, or a provider with the name "${vendor}"`
    issues.push({ member: 'deployments', message })
  }
  if (free_tier && !(pricing && isFree(pricing))) {
    const message = 'expected a "pricing" of "0" throughout: free_tier gives away every model'
    issues.push({ member: 'free_tier', message })
  }
  if (free_tier && unlisted && !isFree(unlisted)) {
    const message = 'expected prices of "0" throughout: free_tier gives away every model'
    issues.push({ member: 'unpriced', message })
  }
  if (unlisted?.vendor_usd !== undefined && unlisted.prompt === '0') {
    const message = `expected prices: no list has a model of ${vendor}, by which money could be held`
    issues.push({ member: 'unpriced', message })
  }
  return issues
}

/**
 * The models that a wildcard adds: those of its vendor in the price list that have the prices they need.
 * @param isTaken whether an id has an entry of its own
 * @param by the factor of their prices
 */
export function expandWildcard(
  id: string,
  wildcard: WildcardEntry,
  listed: Readonly<Record<string, ListedModel>>,
  isTaken: (id: string) => boolean,
  by: Factor,
): [id: string, entry: ModelEntry][] {
  const prefix = id.slice(0, -1)
  return Object.entries(listed).flatMap(([one, model]): [string, ModelEntry][] => {
    if (!one.startsWith(prefix) || isTaken(one)) return []
    const { modality = wildcard.modality } = model
    if (modality !== undefined && !isModality(modality)) return []
    const entry = {
      ...offered(model),
      ...wildcard,
      ...(modality && { modality: wildcard.modality ?? modality }),
      ...(wildcard.pricing ? { pricing: wildcard.pricing } : pricedFrom(model, by)),
      aliases: [],
      deployments: deploymentsOf(wildcard, one, optionsOf(model)),
      listed: model,
      wildcard: id,
    }
    return missingPrices(entry).length > 0 ? [] : [[one, entry]]
  })
}

/** The entry of a model that a wildcard with prices covers, and no list has; undefined for another name. */
export function coveredBy(
  id: string,
  wildcard: PricedWildcard,
  modelId: string,
): ModelEntry | undefined {
  const prefix = id.slice(0, -1)
  if (!modelId.startsWith(prefix)) return undefined
  const rest = modelId.slice(prefix.length)
  if (!NAME.test(rest) || rest.includes('..')) return undefined
  const pricing = wildcard.pricing as ModelEntry['pricing']
  const deployments = deploymentsOf(wildcard, modelId).map((deployment) => {
    const vendor = unlistedVendorPrices(deployment, pricing)
    return vendor ? { ...deployment, vendor } : deployment
  })
  return { ...wildcard, pricing, aliases: [], created: 0, deployments, wildcard: id }
}

/** Members that a price list gives to an entry that lacks them, but for its prices. */
export function offered({
  name,
  context_length,
  max_output_tokens,
  created,
  ...model
}: ListedModel) {
  return {
    ...(name !== undefined && { name }),
    ...(context_length !== undefined && { context_length }),
    ...(max_output_tokens !== undefined && { max_output_tokens }),
    ...(model.deprecated_on !== undefined && { deprecated_on: model.deprecated_on }),
    created: created ?? 0,
  }
}

/** The selling prices of a listed model, and where they come from. @param by the factor of its prices */
export function pricedFrom(
  { pricing, price_changes, source, checked_at }: ListedModel,
  by: Factor,
) {
  return {
    pricing: timesFactor(pricing, by),
    ...(price_changes && {
      price_changes: price_changes.map((change) => ({
        ...change,
        pricing: timesFactor(change.pricing, by),
      })),
    }),
    price_source: { from: source, checked_at },
  }
}

function vendorOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}

function isFree({ overrides = [], ...base }: Pricing): boolean {
  return [base, ...overrides].every((prices: Pricing) =>
    PRICE_NAMES.every((name) => parsePrice(prices[name] ?? '0') === 0n),
  )
}

/** The list says of the model that it goes on with texts, which providers do where their options say so. */
function optionsOf({ capabilities }: ListedModel): Readonly<Record<string, unknown>> {
  return capabilities?.includes('COMPLETIONS') ? { completions: true } : {}
}

function deploymentsOf(
  { deployments }: Pick<WildcardEntry, 'deployments'>,
  id: string,
  options: Readonly<Record<string, unknown>> = {},
): ModelEntry['deployments'] {
  const rest = id.slice(id.indexOf('/') + 1)
  if (deployments) return deployments.map(({ model = rest, ...one }) => ({ ...one, model }))
  return [{ provider: vendorOf(id), model: rest, weight: 1, priority: 0, options: { ...options } }]
}
