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
export function orNull(schema: JsonSchema): JsonSchema {
  const { type, enum: values, ...others } = schema
  if (Object.keys(schema).length === 0) return schema
  if (values === undefined && typeof type === 'string') return { type: [type, 'null'], ...others }
  return { anyOf: [schema, { type: 'null' }] }
}

/** Bounds, without those that every value satisfies. */
export function bounded(names: readonly [string, string], min: number, max: number): JsonSchema {
  const isBound = (value: number) =>
    Number.isFinite(value) &&
    Math.abs(value) !== Number.MAX_VALUE &&
    value !== Number.MAX_SAFE_INTEGER
  return { ...(isBound(min) && { [names[0]]: min }), ...(isBound(max) && { [names[1]]: max }) }
}
