/** Names by which clients ask for models: the id, aliases, the id without its vendor, and dated forms of the last two. */

/** Aliases that an entry may have. */
export const MAX_ALIASES = 16

/** What a name has to be unique among: ids and aliases of the enabled models. */
interface Named {
  readonly id: string
  readonly aliases: readonly string[]
}

/** An alias that cannot be used: its model, its place in the list, and what is wrong. */
interface Clash {
  readonly id: string
  readonly index: number
  readonly message: string
}

/** A last part of a name with which clients choose a version by its date. */
const DATE = /-\d{8}$/
/** `GET /v1/models/user` is an address of its own. */
const RESERVED = 'user'

/** The end of a model's name with which a client asks for a web search. */
export const ONLINE = ':online'

/** A model's name without the suffix that asks for a web search. */
export function withoutOnline(name: string): string {
  return name.endsWith(ONLINE) ? name.slice(0, -ONLINE.length) : name
}

/** Finds models by what clients call them. */
export class Names {
  /** Ids by alias. */
  readonly #aliases: ReadonlyMap<string, string>
  /** Ids by name without the vendor; empty where such names are switched off. */
  readonly #bare: ReadonlyMap<string, readonly string[]>

  /** @param bare whether names without a vendor are accepted */
  constructor(models: readonly Named[], bare: boolean) {
    this.#aliases = new Map(models.flatMap(({ id, aliases }) => aliases.map((one) => [one, id])))
    this.#bare = new Map(Map.groupBy(bare ? models.map(({ id }) => id) : [], withoutVendor))
  }

  /**
   * The id that a name means, which is no id itself: an alias, or else the name of exactly one model without its vendor, or
   * else one of both without a date at its end. Letter case counts.
   */
  idOf(name: string): string | undefined {
    return (
      this.#exactly(name) ?? (DATE.test(name) ? this.#exactly(name.replace(DATE, '')) : undefined)
    )
  }

  /** The ids of several models that have this name without their vendors; empty for one or none. */
  candidates(name: string): readonly string[] {
    const found = this.#bare.get(name) ?? this.#bare.get(name.replace(DATE, '')) ?? []
    return found.length > 1 ? found : []
  }

  #exactly(name: string): string | undefined {
    const alias = this.#aliases.get(name)
    if (alias !== undefined) return alias
    const ids = this.#bare.get(name)
    return ids?.length === 1 ? ids[0] : undefined
  }
}

/** Aliases that are the id or an alias of another model, or reserved. */
export function clashes(models: readonly Named[]): Clash[] {
  const ids = new Set(models.map(({ id }) => id))
  const owners = new Map<string, string>()
  const found: Clash[] = []
  for (const { id, aliases } of models) {
    for (const [index, alias] of aliases.entries()) {
      const owner = owners.get(alias)
      const shown = JSON.stringify(alias)
      const taken =
        (alias === RESERVED && 'is the name of an address of the API') ||
        (ids.has(alias) && 'is the id of a model') ||
        (owner !== undefined && `is an alias of ${owner} as well`)
      if (taken)
        found.push({ id, index, message: `expected a name of its own, but ${shown} ${taken}` })
      else owners.set(alias, id)
    }
  }
  return found
}

/** A model id without its vendor. */
export function withoutVendor(id: string): string {
  return id.slice(id.indexOf('/') + 1)
}
