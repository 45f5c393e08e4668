/** `POST /v1/ocr`: paid by the page. */
import { InvalidRequest } from '../../errors/errors.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { costJson } from '../../money/money.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type { ClientAddress, Endpoint, Receipt } from '../../pipeline/pipeline.ts'
import type { OcrInput, OcrResult } from '../../plugin.ts'
import { itemOf, otherItems } from '../shared/guard.ts'
import { mediaTypeOf } from '../shared/media.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
import { askedOf, isEnd, PageCodec, partsOf, type OcrPart } from './answer.ts'
import { ocrBody, readOcr, type OcrRequest } from './request.ts'

/** Annotations are answers in the form of a schema, and have a price of their own. */
const ANNOTATION_FORMATS = ['bbox_annotation_format', 'document_annotation_format'] as const

const NO_DOCUMENT: OcrInput['document'] = { kind: 'document', url: '' }

const MAX_PAGES = 1000
/** The bytes of a page with pictures, and of the smallest page of text. */
const BYTES_PER_PAGE = 50_000
const LEAST_BYTES_PER_PAGE = 5000

const READ_SEPARATELY = new Set([
  'document',
  'pages',
  'table_format',
  'confidence_scores_granularity',
  'document_annotation_prompt',
])

const addresses: NonNullable<Endpoint<unknown, OcrInput>['addresses']> = {
  of({ document }: OcrInput): ClientAddress[] {
    if (!('url' in document)) return []
    const param = document.kind === 'image' ? 'document.image_url' : 'document.document_url'
    return [{ url: document.url, param }]
  },

  replace(outbound: OcrInput, files): OcrInput {
    const { document } = outbound
    if (!('url' in document)) return outbound
    const { url, ...others } = document
    const { bytes, contentType } = files.get(url)!
    const file = { bytes, mediaType: mediaTypeOf(bytes) ?? contentType }
    return { ...outbound, document: { ...others, file } }
  },
}

/** The OCR endpoint. Pages are estimated by the selection, and charged as the vendor counts them. */
export const ocr = defineUnitEndpoint<OcrRequest, OcrInput, OcrPart>({
  path: '/v1/ocr',
  operation: 'ocr',
  modality: 'ocr',
  errorField: null,
  body: ocrBody,
  toInput: readOcr,
  addresses,

  check(input, model) {
    const param = ANNOTATION_FORMATS.find((name) => input[name] !== undefined)
    if (param === undefined || !lacks(model, 'STRUCTURED_OUTPUTS')) return
    throw new InvalidRequest(
      'unsupported_parameter',
      `${model.id} cannot honour ${param}: ${lackOf('STRUCTURED_OUTPUTS')}.`,
      { param },
    )
  },

  content: {
    document: NO_DOCUMENT,
    bbox_annotation_format: undefined,
    document_annotation_format: undefined,
    document_annotation_prompt: undefined,
  },

  estimate({ pages: selected, document }) {
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

  usage: (receipt) => ({ ...pagesIn(receipt), ...costJson(receipt.bill) }),

  answer({ input }) {
    const figures = askedOf(input)
    return wholeAnswer((result: OcrResult) => partsOf(result, figures), usageOf)
  },

  isEnd,

  // Guards cannot read the document itself.
  texts(input) {
    const { document, document_annotation_prompt: prompt } = input
    const kind = document.kind === 'image' ? 'image' : 'file'
    const type = 'file' in document ? { mediaType: document.file.mediaType } : {}
    const items = [itemOf('document', 'document', '', [{ kind, ...type }])]
    if ('url' in document) items.push(itemOf('document.url', 'annotation', document.url))
    if (document.name) items.push(itemOf('document.document_name', 'annotation', document.name))
    if (prompt) items.push(itemOf('document_annotation_prompt', 'prompt', prompt))
    return [...items, ...otherItems(input, READ_SEPARATELY, 'tool_schema')]
  },
  codec: () => new PageCodec(),

  json(parts, { target }) {
    const { bytes, receipt } = parts.find(isEnd)!
    const annotation = parts.find((part) => part.type === 'annotation')
    return {
      pages: parts.flatMap((part) => (part.type === 'page' ? part.page : [])),
      model: target.model.id,
      document_annotation: annotation?.text ?? null,
      usage_info: { ...pagesIn(receipt!), doc_size_bytes: bytes },
    }
  },
})

/** Usage of an answer: pages as the vendor counts them, else the pages of the answer. */
function usageOf({ pages: { length }, usage }: OcrResult): UsageReport {
  const pages = { estimate: length, soft: 2 * length + 1, hard: 1000 + 8 * length }
  return { reported: usage && { ...usage }, expected: { pages } }
}

function pagesIn({ meter }: Receipt): { readonly pages_processed: number } {
  const { pages = 0 } = meter.find(({ source }) => source === 'model')?.usage ?? {}
  return { pages_processed: pages }
}
