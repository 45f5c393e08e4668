/** Keywords that limit values. The vendor refuses them, so they move into the description. */
const LIMITS = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'format',
] as const

const FORMATS: ReadonlySet<unknown> = new Set([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
])

/** Keywords with one schema, a list of schemas, or a table of schemas. */
const ONE = ['items', 'not', 'if', 'then', 'else']
const LISTS = ['anyOf', 'allOf', 'prefixItems']
const TABLES = ['properties', '$defs', 'definitions']

/**
 * Reduces a JSON schema to the keywords of Anthropic's structured output: objects are closed, and unsupported limits
 * move into descriptions, which the model reads.
 */
export function toSupportedSchema(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const { oneOf, ...rest } = schema as Record<string, any>
  const narrow: Record<string, any> = { ...rest }
  if (oneOf && !narrow.anyOf) narrow.anyOf = oneOf
  const limits: string[] = []
  for (const name of LIMITS) {
    if (narrow[name] === undefined || isSupported(name, narrow[name])) continue
    limits.push(`${name}: ${JSON.stringify(narrow[name])}`)
    delete narrow[name]
  }
  if (limits.length > 0) {
    narrow.description = [narrow.description, `{${limits.join(', ')}}`].filter(Boolean).join('\n\n')
  }
  if (narrow.type === 'object' || narrow.properties) narrow.additionalProperties = false
  for (const name of ONE) if (narrow[name]) narrow[name] = toSupportedSchema(narrow[name])
  for (const name of LISTS) {
    if (Array.isArray(narrow[name])) narrow[name] = narrow[name].map(toSupportedSchema)
  }
  for (const name of TABLES) if (narrow[name]) narrow[name] = mapped(narrow[name])
  return narrow
}

function isSupported(name: string, value: unknown): boolean {
  if (name === 'format') return FORMATS.has(value)
  return name === 'minItems' && (value === 0 || value === 1)
}

function mapped(table: object): object {
  return Object.fromEntries(
    Object.entries(table).map(([name, schema]) => [name, toSupportedSchema(schema)]),
  )
}
