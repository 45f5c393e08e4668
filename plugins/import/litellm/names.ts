/** Names by which clients of LiteLLM ask for models, and what a list of a key means by them. */
import { vendorOfBare } from './vendors.ts'

/** Names that stand for all models of the proxy. */
const ALL: ReadonlySet<string> = new Set(['*', 'all-proxy-models'])

/** Models of a vendor by their own names. */
interface Wildcard {
  /** What its names begin with in the source. */
  readonly source: string
  /** What their ids begin with here. */
  readonly id: string
}

/** The names of a configuration. */
export class SourceNames {
  readonly wildcards: Wildcard[] = []
  readonly #ids = new Map<string, string>()
  readonly #groups = new Map<string, Set<string>>()
  readonly #listed: ReadonlySet<string>

  /** @param listed ids in price lists */
  constructor(listed: ReadonlySet<string>) {
    this.#listed = listed
  }

  /** The id of the model with this name. */
  idOf(name: string): string | undefined {
    return this.#ids.get(name)
  }

  add(name: string, id: string): void {
    this.#ids.set(name, id)
  }

  addWildcard(source: string, id: string): void {
    this.wildcards.push({ source, id })
  }

  /** Adds a model to an access group. */
  addToGroup(group: string, name: string): void {
    this.#groups.set(group, (this.#groups.get(group) ?? new Set()).add(name))
  }

  /** Whether a wildcard serves a model by this id. */
  isCovered(id: string): boolean {
    return this.wildcards.some((wildcard) => id.startsWith(wildcard.id))
  }

  /**
   * The ids that an element of a list allows: of a model, an access group, or all names that a pattern fits. Ids that the
   * gateway makes up are not names, so no pattern fits them.
   * @param groups further access groups: names of models by the name of the group
   * @returns `all` for every model, undefined for what names no model
   */
  allowedBy(
    element: string,
    groups?: ReadonlyMap<string, readonly string[]>,
  ): readonly string[] | 'all' | undefined {
    if (ALL.has(element)) return 'all'
    const exact = this.#ids.get(element)
    if (exact !== undefined) return [exact]
    const members = groups?.get(element) ?? this.#groups.get(element)
    if (members) {
      const ids = [...members].map((name) => this.allowedBy(name))
      return ids.includes('all') ? 'all' : ids.flatMap((one) => one ?? [])
    }
    if (element.includes('*')) return this.#matching(element)
    const id = this.#byWildcard(element)
    return id === undefined ? undefined : [id]
  }

  #matching(pattern: string): string[] {
    const fits = (name: string) => matches(name, pattern)
    const named = [...this.#ids].flatMap(([name, id]) => {
      const vendor = name.includes('/') ? '' : vendorOfBare(name)
      // LiteLLM knows the vendor of a bare name from its list of models.
      const isKnown = vendor !== '' && this.#listed.has(`${vendor}/${name}`)
      return fits(name) || (isKnown && fits(`${vendor}/${name}`)) ? [id] : []
    })
    const listed = this.wildcards.flatMap(({ source, id }) =>
      [...this.#listed].filter(
        (one) => one.startsWith(id) && fits(`${source}${one.slice(id.length)}`),
      ),
    )
    return [...new Set([...named, ...listed])]
  }

  /** Only ids of price lists: any other one below the vendor is made up here, for a model with another name. */
  #byWildcard(name: string): string | undefined {
    return this.wildcards
      .filter(({ source }) => name.startsWith(source))
      .map(({ source, id }) => `${id}${name.slice(source.length)}`)
      .find((id) => this.#listed.has(id))
  }
}

/** Whether a name has the parts of a pattern, between which anything may stand. */
function matches(name: string, pattern: string): boolean {
  const parts = pattern.split('*')
  const [first, last] = [parts[0]!, parts.at(-1)!]
  if (!name.startsWith(first) || !name.endsWith(last)) return false
  if (name.length < first.length + last.length) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found < 0 || found + part.length > name.length - last.length) return false
    at = found + part.length
  }
  return true
}
