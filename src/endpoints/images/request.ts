import { described } from '../../errors/check-schema.ts'
import {
  boolean,
  filledText,
  inside,
  integer,
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
  type Problem,
} from '../../errors/checks.ts'
import type { BodyLimits } from '../../config/config.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import {
  fileTooLarge,
  firstBytes,
  exceedsBytes,
  mediaTypeOf,
  parseDataUrl,
} from '../shared/media.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { ImageInput, MediaFile } from '../../plugin.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import { givenMembers, readAnyPolicy, readJson } from '../shared/body.ts'
import {
  isMultipart,
  readMultipart,
  toJsonTypes,
  type FieldTypes,
  type Form,
} from '../shared/multipart.ts'

/** A valid request without members that are null. Unknown members are kept. */
export interface ImageRequest extends ImageInput {
  readonly model: string
  readonly policy?: Policy
  /** Images to be edited or referred to; absent in generations. */
  readonly images?: readonly MediaFile[]
  readonly mask?: MediaFile
}

export const QUALITIES = ['low', 'medium', 'high', 'auto', 'standard', 'hd']
export const FORMATS = ['png', 'jpeg', 'webp']
/** `auto`, or width and height in pixels. */
export const SIZE = /^(auto|[1-9]\d{0,4}x[1-9]\d{0,4})$/

const GENERATION_LIMIT_BYTES = 1024 * 1024
const FORM_LIMIT_BYTES = 4 * 1024 * 1024
const MAX_PROMPT = 32_000
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/webp']

const size = described(
  (value) => {
    if (typeof value === 'string' && SIZE.test(value)) return undefined
    const expected = '"auto" or "<width>x<height>" such as "1024x1024"'
    return typeof value === 'string'
      ? wrong('invalid_value', value, expected)
      : wrongType(value, expected)
  },
  () => ({ type: 'string', pattern: SIZE.source }),
)
const prompt = described(
  (value) => filledText(value) ?? shortText(MAX_PROMPT)(value),
  () => ({ type: 'string', minLength: 1, maxLength: MAX_PROMPT }),
)
const responseFormat = described(
  (value) =>
    value === 'url'
      ? wrong('unsupported_value', value, '"b64_json": images are in the answer itself')
      : oneOf(['b64_json'])(value),
  () => ({ enum: ['b64_json'] }),
)

const members = {
  model: filledText,
  prompt,
  n: integer(1, 10),
  size,
  quality: oneOf(QUALITIES),
  response_format: responseFormat,
  output_format: oneOf(FORMATS),
  output_compression: integer(0, 100),
  background: oneOf(['transparent', 'opaque', 'auto']),
  moderation: oneOf(['low', 'auto']),
  style: oneOf(['vivid', 'natural']),
  stream: boolean,
  partial_images: integer(0, 3),
  user: text,
}
export const generationBody = object(members, ['model', 'prompt'])
export const editBody = object({ ...members, input_fidelity: oneOf(['high', 'low']) }, [
  'model',
  'prompt',
])
const reference = (value: unknown): Problem | undefined =>
  inlineOnly(value) ?? object({ image_url: text }, ['image_url'])(value)

const FORM_TYPES: FieldTypes = {
  n: 'number',
  output_compression: 'number',
  partial_images: 'number',
  stream: 'boolean',
}

/** Optional texts for which a form may have the text `null`. */
const NULLABLE = [
  'size',
  'quality',
  'background',
  'moderation',
  'output_format',
  'style',
  'input_fidelity',
]

export async function readGeneration(incoming: Incoming): Promise<ImageRequest> {
  const body = await readJson(incoming, GENERATION_LIMIT_BYTES)
  return validated(body, generationBody, readPolicy)
}

/** Reads a form, or JSON with data URLs. @throws InvalidRequest */
export async function readEdit(incoming: Incoming, limits: BodyLimits): Promise<ImageRequest> {
  // All images and a mask, each of the largest size.
  const limitBytes = (limits.files + 1) * limits.image + FORM_LIMIT_BYTES
  if (isMultipart(incoming)) {
    const form = await readMultipart(incoming, {
      files: (field) => FILE_FIELD.test(field),
      fileLimitBytes: limits.image,
      bodyLimitBytes: limitBytes,
      json: limits,
    })
    return editOfForm(form, limits)
  }
  const accepted = 'multipart/form-data or application/json'
  return editOfJson(await readJson(incoming, limitBytes, accepted), limits)
}

const FILE_FIELD = /^(image(\[\d*\])?|mask)$/

function editOfForm({ fields, files }: Form, limits: BodyLimits): ImageRequest {
  const members = Object.entries(toJsonTypes(fields, FORM_TYPES)).filter(
    ([name, value]) => value !== 'null' || !NULLABLE.includes(name),
  )
  const request = validated(Object.fromEntries(members), editBody, readAnyPolicy)
  const masks = files.filter(({ field }) => field === 'mask')
  const images = files.filter(({ field }) => field !== 'mask')
  if (masks.length > 1) {
    throw invalid('mask', problem('invalid_value', 'one file', `${masks.length}`))
  }
  checkCount(images.length, 'image', limits)
  for (const { field, file } of images) checkType(file, field, IMAGE_TYPES)
  const mask = masks[0]?.file
  if (mask) checkType(mask, 'mask', ['image/png'])
  return { ...request, images: images.map(({ file }) => file), ...(mask && { mask }) }
}

function editOfJson(body: object, limits: BodyLimits): ImageRequest {
  const { images: given, mask: givenMask, ...others } = body as Record<string, any>
  // Sizes are checked before everything else, as in forms.
  const all = Array.isArray(given) ? given : []
  all.forEach((one, index) => checkSize(one, `images[${index}].image_url`, limits))
  checkSize(givenMask, 'mask.image_url', limits)
  const request = validated(others, editBody, readPolicy)
  if (given === undefined || given === null) checkCount(0, 'image', limits)
  const mistake = list(reference, 1, limits.files)(given)
  if (mistake) throw invalid('images', mistake)
  const images = (given as { image_url: string }[]).map(({ image_url }, index) =>
    inlineImage(image_url, `images[${index}].image_url`, IMAGE_TYPES),
  )
  if (givenMask === undefined || givenMask === null) return { ...request, images }
  const wrongMask = reference(givenMask)
  if (wrongMask) throw invalid('mask', wrongMask)
  const mask = inlineImage(givenMask.image_url, 'mask.image_url', ['image/png'])
  return { ...request, images, mask }
}

function validated(
  body: object,
  check: Check,
  policyOf: (policy: unknown) => Policy,
): ImageRequest {
  const mistake = check(body)
  if (mistake) throw toInvalidRequest(mistake)
  const { policy, ...others } = body as Record<string, unknown>
  const request = givenMembers(others) as ImageRequest
  if (request.stream && (request.n ?? 1) > 1) {
    const expected = 'one image where they are streamed'
    throw invalid('n', problem('unsupported_value', expected, String(request.n)))
  }
  return policy === undefined ? request : { ...request, policy: policyOf(policy) }
}

function checkCount(count: number, param: string, { files }: BodyLimits): void {
  const expected = `1 to ${files} files`
  if (count === 0) throw toInvalidRequest(missing(param, (value) => wrongType(value, expected)))
  if (count > files) throw invalid(param, problem('array_above_max_length', expected, `${count}`))
}

function checkSize(size: any, param: string, { image }: BodyLimits): void {
  if (exceedsBytes(size?.image_url, image)) throw fileTooLarge(param, image)
}

function inlineImage(url: string, param: string, types: readonly string[]): MediaFile {
  const file = parseDataUrl(url, param)
  checkType(file, param, types)
  return file
}

/** Checks the type by the bytes: labels of clients are unreliable. */
function checkType(file: MediaFile, param: string, types: readonly string[]): void {
  const { mediaType, segments: pieces = [file.bytes] } = file
  if (types.includes(mediaType) && mediaTypeOf(firstBytes(pieces)) === mediaType) return
  const expected = types.map((type) => type.slice('image/'.length).toUpperCase()).join(', ')
  throw new InvalidRequest(
    'invalid_image',
    `Invalid '${param}': expected an image (${expected}), found something else.`,
    { param },
  )
}

function inlineOnly(value: any): Problem | undefined {
  return value?.file_id === undefined || value.file_id === null
    ? undefined
    : inside('file_id', problem('unsupported_value', 'the image itself in image_url', 'a file id'))
}

function invalid(place: string, mistake: Problem): InvalidRequest {
  return toInvalidRequest(inside(place, mistake))
}
