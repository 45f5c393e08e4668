const MAX_DEPTH = 32

/** A small instance of a JSON Schema, always the same. Covers the schemas that are usual for answers and tools. */
export function exampleOf(schema: unknown): unknown {
  return build(schema, schema, 0)
}

function build(schema: any, root: any, depth: number): any {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return null
  const into = (inner: unknown) => build(inner, root, depth + 1)
  if (typeof schema.$ref === 'string') return into(resolve(schema.$ref, root))
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  const alternatives: any[] = schema.anyOf ?? schema.oneOf ?? []
  if (alternatives.length > 0) {
    // `null` ends recursive schemas.
    return into(alternatives.find((one) => one?.type === 'null') ?? alternatives[0])
  }
  if (Array.isArray(schema.allOf)) return Object.assign({}, ...schema.allOf.map(into))
  switch (typeOf(schema)) {
    case 'string':
      return 'text'.padEnd(schema.minLength ?? 0, '.').slice(0, schema.maxLength ?? Infinity)
    case 'integer':
    case 'number':
      return smallest(schema)
    case 'boolean':
      return false
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => into(schema.items))
    case 'object':
      return Object.fromEntries(
        (schema.required ?? []).map((name: string) => [name, into(schema.properties?.[name])]),
      )
    default:
      return null
  }
}

function typeOf(schema: any): string | undefined {
  if (Array.isArray(schema.type)) return schema.type[0]
  return schema.type ?? (schema.properties ? 'object' : schema.items ? 'array' : undefined)
}

function smallest({
  minimum,
  exclusiveMinimum,
  maximum,
  exclusiveMaximum,
  multipleOf,
}: any): number {
  const most = Math.min(
    maximum ?? Infinity,
    exclusiveMaximum === undefined ? Infinity : exclusiveMaximum - 1,
  )
  const least = Math.max(
    minimum ?? -Infinity,
    exclusiveMinimum === undefined ? -Infinity : exclusiveMinimum + 1,
  )
  const value = Math.min(Math.max(0, least), most)
  return multipleOf > 0 ? Math.ceil(value / multipleOf) * multipleOf : value
}

/** Resolves a pointer into the schema itself, such as `#/$defs/city`. */
function resolve(pointer: string, root: any): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((key) => decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((node, key) => node?.[key], root)
}
