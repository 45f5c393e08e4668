/** Reads JSON so that amounts stay what was sent: text, never a floating-point number. */
import type { Usd as SentUsd } from '../server/admin/resources/limit.ts'
import { plainDecimal } from './format.ts'

/** Decimal text in USD. */
export type Usd = string

/** An answer of the API as {@link readAnswer} gives it: amounts are the text that was sent. */
export type Read<Answer> = Answer extends SentUsd
  ? Usd
  : Answer extends object
    ? { readonly [Name in keyof Answer]: Read<Answer[Name]> }
    : Answer

/** Members whose members are amounts, as are those of a limit on spend. */
const AMOUNTS: ReadonlySet<string> = new Set(['cost_details', 'pricing', 'prices', 'spend'])

/** Reads JSON. Amounts become the decimal text that was sent; undefined for text that is no JSON. */
export function readAnswer(text: string): unknown {
  const sources = new WeakMap<object, Map<string, string>>()
  try {
    return JSON.parse(text, function (this: object, key, value, context?: { source?: string }) {
      if (typeof value === 'number') {
        const source = plainDecimal(context?.source ?? String(value))
        if (key === 'usd' || key === 'cost' || key.endsWith('_usd')) return source
        const texts = sources.get(this) ?? new Map<string, string>()
        sources.set(this, texts.set(key, source))
        return value
      }
      if (typeof value !== 'object' || value === null) return value
      const isCap = typeof value.limit === 'string' && value.limit.includes('.cap.')
      if (!isCap && !AMOUNTS.has(key)) return value
      for (const [name, source] of sources.get(value) ?? []) value[name] = source
      return value
    } as Parameters<typeof JSON.parse>[1])
  } catch {
    return undefined
  }
}
