/** The parts of an OCR answer (pages, an annotation, the end), and what guards read of them. */
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
import type {
  AtomicPiece,
  AtomicText,
  OutputCodec,
  OutputPiece,
  TextPiece,
} from '../../guard/adapter.ts'
import type { OcrPage, OcrResult } from '../../plugin.ts'
import type { Billed } from '../shared/billing.ts'
import { isOpaque, stringsInJson } from '../shared/texts.ts'
import type { OcrRequest } from './request.ts'

export type OcrPart =
  | { readonly type: 'page'; readonly page: OcrPage }
  | { readonly type: 'annotation'; readonly text: string }
  | EndPart

interface EndPart extends Billed {
  readonly type: 'end'
  readonly bytes: number | null
}

/** The figures of a request with which the answer is compared. Its document need not be there any more. */
interface AskedDocument {
  readonly pages?: readonly number[] | undefined
  /** Size of the document; null if unknown. */
  readonly bytes: number | null
}

export function askedOf({ pages, document }: OcrRequest): AskedDocument {
  const isOwn = document.kind === 'document' && 'file' in document
  return { pages, bytes: isOwn ? document.file.bytes.length : null }
}

export function isEnd(part: OcrPart): part is EndPart {
  return part.type === 'end'
}

export function partsOf(
  answer: OcrResult,
  { pages: wanted, bytes }: AskedDocument,
): readonly OcrPart[] {
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
  return [
    ...checked.map((page) => ({ type: 'page', page }) as const),
    ...(typeof annotation === 'string' ? [{ type: 'annotation', text: annotation } as const] : []),
    { type: 'end', bytes: answer.documentBytes ?? bytes },
  ]
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

const OPTIONAL: Readonly<Record<string, Check>> = {
  dimensions,
  tables: list(table),
  hyperlinks: list(text),
  header: text,
  footer: text,
  confidence_scores: confidence,
  blocks: list(object({ type: filledText }, ['type'])),
}

/** A page with the members that clients require. @throws UpstreamFailure for another value */
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

function placed(page: Readonly<Record<string, unknown>>, position: number): object {
  const { id, top_left_x, top_left_y, bottom_right_x, bottom_right_y, ...rest } = page
  return {
    id: typeof id === 'string' && id !== '' ? id : `img-${position}`,
    top_left_x: top_left_x ?? null,
    top_left_y: top_left_y ?? null,
    bottom_right_x: bottom_right_x ?? null,
    bottom_right_y: bottom_right_y ?? null,
    ...rest,
  }
}

const KNOWN = new Set([
  'index',
  'markdown',
  'images',
  'dimensions',
  'tables',
  'hyperlinks',
  'header',
  'footer',
  'confidence_scores',
  'blocks',
])

/** Characters on either side of a page break that are also read as one text. */
const SEAM = 1000

/** Reads pages one by one, and the text around the break between two of them once more. */
export class PageCodec implements OutputCodec<OcrPart> {
  /** The end of the previous page. */
  #before = ''

  split(
    part: OcrPart,
    take: (piece: OutputPiece<OcrPart>) => void,
    removed: (field: string) => void,
  ): void {
    switch (part.type) {
      case 'page':
        return take(pagePiece(part.page, this.#seamBefore(part.page), removed))
      case 'annotation':
        return take(whole(part, 0, [{ text: part.text }, ...stringsInJson(part.text)]))
      case 'end':
        return take({ kind: 'finish', choice: 0, part })
    }
  }

  cut({ part }: TextPiece<OcrPart>): OcrPart {
    return part
  }

  #seamBefore({ markdown }: OcrPage): readonly AtomicText[] {
    const text = typeof markdown === 'string' ? markdown.trim() : ''
    const seam = `${this.#before}\n${text.slice(0, SEAM)}`
    const isSeam = this.#before !== '' && text !== ''
    if (text !== '') this.#before = text.slice(-SEAM)
    return isSeam ? [{ text: seam, duplicate: true }] : []
  }
}

function pagePiece(
  page: OcrPage,
  seam: readonly AtomicText[],
  removed: (field: string) => void,
): AtomicPiece<OcrPart> {
  const members: Record<string, unknown> = {}
  for (const name in page) {
    if (KNOWN.has(name)) members[name] = page[name]
    else removed(name)
  }
  const part: OcrPart = { type: 'page', page: members as OcrPage }
  const shown = (page.images ?? []).some((image) => image?.image_base64)
  return {
    ...whole(part, page.index + 1, [...textsOf(members), ...seam]),
    ...(shown && { unscanned: 'image' }),
  }
}

function whole(part: OcrPart, index: number, texts: readonly AtomicText[]): AtomicPiece<OcrPart> {
  return { kind: 'whole', choice: 0, channel: 'document', index, part, texts }
}

function textsOf({ markdown, header, footer, tables, images, ...rest }: any): AtomicText[] {
  const annotations = listed(images).map((image) => image?.image_annotation)
  const said = [markdown, header, footer, ...listed(tables).map((table) => table?.content)]
  const texts = [...said, ...annotations].filter((text) => typeof text === 'string' && text !== '')
  const written = formattedIn({ tables, images, ...rest }).filter((text) => !texts.includes(text))
  return [
    ...texts.map((text) => ({ text })),
    ...written.map((text) => ({ text, duplicate: true })),
    ...annotations.flatMap((text) => (typeof text === 'string' ? stringsInJson(text) : [])),
  ]
}

function listed(value: unknown): readonly any[] {
  return Array.isArray(value) ? value : []
}

/** Whether this is base64, bare or in a data URL: anything else may be words. */
function isMedia(value: unknown): boolean {
  return typeof value === 'string' && isOpaque(value.replace(/^data:image\/[\w.+-]+;base64,/i, ''))
}

function formattedIn(value: unknown): readonly string[] {
  const strings = new Set<string>()
  JSON.stringify(value, (name, inner) => {
    if (name === 'image_base64' && isMedia(inner)) return undefined
    if (name === 'word_confidence_scores') {
      const words = listed(inner).map((word) => word?.text)
      strings.add(words.join(' '))
      return undefined
    }
    if (typeof inner === 'string') strings.add(inner)
    return inner
  })
  strings.delete('')
  return [...strings]
}
