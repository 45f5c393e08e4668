/** The files with price lists that a configuration uses: that of the operator and that of the package. */
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigError } from '../errors/errors.ts'
import type { ListedModel } from '../models/entry.ts'
import {
  checkedModels,
  MAX_LIST_BYTES,
  mergePriceLists,
  NO_PRICES,
  PRICE_LIST_FILE,
  readPriceList,
  type PriceList,
} from '../models/price-list.ts'
import type { Origin } from './origins.ts'

/** What price lists say. */
export interface ListedPrices {
  /** The models, by id. */
  readonly models: PriceList['models']
  /** Which list an entry is from. */
  readonly origins: WeakMap<ListedModel, Origin>
}

/** The list of the package: two folders up in a checkout, three in a build. */
export const PACKAGED_PRICES = ['../../', '../../../']
  .map((up) => fileURLToPath(new URL(`${up}config/${PRICE_LIST_FILE}`, import.meta.url)))
  .find((path) => existsSync(path))

/** A file with prices as text; undefined if there is none. @throws ConfigError for one that cannot be read or is too large */
export async function readPriceText(path: string, label: string): Promise<string | undefined> {
  try {
    const { size } = await stat(path)
    if (size <= MAX_LIST_BYTES) return await readFile(path, 'utf8')
    const message = `is too large for a list of prices: it has ${mib(size)}, expected at most ${mib(MAX_LIST_BYTES)}`
    throw new ConfigError(label, [{ path: '', message }])
  } catch (error) {
    if (error instanceof ConfigError) throw error
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new ConfigError(label, [{ path: '', message: `cannot be read: ${message}` }])
  }
}

/** A price list; without models if there is no such file. @throws ConfigError that lists what is wrong */
export async function readPriceFile(path: string, label: string): Promise<PriceList> {
  const text = await readPriceText(path, label)
  return text === undefined ? NO_PRICES : readPriceList(text, label)
}

/**
 * The models of the operator's list and of the package's, by id.
 * @param folder the folder of the operator's list
 * @param labelOf names a file in messages
 * @param packaged whether the list of the package is used
 * @param isNeeded the models of that list that are read: it is long, and a start takes few of them
 * @throws ConfigError
 */
export async function readPriceFiles(
  folder: string,
  labelOf: (path: string) => string,
  packaged = true,
  isNeeded?: (id: string) => boolean,
): Promise<ListedPrices> {
  const file = labelOf(join(folder, PRICE_LIST_FILE))
  const [own, others] = await Promise.all([
    readPriceFile(join(folder, PRICE_LIST_FILE), file),
    packaged ? readPackaged(isNeeded) : NO_PRICES,
  ])
  const origins = new WeakMap<ListedModel, Origin>()
  for (const model of Object.values(own.models)) origins.set(model, { from: 'prices', file })
  for (const model of Object.values(others.models)) origins.set(model, { from: 'built-in' })
  return { models: mergePriceLists(own, others), origins }
}

/** The list of the package, which its test checks. */
export async function readPackaged(
  isNeeded: (id: string) => boolean = () => true,
): Promise<PriceList> {
  if (PACKAGED_PRICES === undefined) return NO_PRICES
  return checkedModels(await readFile(PACKAGED_PRICES, 'utf8'), isNeeded)
}

function mib(bytes: number): string {
  return `${Math.ceil(bytes / (1024 * 1024))} MiB`
}
