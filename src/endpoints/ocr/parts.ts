/** Parts of a document on their way to the client: its pages, an annotation, the end. */
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import type { OcrPage, OcrResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'
import type { OcrRequest } from './read.ts'

/** A page, the annotation of the document, or the end. */
export type OcrPart =
  | { readonly type: 'page'; readonly page: OcrPage }
  | { readonly type: 'annotation'; readonly text: string }
  | EndPart

/** The last part. */
export interface EndPart extends Billed {
  readonly type: 'end'
  /** Size of the document; null if unknown. */
  readonly bytes: number | null
}

/** Whether it is the last part. */
export function isEnd(part: OcrPart): part is EndPart {
  return part.type === 'end'
}

/**
 * The parts of an answer.
 * @throws InvalidRequest for a selected page that the document does not have; UpstreamFailure for an answer without
 * pages
 */
export function* partsOf(
  answer: OcrResult,
  { pages: wanted, document }: OcrRequest,
): Generator<OcrPart> {
  const { pages, document_annotation: text } = answer
  if (!Array.isArray(pages) || pages.length === 0) {
    throw brokenAnswer('The model provider sent no pages.')
  }
  const last = pages.reduce((most, { index }) => Math.max(most, index), -1)
  // Vendors may leave out a page in between; a page behind the last one is not in the document.
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

/** Clients require these members. */
function shown({ images, dimensions, ...page }: OcrPage): OcrPage {
  return { ...page, images: images ?? [], dimensions: dimensions ?? null }
}
