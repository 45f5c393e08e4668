/** The effective settings of a configuration, as an operator may see them: each value and where it comes from. */
import type { GenericSchema } from 'valibot'
import { below, maskedAddress, members, namesSecret, secretsIn } from '../errors/issues.ts'
import { formatPico } from '../money/money.ts'
import type { LoadedConfig } from './config.ts'
import type { Origin } from './origins.ts'
import { configSchema } from './schema.ts'

/** One value of a configuration. */
export interface Setting {
  /** Where it stands, such as `['server', 'port']`. */
  readonly path: readonly string[]
  /** A text, a number, a flag, or an empty list or object; `set` or `not set` for a secret. */
  readonly value: unknown
  readonly isSecret: boolean
  readonly origin: Origin
}

/** Members that the gateway adds to the entries of models. */
const INTERNAL: ReadonlySet<string> = new Set(['listed', 'wildcard'])

/**
 * All values of a configuration, in its order, with defaults. Durations are seconds, sizes are bytes, amounts are USD. Secrets
 * are listed by their names and by where they come from, and never shown.
 */
export function settingsOf({
  config,
  secrets,
  origins,
}: Pick<LoadedConfig, 'config' | 'secrets' | 'origins'>): Setting[] {
  const all: Setting[] = []
  // A text that is a secret elsewhere, such as a key in an address, is one wherever it stands.
  const source = { path: [], value: config, secrets }
  const hidden = secretsIn(source).filter((text) => text.length >= LEAST_CHARACTERS)
  const clean = (value: unknown) =>
    typeof value === 'string'
      ? hidden.reduce((text, secret) => text.replaceAll(secret, '[secret]'), value)
      : value
  const add = (path: readonly string[], value: unknown, isSecret: boolean) =>
    void all.push({ path: [...path], value, isSecret, origin: origins.of(path) })
  const walk = (path: string[], value: unknown, schemas: readonly GenericSchema[]) => {
    if (value === undefined) return
    const name = path.at(-1) ?? ''
    if (typeof value === 'string' && (namesSecret(name) || secrets.has(path.join('.')))) {
      return add(path, value === '' ? NOT_SET : 'set', true)
    }
    if (!isContainer(value)) return add(path, clean(shown(value)), false)
    const names = Object.keys(value).filter((key) => path.length !== 2 || !INTERNAL.has(key))
    const missing = members(schemas).filter((key) => isMissingSecret(key, value))
    if (names.length === 0 && missing.length === 0) return add(path, value, false)
    for (const key of names) {
      path.push(key)
      walk(path, (value as Record<string, unknown>)[key], below(schemas, key))
      path.pop()
    }
    for (const key of missing) add([...path, key], NOT_SET, true)
  }
  walk([], config, [configSchema])
  return all
}

const NOT_SET = 'not set'
/** Shorter texts occur in ordinary words. */
const LEAST_CHARACTERS = 6

/** A list or a plain object. A plugin is code, and shown by its name. */
function isContainer(value: unknown): value is object {
  if (Array.isArray(value)) return true
  return typeof value === 'object' && value !== null && !('setup' in value)
}

function isMissingSecret(key: string, value: object): boolean {
  return namesSecret(key) && (value as Record<string, unknown>)[key] === undefined
}

function shown(value: unknown): unknown {
  if (typeof value === 'bigint') return formatPico(value)
  if (typeof value === 'string') return maskedAddress(value)
  if (typeof value === 'function') return 'a function'
  return typeof value === 'object' && value !== null && 'name' in value ? value.name : value
}
