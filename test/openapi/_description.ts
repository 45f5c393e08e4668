/** The description of the API, made of the checks of requests and of the schemas of answers. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { schemaOf, type JsonSchema } from '../../src/errors/checks.ts'
import { ROUTES, type Route } from '../../src/gateway/routes.ts'
import { OPERATIONS, type Operation } from './_operations.ts'

const root = join(import.meta.dirname, '../..')
const schemas = join(root, 'test/wire/schemas')
const readJson = (path: string) => JSON.parse(readFileSync(path, 'utf8'))
const { version } = readJson(join(root, 'package.json'))

type Schema = Record<string, any>

/** The whole document. */
export function describeApi(): object {
  const paths: Record<string, object> = {}
  for (const route of ROUTES) {
    if (!route.path.startsWith('/v1/')) continue
    const operation = OPERATIONS[`${route.method} ${route.path}`]
    if (!operation) throw new Error(`no description of ${route.method} ${route.path}`)
    paths[route.path] = {
      ...paths[route.path],
      [route.method.toLowerCase()]: operationOf(route, operation),
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluicegate',
      version,
      summary: 'A gateway to models of many vendors.',
      description:
        'All routes of clients. Members that are not named here are accepted and passed on. In an optional member `null` means that it is absent. Costs are in USD.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    security: [{ bearer: [] }, { apiKey: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      schemas: answerSchemas(),
    },
  }
}

const MODEL_ID = {
  name: 'id',
  in: 'path',
  required: true,
  description: 'The id of a model, or another name of it.',
  schema: { type: 'string' },
}

const REFERENCE = {
  name: 'reference',
  in: 'path',
  required: true,
  description: 'The reference of an order.',
  schema: { type: 'string' },
}

function operationOf(route: Route, operation: Operation): object {
  const { id, summary, tag, answer, stream, media, examples = {}, query = [], open } = operation
  const error = answerOf(
    'An error. `error.code` says which.',
    'application/json',
    operation.error ?? 'error',
  )
  const parameters = [
    ...(route.path.endsWith('{id}') ? [MODEL_ID] : []),
    ...(route.path.endsWith('{reference}') ? [REFERENCE] : []),
    ...query.map((name) => ({ name, in: 'query', schema: { type: 'string' } })),
  ]
  return {
    operationId: id,
    summary,
    tags: [tag],
    ...(open && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(route.format.body && { requestBody: bodyOf(route, examples) }),
    responses: {
      '200': {
        description: 'The answer.',
        content: {
          ...(!media || answer
            ? { 'application/json': { schema: answer ? ref(answer) : { type: 'object' } } }
            : {}),
          ...(stream && {
            'text/event-stream': { schema: { type: 'string', description: stream } },
          }),
          ...Object.fromEntries(
            (media ?? []).map((type) => [type, { schema: { type: 'string' } }]),
          ),
        },
      },
      '4XX': error,
      '5XX': error,
    },
  }
}

function bodyOf({ format, endpoint }: Route, examples: Record<string, object>): object {
  const schema = schemaOf(format.body!) as Schema
  const policy = endpoint && { policy: ref('policy') }
  const whole: Schema = { ...schema, properties: { ...schema.properties, ...policy } }
  const shown = Object.fromEntries(
    Object.entries(examples).map(([name, value]) => [name, { value }]),
  )
  const { files } = format
  if (!files)
    return { required: true, content: { 'application/json': { schema: whole, examples: shown } } }
  const uploads = Object.fromEntries(
    files.map((name) => [
      name,
      name === 'image'
        ? { type: 'array', items: { type: 'string', format: 'binary' } }
        : { type: 'string', format: 'binary' },
    ]),
  )
  const form = {
    ...schema,
    properties: { ...schema.properties, ...uploads, policy: { type: 'string' } },
  }
  return {
    required: true,
    content: {
      'multipart/form-data': { schema: form },
      'application/json': { schema: whole, examples: shown },
    },
  }
}

function answerOf(description: string, type: string, schema: string): object {
  return { description, content: { [type]: { schema: ref(schema) } } }
}

function ref(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

/** The schemas of answers, whose own definitions become components. */
function answerSchemas(): Record<string, JsonSchema> {
  const files = readdirSync(schemas).filter((name) => name.endsWith('.json'))
  const all: Record<string, JsonSchema> = {}
  for (const file of files.sort()) {
    const name = basename(file, '.json')
    const { $schema: _dialect, $id: _id, $defs = {}, ...schema } = readJson(join(schemas, file))
    all[name] = moved(schema, name)
    for (const [own, definition] of Object.entries($defs)) {
      all[`${name}.${own}`] = moved(definition, name)
    }
  }
  return all
}

/** A schema whose references to definitions of its own file lead to components. */
function moved(schema: unknown, name: string): any {
  if (Array.isArray(schema)) return schema.map((one) => moved(one, name))
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) =>
      key === '$ref' && typeof value === 'string'
        ? [key, value.replace(/^#\/\$defs\//, `#/components/schemas/${name}.`)]
        : [key, moved(value, name)],
    ),
  )
}
