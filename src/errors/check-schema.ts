/** Checks as JSON Schema, for the description of the API. Made on demand: requests are checked without them. */
/** A schema of JSON Schema 2020-12. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Checks a value. */
type AnyCheck = (value: unknown) => unknown

const schemas = new WeakMap<AnyCheck, () => JsonSchema>()

/** The same check, which says as a schema what it accepts. The schema may accept more, and never less. */
export function described<C extends AnyCheck>(check: C, schema: () => JsonSchema): C {
  schemas.set(check, schema)
  return check
}

/** What a check accepts; any value where it does not say. */
export function schemaOf(check: AnyCheck): JsonSchema {
  return schemas.get(check)?.() ?? {}
}

/** The same or `null`. */
export function orNull(schema: JsonSchema): JsonSchema {
  const { type, enum: values, ...others } = schema
  if (Object.keys(schema).length === 0) return schema
  if (values === undefined && typeof type === 'string') return { type: [type, 'null'], ...others }
  return { anyOf: [schema, { type: 'null' }] }
}

/** Bounds, without those that every value keeps. */
export function bounded(names: readonly [string, string], min: number, max: number): JsonSchema {
  const isBound = (value: number) =>
    Number.isFinite(value) &&
    Math.abs(value) !== Number.MAX_VALUE &&
    value !== Number.MAX_SAFE_INTEGER
  return { ...(isBound(min) && { [names[0]]: min }), ...(isBound(max) && { [names[1]]: max }) }
}
