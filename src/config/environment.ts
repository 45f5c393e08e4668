/**
 * Applies environment variables to the configuration: references `${NAME}` in texts, and overrides such as
 * `SLUICEGATE__SERVER__PORT=9000`, where a double underscore separates levels.
 */
import { existsSync } from 'node:fs'
import { safeParse, type GenericSchema } from 'valibot'
import type { ConfigIssue } from '../errors/errors.ts'
import { below, didYouMean, members } from '../errors/issues.ts'

/** Environment variables. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A configuration with overrides and references applied. */
interface Resolved {
  readonly value: unknown
  /** Dotted paths of texts that contain a value of the environment. */
  readonly secrets: Set<string>
  /** Names of overriding variables by the dotted path that they set. */
  readonly overrides: Map<string, string>
  /** Names of the variables whose values a text contains, by the dotted path of the text. */
  readonly references: Map<string, string>
  readonly issues: ConfigIssue[]
}

/** Prefix of overriding variables. */
export const OVERRIDE = 'SLUICEGATE__'

/** Limit of nesting; a YAML alias can make a circle. */
const MAX_DEPTH = 64

const REFERENCE = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^}]*))?\})?/g
const WHOLE_REFERENCE = /^\$\{[A-Za-z_]\w*(?::-[^}]*)?\}$/

/**
 * The environment together with the `.env` files of the folders. Later folders take precedence over earlier ones, and the
 * real environment over all. The environment of the process is not changed.
 */
export async function readEnvironment(
  env: Environment,
  directories: readonly string[],
): Promise<Environment> {
  const fileName = [...new Set(directories)].map((directory) => `${directory}/.env`)
  if (!fileName.some((file) => existsSync(file))) return { ...env }
  const { loadDotenv } = await import('c12')
  return loadDotenv({ fileName, env, interpolate: false })
}

/**
 * Applies overrides, then replaces `${NAME}` and `${NAME:-default}` in every text (`$${` stands for `${`). An override, or
 * a text that consists of one reference, becomes a number, a flag or an object where the schema asks for one.
 */
export function resolveEnvironment(
  raw: unknown,
  schema: GenericSchema,
  environment: Environment,
): Resolved {
  const resolved = {
    secrets: new Set<string>(),
    overrides: new Map<string, string>(),
    references: new Map<string, string>(),
    issues: [] as ConfigIssue[],
  }
  let value = raw
  for (const variable of Object.keys(environment).toSorted()) {
    const text = environment[variable]
    if (!variable.startsWith(OVERRIDE) || text === undefined) continue
    value = override(value, schema, { variable, text, resolved })
  }
  return { ...resolved, value: substitute(value, [], { schema, environment, resolved }) }
}

interface Override {
  readonly variable: string
  readonly text: string
  readonly resolved: Omit<Resolved, 'value'>
}

function override(root: unknown, schema: GenericSchema, { variable, text, resolved }: Override) {
  const path: string[] = []
  const place = (value: unknown, schemas: GenericSchema[], names: readonly string[]): unknown => {
    const [name, ...rest] = names
    if (name === undefined) return typed(text, schemas, typeof value !== 'string')
    const memberNames = [
      ...new Set([...members(schemas), ...Object.keys(isContainer(value) ? value : {})]),
    ]
    const key = memberNames.find((member) => plain(member) === plain(name))
    if (key === undefined || (value !== undefined && !isContainer(value))) {
      const prefix = variable.split('__').slice(0, path.length + 1)
      const variables = memberNames.map((member) => [...prefix, member.toUpperCase()].join('__'))
      const near = didYouMean([...prefix, name].join('__'), variables)
      resolved.issues.push({ path: variable, message: `does not name a setting; ${near}` })
      return value
    }
    path.push(key)
    const container = value as Record<string, unknown> | unknown[] | undefined
    if (Array.isArray(container)) {
      return container.with(Number(key), place(container[Number(key)], below(schemas, key), rest))
    }
    return { ...container, [key]: place(container?.[key], below(schemas, key), rest) }
  }
  const before = resolved.issues.length
  const value = place(root, [schema], variable.slice(OVERRIDE.length).split('__'))
  if (resolved.issues.length === before) resolved.overrides.set(path.join('.'), variable)
  return value
}

interface Substitution {
  readonly schema: GenericSchema
  readonly environment: Environment
  readonly resolved: Omit<Resolved, 'value'>
}

/** @param path where the value is; the same list for all of them, which grows and shrinks */
function substitute(value: unknown, path: string[], context: Substitution): unknown {
  const { overrides, issues } = context.resolved
  // References in an override are not replaced: the shell can insert variables.
  if (overrides.size > 0 && overrides.has(path.join('.'))) return value
  if (typeof value === 'string') return value.includes('${') ? fill(value, path, context) : value
  if (!isContainer(value)) return value
  if (path.length > MAX_DEPTH) {
    issues.push({
      path: path.slice(0, 3).join('.'),
      message: `is nested more than ${MAX_DEPTH} levels deep`,
    })
    return undefined
  }
  // Most lists and objects stay as they are, and most configurations of thousands of models have few references.
  let copy: Record<string, unknown> | unknown[] | undefined
  for (const key of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[key]
    path.push(key)
    const substituted = substitute(member, path, context)
    path.pop()
    if (substituted === member) continue
    copy ??= Array.isArray(value) ? [...value] : { ...value }
    ;(copy as Record<string, unknown>)[key] = substituted
  }
  return copy ?? value
}

function fill(text: string, keys: readonly string[], context: Substitution): unknown {
  const { schema, environment, resolved } = context
  const path = keys.join('.')
  const filled = text.replace(REFERENCE, (reference: string, name?: string, fallback?: string) => {
    if (reference === '$${') return '${'
    if (name === undefined) {
      const message =
        'expected ${NAME} or ${NAME:-default} after "$" (write "$${" for a plain "${")'
      resolved.issues.push({ path, message })
      return ''
    }
    const value = environment[name]
    // As in a shell, a default also replaces an empty variable.
    if (value !== undefined && (value !== '' || fallback === undefined)) {
      const before = resolved.references.get(path)
      resolved.references.set(path, before === undefined ? name : `${before}, ${name}`)
      resolved.secrets.add(path)
      return value
    }
    if (fallback !== undefined) return fallback
    resolved.issues.push({ path, message: `environment variable ${name} is not set` })
    return ''
  })
  if (!WHOLE_REFERENCE.test(text)) return filled
  return typed(filled, keys.reduce<GenericSchema[]>(below, [schema]), false)
}

/** A text of the environment in the type that the schema accepts. @param preferJson which reading wins if both are valid */
function typed(text: string, schemas: readonly GenericSchema[], preferJson: boolean): unknown {
  const parsed = parseJson(text)
  const fits = (value: unknown) => schemas.some((schema) => safeParse(schema, value).success)
  const [first, second] = preferJson ? [parsed, text] : [text, parsed]
  if (fits(first)) return first
  return fits(second) ? second : preferJson ? parsed : text
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A name without case and punctuation, as names of variables are compared. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

/** Whether a value is a list or a plain object. Plugins are code and are not walked into. */
function isContainer(value: unknown): value is Record<string, unknown> | unknown[] {
  if (Array.isArray(value)) return true
  if (typeof value !== 'object' || value === null) return false
  if ('setup' in value && typeof value.setup === 'function') return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
