/** `POST /v1/ocr`: all of its wire knowledge (wire contract, 5.7). */
import { InvalidRequest } from '../../errors/errors.ts'
import { costJson, type Bill } from '../../money/money.ts'
import type { Call, Endpoint } from '../../pipeline/pipeline.ts'
import type { OcrPage, OcrResult } from '../../plugin.ts'
import { writeJson } from '../shared/write.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { readJson } from '../shared/body.ts'
import { guarding } from './guard.ts'
import { isEnd, partsOf, type EndPart, type OcrPart } from './parts.ts'
import { outboundOcr, readOcrRequest, type OcrRequest } from './request.ts'

/** Base64 takes a third more, and the rest of the body has to be somewhere. */
const BODY_PER_DOCUMENT = 1.4

/** What vendors take of one document. */
const MAX_PAGES = 1000

/** Annotations are answers in the form of a schema, and have a price of their own. */
const ANNOTATION_FORMATS = ['bbox_annotation_format', 'document_annotation_format'] as const

export const ocr: Endpoint<OcrRequest, OcrPart> = {
  operation: 'ocr',
  path: '/v1/ocr',
  modality: 'ocr',
  errorField: null,
  guard: guarding,

  async read(incoming, { document }) {
    const body = await readJson(incoming, Math.ceil(document * BODY_PER_DOCUMENT))
    return readOcrRequest(body, document)
  },
  modelOf: (input) => input.model,
  sessionOf: () => undefined,
  policyOf: (input) => input.policy,
  streams: () => false,

  check(input, model) {
    const param = ANNOTATION_FORMATS.find((name) => input[name] !== undefined)
    if (param === undefined || model.capabilities.has('STRUCTURED_OUTPUTS')) return
    throw new InvalidRequest(
      'unsupported_parameter',
      `${model.id} cannot honour ${param}: it lacks the capability STRUCTURED_OUTPUTS.`,
      { param },
    )
  },

  estimate({ pages, document: { kind } }) {
    const most = kind === 'image' ? 1 : MAX_PAGES
    return { least: { pages: pages?.length ?? 1 }, most: { pages: pages?.length ?? most } }
  },

  toUpstream: outboundOcr,
  // There are no turns to put words between, and no tokens to count.
  instruct: (outbound) => outbound,

  normalize({ input }, answer: OcrResult) {
    const parts = [...partsOf(answer, input)]
    const pages = answer.usage?.pages ?? answer.pages.length
    return { parts, usage: () => ({ ...answer.usage, pages }) }
  },

  billed: (call, charge) => new ReceiptAtEnd({ call, charge, isEnd, usageOf }),

  async write(call, reply, out) {
    const pages: OcrPage[] = []
    let document_annotation: string | null = null
    let end: EndPart | undefined
    for await (const part of reply.parts) {
      if (part.type === 'page') pages.push(part.page)
      else if (part.type === 'annotation') document_annotation = part.text
      else end = part
    }
    const { bytes, usage, guard } = end!
    const body = {
      pages,
      model: call.model.id,
      document_annotation,
      usage_info: { ...usageOf(call), doc_size_bytes: bytes },
      usage,
      ...(guard && { guard }),
    }
    await writeJson(call, out, JSON.stringify(body))
  },
}

function usageOf({ meter }: Call, bill?: Bill): object {
  const { pages = 0 } = meter.find(({ source }) => source === 'model')?.usage ?? {}
  return { pages_processed: pages, ...(bill && costJson(bill)) }
}
