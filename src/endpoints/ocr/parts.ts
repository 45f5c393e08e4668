/** What was read of a document on its way to the client: page by page, and then the end (wire contract, 5.7). */
import { InvalidRequest, UpstreamFailure } from '../../errors/errors.ts'
import type { OcrPage, OcrResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'
import type { OcrRequest } from './read.ts'

export type OcrPart =
  | { readonly type: 'page'; readonly page: OcrPage }
  | { readonly type: 'annotation'; readonly text: string }
  | EndPart

export interface EndPart extends Billed {
  readonly type: 'end'
  /** Of the document, where that is known. */
  readonly bytes: number | null
}

/** Whether it is the last one. */
export function isEnd(part: OcrPart): part is EndPart {
  return part.type === 'end'
}

/**
 * The parts of an answer, in the form of the wire.
 * @throws InvalidRequest for a page that the document does not have; UpstreamFailure for no answer at all
 */
export function* partsOf(
  answer: OcrResult,
  { pages: wanted, document }: OcrRequest,
): Generator<OcrPart> {
  const { pages, document_annotation: text } = answer
  if (!Array.isArray(pages)) {
    throw new UpstreamFailure('upstream_error', 'The model provider sent no pages.')
  }
  const last = pages.reduce((most, { index }) => Math.max(most, index), -1)
  // A page in between that is missing is the vendor's business; one behind all others is none of the document.
  const beyond = wanted?.find((page) => page > last)
  if (beyond !== undefined) {
    const message = `Invalid 'pages': the document has no page ${beyond}; pages count from 0.`
    throw new InvalidRequest('invalid_value', message, { param: 'pages' })
  }
  for (const page of pages) yield { type: 'page', page: shown(page) }
  if (typeof text === 'string') yield { type: 'annotation', text }
  const own = document.kind === 'document' && 'file' in document ? document.file.bytes.length : null
  yield { type: 'end', bytes: answer.documentBytes ?? own }
}

/** Readers of answers are strict about these members. */
function shown({ images, dimensions, ...page }: OcrPage): OcrPage {
  return { ...page, images: images ?? [], dimensions: dimensions ?? null }
}
