/** What OCR costs: by the page. */
import { costJson } from '../../money/money.ts'
import type { Billing, Receipt } from '../../pipeline/pipeline.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { isEnd, type OcrPart } from './parts.ts'
import type { OcrRequest } from './read.ts'

/** The most pages that vendors read of one document. */
const MAX_PAGES = 1000

/** Pages: estimated by the selection, charged as the vendor counts them. */
export const billing: Billing<OcrRequest, OcrPart> = {
  estimate({ pages, document: { kind } }) {
    const most = kind === 'image' ? 1 : MAX_PAGES
    return { least: { pages: pages?.length ?? 1 }, most: { pages: pages?.length ?? most } }
  },

  attach: (call, charge) => new ReceiptAtEnd(call, charge, isEnd),
}

/** The billed pages, in the form of the wire. */
export function pagesIn({ meter }: Receipt): { readonly pages_processed: number } {
  const { pages = 0 } = meter.find(({ source }) => source === 'model')?.usage ?? {}
  return { pages_processed: pages }
}

/** `usage` of an answer. */
export function usageJson(receipt: Receipt): object {
  return { ...pagesIn(receipt), ...costJson(receipt.bill) }
}
