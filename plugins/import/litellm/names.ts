/** Names by which clients of LiteLLM ask for models, and which of them a list of a key allows. */
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

/** Names of the source that a list allows; undefined for all of them. */
export type AllowedNames = ReadonlySet<string> | undefined

/** The names of a configuration. */
export class SourceNames {
  readonly wildcards: Wildcard[] = []
  readonly #ids = new Map<string, string>()
  /** Names of models by other names of them. */
  readonly #targets = new Map<string, string>()
  readonly #groups = new Map<string, Set<string>>()
  readonly #listed: ReadonlySet<string>
  #all: ReadonlyMap<string, string> | undefined

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

  /** Adds another name of a model. */
  addAlias(alias: string, name: string): void {
    this.#ids.set(alias, this.#ids.get(name)!)
    this.#targets.set(alias, name)
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
   * The names that a list allows: of models, of access groups, and all that its patterns fit. A request is compared by the name
   * that the client uses, and by the one that it stands for. Ids that are made up here are no names.
   * @param unknown receives each element that allows nothing
   */
  allowedBy(list: readonly string[], unknown: (element: string) => void): AllowedNames {
    if (list.some((element) => ALL.has(element))) return undefined
    const allowed = new Set<string>()
    for (const element of new Set(list)) {
      const names = this.#matching(element)
      if (names.length === 0) unknown(element)
      for (const name of names) allowed.add(name)
    }
    return allowed
  }

  /** The ids of models by their names. */
  idsOf(names: ReadonlySet<string>): string[] {
    const all = this.#everyName()
    return [...new Set([...names].flatMap((name) => all.get(name) ?? []))]
  }

  /** Ids by all names that clients of the source could use on this day. Ids of price lists alone stand for a wildcard. */
  #everyName(): ReadonlyMap<string, string> {
    if (this.#all) return this.#all
    const all = new Map(this.#ids)
    for (const { source, id } of this.wildcards) {
      for (const one of this.#listed) {
        const name = `${source}${one.slice(id.length)}`
        if (one.startsWith(id) && !all.has(name)) all.set(name, one)
      }
    }
    this.#all = all
    return all
  }

  #matching(element: string): string[] {
    const fits = this.#matcher(element)
    return [...this.#everyName().keys()].filter((name) => {
      const target = this.#targets.get(name)
      return fits(name) || (target !== undefined && fits(target))
    })
  }

  #matcher(element: string): (name: string) => boolean {
    const group = this.#groups.get(element)
    if (!element.includes('*')) return (name) => name === element || (group?.has(name) ?? false)
    return (name) => {
      const vendor = name.includes('/') ? '' : vendorOfBare(name)
      // LiteLLM knows the vendor of a bare name from its list of models.
      const isKnown = vendor !== '' && this.#listed.has(`${vendor}/${name}`)
      return matches(name, element) || (isKnown && matches(`${vendor}/${name}`, element))
    }
  }
}

/** What two lists allow together. */
export function both(one: AllowedNames, other: AllowedNames): AllowedNames {
  if (one === undefined) return other
  return other === undefined ? one : new Set([...one].filter((name) => other.has(name)))
}

/** Whether a name has the parts of a pattern, between which anything may stand. */
function matches(name: string, pattern: string): boolean {
  const parts = pattern.split('*')
  const [first, last] = [parts[0]!, parts.at(-1)!]
  if (!name.startsWith(first) || !name.endsWith(last)) return false
  if (name.length < first.length + last.length) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const index = name.indexOf(part, at)
    if (index < 0 || index + part.length > name.length - last.length) return false
    at = index + part.length
  }
  return true
}
