/** Compares the operator's price list with public ones, and takes their prices over. */
import { hash } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readPackaged, readPriceFile } from '../config/price-files.ts'
import type { LoadedConfig } from '../config/config.ts'
import { ConfigError } from '../errors/errors.ts'
import type { Origin } from '../config/origins.ts'
import { compare, ownDifferences, type Comparison } from '../import/compare.ts'
import type { PriceMove } from '../server/admin/resources/model.ts'
import {
  formatPriceList,
  mergePriceLists,
  readPriceList,
  type PriceList,
} from '../models/price-list.ts'
import { ImportRefused, type ReadList } from './price-sources.ts'

/** What is imported, and where to. */
export interface PriceImport {
  /** Path in the operator's list. */
  readonly path: string
  /** What it is called in messages. */
  readonly label: string
  readonly lists: readonly ReadList[]
  /** Ids, or patterns such as `openai/*`; empty for all models. */
  readonly only: readonly string[]
  /** Models and prices that were held back: `<id>` or `<id>:<price>`. */
  readonly accept: readonly string[]
  /** ISO 8601. */
  readonly now: string
}

/** What an import changes. */
interface PriceChanges {
  readonly comparison: Comparison
  /** The operator's list after it. */
  readonly list: PriceList
  /** All prices after it, those of the package included. */
  readonly listed: PriceList['models']
}

/** Compares, and writes nothing. @throws ConfigError for a list of the operator that cannot be read */
export async function comparePrices(wanted: PriceImport): Promise<PriceChanges> {
  const { path, label, lists, accept, now } = wanted
  const own = await readPriceFile(path, label)
  const packaged = await readPackaged()
  const present = { own: own.models, all: mergePriceLists(own, packaged) }
  const isWanted = wantedIn(wanted)
  const comparison = compare(present, lists, { accepted: new Set(accept), now, isWanted })
  const { models } = comparison
  const listed = mergePriceLists({ ...own, models }, packaged)
  return { comparison, listed, list: listOf(own, lists, models, now) }
}

/** Whether an import is to change a model. */
export function wantedIn({ only }: Pick<PriceImport, 'only'>): (id: string) => boolean {
  return (id) => only.length === 0 || only.some((pattern) => matches(id, pattern))
}

function listOf(
  own: PriceList,
  lists: readonly ReadList[],
  models: PriceList['models'],
  now: string,
): PriceList {
  const read = lists.map(({ name, url, licence, text }) => ({
    name,
    ...(url !== undefined && { url }),
    fetched_at: now,
    sha256: hash('sha256', text),
    ...(licence !== undefined && { licence }),
  }))
  const others = own.sources.filter(({ name }) => !lists.some((list) => list.name === name))
  return { format: 1, generated_at: now, sources: [...others, ...read], models }
}

/** Compares the prices that a configuration has itself with what is listed: no import changes them. */
export function ownPricesThatDiffer(
  { config, origins }: Pick<LoadedConfig, 'config' | 'origins'>,
  listed: PriceList['models'],
  isWanted: (id: string) => boolean,
): readonly PriceMove[] {
  const entries = Object.entries(config.models).flatMap(([id, { pricing, price_of }]) =>
    LISTS.has(origins.of(['models', id, 'pricing']).from) || !isWanted(id)
      ? []
      : [{ id, pricing, price_of }],
  )
  return ownDifferences(entries, listed)
}

const LISTS: ReadonlySet<string> = new Set<Origin['from']>(['prices', 'built-in'])

/** Writes what a start can read, or nothing. @throws ImportRefused */
export async function writePrices(
  { path, label }: Pick<PriceImport, 'path' | 'label'>,
  list: PriceList,
): Promise<void> {
  const text = formatPriceList(list)
  try {
    readPriceList(text, label)
    await replaceFile(path, text)
  } catch (error) {
    if (error instanceof ConfigError)
      throw new ImportRefused(`Nothing was written: ${error.message}`)
    const { syscall, message } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new ImportRefused(`${label} could not be written: ${message}.`, 'file')
  }
}

/** What an import changes, for readers of JSON. */
export function changesAsJson(
  lists: readonly ReadList[],
  result: Comparison,
): Omit<Comparison, 'models'> & { readonly sources: readonly object[] } {
  const { added, changed, removed, held, same, disagreements } = result
  const sources = lists.map(({ name, read }) => ({
    name,
    rows: read.rows,
    models: read.models.size,
    left_out: Object.fromEntries(read.skipped),
    not_mapped: Object.fromEntries(read.unmapped),
  }))
  return { sources, added, changed, removed, held, same, disagreements }
}

/** Whether an id has the parts of a pattern, between which anything may stand. */
function matches(id: string, pattern: string): boolean {
  const parts = pattern.split('*')
  if (parts.length === 1) return id === pattern
  const [first, last] = [parts[0]!, parts.at(-1)!]
  if (!id.startsWith(first) || !id.endsWith(last) || id.length < first.length + last.length)
    return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const index = id.indexOf(part, at)
    if (index < 0 || index + part.length > id.length - last.length) return false
    at = index + part.length
  }
  return true
}

// Writes a file as a whole: at every moment there is the old one or the new one.

/** Replaces a file. It is on the disk when the promise resolves; nothing is left of an attempt that fails. */
async function replaceFile(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}.new`
  try {
    const file = await open(unfinished, 'w')
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(unfinished, path)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
  const folder = await open(dirname(path))
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
