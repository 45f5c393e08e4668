/** Parts of a document on their way to the client: its pages, an annotation, the end. */
import {
  filledText,
  integer,
  list,
  number,
  object,
  oneOf,
  passing,
  text,
  withoutInvalid,
  type Check,
} from '../../errors/checks.ts'
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
  const { pages, document_annotation: annotation } = answer
  if (!Array.isArray(pages) || pages.length === 0) {
    throw brokenAnswer('The model provider sent no pages.')
  }
  const checked = pages.map(shown)
  const last = checked.reduce((most, { index }) => Math.max(most, index), -1)
  // Vendors may leave out a page in between; a page behind the last one is not in the document.
  const beyond = wanted?.find((page) => page > last)
  if (beyond !== undefined) {
    const message = `Invalid 'pages': the document has no page ${beyond}; pages count from 0.`
    throw new InvalidRequest('invalid_value', message, { param: 'pages' })
  }
  for (const page of checked) yield { type: 'page', page }
  if (typeof annotation === 'string') yield { type: 'annotation', text: annotation }
  const own = document.kind === 'document' && 'file' in document ? document.file.bytes.length : null
  yield { type: 'end', bytes: answer.documentBytes ?? own }
}

const count = integer(0, Number.MAX_SAFE_INTEGER)
const dimensions = object({ dpi: count, height: count, width: count }, ['dpi', 'height', 'width'])
const corner = integer(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
const image = object({
  top_left_x: corner,
  top_left_y: corner,
  bottom_right_x: corner,
  bottom_right_y: corner,
  image_base64: text,
  image_annotation: text,
})
const table = object({ id: filledText, content: text, format: oneOf(['markdown', 'html']) }, [
  'id',
  'content',
  'format',
])
const confidence = object(
  { average_page_confidence_score: number(), minimum_page_confidence_score: number() },
  ['average_page_confidence_score', 'minimum_page_confidence_score'],
)

/** Members that clients can do without: those they could not read are left out. */
const OPTIONAL: Readonly<Record<string, Check>> = {
  dimensions,
  tables: list(table),
  hyperlinks: list(text),
  header: text,
  footer: text,
  confidence_scores: confidence,
  blocks: list(object({ type: filledText }, ['type'])),
}

/** A page with the members that clients require. @throws UpstreamFailure for what is no page */
function shown(page: OcrPage): OcrPage {
  if (pageOf(page)) throw brokenAnswer('The model provider sent a malformed page.')
  const { images, dimensions, ...rest } = withoutInvalid(page, OPTIONAL)
  return {
    ...rest,
    images: Array.isArray(images) ? passing(images, image).map(placed) : [],
    dimensions: dimensions ?? null,
  }
}

const pageOf = object({ index: count, markdown: text }, ['index', 'markdown'])

function placed(given: Readonly<Record<string, unknown>>, position: number): object {
  const { id, top_left_x, top_left_y, bottom_right_x, bottom_right_y, ...rest } = given
  return {
    id: typeof id === 'string' && id !== '' ? id : `img-${position}`,
    top_left_x: top_left_x ?? null,
    top_left_y: top_left_y ?? null,
    bottom_right_x: bottom_right_x ?? null,
    bottom_right_y: bottom_right_y ?? null,
    ...rest,
  }
}
