/** What LiteLLM lets a key do, written after its own rules and without any code of the importer. */

/** A proxy: its models by name, and other names of them. */
export interface SourceProxy {
  /** Names of models, with the model at a vendor that each stands for. `vendor/*` serves all models of it. */
  readonly models: Readonly<Record<string, string>>
  readonly groups: Readonly<Record<string, readonly string[]>>
  readonly aliases: Readonly<Record<string, string>>
  /** Names that LiteLLM knows to be of a vendor. */
  readonly vendors: Readonly<Record<string, string>>
}

/** A row of the table of keys, of those of its owners, and whether these rows are there. */
export interface SourceKey {
  readonly models: readonly string[]
  readonly ownerModels: readonly (readonly string[])[]
  readonly blocked: boolean
  /** ms since epoch */
  readonly expires: number | undefined
  readonly keyAliases: Readonly<Record<string, string>>
}

/** Whether the source serves a call, and the model at the vendor by which. */
export function answeredBy(
  proxy: SourceProxy,
  key: SourceKey,
  name: string,
  now: number,
): string | undefined {
  if (key.blocked || (key.expires !== undefined && key.expires <= now)) return undefined
  const aliased = key.keyAliases[name] ?? name
  const meant = proxy.aliases[aliased] ?? aliased
  const asked = aliased === name ? [name, meant] : [aliased]
  const isAllowed = [key.models, ...key.ownerModels].every((list) =>
    asked.some((one) => allows(proxy, list, one)),
  )
  return isAllowed ? servedBy(proxy, meant) : undefined
}

function servedBy(proxy: SourceProxy, name: string): string | undefined {
  if (!name.includes('*') && Object.hasOwn(proxy.models, name)) return proxy.models[name]
  for (const [pattern, model] of Object.entries(proxy.models)) {
    if (!pattern.endsWith('/*') || !name.startsWith(pattern.slice(0, -1))) continue
    return model.replace('*', name.slice(pattern.length - 1))
  }
  return undefined
}

function allows(proxy: SourceProxy, list: readonly string[], name: string): boolean {
  if (list.length === 0 || list.includes('*') || list.includes('all-proxy-models')) return true
  if (list.includes(name)) return true
  if (list.some((element) => proxy.groups[element]?.includes(name))) return true
  const vendor = proxy.vendors[name]
  return list.some((element) => {
    if (!element.includes('*')) return false
    const pattern = new RegExp(
      `^${element.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`,
    )
    return pattern.test(name) || (vendor !== undefined && pattern.test(`${vendor}/${name}`))
  })
}
