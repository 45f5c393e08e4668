/**
 * What the environment says about the configuration: `${NAME}` inside texts, and overrides such as
 * `SLUICEGATE__SERVER__PORT=9000`, where a double underscore leads one level down.
 */
import { loadDotenv } from 'c12'
import { safeParse, type GenericSchema } from 'valibot'
import type { ConfigIssue } from '../errors/errors.ts'
import { below, didYouMean, members } from '../errors/issues.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** A configuration with everything filled in that the environment has to say. */
export interface Resolved {
  readonly value: unknown
  /** Dotted paths of texts that hold a value of the environment. */
  readonly secrets: Set<string>
  /** The variable that set a dotted path. */
  readonly overrides: Map<string, string>
  readonly issues: ConfigIssue[]
}

/** The section prefix of overrides. */
export const OVERRIDE = 'SLUICEGATE__'

/** Deeper than any sensible configuration; a YAML alias can make a circle. */
const MAX_DEPTH = 64

const REFERENCE = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^}]*))?\})?/g
const WHOLE_REFERENCE = /^\$\{[A-Za-z_]\w*(?::-[^}]*)?\}$/

/**
 * The environment together with the `.env` files of the folders; a later folder counts more, the real environment most.
 * Nothing is written to the environment of the process.
 */
export async function readEnvironment(
  env: Environment,
  directories: readonly string[],
): Promise<Environment> {
  const fileName = [...new Set(directories)].map((directory) => `${directory}/.env`)
  return loadDotenv({ fileName, env, interpolate: false })
}

/**
 * Puts overrides in, then replaces `${NAME}` and `${NAME:-default}` in every text (`$${` stands for `${`). A text that is
 * nothing but a reference, or an override, may also become a number, a flag or an object where the schema asks for one.
 */
export function resolveEnvironment(
  raw: unknown,
  schema: GenericSchema,
  environment: Environment,
): Resolved {
  const resolved = {
    secrets: new Set<string>(),
    overrides: new Map<string, string>(),
    issues: [] as ConfigIssue[],
  }
  let value = raw
  for (const variable of Object.keys(environment).toSorted()) {
    const text = environment[variable]
    if (!variable.startsWith(OVERRIDE) || text === undefined) continue
    value = override(value, schema, { variable, text, resolved })
  }
  return { ...resolved, value: substitute(value, [schema], [], { environment, resolved }) }
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
    const known = [...new Set([...members(schemas), ...Object.keys(isBranch(value) ? value : {})])]
    const key = known.find((member) => plain(member) === plain(name))
    if (key === undefined || (value !== undefined && !isBranch(value))) {
      const prefix = variable.split('__').slice(0, path.length + 1)
      const variables = known.map((member) => [...prefix, member.toUpperCase()].join('__'))
      const near = didYouMean([...prefix, name].join('__'), variables)
      resolved.issues.push({ path: variable, message: `sets nothing that exists; ${near}` })
      return value
    }
    path.push(key)
    const branch = value as Record<string, unknown> | unknown[] | undefined
    if (Array.isArray(branch)) {
      return branch.with(Number(key), place(branch[Number(key)], below(schemas, key), rest))
    }
    return { ...branch, [key]: place(branch?.[key], below(schemas, key), rest) }
  }
  const before = resolved.issues.length
  const value = place(root, [schema], variable.slice(OVERRIDE.length).split('__'))
  if (resolved.issues.length === before) resolved.overrides.set(path.join('.'), variable)
  return value
}

interface Substitution {
  readonly environment: Environment
  readonly resolved: Omit<Resolved, 'value'>
}

function substitute(
  value: unknown,
  schemas: GenericSchema[],
  path: readonly string[],
  context: Substitution,
): unknown {
  const { overrides, issues } = context.resolved
  const dotted = path.join('.')
  // An override is taken as it stands: its writer had the shell to put things together.
  if (overrides.has(dotted)) return value
  if (typeof value === 'string') return fill(value, schemas, dotted, context)
  if (!isBranch(value)) return value
  if (path.length > MAX_DEPTH) {
    issues.push({
      path: path.slice(0, 3).join('.'),
      message: `is nested more than ${MAX_DEPTH} deep`,
    })
    return undefined
  }
  const inside = (key: string, member: unknown) =>
    substitute(member, below(schemas, key), [...path, key], context)
  if (Array.isArray(value)) return value.map((item, index) => inside(String(index), item))
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, inside(key, member)]),
  )
}

function fill(
  text: string,
  schemas: GenericSchema[],
  path: string,
  context: Substitution,
): unknown {
  if (!text.includes('${')) return text
  const { environment, resolved } = context
  const filled = text.replace(REFERENCE, (reference: string, name?: string, otherwise?: string) => {
    if (reference === '$${') return '${'
    if (name === undefined) {
      const message =
        'expected ${NAME} or ${NAME:-default} after "$" (write "$${" for a plain "${")'
      resolved.issues.push({ path, message })
      return ''
    }
    const found = environment[name]
    // As in a shell: a default also stands in for an empty variable.
    if (found !== undefined && (found !== '' || otherwise === undefined)) {
      resolved.secrets.add(path)
      return found
    }
    if (otherwise !== undefined) return otherwise
    resolved.issues.push({ path, message: `environment variable ${name} is not set` })
    return ''
  })
  return WHOLE_REFERENCE.test(text) ? typed(filled, schemas, false) : filled
}

/** A text of the environment as the type that the schema asks for; where both would do, as `preferJson` says. */
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

/** Names compare without case and punctuation: a variable's name has neither. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

/** A list or a plain object, but no plugin: plugins are code and stay the objects they are. */
function isBranch(value: unknown): value is Record<string, unknown> | unknown[] {
  if (Array.isArray(value)) return true
  if (typeof value !== 'object' || value === null) return false
  if ('setup' in value && typeof value.setup === 'function') return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
