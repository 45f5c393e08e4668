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
  const members = schema as Readonly<Record<string, any>>
  const { type, properties, additionalProperties: others, patternProperties } = members
  if ((others !== undefined && others !== false) || patternProperties !== undefined) return true
  if (type === 'object' && !properties && others !== false && !composed(members)) return true
  return (
    ONE.some((name) => hasMaps(members[name])) ||
    LISTS.some((name) => Array.isArray(members[name]) && members[name].some(hasMaps)) ||
    TABLES.some((name) => Object.values(Object(members[name])).some(hasMaps))
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

/** Keywords that some vendors refuse at the root of a tool's schema. */
const ROOTS = ['anyOf', 'oneOf', 'allOf']
/** Those that OpenAI refuses besides. */
export const OPENAI_ROOTS: readonly string[] = [...ROOTS, 'enum', 'not']
/** A longer list of alternatives is not put into the description of a tool. */
const MAX_ALTERNATIVES_CHARACTERS = 2000

/**
 * A function whose schema names all members at its root, without alternatives there; the same tool where it is so
 * already. What was removed stands in the description, which the model reads.
 * @param refused keywords that the vendor refuses at the root
 * @throws the failure class `bad_request` for a strict function: its meaning would change
 */
export function withFlatRoot(
  tool: any,
  position: number,
  fail: Host['fail'],
  refused: readonly string[] = ROOTS,
): any {
  const { name, description, parameters, strict } = tool.function ?? {}
  const present = refused.filter((keyword) => parameters?.[keyword] !== undefined)
  if (present.length === 0) return tool
  if (strict === true) {
    const param = `tools[${position}].function.parameters`
    const message = `Invalid schema for function '${name}': ${present.join(', ')} cannot stand at the root of a strict schema.`
    throw fail('bad_request', message, { code: 'invalid_value', param })
  }
  const isFound = ([keyword]: readonly [string, unknown]) => present.includes(keyword)
  const removed = Object.fromEntries(Object.entries(parameters).filter(isFound))
  const rest = Object.fromEntries(Object.entries(parameters).filter((one) => !isFound(one)))
  const alternatives = JSON.stringify(removed)
  const words = `The arguments match this JSON Schema: ${alternatives}`
  const isShort = alternatives.length <= MAX_ALTERNATIVES_CHARACTERS
  const text = isShort ? [description, words].filter(Boolean).join('\n') : description
  return {
    ...tool,
    function: {
      ...tool.function,
      ...(text && { description: text }),
      parameters: { ...rest, ...membersOf(parameters) },
    },
  }
}

/**
 * A function whose schema has a flat root, for a vendor that closes all objects of a strict schema.
 * @param position the index of the function among the tools of the request, for the error
 * @param strictly whether the vendor holds the model to the schema
 * @throws the failure class `bad_request` for a strict function that takes maps, or that has no flat root
 */
export function withClosedSchema(
  tool: any,
  position: number,
  strictly: boolean,
  fail: Host['fail'],
): any {
  const { name, parameters } = tool.function
  if (strictly && hasMaps(parameters ?? {})) {
    throw openSchema(`function '${name}'`, `tools[${position}].function.parameters`, fail)
  }
  return withFlatRoot(tool, position, fail)
}

/** The members that the root of a schema and its branches name, and those that all of them require. */
function membersOf(root: Readonly<Record<string, any>>): object {
  const properties = new Map<string, any[]>()
  const add = (schema: Readonly<Record<string, any>>) => {
    for (const [name, one] of Object.entries(Object(schema.properties))) {
      const variants = properties.get(name) ?? []
      const text = JSON.stringify(one)
      if (variants.every((other) => JSON.stringify(other) !== text)) variants.push(one)
      properties.set(name, variants)
    }
  }
  add(root)
  const required = new Set<unknown>(listOf(root.required))
  for (const keyword of ROOTS) {
    const branches = listOf(root[keyword]).map((branch) => objectBranch(root, branch))
    branches.forEach(add)
    const lists = branches.map((branch) => listOf(branch.required))
    const shared = keyword === 'allOf' ? lists.flat() : (lists[0] ?? [])
    for (const name of shared) {
      if (keyword === 'allOf' || lists.every((list) => list.includes(name))) required.add(name)
    }
  }
  const joined = [...properties].map(([name, schemas]) => [
    name,
    schemas.length > 1 ? { anyOf: schemas } : schemas[0],
  ])
  return {
    type: 'object',
    properties: Object.fromEntries(joined),
    ...(required.size > 0 && { required: [...required] }),
  }
}

/** A branch, looked up once; an empty schema for one that is no object. */
function objectBranch(root: any, branch: any): Readonly<Record<string, any>> {
  const [, table, name] = /^#\/(\$defs|definitions)\/([^/]+)$/.exec(branch?.$ref ?? '') ?? []
  const schema = table === undefined ? branch : root[table]?.[name!]
  const { type, properties, required } = Object(schema)
  const isObject = type === 'object' || (type === undefined && Boolean(properties ?? required))
  return isObject ? schema : {}
}

function listOf(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

/** Asks for an answer in JSON, for models that take no schema. @param schema absent for any object */
export function jsonInWords(schema?: unknown): string {
  const words = 'Answer with one JSON object, and nothing else.'
  if (schema === undefined) return words
  return `${words} It must be valid under this JSON Schema:\n${JSON.stringify(schema)}`
}
