/** Prices of a public list for the models of an import. */
import { join } from 'node:path'
import { comparePrices } from '../../catalog/price-import.ts'
import { ImportRefused, priceSources, readList } from '../../catalog/price-sources.ts'
import { ConfigError } from '../../errors/errors.ts'
import type { ListedModel } from '../../models/entry.ts'
import { formatPriceList, PRICE_LIST_FILE } from '../../models/price-list.ts'
import { CommandError } from '../command.ts'

/** The list that is fetched where none is named. */
const DEFAULT_LIST = 'litellm'

/** Prices after a list was read. */
export interface FetchedPrices {
  /** All prices in use, those of the package included. */
  readonly listed: Readonly<Record<string, ListedModel>>
  /** Content of the list beside the configuration; undefined if nothing of it is wanted. */
  readonly text: string | undefined
}

/**
 * Reads a list and takes what the models lack.
 * @param from `fetch`, or what `models import --from` takes
 * @param folder of the configuration
 * @param wanted ids in price lists
 * @throws CommandError
 */
export async function fetchedPrices(
  from: string,
  folder: string,
  wanted: readonly string[],
): Promise<FetchedPrices> {
  try {
    const sources = await priceSources()
    const name = from === 'fetch' ? DEFAULT_LIST : from
    const lists = [await readList(name, undefined, sources)]
    const now = new Date().toISOString()
    const path = join(folder, PRICE_LIST_FILE)
    const only = wanted.length === 0 ? [''] : wanted
    const compared = await comparePrices({ path, label: path, lists, only, accept: [], now })
    const isEmpty = Object.keys(compared.list.models).length === 0
    return { listed: compared.listed, text: isEmpty ? undefined : formatPriceList(compared.list) }
  } catch (error) {
    if (!(error instanceof ImportRefused || error instanceof ConfigError)) throw error
    throw new CommandError(`${error.message} Nothing was written.`)
  }
}
