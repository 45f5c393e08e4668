/** `POST /v1/ocr`, as the client sees it. */
import type { WireFormat } from '../../pipeline/pipeline.ts'
import type { OcrPage } from '../../plugin.ts'
import { parsedRequest, readJson } from '../shared/body.ts'
import { billedJson, errorWriter, jsonWriter } from '../shared/write.ts'
import { pagesIn, usageJson } from './billing.ts'
import type { EndPart, OcrPart } from './parts.ts'
import { ocrBody, readOcrRequest, type OcrRequest } from './read.ts'

/** Size of a body by that of its document: base64 takes a third more, and other members need room. */
const BODY_PER_DOCUMENT = 1.4

/** One JSON body in, one JSON body out. */
export const ocrFormat: WireFormat<OcrRequest, OcrPart> = {
  path: '/v1/ocr',
  body: ocrBody,

  async read(incoming, { document }) {
    const body = await readJson(incoming, Math.ceil(document * BODY_PER_DOCUMENT))
    return parsedRequest(incoming, readOcrRequest(body, document), false)
  },

  write: jsonWriter((parts, { target }) => {
    const pages: OcrPage[] = []
    let document_annotation: string | null = null
    let end: EndPart | undefined
    for (const part of parts) {
      if (part.type === 'page') pages.push(part.page)
      else if (part.type === 'annotation') document_annotation = part.text
      else end = part
    }
    const { bytes, receipt } = end!
    return {
      pages,
      model: target.model.id,
      document_annotation,
      usage_info: { ...pagesIn(receipt!), doc_size_bytes: bytes },
      ...billedJson(receipt!, usageJson(receipt!)),
    }
  }),

  writeError: errorWriter(usageJson),
}
