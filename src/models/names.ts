/**
 * Names by which clients ask for models: the id, aliases, names without a vendor, names with a suffix, and other spellings of all
 * of these. The first form that has a hit wins.
 */
import { MAKERS, VENDORS } from '../../providers/vendors.ts'

/** Aliases that an entry may have. */
export const MAX_ALIASES = 16

/** A model as far as its names go. */
interface Named {
  readonly id: string
  readonly aliases: readonly string[]
  /** Seconds since epoch; 0 where it is not known. */
  readonly created?: number
  /** The wildcard that it comes from; undefined for an entry that a person wrote. */
  readonly wildcard?: string
  readonly listed?: { readonly aliases?: readonly string[] | undefined }
}

/** How clients may leave out parts of names. */
interface NameRules {
  /** Whether names without a vendor are accepted. */
  readonly bare: boolean
  /** Vendors that are preferred where several have a model of the same name, the best first. */
  readonly prefer?: readonly string[]
}

/** What a name means. */
export interface Meaning {
  /** One id; several where none of them is meant more than the others. */
  readonly ids: readonly string[]
  /** Suffixes of the name that belong to no id, the last one first. */
  readonly suffixes: readonly string[]
}

/** An alias that cannot be used: its model, its place in the list, and what is wrong. */
interface Clash {
  readonly id: string
  readonly index: number
  readonly message: string
}

/** `GET /v1/models/user` is an address of its own. */
const RESERVED = 'user'
/** Longer names are looked up as they are, which bounds the time. */
const MAX_NAME = 200
/** Suffixes that belong to no id: preferences of route, a version, a mode, a condition. */
const SUFFIX = /:(latest|nitro|floor|exacto|thinking|free)$/
/** Suffixes that are cut off one after the other. */
const MAX_SUFFIXES = 2
/** Names that are compared for a suggestion. */
const MAX_COMPARED = 300
/** Letters by which a suggestion may be longer or shorter. */
const LENGTHS = 3

/** The end of a model's name with which a client asks for a web search. */
export const ONLINE = ':online'

/** A model's name without the suffix that asks for a web search. */
export function withoutOnline(name: string): string {
  return name.endsWith(ONLINE) ? name.slice(0, -ONLINE.length) : name
}

/**
 * Whether an allowlist contains a model.
 * @param models entries are model ids, or `vendor/*` for all models of a vendor
 */
export function isAllowed(models: readonly string[], id: string): boolean {
  return models.some(
    (entry) => entry === id || (entry.endsWith('/*') && id.startsWith(entry.slice(0, -1))),
  )
}

/** Finds models by what clients call them. */
export class Names {
  readonly #models: readonly Named[]
  readonly #rules: NameRules
  readonly #byId: ReadonlyMap<string, Named>
  /** Ids by alias. */
  readonly #aliases: ReadonlyMap<string, string>
  /** Beginnings of names and the ids that they mean, the longest first. */
  readonly #beginnings: readonly (readonly [beginning: string, id: string])[]
  /** Ids by name without the vendor, by short name, and by alias of the price list. */
  readonly #bare = new Map<string, string[]>()
  /** Ids by the last part of the name. */
  readonly #last = new Map<string, string[]>()
  /** Ids by each of their names in one spelling; made when it is first needed. */
  #spelled: ReadonlyMap<string, readonly string[]> | undefined
  /** All names with their ids by their first two letters; made when it is first needed. */
  #near: ReadonlyMap<string, readonly (readonly [name: string, id: string])[]> | undefined

  constructor(models: readonly Named[], rules: NameRules) {
    this.#models = models
    this.#rules = rules
    this.#byId = new Map(models.map((model) => [model.id, model]))
    const aliases = models.flatMap(({ id, aliases: own }) => own.map((one) => [one, id] as const))
    this.#aliases = new Map(aliases.filter(([one]) => !one.endsWith('*')))
    this.#beginnings = aliases
      .filter(([one]) => one.endsWith('*'))
      .map(([one, id]) => [one.slice(0, -1), id] as const)
      .toSorted(([a], [b]) => b.length - a.length)
    for (const { id, listed } of models) {
      const name = withoutVendor(id)
      add(this.#bare, name, id)
      for (const alias of listed?.aliases ?? []) add(this.#bare, alias, id)
      const last = lastPart(id)
      if (last !== name) add(this.#last, last, id)
    }
    for (const { name: vendor, short = {} } of VENDORS) {
      for (const [one, meant] of Object.entries(short)) {
        for (const id of this.#bare.get(meant) ?? []) {
          if (id.startsWith(`${vendor}/`)) add(this.#bare, one, id)
        }
      }
    }
  }

  /** What a name means in its own spelling, with or without suffixes; undefined where it means nothing. */
  exactly(name: string): Meaning | undefined {
    const whole = this.#plainly(name)
    if (whole) return { ids: whole, suffixes: [] }
    let rest = name
    const suffixes: string[] = []
    while (suffixes.length < MAX_SUFFIXES && name.length <= MAX_NAME) {
      const suffix = SUFFIX.exec(rest)?.[1]
      if (suffix === undefined) break
      suffixes.push(suffix)
      rest = rest.slice(0, -suffix.length - 1)
      const ids = this.#plainly(rest)
      if (ids) return { ids, suffixes }
    }
    return undefined
  }

  /** What a name means in another spelling, or by its beginning; undefined where it means nothing. */
  roughly(name: string): Meaning | undefined {
    if (name.length > MAX_NAME) return undefined
    const [rest, suffixes] = withoutSuffixes(name)
    const spelled = this.#spelledAs(name)
    if (spelled.length > 0) return { ids: spelled, suffixes: [] }
    const without = suffixes.length > 0 ? this.#spelledAs(rest) : []
    if (without.length > 0) return { ids: without, suffixes }
    const begun = this.#beginnings.find(([beginning]) => name.startsWith(beginning))
    return begun && { ids: [begun[1]], suffixes: suffixes.filter((one) => one !== 'latest') }
  }

  /**
   * Names that may be meant, with their ids: those that begin alike or have the same vendor, and are about as long.
   * A name with another vendor, or with a part too many, comes first.
   */
  *similar(name: string): Iterable<readonly [name: string, id: string]> {
    const typed = name.toLowerCase()
    this.#near ??= this.#grouped()
    const vendor = typed.slice(0, typed.indexOf('/') + 1)
    const groups = [typed.slice(0, 2), ...(vendor === '' ? [] : [vendor])]
    let left = MAX_COMPARED
    for (const one of new Set(groups)) {
      for (const pair of this.#near.get(one) ?? []) {
        if (Math.abs(pair[0].length - name.length) > LENGTHS) continue
        if (left-- === 0) return
        yield pair
      }
    }
  }

  /** The id whose name without its vendor is the rest of this one, whatever its vendor. */
  otherVendor(name: string): string | undefined {
    const [own] = this.#spelledAs(name)
    if (own !== undefined) return own
    const rest = withoutVendor(name)
    const candidates = [...(this.#bare.get(rest) ?? []), ...(this.#last.get(rest) ?? [])]
    return this.#ranked(candidates)[0] ?? this.#spelledAs(rest)[0]
  }

  /** The id itself, an alias, or a name without its vendor. */
  #plainly(name: string): readonly string[] | undefined {
    if (this.#byId.has(name)) return [name]
    const alias = this.#aliases.get(name)
    if (alias !== undefined) return [alias]
    const candidates = this.#rules.bare && (this.#bare.get(name) ?? this.#last.get(name))
    if (!candidates) return undefined
    const ids = this.#ranked(candidates)
    const own = ids.some((id) => this.#isWritten(id) || isMakers(id))
    if (own || name.length > MAX_NAME) return ids
    // A maker's own model is preferred to a relay's spelling of it.
    const makers = this.#spelledAs(name).filter(isMakers)
    return makers.length > 0 ? makers : ids
  }

  /** The ids of the same name in another spelling, one of each vendor. */
  #spelledAs(name: string): readonly string[] {
    this.#spelled ??= this.#spellings()
    const candidates = this.#spelled.get(spelling(name)) ?? []
    const vendors = Map.groupBy(new Set(candidates), vendorOf)
    return this.#ranked([...vendors.values()].map((ids) => this.#newest(ids)))
  }

  /** The one without a date, else the latest. */
  #newest(ids: readonly string[]): string {
    const created = (id: string) => this.#byId.get(id)?.created ?? 0
    const [best] = ids.toSorted(
      (a, b) =>
        Number(dateOf(a) !== '') - Number(dateOf(b) !== '') ||
        (dateOf(a) < dateOf(b) ? 1 : dateOf(a) > dateOf(b) ? -1 : created(b) - created(a)),
    )
    return best!
  }

  /** Entries that a person wrote before those of wildcards, then makers before resellers, then preferred vendors. */
  #ranked(ids: readonly string[]): readonly string[] {
    const all = [...new Set(ids)]
    if (all.length < 2) return all
    const written = all.filter((id) => this.#isWritten(id))
    const makers = all.filter(isMakers)
    const best = written.length > 0 ? written : makers.length > 0 ? makers : all
    for (const vendor of this.#rules.prefer ?? []) {
      const preferred = best.filter((id) => vendorOf(id) === vendor)
      if (preferred.length > 0) return preferred
    }
    return best
  }

  #isWritten(id: string): boolean {
    return this.#byId.get(id)?.wildcard === undefined
  }

  #spellings(): ReadonlyMap<string, readonly string[]> {
    const spellings = new Map<string, string[]>()
    for (const [name, id] of this.#all(this.#rules.bare)) add(spellings, spelling(name), id)
    return spellings
  }

  #grouped() {
    const groups = new Map<string, (readonly [string, string])[]>()
    for (const [name, id] of this.#all(true)) {
      const lower = name.toLowerCase()
      for (const group of new Set([
        lower.slice(0, 2),
        ...(name === id ? [lower.slice(0, lower.indexOf('/') + 1)] : []),
      ])) {
        const entries = groups.get(group)
        if (entries) entries.push([name, id])
        else groups.set(group, [[name, id]])
      }
    }
    return groups
  }

  /** Every name with its id. @param bare those without a vendor too */
  *#all(bare: boolean): Iterable<readonly [name: string, id: string]> {
    for (const { id } of this.#models) yield [id, id]
    for (const [alias, id] of this.#aliases) yield [alias, id]
    if (!bare) return
    for (const [name, ids] of this.#bare) for (const id of ids) yield [name, id]
    for (const [name, ids] of this.#last) for (const id of ids) yield [name, id]
  }
}

/** Aliases that are the id or an alias of another model, or reserved. */
export function clashes(models: readonly Named[]): Clash[] {
  const ids = new Set(models.map(({ id }) => id))
  const owners = new Map<string, string>()
  const all: Clash[] = []
  for (const { id, aliases } of models) {
    for (const [index, alias] of aliases.entries()) {
      const owner = owners.get(alias)
      const shown = JSON.stringify(alias)
      const conflict =
        (alias === RESERVED && 'is the name of an address of the API') ||
        (ids.has(alias) && 'is the id of a model') ||
        (owner !== undefined && `is an alias of ${owner} as well`)
      if (conflict)
        all.push({ id, index, message: `expected a name of its own, but ${shown} ${conflict}` })
      else owners.set(alias, id)
    }
  }
  return all
}

/** A model id without its vendor. */
export function withoutVendor(id: string): string {
  return id.slice(id.indexOf('/') + 1)
}

function vendorOf(id: string): string {
  return id.slice(0, id.indexOf('/'))
}

function isMakers(id: string): boolean {
  return MAKERS.has(vendorOf(id))
}

function lastPart(id: string): string {
  return id.slice(id.lastIndexOf('/') + 1)
}

function withoutSuffixes(name: string): [rest: string, suffixes: string[]] {
  const suffixes: string[] = []
  let rest = name
  while (suffixes.length < MAX_SUFFIXES) {
    const suffix = SUFFIX.exec(rest)?.[1]
    if (suffix === undefined) break
    suffixes.push(suffix)
    rest = rest.slice(0, -suffix.length - 1)
  }
  return [rest, suffixes]
}

/** What stands behind a name for a version: a day, `@…`, `-v1:0`, or that it is the latest. */
const VERSION = /-\d{8}$|-\d{4}-\d\d-\d\d$|@[^/@]*$|-v\d+:\d+$|-latest$/
const DATE = /-(\d{8}|\d{4}-\d\d-\d\d)(?=$|@|-v\d+:\d+$)/

/** A name in lower case, with dashes between digits, and without a version. */
function spelling(name: string): string {
  let folded = name.toLowerCase().replaceAll(/(?<=\d)\.(?=\d)/g, '-')
  for (let rest = folded.replace(VERSION, ''); rest !== folded; rest = folded.replace(VERSION, ''))
    folded = rest
  return folded
}

/** The day in a name, as digits; empty where there is none. */
function dateOf(id: string): string {
  return DATE.exec(id)?.[1]?.replaceAll('-', '') ?? ''
}

function add(map: Map<string, string[]>, name: string, id: string): void {
  const ids = map.get(name)
  if (!ids) map.set(name, [id])
  else if (!ids.includes(id)) ids.push(id)
}
