/** Ratios of new-api as prices. Quota counts in parts of a USD. */
import type { MigratedModel, MigrationRow } from '../../../src/plugin.ts'
import { readDecimal, writeDecimal, roundDown } from '../shared/decimal.ts'
import { isRaw, textOf, type Raw } from '../shared/values.ts'

/** What decimals are read as: integers of this part. */
const ONE = readDecimal('1')!
/** Quota of 1 USD, unless the installation has changed it. */
const QUOTA_OF_USD = '500000'
const PRICE_DIGITS = 18
const USD_DIGITS = 12

/** Prices and amounts of one installation. */
export class Ratios {
  readonly #options: ReadonlyMap<string, string>
  readonly #quotaOfUsd: bigint
  readonly #models: Raw
  readonly #completions: Raw
  readonly #caches: Raw
  readonly #calls: Raw

  /** @param rows the rows of the table of options: names and values */
  constructor(rows: readonly MigrationRow[]) {
    this.#options = new Map(
      rows.map((row) => [textOf(row.key) ?? '', textOf(row.value) ?? ''] as const),
    )
    const perUsd = readDecimal(this.#options.get('QuotaPerUnit') ?? QUOTA_OF_USD) ?? 0n
    this.#quotaOfUsd = perUsd > 0n ? perUsd : readDecimal(QUOTA_OF_USD)!
    this.#models = this.#table('ModelRatio')
    this.#completions = this.#table('CompletionRatio')
    this.#caches = this.#table('CacheRatio')
    this.#calls = this.#table('ModelPrice')
  }

  /** Names of the options that were given. */
  get names(): readonly string[] {
    return [...this.#options.keys()]
  }

  /** The value of an option. */
  option(name: string): string | undefined {
    return this.#options.get(name)
  }

  /** Groups whose calls cost more or less than others. */
  unequalGroups(): string[] {
    return Object.entries(this.#table('GroupRatio')).flatMap(([group, ratio]) =>
      readDecimal(textOf(ratio) ?? '') === ONE ? [] : [group],
    )
  }

  /** USD of a quota as decimal text, rounded down; undefined for none above 0. */
  usdOf(quota: unknown): string | undefined {
    const amount = readDecimal(textOf(quota) ?? '')
    if (amount === undefined || amount === 0n) return undefined
    const usd = roundDown((amount * ONE) / this.#quotaOfUsd, USD_DIGITS)
    return usd > 0n ? writeDecimal(usd, USD_DIGITS) : undefined
  }

  /** The prices of a model; undefined where its ratios do not tell all of them. */
  pricingOf(name: string): MigratedModel['pricing'] {
    const call = this.#read(this.#calls, name)
    if (call !== undefined) {
      const request = writeDecimal(roundDown(call, PRICE_DIGITS), PRICE_DIGITS)
      return request === undefined ? undefined : { request }
    }
    const [ratio, completion] = [
      this.#read(this.#models, name),
      this.#read(this.#completions, name),
    ]
    if (ratio === undefined || completion === undefined) return undefined
    const cache = this.#read(this.#caches, name)
    const prompt = this.#perToken(ratio)
    return {
      prompt,
      completion: this.#perToken((ratio * completion) / ONE),
      ...(cache !== undefined && { input_cache_read: this.#perToken((ratio * cache) / ONE) }),
    }
  }

  /** A price is rounded up at its last digit, so that no call is charged less than in the source. */
  #perToken(ratio: bigint): string {
    const exact = (ratio * ONE) / this.#quotaOfUsd
    const cut = roundDown(exact, PRICE_DIGITS)
    const unit = readDecimal(`1e-${PRICE_DIGITS}`)!
    return writeDecimal(cut === exact ? cut : cut + unit, PRICE_DIGITS)!
  }

  #read(table: Raw, name: string): bigint | undefined {
    return Object.hasOwn(table, name) ? readDecimal(textOf(table[name]) ?? '') : undefined
  }

  #table(name: string): Raw {
    const text = this.#options.get(name)
    if (text === undefined) return {}
    try {
      const table: unknown = JSON.parse(text, asText as (key: string, value: unknown) => unknown)
      return isRaw(table) ? table : {}
    } catch {
      return {}
    }
  }
}

/** Numbers stay the text of the source. */
function asText(_: string, value: unknown, context?: { source: string }): unknown {
  return typeof value === 'number' && context ? context.source : value
}
