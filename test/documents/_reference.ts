/** The reference of the API as Markdown, made of the description that the gateway serves at `/openapi.json`. */

interface Schema {
  readonly type?: string | readonly string[]
  readonly $ref?: string
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly items?: Schema
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
}

interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly description?: string
    readonly schema?: Schema
  }[]
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema?: Schema }>>
  }
  readonly responses?: Readonly<
    Record<
      string,
      {
        readonly description?: string
        readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>
      }
    >
  >
}

/** An OpenAPI description, as far as this page shows it. */
export interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}

/** A section for each operation and each schema. */
export function referenceOf({ paths, components }: Description): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => sectionOf(method, path, operation)),
  )
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `### ${name}\n\n${membersOf(schema)}`,
  )
  return `# API reference\n\nMade of \`/openapi.json\`, which a running gateway serves. [API](docs/api/index.md) says what it means.\n\n${operations.join('\n\n')}\n\n## Schemas\n\n${schemas.join('\n\n')}\n`
}

function sectionOf(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? []).map(({ name, in: where, schema, description }) =>
    [code(name), where, typeOf(schema), cell(description)].join(' | '),
  )
  const bodies = Object.entries(operation.requestBody?.content ?? {}).map(
    ([type, { schema }]) => `Body, \`${type}\`:\n\n${membersOf(schema ?? {})}`,
  )
  const answers = Object.entries(operation.responses ?? {}).map(
    ([status, { description, content = {} }]) =>
      [code(status), cell(description), contentOf(content)].join(' | '),
  )
  return [
    `## ${method.toUpperCase()} ${path}`,
    operation.summary ?? '',
    operation.description ?? '',
    table(['parameter', 'in', 'type', 'meaning'], parameters),
    ...bodies,
    table(['status', 'meaning', 'body'], answers),
  ]
    .filter(Boolean)
    .join('\n\n')
}

function contentOf(content: Readonly<Record<string, { readonly schema?: Schema }>>): string {
  return Object.entries(content)
    .map(([type, { schema }]) => `${code(type)} ${typeOf(schema)}`)
    .join(', ')
}

function membersOf(schema: Schema): string {
  const required = new Set(schema.required)
  const rows = Object.entries(schema.properties ?? {}).map(([name, member]) =>
    [
      code(name),
      typeOf(member),
      required.has(name) ? 'required' : '',
      cell(member.description),
    ].join(' | '),
  )
  return rows.length === 0 ? typeOf(schema) : table(['member', 'type', '', 'meaning'], rows)
}

function typeOf(schema: Schema = {}): string {
  const { $ref, type, items, anyOf, oneOf } = schema
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1)
    return `[${name}](#${name.toLowerCase().replaceAll('.', '')})`
  }
  if (schema.const !== undefined) return code(JSON.stringify(schema.const))
  if (schema.enum) return schema.enum.map((value) => code(JSON.stringify(value))).join(', ')
  const options = anyOf ?? oneOf
  if (options && type === undefined) return [...new Set(options.map(typeOf))].join(' or ')
  if (type === 'array') return `list of ${typeOf(items)}`
  return [type ?? 'any'].flat().join(' or ')
}

function table(header: readonly string[], rows: readonly string[]): string {
  if (rows.length === 0) return ''
  return [`| ${header.join(' | ')} |`, `|${'---|'.repeat(header.length)}`, ...rows.map(line)].join(
    '\n',
  )
}

function line(row: string): string {
  return `| ${row} |`
}

function cell(text = ''): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

function code(text: string): string {
  return `\`${text}\``
}
