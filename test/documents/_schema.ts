/** Members of a valibot schema by their dotted paths, with their defaults as documents write them. */

export interface Member {
  /** The default as text; undefined where there is none. */
  readonly default: string | undefined
  readonly required: boolean
}

export interface Members {
  readonly leaves: ReadonlyMap<string, Member>
  /** Paths of objects, which may be documented as a whole as well. */
  readonly containers: ReadonlySet<string>
}

/** Names of a record become `<>`, items of a list `[]`: `models.<>.deployments[].weight`. */
export function membersOf(schema: unknown): Members {
  const leaves = new Map<string, Member>()
  const containers = new Set<string>()
  visit(schema, '', undefined, true)
  return { leaves, containers }

  /** @param given the default of the object around it */
  function visit(node: any, path: string, given: unknown, required: boolean): void {
    switch (node.type) {
      case 'optional':
      case 'nullish':
        return visit(node.wrapped, path, node.default ?? given, false)
      case 'strict_object':
        containers.add(path)
        for (const [name, entry] of Object.entries(node.entries)) {
          const own = (given as Record<string, unknown> | undefined)?.[name]
          visit(entry, path === '' ? name : `${path}.${name}`, own, own === undefined)
        }
        return
      case 'variant':
        for (const option of node.options) visit(option, path, given, required)
        return
      case 'record':
        if (!isObject(node.value)) break
        containers.add(path)
        return visit(node.value, `${path}.<>`, undefined, true)
      case 'array':
        if (isObject(node.item)) visit(node.item, `${path}[]`, undefined, true)
    }
    // One variant of several may have the default.
    leaves.set(path, { default: written(given) ?? leaves.get(path)?.default, required })
  }
}

function isObject(node: any): boolean {
  return node.type === 'strict_object'
}

function written(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (Array.isArray(value) && value.length > 0) {
    return value.map((item) => (typeof item === 'object' ? item.use : String(item))).join(', ')
  }
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
