/** The document of the managed configuration: entries by section and name, with sealed secrets. */
import { partsOf, SECTIONS, type EntryKey, type Section, type Sections } from '../config/managed.ts'
import { isObject } from '../errors/checks.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Changed } from '../server/admin/resources/settings.ts'
import { optionOf } from './manageable.ts'
import { isSealed, type Sealed } from '../state/sealing.ts'

export interface ManagedEntry {
  /** The entry in the form of the API, with sealed secrets. */
  readonly value: object
  readonly revision: number
  readonly changed: Changed
}

export interface ManagedDocument {
  readonly format: 1
  readonly revision: number
  readonly sections: Sections<ManagedEntry>
}

export const EMPTY: ManagedDocument = {
  format: 1,
  revision: 0,
  sections: { providers: {}, models: {}, engines: {}, sinks: {} },
}

const MOST_BYTES = 2 * 1024 * 1024
const MOST: Readonly<Record<Section, number>> = {
  providers: 100,
  models: 5000,
  engines: 100,
  sinks: 100,
}

export function keyOf({
  section,
  name,
}: {
  readonly section: Section
  readonly name: string
}): EntryKey {
  return `${section}/${name}`
}

/** The place of an entry as clients of the API know it. */
export function pathOf(key: EntryKey): string {
  return partsOf(key).join('.')
}

/** Sealed options of an entry. */
export function sealedOf(value: object): { readonly name: string; readonly sealed: Sealed }[] {
  const { options } = value as { readonly options?: unknown }
  const secrets: { name: string; sealed: Sealed }[] = []
  for (const [name, option] of Object.entries(isObject(options) ? options : {})) {
    if (isSealed(option)) secrets.push({ name, sealed: option })
    else if (isObject(option)) {
      for (const [inner, one] of Object.entries(option)) {
        if (isSealed(one)) secrets.push({ name: `${name}.${inner}`, sealed: one })
      }
    }
  }
  return secrets
}

/** All sealed options of a document. */
export function sealedIn({ sections }: ManagedDocument) {
  return SECTIONS.flatMap((section) =>
    Object.values(sections[section]).flatMap(({ value }) => sealedOf(value)),
  )
}

/** The options of an entry that are sealed, by their names. */
export function sealedNames(value: object): string[] {
  return sealedOf(value).map(({ name }) => name)
}

export function entryIn(sections: Sections<ManagedEntry>, key: EntryKey): ManagedEntry | undefined {
  const [section, name] = partsOf(key)
  return Object.hasOwn(sections[section], name) ? sections[section][name] : undefined
}

/** Entries that are not the same in both. */
export function differing(one: Sections<ManagedEntry>, other: Sections<ManagedEntry>): EntryKey[] {
  return SECTIONS.flatMap((section) => {
    const names = new Set([...Object.keys(one[section]), ...Object.keys(other[section])])
    return [...names]
      .filter((name) => one[section][name]?.revision !== other[section][name]?.revision)
      .map((name) => keyOf({ section, name }))
  })
}

/** @throws ConfigError for a layer that is too large */
export function checkSize(document: ManagedDocument): void {
  const issues = SECTIONS.filter(
    (section) => Object.keys(document.sections[section]).length > MOST[section],
  ).map((section) => ({ path: section, message: `expected at most ${MOST[section]} entries` }))
  if (Buffer.byteLength(JSON.stringify(document)) > MOST_BYTES) {
    issues.push({ path: '' as Section, message: 'expected at most 2 MiB of JSON' })
  }
  if (issues.length > 0) throw new ConfigError('the managed configuration', issues)
}

/** Whether an entry would send its secrets elsewhere than the stored one. */
export function hasMoved(
  value: Readonly<Record<string, unknown>>,
  stored: object | undefined,
  fields: readonly { readonly name: string; readonly kind: string }[],
): boolean {
  if (!stored) return false
  const former = stored as Readonly<Record<string, unknown>>
  const addresses = fields.filter(({ kind }) => kind === 'address')
  return (
    value.use !== former.use ||
    addresses.some(({ name }) => optionOf(value.options, name) !== optionOf(former.options, name))
  )
}
