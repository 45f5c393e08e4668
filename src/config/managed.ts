/**
 * The managed layer: vendors, models, search engines and sinks that an operator has set up at run time. It lies between the
 * files of the operator and the starter: `starter < managed < models file < configuration file < environment`.
 */
import { vendorOf } from '../../providers/vendors.ts'
import type { ConfigIssue } from '../errors/errors.ts'
import { isRaw, mergeModels } from '../models/layers.ts'
import { withVendors } from './vendors.ts'

export const SECTIONS = ['providers', 'models', 'engines', 'sinks'] as const
/** What can be managed. */
export type Section = (typeof SECTIONS)[number]

/** Entries by section and name. */
export type Sections<Entry> = Readonly<Record<Section, Readonly<Record<string, Entry>>>>

/** Entries whose secrets are plain, as a configuration has them. */
export interface ManagedLayer {
  readonly revision: number
  readonly sections: Sections<object>
  /** Options that are secret, such as `['providers/openai', 'apiKey']`. */
  readonly secrets: readonly (readonly [key: EntryKey, option: string])[]
}

/** An entry by its section and name, such as `providers/openai`. */
export type EntryKey = `${Section}/${string}`

type Raw = Readonly<Record<string, unknown>>

/** Where the entries of a section stand in the configuration. */
const PLACES: Readonly<Record<Exclude<Section, 'sinks'>, string>> = {
  providers: 'providers',
  models: 'models',
  engines: 'search.engines',
}

/**
 * Models and search engines of the starter with the managed ones above them, for the merge below the files of the operator. Texts
 * of managed entries are no references: `${NAME}` stays as it is.
 */
export function starterWith(starter: unknown, { sections }: ManagedLayer): Raw {
  const base = isRaw(starter) ? starter : {}
  const search = isRaw(base.search) ? base.search : {}
  const engines = isRaw(search.engines) ? search.engines : {}
  return {
    ...base,
    models: mergeModels(literal(sorted(sections.models)), base.models),
    search: { ...search, engines: { ...engines, ...(literal(sections.engines) as Raw) } },
  }
}

/** The providers with the managed ones that no file of the operator has. @param own those of the file @param label names the layer in errors */
export function providersWith(
  providers: unknown,
  own: unknown,
  { sections }: ManagedLayer,
  label: string,
): unknown {
  if (providers !== undefined && !isRaw(providers)) return providers
  const free = Object.entries(sections.providers).filter(
    ([name]) => !isRaw(own) || !Object.hasOwn(own, name),
  )
  const others = isRaw(providers) ? providers : {}
  const added = free.map(([name, entry]) => [name, literal(withOwnKey(name, entry, label))])
  return { ...others, ...(Object.fromEntries(added) as Raw) }
}

/** The list of sinks with the managed ones at its end, without those whose names the file has. */
export function sinksWith(own: unknown, { sections }: ManagedLayer): unknown {
  if (own !== undefined && !Array.isArray(own)) return own
  const files = (own ?? []) as readonly unknown[]
  const names = new Set(files.map((sink) => isRaw(sink) && (sink.name ?? sink.use)))
  const added = Object.entries(sections.sinks)
    .filter(([name]) => !names.has(name))
    .map(([name, value]) => ({ ...(literal(value) as Raw), name }))
  return [...files, ...added]
}

/** An entry whose vendor is replaced by its plugin, without a look at the environment: a managed entry does not read it. */
export function withOwnKey(name: string, entry: object, label: string): object {
  const { use, options } = entry as Raw
  if (typeof use !== 'string' || !vendorOf(use)) return entry
  const whole = (withVendors({ [name]: entry }, {}, label) as Raw)[name] as Raw
  const { apiKey: _, ...given } = whole.options as Raw
  const key = isRaw(options) ? options.apiKey : undefined
  return { ...whole, options: { ...given, ...(key !== undefined && { apiKey: key }) } }
}

/** Entries in the order of their names, which is that of an export. */
function sorted<Entry>(entries: Readonly<Record<string, Entry>>): Readonly<Record<string, Entry>> {
  return Object.fromEntries(
    Object.entries(entries).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  )
}

/** A value in which no text is a reference to the environment. */
function literal(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${')
  if (Array.isArray(value)) return value.map(literal)
  if (!isRaw(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, literal(inner)]))
}

/** The names of all sinks, in the order of the configuration. @param files those of the file */
export function sinkNamesOf(
  files: readonly { readonly name?: string | undefined; readonly use: string }[],
  { sections }: Pick<ManagedLayer, 'sections'>,
): string[] {
  const own = files.map(({ name, use }) => name ?? use)
  return [...own, ...Object.keys(sections.sinks).filter((name) => !own.includes(name))]
}

/** Dotted paths of the secrets of a layer. @param sinkNames those of all sinks, in the order of the configuration */
export function secretPaths({ secrets }: ManagedLayer, sinkNames: readonly string[]): string[] {
  return secrets.map(([key, option]) => {
    const [section, name] = partsOf(key)
    const place =
      section === 'sinks' ? `sinks.${sinkNames.indexOf(name)}` : `${PLACES[section]}.${name}`
    return `${place}.options.${option}`
  })
}

/** The section and the name of an entry. Names of models have slashes. */
export function partsOf(key: EntryKey): readonly [section: Section, name: string] {
  const end = key.indexOf('/')
  return [key.slice(0, end) as Section, key.slice(end + 1)]
}

/** The entries that issues are about; undefined for an issue that is not about a managed entry. */
export function entriesOf(
  issues: readonly ConfigIssue[],
  { sections }: ManagedLayer,
  sinkNames: readonly string[],
): readonly (EntryKey | undefined)[] {
  const places = (Object.keys(PLACES) as (keyof typeof PLACES)[]).flatMap((section) =>
    Object.keys(sections[section]).map((name) => ({
      key: `${section}/${name}` as const,
      path: `${PLACES[section]}.${name}`,
    })),
  )
  const sinks = sinkNames.flatMap((name, index) =>
    Object.hasOwn(sections.sinks, name)
      ? [{ key: `sinks/${name}` as const, path: `sinks.${index}` }]
      : [],
  )
  // Ids of models have dots: of `a/b` and `a/b.c` the longer one has the issue of `models.a/b.c.pricing`.
  const sorted = [...places, ...sinks].toSorted((a, b) => b.path.length - a.path.length)
  return issues.map(
    (issue) =>
      sorted.find(({ path }) => issue.path === path || issue.path.startsWith(`${path}.`))?.key,
  )
}

/** Entries in another form; one whose form is undefined is left out. */
export function mapSections<Entry, Result>(
  sections: Sections<Entry>,
  map: (entry: Entry, key: EntryKey) => Result | undefined,
): Record<Section, Record<string, Result>> {
  const mapped = (section: Section) =>
    Object.fromEntries(
      Object.entries(sections[section] ?? {}).flatMap(([name, entry]) => {
        const made = map(entry, `${section}/${name}`)
        return made === undefined ? [] : [[name, made] as const]
      }),
    )
  return {
    providers: mapped('providers'),
    models: mapped('models'),
    engines: mapped('engines'),
    sinks: mapped('sinks'),
  }
}

/** A layer without some entries. */
export function layerWithout(layer: ManagedLayer, keys: ReadonlySet<EntryKey>): ManagedLayer {
  const sections = mapSections(layer.sections, (entry, key) => (keys.has(key) ? undefined : entry))
  return { ...layer, sections }
}

/** All entries of a layer. */
export function keysOf({ sections }: { readonly sections: Sections<unknown> }): EntryKey[] {
  return SECTIONS.flatMap((section) =>
    Object.keys(sections[section]).map((name) => `${section}/${name}` as const),
  )
}
