/** What an order of documents costs: by the token, or by the search unit. */
import type { Model } from '../../models/catalog.ts'
import { costJson } from '../../money/money.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type { Billing, Receipt } from '../../pipeline/pipeline.ts'
import type { RerankInput, RerankResult } from '../../plugin.ts'
import {
  attachWhole,
  consumedIn,
  promptBounds,
  promptEstimate,
  promptSizeOf,
  type PromptSize,
} from '../shared/texts-billing.ts'
import type { RerankPart } from './answer.ts'
import type { RerankRequest } from './read.ts'

/** Documents that vendors search for one unit. */
const DOCUMENTS_PER_UNIT = 100
/** Vendors count a long document as several. */
const UNITS_PER_DOCUMENT = 100

/** The figures of a request. */
interface RerankSize extends PromptSize {
  readonly documents: number
  readonly units: number
}

/** Some vendors count the query once for each document. */
export function sizeOf({ query, documents }: RerankInput): RerankSize {
  const count = documents.length
  const units = Math.ceil(count / DOCUMENTS_PER_UNIT)
  const asked = promptSizeOf([query])
  const { tokens, most } = promptSizeOf(
    documents.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))),
  )
  return {
    documents: count,
    units,
    tokens: tokens + asked.tokens,
    most: most + count * asked.most,
  }
}

/** Tokens and units: estimated by the request, charged as the vendor counts them. */
export const billing: Billing<RerankRequest, RerankPart> = {
  estimate({ input }) {
    const size = sizeOf(input)
    return promptEstimate(size, { searchUnits: size.units })
  },
  attach: attachWhole,
}

/** What an answer has consumed. Units are counted here where the vendor does not count them; tokens where they have a price. */
export function usageOf(
  size: RerankSize,
  { usage }: RerankResult,
  { prices }: Pick<Model, 'prices'>,
): UsageReport {
  const { units, documents } = size
  const soft = units + documents
  return {
    reported: usage && { ...usage },
    counted: { searchUnits: units },
    expected: {
      promptTokens: { ...promptBounds(size), needed: prices.prompt !== undefined },
      searchUnits: {
        estimate: units,
        soft,
        hard: UNITS_PER_DOCUMENT * soft,
        needed: false,
      },
    },
  }
}

/** The search units of an answer. */
export function unitsIn(receipt: Receipt): number {
  return consumedIn(receipt).searchUnits ?? 0
}

/** `usage` of an answer. Where tokens have no price and the vendor counts none, there are none. */
export function usageJson(receipt: Receipt): object {
  const { promptTokens } = consumedIn(receipt)
  return {
    ...(promptTokens !== undefined && { total_tokens: promptTokens }),
    search_units: unitsIn(receipt),
    ...costJson(receipt.bill),
  }
}
