/** `POST /v1/ocr`: paid by the page. */
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { costJson, isOfModel } from '../../money/money.ts'
import type { UsageReport } from '../../money/plausible.ts'
import type { ClientAddress, Endpoint, Receipt } from '../../pipeline/pipeline.ts'
import type { OcrInput, OcrResult, OcrPage, DocumentSource } from '../../plugin.ts'
import { itemOf, otherItems } from '../shared/guard.ts'
import {
  mediaTypeOf,
  extensionOf,
  fileTooLarge,
  exceedsBytes,
  parseDataUrl,
} from '../shared/media.ts'
import { defineUnitEndpoint, wholeAnswer } from '../shared/unit.ts'
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
  boolean,
  either,
  inside,
  isObject,
  missing,
  problem,
  shortText,
  toInvalidRequest,
  wrong,
  wrongType,
  type Members,
  type Problem,
  described,
  schemaOf,
} from '../../errors/checks.ts'
import type {
  AtomicPiece,
  AtomicText,
  OutputCodec,
  OutputPiece,
  TextPiece,
} from '../../guard/adapter.ts'
import type { Billed } from '../shared/billing.ts'
import { isOpaque, stringsInJson } from '../shared/texts.ts'
import type { BodyLimits } from '../../config/config.ts'
import type { Incoming } from '../../pipeline/http.ts'
import { givenMembers, readJson } from '../shared/body.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'

/** A valid request without members that are null. Unknown members are kept. */
interface OcrRequest extends OcrInput {
  readonly model: string
  readonly policy?: Policy
}

const MAX_URL = 8192
/** Ten times the pages of the largest document that vendors take. */
const MAX_PAGE = 9999
const MAX_PAGES_TEXT = 65_536
const ADDRESS = 'a data URL or an https URL'

const count = integer(0, Number.MAX_SAFE_INTEGER)
const dataOrHttps = described(
  (value) => {
    if (typeof value !== 'string' || value === '') return filledText(value)
    const scheme = /^[a-z][a-z0-9+.-]*:/.exec(value.slice(0, 32).toLowerCase())?.[0]
    if (scheme === 'data:') return undefined
    if (scheme !== 'https:') {
      const actual = scheme === undefined ? 'no scheme' : `the scheme ${JSON.stringify(scheme)}`
      return problem('invalid_value', ADDRESS, actual)
    }
    const tooLong = shortText(MAX_URL)(value)
    return (
      tooLong ?? (URL.canParse(value) ? undefined : problem('invalid_value', ADDRESS, 'neither'))
    )
  },
  () => ({ type: 'string', minLength: 1, description: ADDRESS }),
)
const documentUrl = object({ document_url: dataOrHttps, document_name: text }, ['document_url'])
const imageUrl = object(
  {
    image_url: either('a string or an object', {
      string: dataOrHttps,
      object: object({ url: dataOrHttps }, ['url']),
    }),
  },
  ['image_url'],
)
const pages = either('an array of page numbers, or a text such as "0,2-4"', {
  string: pagesText,
  array: list(integer(0, MAX_PAGE), 1, MAX_PAGE + 1),
})
const format: Check = object(
  {
    type: oneOf(['json_schema']),
    json_schema: object({ name: filledText, schema: object({}), strict: boolean }, [
      'name',
      'schema',
    ]),
  },
  ['type', 'json_schema'],
)

const ocrBody = object(
  {
    model: filledText,
    document: described(document, () => ({
      type: 'object',
      anyOf: [documentUrl, imageUrl].map(schemaOf),
    })),
    pages,
    include_image_base64: boolean,
    image_limit: count,
    image_min_size: count,
    bbox_annotation_format: format,
    document_annotation_format: format,
    document_annotation_prompt: text,
    table_format: oneOf(['markdown', 'html']),
    extract_header: boolean,
    extract_footer: boolean,
    include_blocks: boolean,
    confidence_scores_granularity: oneOf(['word', 'page', 'block']),
  },
  ['model', 'document'],
)

/** Size of a body by that of its document: base64 takes a third more, and other members need room. */
const BODY_PER_DOCUMENT = 1.4

async function readOcr(
  incoming: Incoming,
  { document: limitBytes }: BodyLimits,
): Promise<OcrRequest> {
  const body = await readJson(incoming, Math.ceil(limitBytes * BODY_PER_DOCUMENT))
  return validated(body, limitBytes)
}

/** Validates a parsed body, its size first. @param limitBytes the limit of the document @throws InvalidRequest */
function validated(body: object, limitBytes: number): OcrRequest {
  const { policy, document: written, pages: selected, ...others } = body as Record<string, any>
  const place = placeOf(written)
  if (place && exceedsBytes(place.url, limitBytes)) throw fileTooLarge('document', limitBytes)
  const mistake = ocrBody(body) ?? contradiction(body as Members)
  if (mistake) throw toInvalidRequest(mistake)
  const checked = policy === undefined ? undefined : readPolicy(policy)
  const source = sourceAt(place!)
  return {
    ...(givenMembers(others) as { model: string }),
    document: {
      ...source,
      kind: place!.kind,
      ...(typeof written.document_name === 'string' && { name: written.document_name }),
    },
    ...(selected !== undefined && selected !== null && { pages: pagesOf(selected) }),
    ...(checked && { policy: checked }),
  }
}

interface Place {
  readonly kind: 'document' | 'image'
  readonly url: string
  readonly param: string
}

/** The place of the address; undefined without a text that could be one. */
function placeOf(written: any): Place | undefined {
  const kind = kindOf(written)
  if (kind === 'document' && typeof written.document_url === 'string') {
    return { kind, url: written.document_url, param: 'document.document_url' }
  }
  if (kind !== 'image') return undefined
  const { image_url: image } = written
  if (typeof image === 'string') return { kind, url: image, param: 'document.image_url' }
  if (typeof image?.url !== 'string') return undefined
  return { kind, url: image.url, param: 'document.image_url.url' }
}

/** A missing type is inferred from the member that is present. */
function kindOf(written: unknown): 'document' | 'image' | undefined {
  if (!isObject(written)) return undefined
  const type = written.type ?? (written.document_url == null ? 'image_url' : 'document_url')
  if (type === 'document_url') return 'document'
  return type === 'image_url' ? 'image' : undefined
}

function document(value: unknown): Problem | undefined {
  if (!isObject(value)) return wrongType(value, 'an object')
  const { type } = value
  if (type === 'file') {
    const expected = 'the document itself, or its https URL, in document_url'
    return inside('type', problem('unsupported_value', expected, 'a file id'))
  }
  if (type == null && value.document_url == null && value.image_url == null) {
    return missing('document_url', () => wrongType(undefined, `${ADDRESS}, here or in image_url`))
  }
  const kind = kindOf(value)
  if (kind === undefined) return inside('type', oneOf(['document_url', 'image_url'])(type)!)
  return (kind === 'document' ? documentUrl : imageUrl)(value)
}

/** Checks by the bytes that a document is a PDF and an image an image. */
function sourceAt({ kind, url, param }: Place): DocumentSource {
  if (!/^data:/i.test(url.slice(0, 5))) return { url }
  const file = parseDataUrl(url, param)
  const mediaType = mediaTypeOf(file.bytes)
  // Types without a signature in their first bytes go by their label.
  const type = mediaType ?? (extensionOf(file.mediaType) === '' ? file.mediaType : '')
  if (kind === 'document' && type !== 'application/pdf') {
    const hint = type.startsWith('image/')
      ? 'an image, which belongs in image_url'
      : 'something else'
    throw undecodable('invalid_document', param, 'a PDF', hint)
  }
  if (kind === 'image' && !type.startsWith('image/')) {
    const hint =
      type === 'application/pdf' ? 'a PDF, which belongs in document_url' : 'something else'
    throw undecodable('invalid_image', param, 'an image', hint)
  }
  return { file }
}

function undecodable(
  code: 'invalid_document' | 'invalid_image',
  param: string,
  expected: string,
  found: string,
): InvalidRequest {
  return toInvalidRequest({ code, path: param, expected, found })
}

function contradiction(body: Members): Problem | undefined {
  const prompt = body.document_annotation_prompt
  if (prompt != null && body.document_annotation_format == null) {
    const expected = 'document_annotation_format beside it'
    const mistake = problem('invalid_value', expected, 'none')
    return inside('document_annotation_prompt', mistake)
  }
  if (body.pages == null || kindOf(body.document) !== 'image') return undefined
  const beyond = pagesOf(body.pages as string | readonly number[]).find((page) => page > 0)
  if (beyond === undefined) return undefined
  return inside('pages', wrong('invalid_value', beyond, 'page 0, the only one that an image has'))
}

const RANGE = /^\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?$/

function pagesText(value: unknown): Problem | undefined {
  const text = value as string
  const expected = `page numbers from 0 to ${MAX_PAGE} and ranges of them, such as "0,2-4"`
  if (text.length > MAX_PAGES_TEXT) return wrong('string_above_max_length', text, expected)
  const fits = text.split(',').every((part) => {
    const [, first, last = first] = RANGE.exec(part) ?? []
    return first !== undefined && Number(first) <= Number(last) && Number(last) <= MAX_PAGE
  })
  return fits ? undefined : wrong('invalid_value', text, expected)
}

/** The page numbers in ascending order, without duplicates. */
function pagesOf(selected: string | readonly number[]): readonly number[] {
  const chosen = new Set<number>()
  if (typeof selected !== 'string') for (const page of selected) chosen.add(page)
  else {
    for (const part of selected.split(',')) {
      const [, first, last = first] = RANGE.exec(part)!
      for (let page = Number(first); page <= Number(last); page++) chosen.add(page)
    }
  }
  return [...chosen].toSorted((a, b) => a - b)
}

// The parts of an OCR answer (pages, an annotation, the end), and what guards read of them.

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

function askedOf({ pages, document }: OcrRequest): AskedDocument {
  const isOwn = document.kind === 'document' && 'file' in document
  return { pages, bytes: isOwn ? document.file.bytes.length : null }
}

function isEnd(part: OcrPart): part is EndPart {
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
class PageCodec implements OutputCodec<OcrPart> {
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
  const contents = [markdown, header, footer, ...listed(tables).map((table) => table?.content)]
  const texts = [...contents, ...annotations].filter(
    (text) => typeof text === 'string' && text !== '',
  )
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
  stored: true,
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

  usage: (receipt) => ({ ...pagesIn(receipt), ...costJson(receipt) }),

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
  const { pages = 0 } = meter.find(isOfModel)?.usage ?? {}
  return { pages_processed: pages }
}
