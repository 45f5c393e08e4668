/** Validates a configuration: its sections, its models with what price lists say of them, and what depends on several of them. */
import * as v from 'valibot'
import { ConfigError, type ConfigIssue } from '../errors/errors.ts'
import { toConfigIssues } from '../errors/issues.ts'
import {
  hasPrices,
  isWildcard,
  missingPrices,
  wildcardSchema,
  type ModelEntry,
  type Unpriced,
  type WildcardEntry,
} from '../models/entry.ts'
import { isRaw, listedFor } from '../models/layers.ts'
import type { PriceList } from '../models/price-list.ts'
import { expandWildcard, wildcardIssues } from '../models/wildcards.ts'
import type { resolveEnvironment } from './environment.ts'
import { crossCheck } from './cross-check.ts'
import { configSchema, type Settings } from './schema.ts'

type Listed = PriceList['models']

/** A validated configuration with all defaults: durations in seconds, sizes in bytes. */
export type ValidConfig = Omit<Settings, 'models'> & {
  /** By id, those of wildcards included. */
  readonly models: Readonly<Record<string, ModelEntry>>
  /** By id, `vendor/*`. */
  readonly wildcards?: Readonly<Record<string, WildcardEntry>>
  /** What is written and not served. */
  readonly unpriced?: readonly Unpriced[]
}

/** @param label names the file @throws ConfigError with all issues */
export async function validate(
  resolved: ReturnType<typeof resolveEnvironment>,
  label: string,
  listed: Listed,
): Promise<ValidConfig> {
  const { secrets, overrides } = resolved
  const issues = [...resolved.issues]
  const { value, wildcards } = takeWildcards(withAdmin(resolved.value))
  const source = { value, secrets }
  const result = v.safeParse(configSchema, value)
  if (!result.success) {
    const known = new Set(issues.map(({ path }) => path))
    const found = toConfigIssues(result.issues, { path: [], ...source }, configSchema)
    issues.push(...found.filter(({ path }) => !known.has(path)))
  }
  const valid: Record<string, WildcardEntry> = {}
  for (const [id, entry] of Object.entries(wildcards)) {
    const read = v.safeParse(wildcardSchema, entry)
    if (read.success) valid[id] = read.output
    else {
      const own = { path: ['models', id], value: entry, secrets }
      issues.push(...toConfigIssues(read.issues, own, wildcardSchema))
    }
  }
  let config: ValidConfig | undefined
  if (result.success && issues.length === 0) {
    config = withWildcards(result.output, valid, listed)
    issues.push(...checkWildcards(config, valid), ...(await crossCheck(config)))
  }
  if (config && issues.length === 0) return config
  const traced = issues.map(({ path, message }) => {
    const variable = overrides.get(path)
    return { path, message: variable ? `${message} (set by ${variable})` : message }
  })
  throw new ConfigError(label, traced)
}

/** `admin: false` is short for an admin API that is not enabled. */
function withAdmin(value: unknown): unknown {
  return isRaw(value) && value.admin === false ? { ...value, admin: { enabled: false } } : value
}

/** Takes wildcards out of the models: they have a schema of their own. */
function takeWildcards(value: unknown): {
  readonly value: unknown
  readonly wildcards: Readonly<Record<string, unknown>>
} {
  if (!isRaw(value) || !isRaw(value.models)) return { value, wildcards: {} }
  const { false: models = [], true: wildcards = [] } = Object.groupBy(
    Object.entries(value.models),
    ([id]) => (isWildcard(id) ? 'true' : 'false'),
  )
  return {
    value: { ...value, models: Object.fromEntries(models) },
    wildcards: Object.fromEntries(wildcards),
  }
}

/** The configuration with the models of its wildcards, with what the price list says of each, and without those that have no price. */
function withWildcards(
  config: Settings,
  wildcards: Readonly<Record<string, WildcardEntry>>,
  listed: Listed,
): ValidConfig {
  const unpriced: Unpriced[] = []
  const own = Object.entries(config.models).flatMap(([id, entry]): [string, ModelEntry][] => {
    const needs = missingPrices(entry)
    if (needs.length > 0 || !hasPrices(entry)) {
      if (entry.enabled) unpriced.push({ id, needs })
      return []
    }
    const model = listedFor(id, entry, listed)
    return [[id, model ? { ...entry, listed: model } : entry]]
  })
  const taken = (id: string) => Object.hasOwn(config.models, id)
  const added = Object.entries(wildcards)
    .filter(([, { enabled }]) => enabled)
    .flatMap(([id, wildcard]) => {
      const models = expandWildcard(id, wildcard, listed, taken)
      if (models.length === 0 && !wildcard.pricing) unpriced.push({ id, needs: [] })
      return models
    })
  return {
    ...config,
    models: Object.fromEntries([...own, ...added]),
    ...(Object.keys(wildcards).length > 0 && { wildcards }),
    ...(unpriced.length > 0 && { unpriced }),
  }
}

function checkWildcards(
  { providers }: ValidConfig,
  wildcards: Readonly<Record<string, WildcardEntry>>,
): ConfigIssue[] {
  const names = Object.keys(providers)
  return Object.entries(wildcards)
    .filter(([, { enabled }]) => enabled)
    .flatMap(([id, entry]) =>
      wildcardIssues(id, entry, names).map(({ member, message }) => ({
        path: ['models', id, ...(member === undefined ? [] : [member])].join('.'),
        message,
      })),
    )
}
