/** Prices of models in a configuration: USD per unit, as text. */
import { readDecimal, writeDecimal } from '../shared/decimal.ts'
import { secondPrices, TOKEN_PRICES } from './price-names.ts'
import { isUnset, textOf, type Raw } from '../shared/values.ts'

/** Prices here by LiteLLM's names. */
const NAMES: Readonly<Record<string, string>> = {
  ...TOKEN_PRICES,
  output_cost_per_image: 'image',
  ocr_cost_per_page: 'page',
  input_cost_per_image: 'image',
  input_cost_per_character: 'character',
  input_cost_per_second: 'second',
  input_cost_per_request: 'request',
  input_cost_per_query: 'search_unit',
}
const TIER = /^(.+)_above_(\d+)k_tokens$/
/** Prices that tiers may have. */
const PER_TOKEN = /token|cache/
const FRACTION_DIGITS = 18
/** The price of an image that is made, which counts before that of one that is sent. */
const MADE_IMAGE = 'output_cost_per_image'
const SENT_IMAGE = 'input_cost_per_image'
/** Prices for other units than tokens, and the modality that pays them. */
const UNITS: Readonly<Record<string, string>> = {
  image: 'image',
  page: 'ocr',
  character: 'speech',
  second: 'transcription',
}

/** The prices of a model; undefined where none are given. */
interface Pricing {
  readonly pricing: Readonly<Record<string, unknown>> | undefined
  /** Members that are no prices here, with a reason. */
  readonly unmapped: readonly (readonly [name: string, message: string])[]
}

/** Whether a member is a price of LiteLLM's. */
export function isPrice(name: string): boolean {
  return Object.hasOwn(NAMES, name) || /_cost(_|$)|_pricing$/.test(name)
}

/**
 * The prices among members of a model. Every number is read from its text.
 * @param modality undefined where the source does not say it: then a model with prices for tokens is one for chat
 */
export function pricingOf(members: Raw, modality: string | undefined): Pricing {
  const base: Record<string, string> = {}
  const tiers = new Map<number, Record<string, string>>()
  const unmapped: [string, string][] = []
  for (const [name, value] of Object.entries(members)) {
    if (!isPrice(name) || isUnset(value)) continue
    if (name === SENT_IMAGE && !isUnset(members[MADE_IMAGE])) {
      if (value !== members[MADE_IMAGE]) unmapped.push([name, `${MADE_IMAGE} counts`])
      continue
    }
    const [, stem = name, thousands] = TIER.exec(name) ?? []
    const price = Object.hasOwn(NAMES, stem) ? NAMES[stem] : undefined
    // A number that is none of the file's texts, such as one of a YAML alias, has gone through a float.
    const text = typeof value === 'string' ? textOf(value) : undefined
    const amount = text === undefined ? undefined : readDecimal(text)
    const written = amount === undefined ? undefined : writeDecimal(amount, FRACTION_DIGITS)
    if (price === undefined || (thousands !== undefined && !PER_TOKEN.test(stem))) {
      unmapped.push([name, 'a price that has no counterpart'])
    } else if (written === undefined) {
      unmapped.push([
        name,
        `not a number of at most ${FRACTION_DIGITS} fractional digits that is written out`,
      ])
    } else if (thousands === undefined) {
      base[price] = written
    } else {
      const from = Number(thousands) * 1000 + 1
      tiers.set(from, { ...tiers.get(from), [price]: written })
    }
  }
  const paying = modality ?? ('prompt' in base || 'completion' in base ? 'chat' : undefined)
  for (const [unit, payer] of Object.entries(UNITS)) {
    if (!(unit in base) || paying === undefined || paying === payer) continue
    delete base[unit]
    unmapped.push([`price by the ${unit}`, `${paying} models have no such price`])
  }
  for (const name of secondPrices((one) => !(Number(base[one] ?? 0) > 0))) {
    delete base[name]
    unmapped.push([`price by the ${name}`, 'another of its prices is for the same'])
  }
  if (Object.keys(base).length === 0) {
    for (const from of tiers.keys()) {
      unmapped.push([`…_above_${(from - 1) / 1000}k_tokens`, 'a tier without prices below it'])
    }
    return { pricing: undefined, unmapped }
  }
  const overrides = [...tiers]
    .toSorted(([a], [b]) => a - b)
    .map(([from, prices]) => ({ min_prompt_tokens: from, ...prices }))
  return { pricing: { ...base, ...(overrides.length > 0 && { overrides }) }, unmapped }
}
