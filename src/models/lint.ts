/** Entries of the catalog that are valid and probably not meant: above all prices with a mistake in them. */
import {
  formatPrice,
  compilePrices,
  PRICE_NAMES,
  pricesUpTo,
  TIER_PRICE_NAMES,
  type PriceName,
  type Prices,
} from '../money/prices.ts'
import type { AccountPrices } from './account-prices.ts'
import type { Model } from './catalog.ts'
import { doubtsOf, isSelling } from './margins.ts'
import { written } from './by-vendor.ts'
import { withoutVendor } from './names.ts'

/** Something about a model that an operator should look at. */
export interface Finding {
  readonly model: string
  readonly code: string
  /** Notes are shown by `check` alone. */
  readonly level: 'warning' | 'note'
  readonly message: string
}

type Found = readonly [code: string, message: string]

/** A price per token above it is probably one per million: 1,000 USD a million. 10⁻¹⁸ USD. */
const HIGH = 10n ** 15n
/** Prices with more digits than an amount are rounded in a bill. */
const FINE = 10n ** 6n
const PER_TOKEN = TIER_PRICE_NAMES.filter((name) => name !== 'request')

/** The source of prices that a person wrote. */
const OWN = 'own'

/** Prices that were not compared for so long are probably not those of the vendor any more. */
const OLD_DAYS = 90
/** How long before its end a model is reported. */
const ENDING_DAYS = 30
const DAY_MS = 86_400_000

/** Price lists of accounts by name, and the time: ms since epoch. */
interface Circumstances {
  readonly lists?: Readonly<Record<string, AccountPrices>> | undefined
  readonly now?: number
}

/** What is probably not meant, in the order of the models. */
export function lint(models: readonly Model[], more: Circumstances = {}): Finding[] {
  return findings(models, models, more)
}

/** The same for a start: of models that come from a wildcard only the age of their prices is reported. */
export function lintOfWritten(models: readonly Model[], more: Circumstances = {}): Finding[] {
  return findings(written(models), models, more)
}

/** @param all the models of the catalog */
function findings(
  models: readonly Model[],
  all: readonly Model[],
  { lists = {}, now = Date.now() }: Circumstances,
): Finding[] {
  const owners = new Map(all.flatMap(({ id, aliases }) => aliases.map((one) => [one, id])))
  const sells = isSelling(all, lists)
  const ofModels = models.flatMap((model) => {
    const { id } = model
    const warnings = [
      ...priceWarnings(model),
      ...model.priceChanges.flatMap((change) => changeWarnings(model, change)),
      ...shadowed(id, owners),
      ...differs(model),
      ...deprecated(model, now),
    ]
    return [
      ...warnings.map(
        ([code, message]) => ({ model: id, code, level: 'warning', message }) as const,
      ),
      ...notes(model).map(
        ([code, message]) => ({ model: id, code, level: 'note', message }) as const,
      ),
      ...(sells ? doubtsOf(model, lists) : []).map((doubt) => ({ model: id, ...doubt })),
    ]
  })
  return [...ofModels, ...old(all, now)]
}

function priceWarnings(model: Model): Found[] {
  const { prices } = model
  const [base, ...tiers] = pricesUpTo(prices, Infinity) as [Prices, ...Prices[]]
  return [
    ...high(base, {}),
    ...tiers.flatMap((tier) => high(tier, base)),
    ...fine(base),
    ...zero(model),
    ...order(base),
    ...tiers.flatMap((tier) => tierOrder(tier, base)),
    ...modal(model),
  ]
}

/** What is wrong with later prices, but for what is wrong now already. */
function changeWarnings(model: Model, change: Model['priceChanges'][number]): Found[] {
  const present = new Set(priceWarnings(model).map(([, message]) => message))
  const from = new Date(change.from).toISOString()
  return priceWarnings({ ...model, prices: change.prices })
    .filter(([, message]) => !present.has(message))
    .map(([code, message]): Found => [code, `from ${from}: ${message}`])
}

/** @param base prices that were looked at before */
function high(list: Prices, base: Prices): Found[] {
  return PER_TOKEN.flatMap((name): Found[] => {
    const price = list[name]
    if (price === undefined || price <= HIGH || price === base[name]) return []
    const message = `${name} ${formatPrice(price)} is above 0.001 USD a token: is it a price per million?`
    return [['price-high', message]]
  })
}

function fine(list: Prices): Found[] {
  const names = PRICE_NAMES.filter((name) => (list[name] ?? 0n) % FINE !== 0n)
  const message = `${names.join(', ')}: more than 12 fractional digits, so that bills are rounded up`
  return names.length > 0 ? [['price-fine', message]] : []
}

function zero({ freeTier, prices, priceSource }: Model): Found[] {
  const priced = PRICE_NAMES.filter((name) => prices[name] !== undefined)
  if (priced.every((name) => prices[name] === 0n)) {
    // A person has accepted what a list has for nothing.
    if (freeTier || priceSource.from !== OWN) return []
    return [['price-zero', 'all prices are 0, and the model is not on the free tier']]
  }
  const { prompt, completion } = prices
  if (prompt === undefined || completion === undefined) return []
  if ((prompt === 0n) === (completion === 0n)) return []
  return [['price-zero', `${prompt === 0n ? 'prompt' : 'completion'} is 0, and the other is not`]]
}

function order({ prompt, completion, ...rest }: Prices): Found[] {
  const { input_cache_read: read, input_cache_write: write, input_cache_write_1h: hour } = rest
  return [
    ...below(prompt, read, 'input_cache_read is above prompt'),
    ...below(hour, write, 'input_cache_write_1h is below input_cache_write'),
    ...(completion === 0n ? [] : below(completion, prompt, 'completion is below prompt')),
  ]
}

/** A warning where the first price is below the second one. */
function below(first: bigint | undefined, second: bigint | undefined, message: string): Found[] {
  const wrong = first !== undefined && second !== undefined && first < second
  return wrong ? [['price-order', message]] : []
}

function tierOrder(tier: Prices, base: Prices): Found[] {
  const lower = PER_TOKEN.filter((name) => (tier[name] ?? 0n) < (base[name] ?? 0n))
  const rises = (tier.prompt ?? 0n) > (base.prompt ?? 0n)
  const left = (['completion', 'input_cache_read'] as const).filter(
    (name: PriceName) => rises && base[name] !== undefined && tier[name] === base[name],
  )
  return [
    ...lower.map((name): Found => ['price-order', `${name} is lower for long prompts`]),
    ...left.map((name): Found => [
      'price-order',
      `prompt rises for long prompts, and ${name} does not`,
    ]),
  ]
}

function modal({ capabilities, prices, modality }: Model): Found[] {
  const findings: Found[] = []
  if (modality === 'chat' && capabilities?.has('AUDIO_INPUT') && prices.audio === undefined) {
    findings.push([
      'modal-price',
      'takes sound, and "audio" has no price: it costs as much as text',
    ])
  }
  const byToken = prices.image === undefined && prices.image_token === undefined
  if (modality === 'image' && capabilities?.has('REFERENCES') && byToken) {
    findings.push([
      'modal-price',
      'takes images, and "image_token" has no price: they cost as much as text',
    ])
  }
  return findings
}

/** Prices of an entry's own beside those of the price list. */
function differs({ priceSource, prices, listed }: Model): Found[] {
  if (!listed || priceSource.from === listed.source) return []
  const others = compilePrices(listed.pricing)
  const names = PRICE_NAMES.filter((name) => {
    const [own, other] = [prices[name], others[name]]
    if (own === undefined || other === undefined) return false
    const [low, high] = own < other ? [own, other] : [other, own]
    return (high - low) * 10n > other
  })
  return names.map((name) => [
    'price-differs',
    `${name} is ${formatPrice(prices[name]!)}, in the price list ${formatPrice(others[name]!)} (${listed.source})`,
  ])
}

function deprecated({ deprecatedOn }: Model, now: number): Found[] {
  if (deprecatedOn === undefined) return []
  const left = Date.parse(deprecatedOn) - now
  if (left > ENDING_DAYS * DAY_MS) return []
  const verb = left < 0 ? 'ended' : 'ends'
  return [['deprecated', `its vendor ${verb} it on ${deprecatedOn}`]]
}

/** One warning for each time at which prices were compared. */
function old(models: readonly Model[], now: number): Finding[] {
  const stale = models.filter(({ priceSource: { checked_at } }) => {
    return checked_at !== undefined && now - Date.parse(checked_at) > OLD_DAYS * DAY_MS
  })
  const groups = Map.groupBy(
    stale,
    ({ priceSource: { from, checked_at } }) => `${from} on ${checked_at!.slice(0, 10)}`,
  )
  return [...groups].map(([source, same]) => {
    const more = same.length > 1 ? ` and ${same.length - 1} more` : ''
    const message = `prices were last compared with ${source}: run "sluicegate models import"`
    return { model: same[0]!.id + more, code: 'price-old', level: 'warning', message }
  })
}

/** A name without its vendor that another model has as an alias. */
function shadowed(id: string, owners: ReadonlyMap<string, string>): Found[] {
  const name = withoutVendor(id)
  const owner = owners.get(name)
  if (owner === undefined || owner === id) return []
  return [['shadowed', `"${name}" means ${owner}, which has it as an alias`]]
}

function notes({ capabilities, contextLength, modality }: Model): Found[] {
  return [
    ...(capabilities
      ? []
      : [['capabilities-unknown', 'everything is passed to the vendor'] satisfies Found]),
    ...(modality === 'chat' && contextLength === undefined
      ? [['window-unknown', 'no context_length: clients are not told it'] satisfies Found]
      : []),
  ]
}
