/** `POST /models/import`: takes prices of a public list over into the gateway's own. */
import { access, constants } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  changesAsJson,
  comparePrices,
  ownPricesThatDiffer,
  wantedIn,
  writePrices,
  type PriceImport,
} from '../../catalog/price-import.ts'
import {
  ImportRefused,
  parseList,
  priceSources,
  readList,
  type ReadList,
} from '../../catalog/price-sources.ts'
import { readJson } from '../../endpoints/shared/body.ts'
import { ConfigError, InvalidRequest, ReadOnly } from '../../errors/errors.ts'
import { didYouMean } from '../../errors/issues.ts'
import { MAX_LIST_BYTES, PRICE_LIST_FILE } from '../../models/price-list.ts'
import { note } from './audit.ts'
import type * as v from 'valibot'
import { modelImport } from './resources/model.ts'
import type { Notice } from './resources/settings.ts'
import { incomingOf, type Answer, type AdminRequest, read, type Routes, needs } from './route.ts'

export const modelImportRoutes: Routes = {
  '/models/import': { POST: needs('config', importModels) },
}

/** A list with its quotation marks escaped. */
const BODY_LIMIT = 1.5 * MAX_LIST_BYTES

const OTHERS: Notice = {
  code: 'prices.this_gateway',
  object: `file:${PRICE_LIST_FILE}`,
  member: null,
  message: 'every gateway of the state has a file of its own, and this one is that of one gateway',
}

/** An import that writes begins when the one before has written. */
let writing: Promise<unknown> = Promise.resolve()

/**
 * Compares the operator's list with a public one, and writes it only where that is wanted.
 * @throws InvalidRequest for a list that cannot be read, ReadOnly where the file cannot be written
 */
async function importModels(request: AdminRequest): Promise<Answer> {
  const body = read(modelImport, await readJson(incomingOf(request), BODY_LIMIT))
  try {
    const lists = [await listOf(body, request)]
    if (!body.write) return await importing(request, lists, body)
    const turn = writing.then(() => importing(request, lists, body))
    writing = turn.catch(() => {})
    return await turn
  } catch (error) {
    if (error instanceof ConfigError) {
      throw new InvalidRequest('invalid_value', error.message, { param: 'from' })
    }
    if (!(error instanceof ImportRefused)) throw error
    if (error.what === 'file') throw new ReadOnly(error.message)
    const param = body.text === undefined ? 'from' : 'text'
    throw new InvalidRequest('invalid_value', error.message, { param })
  }
}

type ImportBody = v.InferOutput<typeof modelImport>

/** Nothing but a list that is built in is fetched: its address is not the client's. */
async function listOf({ from, text }: ImportBody, { gateway }: AdminRequest): Promise<ReadList> {
  const sources = await priceSources()
  if (text !== undefined) return parseList(from, text, sources.get(from), undefined, sources)
  if (sources.has(from)) {
    return readList(from, undefined, sources, gateway.runtime.egress.route())
  }
  throw new ImportRefused(
    `There is no list ${JSON.stringify(from.slice(0, 100))}; ${didYouMean(from, [...sources.keys()])}. ` +
      "The text of another one is sent as 'text'.",
  )
}

async function importing(
  request: AdminRequest,
  lists: readonly ReadList[],
  { from, only, accept, write }: ImportBody,
): Promise<Answer> {
  const { loaded } = request.gateway
  const path = join(loaded.directory, PRICE_LIST_FILE)
  const now = new Date().toISOString()
  const wanted: PriceImport = { path, label: PRICE_LIST_FILE, lists, only, accept, now }
  const { comparison, list, listed } = await comparePrices(wanted)
  if (write) {
    await writePrices(wanted, list)
    const { added, changed, held } = comparison
    const after = {
      from,
      added: added.length,
      changed: changed.length,
      held: held.length,
      ...(accept.length > 0 && { accepted: accept.join(',').slice(0, 1000) }),
    }
    await note(request, { action: 'models.import', object: `file:${PRICE_LIST_FILE}`, after })
  }
  return {
    body: {
      data: {
        ...changesAsJson(lists, comparison),
        own_prices: ownPricesThatDiffer(loaded, listed, wantedIn(wanted)),
        writable: await isWritable(path),
        written: write,
        warnings: request.runtime.config.state.driver === 'redis' ? [OTHERS] : [],
      },
    },
  }
}

/** The file is replaced by a new one: its folder has to be writable. */
async function isWritable(path: string): Promise<boolean> {
  try {
    await access(dirname(path), constants.W_OK)
    return true
  } catch {
    return false
  }
}
