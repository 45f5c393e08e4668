const MAX_DEPTH = 32
/** Values of one example, and characters or items of one value: a schema is short, and may ask for any number. */
const MOST = 1000

/**
 * A small instance of a JSON Schema, always the same. Covers the schemas that are usual for answers and tools. A keyword
 * whose value makes no sense is passed over.
 */
export function exampleOf(schema: unknown): unknown {
  return new Example(schema).build(schema, 0)
}

class Example {
  readonly #root: unknown
  #values = 0

  constructor(root: unknown) {
    this.#root = root
  }

  build(schema: any, depth: number): any {
    if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return null
    if (++this.#values > MOST) return null
    const into = (inner: unknown) => this.build(inner, depth + 1)
    if (typeof schema.$ref === 'string') return into(resolve(schema.$ref, this.#root))
    if ('const' in schema) return schema.const
    if (Array.isArray(schema.enum)) return schema.enum[0] ?? null
    const alternatives = listOf(schema.anyOf ?? schema.oneOf)
    if (alternatives.length > 0) {
      // `null` ends recursive schemas.
      return into(alternatives.find((one) => one?.type === 'null') ?? alternatives[0])
    }
    if (Array.isArray(schema.allOf)) return Object.assign({}, ...schema.allOf.map(into))
    switch (typeOf(schema)) {
      case 'string': {
        const [least, most] = [numberOf(schema.minLength, 0), numberOf(schema.maxLength, MOST)]
        return 'text'.padEnd(Math.min(least, MOST), '.').slice(0, Math.max(0, most))
      }
      case 'integer':
      case 'number':
        return smallest(schema)
      case 'boolean':
        return false
      case 'array': {
        const left = MOST - this.#values
        const length = Math.max(0, Math.min(numberOf(schema.minItems, 0), left))
        this.#values += length
        return Array.from({ length }, () => into(schema.items))
      }
      case 'object':
        return Object.fromEntries(
          listOf(schema.required)
            .filter((name) => typeof name === 'string')
            .map((name) => [name, into(memberOf(schema.properties, name))]),
        )
      default:
        return null
    }
  }
}

function typeOf(schema: any): string | undefined {
  if (Array.isArray(schema.type)) return schema.type[0]
  return schema.type ?? (schema.properties ? 'object' : schema.items ? 'array' : undefined)
}

function smallest(schema: any): number {
  const most = Math.min(
    numberOf(schema.maximum, Infinity),
    numberOf(schema.exclusiveMaximum, Infinity) - 1,
  )
  const least = Math.max(
    numberOf(schema.minimum, -Infinity),
    numberOf(schema.exclusiveMinimum, -Infinity) + 1,
  )
  const value = Math.min(Math.max(0, least), most)
  const step = numberOf(schema.multipleOf, 0)
  return step > 0 ? Math.ceil(value / step) * step : value
}

function listOf(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

function memberOf(value: any, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? value[name]
    : undefined
}

/** Resolves a pointer into the schema itself, such as `#/$defs/city`. */
function resolve(pointer: string, root: unknown): unknown {
  return pointer
    .split('/')
    .slice(1)
    .map((key) => decoded(key).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(memberOf, root)
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key)
  } catch {
    return key
  }
}
