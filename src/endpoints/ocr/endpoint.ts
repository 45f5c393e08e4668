/** OCR in its one normal form. */
import { InvalidRequest } from '../../errors/errors.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { OcrInput, OcrResult } from '../../plugin.ts'
import { wholeAnswer } from '../shared/unit.ts'
import { addresses } from './addresses.ts'
import { billing, usageOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { partsOf, type OcrPart } from './parts.ts'
import { outboundOcr, type OcrRequest } from './read.ts'

/** Annotations are answers in the form of a schema, and have a price of their own. */
const ANNOTATION_FORMATS = ['bbox_annotation_format', 'document_annotation_format'] as const

const NO_DOCUMENT: OcrInput['document'] = { kind: 'document', url: '' }

/** The OCR endpoint. */
export const ocr: Endpoint<OcrRequest, OcrInput, OcrPart> = {
  operation: 'ocr',
  modality: 'ocr',
  errorField: null,
  billing,
  guard: guardAdapter,

  check(input, model) {
    const param = ANNOTATION_FORMATS.find((name) => input[name] !== undefined)
    if (param === undefined || !lacks(model, 'STRUCTURED_OUTPUTS')) return
    throw new InvalidRequest(
      'unsupported_parameter',
      `${model.id} cannot honour ${param}: ${lackOf('STRUCTURED_OUTPUTS')}.`,
      { param },
    )
  },

  toUpstream: outboundOcr,
  withoutContent: (request) => ({
    ...request,
    document: NO_DOCUMENT,
    bbox_annotation_format: undefined,
    document_annotation_format: undefined,
    document_annotation_prompt: undefined,
  }),
  addresses,

  normalize({ request }) {
    const input = request.input as OcrRequest
    return wholeAnswer((result: OcrResult) => [...partsOf(result, input)], usageOf)
  },
}
