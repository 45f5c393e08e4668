/**
 * Messages about invalid settings: the dotted path, the expected and the actual value. Secrets are never shown. The functions
 * that walk down a valibot schema are here too, because the messages need them.
 */
import type { BaseIssue, GenericSchema } from 'valibot'
import { nearest } from './nearest.ts'
import type { ConfigIssue } from './errors.ts'
import type { SchemaIssue } from '../plugin.ts'

/** Settings as the operator wrote them, and their place. */
export interface Source {
  /** Place of the value in the configuration, such as `['providers', 'vendor', 'options']`. */
  readonly path: readonly string[]
  readonly value: unknown
  /** Dotted paths of values that were taken from `${NAME}`; when absent, every text counts as a secret. */
  readonly secrets?: ReadonlySet<string>
}

type Path = readonly string[]

const SECRET_NAME = /key|token|secret|sha256|password|passphrase|credential|authorization|cookie/i
/** Names that match {@link SECRET_NAME} but hold a number or a price. */
const COUNT_NAME = /tokens$|^image_token$/

const OPTIONAL: ReadonlySet<string> = new Set([
  'optional',
  'exact_optional',
  'nullish',
  'undefinedable',
])

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  boolean: 'true or false',
  Object: 'an object',
  Array: 'a list',
}

/** Issues of any Standard Schema validator as configuration issues. Those of valibot get a message in plain words. */
export function toConfigIssues(
  issues: readonly (SchemaIssue | BaseIssue<unknown>)[],
  source: Source,
  schema: unknown,
): ConfigIssue[] {
  return issues.flatMap((issue) =>
    isValibotIssue(issue)
      ? inWords(issue, source, schema as GenericSchema)
      : [toIssue(source, keysOf(issue), redact(issue.message, source))],
  )
}

/** A text in which the secrets of the given settings are replaced by `[secret]`. */
export function redact(text: string, source: Source): string {
  return secretsIn(source).reduce((clean, secret) => clean.replaceAll(secret, '[secret]'), text)
}

/** The secrets among the given settings, by their names and by their origins. */
export function secretsIn({ path, value, secrets }: Source): string[] {
  const texts: string[] = []
  collect([...path], value, secrets, texts)
  return texts
}

/** @param path the path of the value; the same list for all of them, which grows and shrinks */
function collect(
  path: string[],
  value: unknown,
  secrets: ReadonlySet<string> | undefined,
  texts: string[],
): void {
  if (typeof value === 'string') {
    if (value !== '' && isSecret(path, secrets)) texts.push(value)
    return
  }
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) {
    path.push(key)
    collect(path, (value as Record<string, unknown>)[key], secrets, texts)
    path.pop()
  }
}

/** Whether a setting of this name holds a secret. */
export function namesSecret(name: string): boolean {
  return SECRET_NAME.test(name) && !COUNT_NAME.test(name)
}

/** The schemas of a member: none for an unknown member, several under a union or variant. */
export function below(schemas: readonly GenericSchema[], key: string): GenericSchema[] {
  return schemas.flatMap(unwrap).flatMap((schema) => {
    if ('entries' in schema) {
      const entries = schema.entries as Readonly<Record<string, GenericSchema>>
      return Object.hasOwn(entries, key) ? [entries[key]!] : []
    }
    if ('item' in schema) return [schema.item as GenericSchema]
    return 'value' in schema ? [schema.value as GenericSchema] : []
  })
}

/** The member names that the schemas accept. */
export function members(schemas: readonly GenericSchema[]): string[] {
  const entries = schemas
    .flatMap(unwrap)
    .flatMap((schema) => ('entries' in schema ? [schema.entries] : []))
  return [...new Set(entries.flatMap((names) => Object.keys(names as object)))]
}

/** Completes a message about an unknown name: the nearest known name, or the list of known names. */
export function didYouMean(word: string, names: readonly string[]): string {
  const near = nearest(word, names)
  if (near !== undefined) return `did you mean "${near}"?`
  return names.length === 0 ? 'there are none' : `expected one of ${names.join(', ')}`
}

/** Parameters of addresses that are no secrets. */
const PLAIN_PARAMETERS: ReadonlySet<string> = new Set([
  'api-version',
  'version',
  'region',
  'location',
])

/**
 * A text as it may be shown, if it is an address: without user information, fragment, values of parameters, and segments of its
 * path that may be keys, such as those of incoming webhooks.
 */
export function maskedAddress(text: string): string {
  return withoutSecretParts(text, () => {})
}

/** The parts of an address that {@link maskedAddress} hides, but plain words: those stand in other texts too. */
function secretParts(text: string): string[] {
  const parts: string[] = []
  withoutSecretParts(text, (part, name = '') => {
    if (namesSecret(name) || !/^[a-z]{0,15}$/i.test(part)) parts.push(part)
  })
  return parts
}

/** @param hide gets each part that is hidden, with the name of its parameter */
function withoutSecretParts(text: string, hide: (part: string, name?: string) => void): string {
  const parts = /^([a-z][a-z\d+.-]*:\/\/)([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$/is.exec(text)
  if (!parts) return text
  const [, scheme = '', authority = '', path = '', query, fragment] = parts
  const hidden = (part: string, name?: string) => {
    hide(part, name)
    return HIDDEN
  }
  const host = authority.replace(/^(.*)@/s, (_, user: string) => {
    const colon = user.indexOf(':')
    if (colon >= 0) hide(user.slice(colon + 1), 'password')
    return `${hidden(user)}@`
  })
  const segments = path.split('/')
  const services = segments.indexOf('services')
  const shown = segments.map((segment, index) => {
    const isBehind = services >= 0 && services < index
    return segment !== '' && (isBehind || isKeyLike(segment)) ? hidden(segment) : segment
  })
  const parameters = query
    ?.slice(1)
    .split('&')
    .map((pair) => {
      const [name = '', ...value] = pair.split('=')
      if (value.length === 0) return isKeyLike(name) ? hidden(name) : name
      return PLAIN_PARAMETERS.has(name.toLowerCase())
        ? pair
        : `${name}=${hidden(value.join('='), name)}`
    })
  const queryString = parameters ? `?${parameters.join('&')}` : ''
  const end = fragment === undefined ? '' : `#${hidden(fragment.slice(1))}`
  return `${scheme}${host}${shown.join('/')}${queryString}${end}`
}

/** The secret parts of all addresses among some settings. */
export function secretsInAddresses(value: unknown): string[] {
  if (typeof value === 'string') return secretParts(value).flatMap((part) => [part, decoded(part)])
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(secretsInAddresses)
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const HIDDEN = '[secret]'

/** Whether a segment is so long and mixed that it may be a key. */
function isKeyLike(segment: string): boolean {
  return segment.length >= 20 && /\d/.test(segment) && /[a-z]/i.test(segment)
}

/** A value as an error message shows it: short, and never the content of a list or an object. */
export function show(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') {
    const shown = maskedAddress(value)
    return JSON.stringify(shown.length > 60 ? `${shown.slice(0, 59)}…` : shown)
  }
  if (typeof value === 'number') return `the number ${value}`
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'function' ? 'a function' : String(value)
}

function inWords(issue: BaseIssue<unknown>, source: Source, schema: GenericSchema): ConfigIssue[] {
  const keys = keysOf(issue)
  if (issue.type === 'strict_object' && issue.expected === 'never') {
    // valibot reports only the first unknown key of an object; the operator needs all of them.
    const parent = issue.path!.at(-1)!.input as object
    if (Array.isArray(parent)) {
      return [toIssue(source, keys.slice(0, -1), 'expected an object, found a list')]
    }
    const parents = keys.slice(0, -1).reduce<GenericSchema[]>(below, [schema])
    const knownKeys = members(parents)
    const unknown = Object.keys(parent).filter((key) => !knownKeys.includes(key))
    if (unknown.length === 0) {
      // The key exists in another variant, but not in the one that the other members belong to.
      const message = 'cannot be combined with the other members that are set here: it needs '
      return [toIssue(source, keys, message + constantsWith(keys.at(-1)!, parents))]
    }
    return unknown.map((key) =>
      toIssue(source, [...keys.slice(0, -1), key], `unknown key; ${didYouMean(key, knownKeys)}`),
    )
  }
  const absent = issue.type === 'strict_object' && issue.path?.at(-1)?.origin === 'key'
  const expected = absent
    ? phrase(below(keys.slice(0, -1).reduce<GenericSchema[]>(below, [schema]), keys.at(-1)!))
    : expectation(issue)
  const found = shownInput(issue, [...source.path, ...keys], source.secrets)
  return [
    toIssue(source, keys, `expected ${expected}${required(keys, issue, schema)}, found ${found}`),
  ]
}

/** What was found, without what may be a secret: a text in the place of an object or a list may be one of those that belong into it. */
function shownInput(
  { input, expected }: BaseIssue<unknown>,
  path: Path,
  secrets: ReadonlySet<string> | undefined,
): string {
  if (typeof input === 'number') return namesSecret(nameOf(path)) ? 'a number' : show(input)
  if (typeof input !== 'string') return show(input)
  if (isSecret(path, secrets)) return HIDDEN
  return expected === 'Object' || expected === 'Array' ? 'a text' : show(input)
}

/** The members that an object has to have, where something else was found. */
function required(
  keys: Path,
  { kind, expected }: BaseIssue<unknown>,
  schema: GenericSchema,
): string {
  if (kind !== 'schema' || expected !== 'Object') return ''
  const [own] = keys.reduce<GenericSchema[]>(below, [schema]).flatMap(unwrap)
  if (!own || !('entries' in own)) return ''
  const entries = Object.entries(own.entries as Readonly<Record<string, GenericSchema>>)
  const names = entries.flatMap(([name, { type }]) => (OPTIONAL.has(type) ? [] : [name]))
  return names.length === 0 ? '' : ` with ${names.join(', ')}`
}

function expectation({ kind, type, expected, message }: BaseIssue<unknown>): string {
  if (!message.startsWith('Invalid ')) return message
  if (kind === 'schema') return typeInWords(expected ?? type)
  const requirement = type.replaceAll('_', ' ')
  return expected === null ? `a valid ${requirement}` : `${requirement} ${expected}`
}

function phrase(schemas: readonly GenericSchema[]): string {
  const [schema] = schemas.flatMap(unwrap)
  if (!schema) return 'a value'
  const message = 'message' in schema ? schema.message : undefined
  return typeof message === 'string' ? message : typeInWords(schema.expects)
}

function typeInWords(expected: string): string {
  return TYPES[expected] ?? expected.replaceAll(/[()]| \| undefined/g, '').replaceAll(' | ', ' or ')
}

/** The constants of the variants that have a member, such as `driver "redis"`. */
function constantsWith(member: string, schemas: readonly GenericSchema[]): string {
  const constants = schemas.flatMap(unwrap).flatMap((variant) => {
    const names = members([variant])
    if (!names.includes(member)) return []
    return names.flatMap((name) =>
      below([variant], name)
        .flatMap(unwrap)
        .flatMap(({ type, expects }) => (type === 'literal' ? [`${name} ${expects}`] : [])),
    )
  })
  return constants.join(' or ')
}

function unwrap(schema: GenericSchema): GenericSchema[] {
  if ('wrapped' in schema) return unwrap(schema.wrapped as GenericSchema)
  if ((schema.type === 'union' || schema.type === 'variant') && 'options' in schema) {
    return (schema.options as GenericSchema[]).flatMap(unwrap)
  }
  return [schema]
}

function keysOf({ path = [] }: { readonly path?: readonly unknown[] | undefined }): string[] {
  return path.map((item) => {
    return String(typeof item === 'object' && item !== null && 'key' in item ? item.key : item)
  })
}

function toIssue({ path }: Source, keys: Path, message: string): ConfigIssue {
  return { path: [...path, ...keys].join('.'), message }
}

function isSecret(path: Path, secrets: ReadonlySet<string> | undefined): boolean {
  if (namesSecret(nameOf(path))) return true
  if (!secrets) return true
  return secrets.size > 0 && secrets.has(path.join('.'))
}

/** The name of a value, for an item of a list that of the list. */
function nameOf(path: Path): string {
  return path.findLast((key) => !/^\d+$/.test(key)) ?? ''
}

function isValibotIssue(issue: SchemaIssue | BaseIssue<unknown>): issue is BaseIssue<unknown> {
  return 'kind' in issue && 'received' in issue
}
