import { described, schemaOf } from '../../errors/check-schema.ts'
import {
  boolean,
  either,
  filledText,
  inside,
  integer,
  isObject,
  list,
  missing,
  object,
  oneOf,
  problem,
  shortText,
  text,
  toInvalidRequest,
  wrong,
  wrongType,
  type Check,
  type Members,
  type Problem,
} from '../../errors/checks.ts'
import type { BodyLimits } from '../../config/config.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import type { Incoming } from '../../pipeline/http.ts'
import {
  extensionOf,
  fileTooLarge,
  exceedsBytes,
  mediaTypeOf,
  parseDataUrl,
} from '../shared/media.ts'
import { givenMembers, readJson } from '../shared/body.ts'
import type { DocumentSource, OcrInput } from '../../plugin.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface OcrRequest extends OcrInput {
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

export const ocrBody = object(
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

export async function readOcr(
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
