/** What OCR costs: by the page. */
import { costJson } from '../../money/money.ts'
import type { Billing, Receipt } from '../../pipeline/pipeline.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type { OcrResult } from '../../plugin.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { isEnd, type OcrPart } from './parts.ts'
import type { OcrRequest } from './read.ts'

/** The most pages that vendors read of one document. */
const MAX_PAGES = 1000
/** Of a page with pictures, and of the smallest page of text. */
const BYTES_PER_PAGE = 50_000
const LEAST_BYTES_PER_PAGE = 5000

/** Pages: estimated by the selection, charged as the vendor counts them. */
export const billing: Billing<OcrRequest, OcrPart> = {
  estimate({ input }) {
    const { pages: selected, document } = input
    const pages = selected?.length ?? 1
    const least = { pages }
    if (selected || document.kind === 'image') return { least, expected: least, most: least }
    if ('url' in document) return { least, expected: least, most: { pages: MAX_PAGES } }
    const { length } = document.file.bytes
    return {
      least,
      expected: { pages: Math.max(1, Math.ceil(length / BYTES_PER_PAGE)) },
      most: { pages: Math.max(1, Math.ceil(length / LEAST_BYTES_PER_PAGE)) },
    }
  },

  attach: (call) => new ReceiptAtEnd(call, isEnd),
}

/** What an answer has consumed: pages as the vendor counts them, else those of the answer. */
export function usageOf({ pages: { length }, usage }: OcrResult): UsageReport {
  const pages = { estimate: length, soft: 2 * length + 1, hard: 1000 + 8 * length }
  return { reported: usage && { ...usage }, expected: { pages } }
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
