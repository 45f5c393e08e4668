/** Values as configurations and exports have them, and the notes about those that have no counterpart. */
import type { Harm } from '../../../src/plugin.ts'

/** An object of the source. */
export type Raw = Readonly<Record<string, unknown>>

/** Receives what is not as in the source. */
export type Say = (harm: Harm, where: string, message: string, remedy?: string) => void

/** Whether a value is an object with members. */
export function isRaw(value: unknown): value is Raw {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The object, or one without members. */
export function rawOf(value: unknown): Raw {
  return isRaw(value) ? value : {}
}

/** The text of a scalar, trimmed; undefined for what is unset. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (value instanceof Date) return value.toISOString()
  const text = typeof value === 'string' ? value.trim() : ''
  return text === '' ? undefined : text
}

/** A finite number of at least 0; undefined for any other value. */
export function numberOf(value: unknown): number | undefined {
  const text = textOf(value)
  const number = text === undefined || !/^[\d.]/.test(text) ? NaN : Number(text)
  return Number.isFinite(number) ? number : undefined
}

/** Whether a flag is set. PostgreSQL writes `t`. */
export function flagOf(value: unknown): boolean {
  return value === true || /^(t|true|1|yes)$/i.test(textOf(value) ?? '')
}

/** A list, or an object, also where an export has it as text; any other value as it is. */
export function unpacked(value: unknown): unknown {
  if (typeof value !== 'string') return value
  const text = value.trim()
  if (/^[[{]/.test(text)) {
    try {
      return JSON.parse(text)
    } catch {
      // PostgreSQL writes lists as {a,"b c"}.
      return text.startsWith('{') && text.endsWith('}') ? elementsOf(text.slice(1, -1)) : value
    }
  }
  return value
}

/** The texts of a list; undefined where the value is no list. */
export function listOf(value: unknown): readonly string[] | undefined {
  const list = unpacked(value)
  if (isRaw(list) && Object.keys(list).length === 0) return []
  if (!Array.isArray(list)) return undefined
  return list.map((item) => textOf(item) ?? '').filter((item) => item !== '')
}

const NOTHING: ReadonlySet<string> = new Set(['', 'null', 'f', 'false'])

/** Whether a value says nothing: absent, empty, false, an empty list or object. */
export function isUnset(value: unknown): boolean {
  const real = unpacked(value)
  if (real === null || real === undefined || real === false) return true
  if (typeof real === 'string') return NOTHING.has(real.trim().toLowerCase())
  return typeof real === 'object' && !(real instanceof Date) && Object.keys(real).length === 0
}

function elementsOf(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/g)].map(([, quoted, plain = '']) =>
    quoted === undefined ? plain : quoted.replaceAll(/\\(.)/g, '$1'),
  )
}
