/** An entry of `models`: its schema, the modality that its prices imply, and the prices that it needs. */
import * as v from 'valibot'
import { parsePrice } from '../money/decimal.ts'
import { PRICE_NAMES, TIER_PRICE_NAMES, type PriceName, type Pricing } from '../money/prices.ts'
import { CAPABILITIES } from './capabilities.ts'
import { MAX_ALIASES } from './names.ts'

/** Families of endpoints. */
const MODALITIES = ['chat', 'image', 'ocr', 'speech', 'transcription'] as const
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
const HIGHEST = parsePrice('1000')
const PRICE = 'a decimal string such as "0.0000025"'
/** Schema of a price: USD per unit, as text. */
export const price = v.pipe(
  v.string(PRICE),
  v.check(isPrice, `${PRICE} with at most 18 fractional digits`),
  v.check(
    (text) => !isPrice(text) || parsePrice(text) <= HIGHEST,
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
const MAX_TIERS = 8

const pricingSchema = v.pipe(
  v.strictObject(
    {
      ...pricesOf(PRICE_NAMES),
      overrides: v.optional(
        v.pipe(v.array(tierSchema), v.maxLength(MAX_TIERS, `at most ${MAX_TIERS} overrides`)),
      ),
    },
    'prices such as { prompt: "0.000001", completion: "0.000002" }',
  ),
  v.check((pricing) => PRICE_NAMES.some((name) => name in pricing), 'at least one price'),
)

const deploymentSchema = v.strictObject({
  provider: v.string('the name of a provider'),
  model: v.pipe(v.string(), v.minLength(1, 'the name of the model at its vendor')),
  weight: v.optional(v.pipe(v.number(), v.gtValue(0, 'a number above 0')), 1),
  priority: v.optional(v.pipe(v.number(), v.integer('a whole number')), 0),
  options: v.optional(v.record(v.string(), v.unknown()), {}),
  timeout: v.optional(duration),
  firstPartTimeout: v.optional(duration),
  idleTimeout: v.optional(duration),
})

const ALIAS = 'a name of 1 to 120 characters without white space, which does not end in ":online"'
const aliasSchema = v.pipe(
  v.string(ALIAS),
  v.regex(/^\S{1,120}$/, ALIAS),
  v.check((alias) => !alias.endsWith(':online'), ALIAS),
)

const MOMENT = 'seconds since epoch'
/** The end of the year 9999: a date has no further ones. */
const LAST = 253_402_300_799

/** Schema of one entry of `models` in the configuration. */
const modelSchema = v.strictObject({
  enabled: v.optional(v.boolean(), true),
  modality: v.optional(v.picklist(MODALITIES)),
  free_tier: v.optional(v.boolean(), false),
  pricing: pricingSchema,
  capabilities: v.optional(v.array(v.picklist(CAPABILITIES))),
  aliases: v.optional(
    v.pipe(v.array(aliasSchema), v.maxLength(MAX_ALIASES, `at most ${MAX_ALIASES} aliases`)),
    [],
  ),
  context_length: tokens,
  max_output_tokens: tokens,
  name: v.optional(v.string()),
  description: v.optional(v.string()),
  created: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(0, MOMENT), v.maxValue(LAST, MOMENT)),
    0,
  ),
  deployments: v.pipe(
    v.array(deploymentSchema, 'a list of deployments, or a provider with the name of the vendor'),
    v.minLength(1, 'at least one deployment'),
  ),
})
/** A validated entry of `models`. */
export type ModelEntry = v.InferOutput<typeof modelSchema>

const MODEL_ID = 'a model id such as "vendor/model", without a colon before the slash'

/** Schema of `models` in the configuration: entries by model id. */
export const modelsSchema = v.record(
  v.pipe(
    v.string(),
    v.regex(/^[^/\s:]+\/\S+$/, MODEL_ID),
    v.check((id) => !id.endsWith(':online'), 'a model id that does not end in ":online"'),
    v.check((id) => !id.endsWith('/*'), 'the id of one model: each model needs prices of its own'),
  ),
  modelSchema,
)

/** Prices by modality. A model needs at least one of them; without it, every call would be free by accident. */
const NEEDED_PRICES: Readonly<Record<Modality, readonly PriceName[]>> = {
  chat: ['prompt', 'completion', 'request'],
  image: ['image', 'image_output'],
  ocr: ['page'],
  speech: ['character'],
  transcription: ['second', 'audio'],
}

/** The modality of an entry: its `modality`, or the one that its price names imply. */
export function modalityOf({
  modality,
  pricing,
}: Pick<ModelEntry, 'modality' | 'pricing'>): Modality {
  if (modality) return modality
  if ('page' in pricing) return 'ocr'
  if ('character' in pricing) return 'speech'
  if ('second' in pricing) return 'transcription'
  return 'image' in pricing || 'image_output' in pricing ? 'image' : 'chat'
}

/** The prices of which an entry needs at least one but has none; empty when it has one. */
export function missingPrices(
  entry: Pick<ModelEntry, 'modality' | 'pricing'>,
): readonly PriceName[] {
  const needed = NEEDED_PRICES[modalityOf(entry)]
  return needed.some((name) => name in entry.pricing) ? [] : needed
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

function isPrice(text: string): boolean {
  try {
    parsePrice(text)
    return true
  } catch {
    return false
  }
}
