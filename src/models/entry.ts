/** An entry of `models`: its schema, the modality that its prices imply, and the prices that it needs. */
import * as v from 'valibot'
import { isDay, isMoment } from '../errors/moments.ts'
import {
  parsePrice,
  PRICE_NAMES,
  TIER_PRICE_NAMES,
  type PriceName,
  type Pricing,
} from '../money/prices.ts'
import { factor, markup, type Factor } from './markup.ts'
import { CAPABILITIES } from './capabilities.ts'
import { fallbacksSchema } from './fallback-list.ts'
import { MAX_ALIASES } from './names.ts'

/** Families of endpoints. */
const MODALITIES = [
  'chat',
  'image',
  'ocr',
  'speech',
  'transcription',
  'embedding',
  'rerank',
  'moderation',
] as const
/** The family of endpoints that a model belongs to. */
export type Modality = (typeof MODALITIES)[number]

/** Longest duration that may be configured; a timer of Node.js cannot run longer than 24 days. */
export const MAX_SECONDS = 1_000_000
const DURATION = `a number of seconds above 0 and at most ${MAX_SECONDS}`
/** Schema of a duration: seconds, fractions allowed. */
export const duration = v.pipe(
  v.number(DURATION),
  v.gtValue(0, DURATION),
  v.maxValue(MAX_SECONDS, DURATION),
)

/** A unit for more than this is a mistake, 10⁻¹⁸ USD. */
export const HIGHEST_PRICE = parsePrice('1000')
const HIGHEST_USD = 1000
/** Whether it is above that, also where it is too large to be read exactly. */
const isTooHigh = (text: string) =>
  Number(text) === HIGHEST_USD
    ? isPrice(text) && parsePrice(text) > HIGHEST_PRICE
    : Number(text) > HIGHEST_USD
const PRICE = 'a decimal string such as "0.0000025"'
/** Schema of a price: USD per unit, as text. */
export const price = v.pipe(
  v.string(PRICE),
  v.check((text) => isPrice(text) || isTooHigh(text), `${PRICE} with at most 18 fractional digits`),
  v.check(
    (text) => !isTooHigh(text),
    'at most 1000 USD for one unit; prices per million are divided by a million',
  ),
)
const optionalPrice = v.optional(price)
const tokens = v.optional(v.pipe(v.number(), v.integer(), v.minValue(1, 'a whole number above 0')))

/** Optional prices of these names. */
function pricesOf<const Name extends PriceName>(names: readonly Name[]) {
  const entries = names.map((name) => [name, optionalPrice])
  return Object.fromEntries(entries) as Record<Name, typeof optionalPrice>
}

const TOKENS = 'a whole number of tokens above 0'
const tierSchema = v.pipe(
  v.strictObject({
    min_prompt_tokens: v.pipe(v.number(TOKENS), v.safeInteger(TOKENS), v.minValue(1, TOKENS)),
    ...pricesOf(TIER_PRICE_NAMES),
  }),
  v.check((tier) => Object.keys(tier).length > 1, 'at least one price beside "min_prompt_tokens"'),
)
/** Tiers that a price list may have. */
export const MAX_TIERS = 8

/** Schema of prices: USD per unit, by their names. */
export const pricingSchema = v.pipe(
  v.strictObject(
    {
      ...pricesOf(PRICE_NAMES.filter((name) => name !== 'vendor_usd')),
      overrides: v.optional(
        v.pipe(v.array(tierSchema), v.maxLength(MAX_TIERS, `at most ${MAX_TIERS} overrides`)),
      ),
    },
    'prices such as { prompt: "0.000001", completion: "0.000002" }',
  ),
  v.check((pricing) => PRICE_NAMES.some((name) => name in pricing), 'at least one price'),
)

const COST = '{ factor }, { pricing }, { price_of }, or { reported: true }'
/** What the vendor of a deployment is paid. */
const costSchema = v.union(
  [
    v.strictObject({ factor }),
    v.strictObject({ pricing: pricingSchema }),
    v.strictObject({
      price_of: v.string('the id of a model in the price list'),
      factor: v.optional(factor),
    }),
    v.strictObject({ reported: v.literal(true, 'true') }),
  ],
  COST,
)

const deploymentMembers = {
  provider: v.string('the name of a provider'),
  model: v.pipe(v.string(), v.minLength(1, 'the name of the model at its vendor')),
  cost: v.optional(costSchema),
  weight: v.optional(v.pipe(v.number(), v.gtValue(0, 'a number above 0')), 1),
  priority: v.optional(v.pipe(v.number(), v.integer('a whole number')), 0),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
  timeout: v.optional(duration),
  firstPartTimeout: v.optional(duration),
  idleTimeout: v.optional(duration),
}

const ALIAS = 'a name of 1 to 120 characters without white space, which does not end in ":online"'
const aliasSchema = v.pipe(
  v.string(ALIAS),
  v.regex(/^\S{1,120}$/, ALIAS),
  v.check((alias) => !alias.endsWith(':online'), ALIAS),
)

const MOMENT = 'seconds since epoch'
/** The end of the year 9999: a date has no further ones. */
const LAST = 253_402_300_799

const DATE = 'a date such as "2027-01-31"'
const date = v.pipe(written(DATE), v.transform(dayOf), v.check(isDay, DATE))
const TIME = 'a time such as "2026-11-20T00:00:00Z"'
const time = v.pipe(written(TIME), v.check(isTime, TIME))
const SOURCE = 'the name of a source of prices'

const created = v.pipe(v.number(), v.integer(), v.minValue(0, MOMENT), v.maxValue(LAST, MOMENT))
const DEPLOYMENTS = 'a list of deployments, or a provider with the name of the vendor'

/** Where prices come from. */
const sourceSchema = v.strictObject({
  from: v.pipe(v.string(SOURCE), v.minLength(1, SOURCE)),
  url: v.optional(v.string()),
  fetched_at: v.optional(time),
  checked_at: v.optional(time),
})

/** Changes of prices that a model may have ahead. */
const MAX_CHANGES = 8
const CHANGES = `at most ${MAX_CHANGES} changes`
const priceChanges = v.optional(
  v.pipe(
    v.array(v.strictObject({ from: time, pricing: pricingSchema }), 'a list of changes'),
    v.maxLength(MAX_CHANGES, CHANGES),
  ),
)

function numberOf(least: number, most: number) {
  const expected = `a number of ${least} to ${most}`
  return v.optional(
    v.pipe(v.number(expected), v.minValue(least, expected), v.maxValue(most, expected)),
  )
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/** What a chat is asked with where its request does not say it. */
const defaultsSchema = v.strictObject({
  temperature: numberOf(0, 2),
  top_p: numberOf(0, 1),
  top_k: numberOf(0, 1_000_000),
  max_completion_tokens: tokens,
  reasoning: v.optional(
    v.strictObject({
      enabled: v.optional(v.boolean()),
      effort: v.optional(v.picklist(EFFORTS)),
      max_tokens: tokens,
    }),
  ),
  seed: v.optional(v.pipe(v.number(), v.safeInteger('a whole number'))),
  stop: v.optional(v.union([v.string(), v.array(v.string())], 'a text, or a list of texts')),
  presence_penalty: numberOf(-2, 2),
  frequency_penalty: numberOf(-2, 2),
  verbosity: v.optional(v.picklist(['low', 'medium', 'high'])),
})
/** Parameters of a chat that apply where a request does not say them. */
export type ModelDefaults = v.InferOutput<typeof defaultsSchema>

const USES = ['off', 'asked', 'on'] as const
/** Whether calls get stored answers: never, where they ask for it, or whenever one fits. */
export type CacheUse = (typeof USES)[number]
const cacheUse = v.picklist(USES, '"off", "asked" or "on"')
const SHARE = 'a decimal text from "0" to "1", such as "0.1"'
/** Schema of the share of the selling price that a stored answer costs. */
export const priceShare = v.pipe(
  factor,
  v.check((text) => Number(text) <= 1, SHARE),
)
const TTL = 'a number of seconds from 10 to 604800'
const cacheSchema = v.pipe(
  v.union(
    [
      cacheUse,
      v.strictObject({
        use: cacheUse,
        ttl: v.optional(v.pipe(v.number(TTL), v.minValue(10, TTL), v.maxValue(604_800, TTL))),
        price: v.optional(priceShare),
      }),
    ],
    '"off", "asked", "on", or { use, ttl, price }',
  ),
  v.transform((cache): ModelCache => (typeof cache === 'string' ? { use: cache } : cache)),
)

/** The use of stored answers of a model, and how long and for what share of the price. */
export interface ModelCache {
  readonly use: CacheUse
  readonly ttl?: number | undefined
  readonly price?: Factor | undefined
}

/** Members that an entry and a wildcard have in common. */
const SHARED = {
  markup: v.optional(markup),
  enabled: v.optional(v.boolean(), true),
  modality: v.optional(v.picklist(MODALITIES)),
  free_tier: v.optional(v.boolean(), false),
  capabilities: v.optional(v.array(v.picklist(CAPABILITIES))),
  context_length: tokens,
  max_output_tokens: tokens,
  description: v.optional(v.string()),
  defaults: v.optional(defaultsSchema),
  fallbacks: v.optional(fallbacksSchema),
  cache: v.optional(cacheSchema),
}

/** Schema of one entry of `models` in the configuration. */
const modelSchema = v.strictObject({
  ...SHARED,
  // Without prices of its own or of a list, a model is not served.
  pricing: v.optional(pricingSchema),
  price_changes: priceChanges,
  price_source: v.optional(sourceSchema),
  price_of: v.optional(v.string('the id of a model in the price list')),
  aliases: v.optional(
    v.pipe(v.array(aliasSchema), v.maxLength(MAX_ALIASES, `at most ${MAX_ALIASES} aliases`)),
    [],
  ),
  name: v.optional(v.string()),
  created: v.optional(created, 0),
  deprecated_on: v.optional(date),
  deployments: v.pipe(
    v.array(v.strictObject(deploymentMembers), DEPLOYMENTS),
    v.minLength(1, 'at least one deployment'),
  ),
})
/** A validated entry of `models`, with or without prices. */
export type WrittenEntry = v.InferOutput<typeof modelSchema>
/** Prices of a vendor as a configuration has them, and their changes. */
export interface VendorPrices {
  readonly pricing: Pricing
  readonly changes: readonly { readonly from: string; readonly pricing: Pricing }[]
}

/** An entry of a model that can be served. */
export type ModelEntry = Omit<WrittenEntry, 'pricing' | 'deployments'> & {
  readonly pricing: NonNullable<WrittenEntry['pricing']>
  readonly deployments: readonly (WrittenEntry['deployments'][number] & {
    /** What its vendor is paid; absent where that is unknown. */
    readonly vendor?: VendorPrices
  })[]
  /** What the price list has under its `price_of`, or else its id. */
  readonly listed?: ListedModel
  /** The markups of its providers where they differ. */
  readonly markups?: readonly (readonly [provider: string, factor: string])[]
  /** The wildcard that it comes from, such as `vendor/*`. */
  readonly wildcard?: string
}

/** Value of `unpriced` with which names that no list has cost what the vendor reports. */
export const VENDOR_PRICE = 'vendor_price_required'
const UNPRICED = `"refuse", "${VENDOR_PRICE}", or prices`

/** Schema of an entry for all models of a vendor, `vendor/*`. */
export const wildcardSchema = v.strictObject({
  ...SHARED,
  pricing: v.optional(pricingSchema),
  // Offers what the vendor names.
  discover: v.optional(v.boolean(), false),
  // What becomes of names that no list has.
  unpriced: v.optional(v.union([v.picklist(['refuse', VENDOR_PRICE]), pricingSchema], UNPRICED)),
  deployments: v.optional(
    v.pipe(
      v.array(
        v.strictObject({
          ...deploymentMembers,
          // The rest of the asked id, where it is absent.
          model: v.optional(deploymentMembers.model),
        }),
        DEPLOYMENTS,
      ),
      v.minLength(1, 'at least one deployment'),
    ),
  ),
})
/** A validated entry for all models of a vendor. */
export type WildcardEntry = v.InferOutput<typeof wildcardSchema> & {
  /** Prices of names that no list has; absent where they are refused. */
  readonly unlisted?: Pricing
}

/** What a price list can say of a model. Its modality may be one that has no endpoint here. */
const listedSchema = v.strictObject({
  modality: v.optional(v.string()),
  pricing: pricingSchema,
  price_changes: priceChanges,
  name: v.optional(v.string()),
  context_length: tokens,
  max_output_tokens: tokens,
  created: v.optional(created),
  deprecated_on: v.optional(date),
  successor: v.optional(v.string()),
  aliases: v.optional(v.array(v.string())),
  capabilities: v.optional(v.array(v.string())),
  source: v.pipe(v.string(SOURCE), v.minLength(1, SOURCE)),
  checked_at: time,
})
/** A validated model of a price list. */
export type ListedModel = v.InferOutput<typeof listedSchema>

const MODEL_ID = 'a model id such as "vendor/model", without a colon before the slash'
/** Schema of the id of a model, or of a wildcard. */
export const modelId = v.pipe(
  v.string(),
  v.regex(/^[^/\s:]+\/\S+$/, MODEL_ID),
  v.check((id) => !id.endsWith(':online'), 'a model id that does not end in ":online"'),
)

/** Schema of `models` in the configuration: entries by model id. Wildcards are taken out before. */
export const modelsSchema = v.record(modelId, modelSchema)

/** Schema of `models` of a price list. */
export const listedModelsSchema = v.record(modelId, listedSchema)

/** Whether an id stands for all models of a vendor. */
export function isWildcard(id: string): boolean {
  return id.endsWith('/*')
}

/** Whether models of this kind have an endpoint here. */
export function isModality(modality: string): modality is Modality {
  return MODALITIES.some((one) => one === modality)
}

/** Prices by modality. A model needs at least one of them; without it, every call would be free by accident. */
const NEEDED_PRICES: Readonly<Record<Modality, readonly PriceName[]>> = {
  chat: ['prompt', 'completion', 'request'],
  image: ['image', 'image_output'],
  ocr: ['page'],
  speech: ['character'],
  transcription: ['second', 'audio'],
  embedding: ['prompt', 'request'],
  rerank: ['prompt', 'search_unit', 'request'],
  moderation: ['prompt', 'request'],
}

/** What decides about a modality. */
interface Priced {
  readonly modality?: Modality | undefined
  readonly pricing?: Pricing | undefined
}

/** The modality of an entry: its `modality`, or the one that its price names imply. Prices do not tell embeddings, rerank and moderation from chat. */
export function modalityOf({ modality, pricing = {} }: Priced): Modality {
  if (modality) return modality
  if ('page' in pricing) return 'ocr'
  if ('character' in pricing) return 'speech'
  if ('second' in pricing) return 'transcription'
  return 'image' in pricing || 'image_output' in pricing ? 'image' : 'chat'
}

/** The prices of which an entry needs at least one but has none; empty when it has one. */
export function missingPrices(entry: Priced): readonly PriceName[] {
  const needed = NEEDED_PRICES[modalityOf(entry)]
  const { pricing = {} } = entry
  return needed.some((name) => name in pricing) ? [] : needed
}

/** Whether an entry has prices at all. */
export function hasPrices(entry: WrittenEntry | ModelEntry): entry is ModelEntry {
  return entry.pricing !== undefined
}

/** An enabled entry that is not served, because no layer has a price that its modality needs. */
export interface Unpriced {
  /** The model's id, or `vendor/*`. */
  readonly id: string
  /** Names of prices of which it needs one; empty for a wildcard. */
  readonly needs: readonly PriceName[]
}

/** Tiers that do not begin above the one before them: their places in the list, and what is wrong. */
export function misplacedTiers({ overrides = [] }: Pricing): { index: number; message: string }[] {
  return overrides.flatMap(({ min_prompt_tokens: from }, index) => {
    const before = overrides[index - 1]?.min_prompt_tokens ?? 0
    const message =
      `expected more than the ${before} tokens of the override before it, found ${from}: ` +
      'each override applies from its first token up to the next one'
    return from > before ? [] : [{ index, message }]
  })
}

/** What is wrong with changes of prices beyond their form: the path below the entry, and the message. */
export function misplacedChanges(
  entry: Priced & Pick<ModelEntry, 'price_changes'>,
): { path: string; message: string }[] {
  const { price_changes: changes = [] } = entry
  return changes.flatMap(({ from, pricing }, index) => {
    const path = `price_changes.${index}`
    const before = changes[index - 1]?.from
    const isLater = before === undefined || Date.parse(from) > Date.parse(before)
    const modality = modalityOf(entry)
    const missing = missingPrices({ modality, pricing })
    return [
      ...(isLater
        ? []
        : [
            {
              path: `${path}.from`,
              message: `expected a time after ${before}, that of the change before it, found ${from}`,
            },
          ]),
      ...(missing.length === 0
        ? []
        : [
            {
              path: `${path}.pricing`,
              message: `expected the whole new list, with a price of ${modality} models: ${missing.join(' or ')}`,
            },
          ]),
      ...misplacedTiers(pricing).map(({ index: tier, message }) => ({
        path: `${path}.pricing.overrides.${tier}.min_prompt_tokens`,
        message,
      })),
    ]
  })
}

/** A text. A Date is accepted too, because YAML turns a day and a moment without quotes into one. */
function written(expected: string) {
  return v.pipe(
    v.union([v.string(), v.date()], expected),
    v.transform((moment) => (moment instanceof Date ? moment.toISOString() : moment)),
  )
}

/** YAML reads a day as the moment at which it begins. */
function dayOf(text: string): string {
  return text.replace(/T00:00:00\.000Z$/, '')
}

function isTime(text: string): boolean {
  return isMoment(text) && !isDay(text)
}

function isPrice(text: string): boolean {
  try {
    parsePrice(text)
    return true
  } catch {
    return false
  }
}
