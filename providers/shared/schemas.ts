/** JSON schemas of answers and tools, for vendors that take a part of JSON Schema only. */
import type { ChatInput, Host } from '../../src/plugin.ts'

/** Keywords with one schema, a list of schemas, or a table of schemas. */
const ONE = ['additionalProperties', 'contains', 'else', 'if', 'items', 'not', 'then']
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const TABLES = ['$defs', 'definitions', 'properties']

/** The form of an answer that a client asks for, as the gateway has checked it. */
type ResponseFormat =
  | { readonly type: 'text' | 'json_object' }
  | {
      readonly type: 'json_schema'
      readonly json_schema: {
        readonly name: string
        readonly description?: string
        readonly schema?: object
        readonly strict?: boolean
      }
    }

/** The form of the answer that a request asks for. */
export function responseFormat({ response_format: format }: ChatInput): ResponseFormat | undefined {
  return (format ?? undefined) as ResponseFormat | undefined
}

/**
 * Whether an object anywhere in the schema is a map: it may have members that the schema does not name. Vendors that close
 * all objects would change what it means.
 */
export function hasMaps(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false
  const given = schema as Readonly<Record<string, any>>
  const { type, properties, additionalProperties: others, patternProperties } = given
  if ((others !== undefined && others !== false) || patternProperties !== undefined) return true
  if (type === 'object' && !properties && others !== false && !composed(given)) return true
  return (
    ONE.some((name) => hasMaps(given[name])) ||
    LISTS.some((name) => Array.isArray(given[name]) && given[name].some(hasMaps)) ||
    TABLES.some((name) => Object.values(Object(given[name])).some(hasMaps))
  )
}

/** Whether another schema names the members. */
function composed(schema: Readonly<Record<string, unknown>>): boolean {
  return ['$ref', ...LISTS].some((name) => schema[name] !== undefined)
}

/**
 * The failure for a strict schema with a map, in OpenAI's words.
 * @param of what the schema is for, such as `response_format`
 */
export function openSchema(of: string, param: string, fail: Host['fail']): Error {
  const message = `Invalid schema for ${of}: 'additionalProperties' is required to be false in every object of a strict schema.`
  return fail('bad_request', message, { code: 'invalid_value', param })
}

/** Asks for an answer in JSON, for models that take no schema. @param schema without it any object */
export function jsonInWords(schema?: unknown): string {
  const words = 'Answer with one JSON object, and nothing else.'
  if (schema === undefined) return words
  return `${words} It must be valid under this JSON Schema:\n${JSON.stringify(schema)}`
}
