/** Price lists: files with the prices of many models, one model a line, which are written by machine and read at each start. */
import * as v from 'valibot'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { show, toConfigIssues } from '../errors/issues.ts'
import { plainPricing } from '../money/prices.ts'
import {
  isModality,
  isWildcard,
  listedModelsSchema,
  misplacedChanges,
  misplacedTiers,
  type ListedModel,
} from './entry.ts'
import { isRaw } from './layers.ts'

/** Name of the file of an operator's own list. */
export const PRICE_LIST_FILE = 'prices.json'
/** Largest file of prices that is read, in bytes. */
export const MAX_LIST_BYTES = 20 * 1024 * 1024
/** The version of the format. */
const FORMAT = 1
/** Mistakes that a message lists. */
const MAX_ISSUES = 20

const TEXT = 'a text'
const listSchema = v.strictObject({
  format: v.literal(FORMAT, `the number ${FORMAT}`),
  generated_at: v.string(TEXT),
  sources: v.array(
    v.strictObject({
      name: v.string(TEXT),
      url: v.optional(v.string(TEXT)),
      fetched_at: v.optional(v.string(TEXT)),
      sha256: v.optional(v.string(TEXT)),
      licence: v.optional(v.string(TEXT)),
    }),
  ),
  models: listedModelsSchema,
})
/** A list of prices: where they come from, and what is known of each model, by id. */
export type PriceList = v.InferOutput<typeof listSchema>

/** A list without models. */
export const NO_PRICES: PriceList = { format: FORMAT, generated_at: '', sources: [], models: {} }

/**
 * Reads a price list.
 * @param label names it in messages
 * @throws ConfigError with the first twenty mistakes
 */
export function readPriceList(text: string, label: string): PriceList {
  const value = parse(text, label)
  if (!isRaw(value)) {
    throw new ConfigError(label, [
      { path: '', message: `expected a price list, found ${show(value)}` },
    ])
  }
  const result = v.safeParse(listSchema, value)
  const issues = result.success
    ? tierIssues(result.output)
    : toConfigIssues(result.issues, { path: [], value, secrets: new Set() }, listSchema)
  if (issues.length === 0) return (result as { output: PriceList }).output
  const shown = issues.slice(0, MAX_ISSUES)
  const more = issues.length - shown.length
  throw new ConfigError(label, [
    ...shown,
    ...(more > 0 ? [{ path: '', message: `and ${more} further mistakes` }] : []),
  ])
}

/**
 * The models of a list that a test has checked whole, one a line, such as that of the package: only the lines of those that are
 * needed are parsed, and none is validated again.
 */
export function checkedModels(text: string, isNeeded: (id: string) => boolean): PriceList {
  const [head, ...lines] = text.split('\n')
  const needed = lines.filter(
    (line) => line.startsWith('"') && isNeeded(line.slice(1, line.indexOf('":{'))),
  )
  return JSON.parse(`${head}${needed.join('').replace(/,$/, '')}}}`)
}

/** Whether a value has the form of a price list, right or wrong. */
export function isPriceList(value: unknown): boolean {
  return isRaw(value) && 'format' in value && isRaw(value.models)
}

/** A price list as text: one model a line, ids sorted, prices in plain notation. */
export function formatPriceList({ models, ...head }: PriceList): string {
  const lines = Object.keys(models)
    .toSorted()
    .map((id) => {
      const { modality, pricing, ...model } = models[id]!
      const line = { modality, pricing: plainPricing(pricing), ...model }
      return `${JSON.stringify(id)}:${JSON.stringify(line)}`
    })
  const { format, generated_at, sources } = head
  const begin = JSON.stringify({ format, generated_at, sources }).slice(0, -1)
  return `${begin},"models":{\n${lines.join(',\n')}${lines.length > 0 ? '\n' : ''}}}\n`
}

/** The models of several lists: of each the entry that was checked last; of two alike that of the first list. */
export function mergePriceLists(...lists: readonly PriceList[]): PriceList['models'] {
  const merged: PriceList['models'] = {}
  for (const { models } of lists) {
    for (const [id, model] of Object.entries(models)) {
      const existing = Object.hasOwn(merged, id) ? merged[id] : undefined
      if (!existing || isLater(model, existing)) merged[id] = model
    }
  }
  return merged
}

function isLater(one: ListedModel, other: ListedModel): boolean {
  return Date.parse(one.checked_at) > Date.parse(other.checked_at)
}

/** @throws ConfigError */
function parse(text: string, label: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const cut = /[}\]]\s*$/.test(text) ? '' : ': it ends in the middle, so it was cut off'
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0]
    const where = place === undefined || cut !== '' ? '' : ` (${place})`
    throw new ConfigError(label, [{ path: '', message: `is not valid JSON${cut}${where}` }])
  }
}

function tierIssues({ models }: PriceList): ConfigIssue[] {
  return Object.entries(models).flatMap(([id, { pricing, modality, price_changes }]) => [
    ...(isWildcard(id)
      ? [{ path: `models.${id}`, message: `expected the id of one model, found ${show(id)}` }]
      : []),
    ...misplacedTiers(pricing).map(({ index, message }) => ({
      path: `models.${id}.pricing.overrides.${index}.min_prompt_tokens`,
      message,
    })),
    ...(price_changes === undefined || (modality !== undefined && !isModality(modality))
      ? []
      : misplacedChanges({ modality, pricing, price_changes }).map(({ path, message }) => ({
          path: `models.${id}.${path}`,
          message,
        }))),
  ])
}
