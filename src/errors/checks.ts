/**
 * Checks of JSON values in request bodies. A check returns the problem of a value, or undefined. It throws nothing and changes
 * nothing, and builds paths and messages only for a problem, so that a valid body costs a few look-ups. `null` in an optional
 * member counts as absent: clients in several languages send it for a value that is not set.
 */
import { InvalidRequest, type InvalidCode } from './errors.ts'

/** Checks as JSON Schema, for the description of the API. Made on demand: requests are checked without them. */
export type JsonSchema = Readonly<Record<string, unknown>>

type AnyCheck = (value: unknown) => unknown

const schemas = new WeakMap<AnyCheck, () => JsonSchema>()

/** Attaches to a check a schema of what it accepts. The schema may accept more, and never less. */
export function described<C extends AnyCheck>(check: C, schema: () => JsonSchema): C {
  schemas.set(check, schema)
  return check
}

/** The schema of a check; any value where it has none. */
export function schemaOf(check: AnyCheck): JsonSchema {
  return schemas.get(check)?.() ?? {}
}

/** A schema that also accepts `null`. */
function orNull(schema: JsonSchema): JsonSchema {
  const { type, enum: values, ...others } = schema
  if (Object.keys(schema).length === 0) return schema
  if (values === undefined && typeof type === 'string') return { type: [type, 'null'], ...others }
  return { anyOf: [schema, { type: 'null' }] }
}

/** Bounds, without those that every value satisfies. */
function bounded(names: readonly [string, string], min: number, max: number): JsonSchema {
  const isBound = (value: number) =>
    Number.isFinite(value) &&
    Math.abs(value) !== Number.MAX_VALUE &&
    value !== Number.MAX_SAFE_INTEGER
  return { ...(isBound(min) && { [names[0]]: min }), ...(isBound(max) && { [names[1]]: max }) }
}

export interface Problem {
  readonly code: InvalidCode
  /** Path of the part, relative to the checked value; `''` is the value itself. */
  readonly path: string
  /** Description of a valid value, such as `a string`. */
  readonly expected: string
  /** Description of the actual value: a type or a short value, never content. */
  readonly found: string
  /** Start of the message, for messages that clients compare with OpenAI's. */
  readonly lead?: string
}

export type Check = (value: unknown) => Problem | undefined

export type Members = Readonly<Record<string, unknown>>

/** Accepts every value: for known members that the upstream has to check. */
export const anything: Check = () => undefined

/** A string, also an empty one. */
export const text: Check = described(
  (value) => (typeof value === 'string' ? undefined : wrongType(value, 'a string')),
  () => ({ type: 'string' }),
)

/** A string with at least one character. */
export const filledText: Check = described(
  (value) => (value === '' ? wrong('empty_string', value, 'a non-empty string') : text(value)),
  () => ({ type: 'string', minLength: 1 }),
)

export const boolean: Check = described(
  (value) => (typeof value === 'boolean' ? undefined : wrongType(value, 'true or false')),
  () => ({ type: 'boolean' }),
)

/** A string of at most `max` code points. */
export function shortText(max: number): Check {
  const expected = `a string of at most ${max} characters`
  const check: Check = (value) => {
    if (typeof value !== 'string') return wrongType(value, expected)
    return longerThan(value, max) ? wrong('string_above_max_length', value, expected) : undefined
  }
  return described(check, () => ({ type: 'string', maxLength: max }))
}

export function number(min = -Number.MAX_VALUE, max = Number.MAX_VALUE): Check {
  const expected = `a number${range(min, max)}`
  const check: Check = (value) => {
    if (typeof value !== 'number') return wrongType(value, expected)
    if (value > max) return wrong('decimal_above_max_value', value, expected)
    return value >= min ? undefined : wrong('decimal_below_min_value', value, expected)
  }
  return described(check, () => ({ type: 'number', ...bounded(['minimum', 'maximum'], min, max) }))
}

/** A whole number from `min` to `max`, both included; `1.0` and `1e3` are whole. */
export function integer(min = -Infinity, max = Infinity): Check {
  const expected = `an integer${range(min, max)}`
  const check: Check = (value) => {
    if (typeof value !== 'number') return wrongType(value, expected)
    // JSON.parse reads 1e999 as Infinity: too large, but not of the wrong type.
    if (Number.isFinite(value) && !Number.isInteger(value)) {
      return wrong('invalid_type', value, expected)
    }
    if (value > max) return wrong('integer_above_max_value', value, expected)
    return value >= min ? undefined : wrong('integer_below_min_value', value, expected)
  }
  return described(check, () => ({ type: 'integer', ...bounded(['minimum', 'maximum'], min, max) }))
}

export function oneOf(values: readonly string[]): Check {
  const allowed = new Set<unknown>(values)
  const expected = `one of ${values.join(', ')}`
  const check: Check = (value) => {
    if (allowed.has(value)) return undefined
    return typeof value === 'string'
      ? wrong('invalid_value', value, expected)
      : wrongType(value, expected)
  }
  return described(check, () => ({ enum: [...values] }))
}

/** An array of `min` to `max` items that all pass `item`. */
export function list(item: Check, min = 0, max = Infinity): Check {
  const check: Check = (value) => {
    if (!Array.isArray(value)) return wrongType(value, 'an array')
    if (value.length < min) return problem('empty_array', 'an array with at least one item', 'none')
    if (value.length > max) {
      const expected = `an array of at most ${max} items`
      return problem('array_above_max_length', expected, `${value.length} items`)
    }
    for (let i = 0; i < value.length; i++) {
      const mistake = item(value[i])
      if (mistake) return inside(`[${i}]`, mistake)
    }
    return undefined
  }
  return described(check, () => ({
    type: 'array',
    items: schemaOf(item),
    ...bounded(['minItems', 'maxItems'], min === 0 ? NaN : min, max),
  }))
}

/**
 * An object whose known members pass their checks; unknown members are not checked. Required members are looked for first, then
 * members are checked in the order in which they were sent, so the time depends on the body and not on `members`.
 */
export function object(
  members: Readonly<Record<string, Check>>,
  required: readonly string[] = [],
): Check {
  const checks = new Map(Object.entries(members))
  const whole: Check = (value) => {
    if (!isObject(value)) return wrongType(value, 'an object')
    for (const name of required) {
      if (value[name] === undefined) return missing(name, checks.get(name)!)
    }
    for (const name in value) {
      const check = checks.get(name)
      if (check === undefined) continue
      const member = value[name] ?? undefined
      if (member === undefined && !required.includes(name)) continue
      const mistake = check(value[name])
      if (mistake) return inside(name, mistake)
    }
    return undefined
  }
  return described(whole, () => objectSchema(members, required))
}

/** An object with any member names, whose values all pass `check`. */
export function record(check: Check): Check {
  const all: Check = (value) => {
    if (!isObject(value)) return wrongType(value, 'an object')
    for (const name in value) {
      const mistake = check(value[name])
      if (mistake) return inside(name.length > 64 ? `${name.slice(0, 64)}…` : name, mistake)
    }
    return undefined
  }
  return described(all, () => ({ type: 'object', additionalProperties: schemaOf(check) }))
}

/**
 * An object whose member `tag` selects the check it has to pass.
 * @param absent the tag that applies where the member is absent; without it the member is required
 * @param others the check for unknown tags; without it unknown tags are refused
 */
export function variant(
  tag: string,
  cases: Readonly<Record<string, Check>>,
  { absent, others }: { readonly absent?: string; readonly others?: Check } = {},
): Check {
  const checks = new Map(Object.entries(cases))
  const kindCheck = oneOf([...checks.keys()])
  const selected: Check = (value) => {
    if (!isObject(value)) return wrongType(value, 'an object')
    const kind = value[tag] ?? absent ?? value[tag]
    if (kind === undefined) return missing(tag, kindCheck)
    const check = checks.get(kind as string) ?? (typeof kind === 'string' ? others : undefined)
    if (check) return check(value)
    const mistake = kindCheck(kind)
    return mistake && inside(tag, mistake)
  }
  return described(selected, () => variantSchema(tag, cases, { absent, others }))
}

/** A value of several JSON types: the check is selected by the type. */
export function either(
  expected: string,
  { string, array, object }: { string?: Check; array?: Check; object?: Check },
): Check {
  const chosen: Check = (value) => {
    const check = typeof value === 'string' ? string : Array.isArray(value) ? array : object
    return check && (check !== object || isObject(value))
      ? check(value)
      : wrongType(value, expected)
  }
  return described(chosen, () => ({
    anyOf: [
      ...(string ? [{ type: 'string', ...schemaOf(string) }] : []),
      ...(array ? [{ type: 'array', ...schemaOf(array) }] : []),
      ...(object ? [{ type: 'object', ...schemaOf(object) }] : []),
    ],
  }))
}

/** The items that pass; the list itself if all do. */
export function passing<T>(items: readonly T[], check: Check): readonly T[] {
  return items.some((one) => check(one)) ? items.filter((one) => !check(one)) : items
}

/** The same object without the named members that do not pass their check; the object itself if all do. */
export function withoutInvalid<T extends object>(
  value: T,
  checks: Readonly<Record<string, Check>>,
): T {
  const wrong = (name: string, member: unknown) =>
    Object.hasOwn(checks, name) && (member ?? undefined) !== undefined && checks[name]!(member)
  const members = Object.entries(value)
  if (!members.some(([name, member]) => wrong(name, member))) return value
  return Object.fromEntries(members.filter(([name, member]) => !wrong(name, member))) as T
}

export function problem(code: InvalidCode, expected: string, found: string): Problem {
  return { code, path: '', expected, found }
}

/** A problem with the value itself. The message quotes a short value, so this is not for users' content. */
export function wrong(code: InvalidCode, value: unknown, expected: string): Problem {
  return problem(code, expected, quote(value))
}

export function wrongType(value: unknown, expected: string): Problem {
  return problem('invalid_type', expected, typeName(value))
}

/** A problem: a required member is absent. @param check the check of the member, which describes a valid value */
export function missing(name: string, check: Check): Problem {
  const absent = check(undefined) ?? wrongType(undefined, 'a value')
  return inside(name, { ...absent, path: '', code: 'missing_required_parameter' })
}

/** The same problem with a path that starts at the enclosing value. @param place a member's name, or an index such as `[2]` */
export function inside(place: string, mistake: Problem): Problem {
  const dot = mistake.path === '' || mistake.path.startsWith('[') ? '' : '.'
  return { ...mistake, path: `${place}${dot}${mistake.path}` }
}

export function toInvalidRequest({ code, path, expected, found, lead }: Problem): InvalidRequest {
  const verdict = code === 'missing_required_parameter' ? 'Missing' : 'Invalid'
  const start = lead ?? `${verdict} '${path}'`
  return new InvalidRequest(code, `${start}: expected ${expected}, found ${found}.`, {
    param: path,
  })
}

export function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a text has more than `max` Unicode code points, the unit in which JSON Schema counts `maxLength`. */
export function longerThan(value: string, max: number): boolean {
  if (value.length <= max) return false
  if (value.length > 2 * max) return true
  let count = 0
  for (const _ of value) if (++count > max) return true
  return false
}

/** An offset in a text, or the one before it if it lies between the halves of a surrogate pair. */
export function wholeCharacters(text: string, end: number): number {
  const code = text.charCodeAt(end - 1)
  return code >= 0xd800 && code <= 0xdbff ? end - 1 : end
}

export function codePointsIn(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

/** A short value as JSON, any other as a description. Not for users' content. */
export function quote(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `a string of length ${value.length}` : JSON.stringify(value)
  }
  return typeof value === 'number' ? String(value) : typeName(value)
}

function typeName(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function range(min: number, max: number): string {
  if (min === -Infinity || min === -Number.MAX_VALUE) return ''
  return max === Infinity || max === Number.MAX_SAFE_INTEGER
    ? ` of at least ${min}`
    : ` from ${min} to ${max}`
}

function objectSchema(
  members: Readonly<Record<string, Check>>,
  required: readonly string[],
): JsonSchema {
  const properties = Object.entries(members).map(([name, check]) => {
    const schema = schemaOf(check)
    return [name, required.includes(name) ? schema : orNull(schema)]
  })
  return {
    type: 'object',
    ...(properties.length > 0 && { properties: Object.fromEntries(properties) }),
    ...(required.length > 0 && { required: [...required] }),
  }
}

type Others = { readonly absent?: string | undefined; readonly others?: Check | undefined }

/** One schema for each tag, and one for all other tags where they are accepted. */
function variantSchema(
  tag: string,
  cases: Readonly<Record<string, Check>>,
  { absent, others }: Others,
): JsonSchema {
  const tagged = (value: JsonSchema, check: Check, mayLack = false): JsonSchema => {
    const { properties = {}, required = [], ...rest } = schemaOf(check) as Record<string, any>
    return {
      type: 'object',
      ...rest,
      properties: { [tag]: mayLack ? orNull(value) : value, ...properties },
      ...(mayLack ? required.length > 0 && { required } : { required: [tag, ...required] }),
    }
  }
  const kinds = Object.keys(cases)
  const rest = { type: 'string', not: { enum: kinds } }
  return {
    anyOf: [
      ...kinds.map((name) => tagged({ const: name }, cases[name]!, name === absent)),
      ...(others ? [tagged(rest, others)] : []),
    ],
  }
}
