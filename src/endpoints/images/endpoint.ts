/** `POST /v1/images/generations` and `/v1/images/edits`: two operations of one family. */
import { modelNames } from '../../models/allowlist.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { InvalidRequest, brokenAnswer } from '../../errors/errors.ts'
import { costJson, isOfModel } from '../../money/money.ts'
import type { Call, Receipt, ProviderAnswer } from '../../pipeline/pipeline.ts'
import type {
  ImageInput,
  GeneratedImage,
  ImageEvent,
  ImageResult,
  Usage,
  MediaFile,
} from '../../plugin.ts'
import { outboundMembers, givenMembers, readAnyPolicy, readJson } from '../shared/body.ts'
import { itemOf, labelItems, mediaOf, otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint, type UnitEndpoint } from '../shared/unit.ts'
import { billedJson, typedErrorEvent, type EventFormat } from '../shared/write.ts'
import {
  mediaTypeOf,
  parseBase64,
  toBase64,
  fileTooLarge,
  firstBytes,
  exceedsBytes,
  parseDataUrl,
} from '../shared/media.ts'
import type { Estimate } from '../../money/holds.ts'
import type { Model } from '../../models/catalog.ts'
import {
  bounds,
  MEDIA_TOKENS,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
  textTokens,
} from '../../money/plausible.ts'
import type { ChainStep } from '../../stream/chain.ts'
import { Received, type Billed } from '../shared/billing.ts'
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
  described,
} from '../../errors/checks.ts'
import type { BodyLimits } from '../../config/config.ts'
import type { Incoming } from '../../pipeline/http.ts'
import { readPolicy, type Policy } from '../../policy/policy.ts'
import {
  isMultipart,
  readMultipart,
  toJsonTypes,
  type FieldTypes,
  type Form,
} from '../shared/multipart.ts'

/** A valid request without members that are null. Unknown members are kept. */
interface ImageRequest extends ImageInput {
  readonly model: string
  readonly policy?: Policy
  /** Images to be edited or referred to; absent in generations. */
  readonly images?: readonly MediaFile[]
  readonly mask?: MediaFile
}

const QUALITIES = ['low', 'medium', 'high', 'auto', 'standard', 'hd']
const FORMATS = ['png', 'jpeg', 'webp']
/** `auto`, or width and height in pixels. */
const SIZE = /^(auto|[1-9]\d{0,4}x[1-9]\d{0,4})$/

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
const generationBody = object(members, ['model', 'prompt'])
const editBody = object({ ...members, input_fidelity: oneOf(['high', 'low']) }, ['model', 'prompt'])
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

async function readGeneration(incoming: Incoming): Promise<ImageRequest> {
  const body = await readJson(incoming, GENERATION_LIMIT_BYTES)
  return validated(body, generationBody, readPolicy)
}

/** Reads a form, or JSON with data URLs. @throws InvalidRequest */
async function readEdit(incoming: Incoming, limits: BodyLimits): Promise<ImageRequest> {
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
  const { images: entries, mask: givenMask, ...others } = body as Record<string, any>
  // Sizes are checked before everything else, as in forms.
  const all = Array.isArray(entries) ? entries : []
  all.forEach((one, index) => checkSize(one, `images[${index}].image_url`, limits))
  checkSize(givenMask, 'mask.image_url', limits)
  const request = validated(others, editBody, readPolicy)
  if (entries === undefined || entries === null) checkCount(0, 'image', limits)
  const mistake = list(reference, 1, limits.files)(entries)
  if (mistake) throw invalid('images', mistake)
  const images = (entries as { image_url: string }[]).map(({ image_url }, index) =>
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

// Images of a provider in normal form: partial images, then all finished ones; and what they consume.

type ImagePart =
  | {
      readonly type: 'partial'
      readonly b64_json: string
      readonly index: number
      readonly properties: ImageProperties
    }
  | CompletedPart

interface CompletedPart extends Billed {
  readonly type: 'completed'
  /** The images, as many as the client asked for. */
  readonly images: readonly GeneratedImage[]
  readonly properties: ImageProperties
}

interface ImageProperties {
  readonly known: Shown
  readonly all: Required<Shown>
}

interface Shown {
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

function isCompleted(part: ImagePart): part is CompletedPart {
  return part.type === 'completed'
}

/** The members that replace the content of a request. */
const NO_CONTENT = { prompt: '', images: undefined, mask: undefined }

/** Checks a provider's images and counts them. @throws UpstreamFailure for missing or broken images */
class ImageAnswer implements ProviderAnswer<ImagePart>, ChainStep<ImageEvent, ImagePart> {
  readonly steps = [this]
  done = false
  /** The number of finished images; undefined until they arrive. */
  #images: number | undefined = undefined
  #reported: Usage | undefined = undefined
  readonly #received = new Received()
  readonly #request: ImageRequest
  readonly #model: Model
  readonly #work: ImageWork
  #partials = 0
  /** Sketches of the vendor, whether or not the client gets them. */
  #sketches = 0

  constructor(request: ImageRequest, model: Model) {
    this.#request = { ...request, ...NO_CONTENT }
    this.#model = model
    this.#work = workOf(request)
  }

  whole(result: ImageResult): readonly ImagePart[] {
    const parts: ImagePart[] = []
    this.push({ type: 'completed', ...result }, (part) => parts.push(part))
    return parts
  }

  usage(): UsageReport {
    const sketched = this.#sketches > 0
    const count = { images: this.#images, sketched, reported: this.#reported }
    return usageOf(this.#work, this.#model, count)
  }

  received(): number {
    return this.#received.amount
  }

  push(event: ImageEvent, emit: (part: ImagePart) => void): void {
    this.#received.add(event.type === 'partial' ? event.b64_json.length : 1)
    if (event.type === 'partial') {
      this.#sketches++
      return this.#partial(event.b64_json, emit)
    }
    const { n = 1 } = this.#request
    if (!Array.isArray(event.data) || event.data.length < n) {
      throw brokenAnswer('The model provider sent fewer images than it was asked for.')
    }
    const images = event.data.slice(0, n).map(toImage)
    this.#images = images.length
    this.#reported = event.usage
    this.done = true
    emit({ type: 'completed', images, properties: this.#properties(images[0]!.b64_json, event) })
  }

  end(): void {
    throw brokenAnswer('The model provider ended its answer before the image was finished.')
  }

  #partial(base64: string, emit: (part: ImagePart) => void): void {
    const { stream, partial_images: most = 0 } = this.#request
    if (!stream || this.#partials >= most) return
    const b64_json = plainBase64(base64)
    const index = this.#partials++
    emit({ type: 'partial', b64_json, index, properties: this.#properties(b64_json, {}) })
  }

  #properties(base64: string, stated: Partial<ImageResult>): ImageProperties {
    const { size = 'auto', quality = 'auto', background = 'auto', output_format } = this.#request
    const format = formatOf(base64) ?? stated.output_format
    const properties: Record<string, string> = {}
    if (BACKGROUNDS.has(stated.background)) properties.background = stated.background!
    if (FORMATS.includes(format!)) properties.output_format = format!
    if (typeof stated.size === 'string' && SIZE.test(stated.size)) properties.size = stated.size
    if (QUALITIES.includes(stated.quality!)) properties.quality = stated.quality!
    const requested = { size, quality, background, output_format: output_format ?? 'png' }
    return { known: properties, all: { ...requested, ...properties } }
  }
}

const BACKGROUNDS: ReadonlySet<unknown> = new Set(['transparent', 'opaque'])

function toImage({ b64_json, revised_prompt }: GeneratedImage): GeneratedImage {
  const image = { b64_json: plainBase64(b64_json) }
  return typeof revised_prompt === 'string' ? { ...image, revised_prompt } : image
}

const STANDARD = /^[A-Za-z0-9+/]+={0,2}$/

/** Base64 in the standard alphabet, padded, without the head of a data URL. */
function plainBase64(text: unknown): string {
  if (typeof text !== 'string')
    throw brokenAnswer('The model provider sent an image without its bytes.')
  const comma = text.startsWith('data:') ? text.indexOf(',') : -1
  const base64 = text.slice(comma + 1)
  if (base64.length % 4 === 0 && STANDARD.test(base64)) return base64
  try {
    return toBase64(parseBase64(base64, ''))
  } catch {
    throw brokenAnswer('The model provider sent an image that cannot be decoded.')
  }
}

/** The format by the bytes: vendors do not always make the format that was asked for. */
function formatOf(base64: string): string | undefined {
  return mediaTypeOf(Buffer.from(base64.slice(0, 32), 'base64'))?.replace('image/', '')
}

// What images cost: by the image, or by tokens.

/** Tokens of a square image of the best quality, at vendors that count tokens. */
const IMAGE_TOKENS = 4160

function estimateImages(request: ImageRequest): Estimate {
  const { least, most } = figuresOf(request)
  const { promptTokens, imageInputTokens, images } = most
  return {
    least,
    expected: { promptTokens, imageInputTokens, images },
    most: { promptTokens: 2 * promptTokens, imageInputTokens: 2 * imageInputTokens, images },
    output: { limit: IMAGE_TOKENS, choices: images, isImage: true },
  }
}

interface ImageCount {
  /** Finished images; undefined until there are any. */
  readonly images: number | undefined
  /** Whether a sketch has come: its image is being made, and paid. */
  readonly sketched: boolean
  readonly reported: Usage | undefined
}

/** The figures of a request with which the usage of an answer is compared. Its content need not be there any more. */
type ImageWork = ReturnType<typeof workOf>

function workOf(input: ImageRequest) {
  const { n = 1, prompt, images = [], mask } = input
  const media = images.length + Number(mask !== undefined)
  return { ...figuresOf(input), n, media, sent: Buffer.byteLength(prompt) + 4096 }
}

/** What an answer has consumed; its images are counted here, tokens only where they have a price. */
function usageOf(
  { least, most, n, media, sent }: ImageWork,
  model: Model,
  { images, sketched, reported }: ImageCount,
): UsageReport {
  const needed = isPaidByToken(model)
  const begun = sketched ? IMAGE_TOKENS : 0
  const output = images === undefined ? begun : most.completionTokens!
  return {
    ...(images === undefined && { hidden: 'asked' as const, incomplete: true }),
    // Whatever is made is tokens of an image.
    parts: images === undefined ? { ...least, imageOutputTokens: Number.MAX_SAFE_INTEGER } : most,
    reported: { ...reported, images: reported?.images ?? images },
    expected: {
      promptTokens: {
        ...bounds(
          images === undefined ? least.promptTokens! : most.promptTokens!,
          sent + media * MEDIA_TOKENS,
          model.contextLength ?? UNKNOWN_CONTEXT,
        ),
        needed: needed || images === undefined,
      },
      completionTokens: {
        // Previews count as well.
        ...bounds(output, 4 * n * IMAGE_TOKENS, n * (model.maxOutputTokens ?? UNKNOWN_OUTPUT)),
        needed,
      },
      images: { estimate: images ?? n, soft: n, hard: 8 * n },
    },
  }
}

function figuresOf({ prompt, n = 1, images = [], mask }: ImageRequest) {
  const words = textTokens(prompt)
  const imageInputTokens = (images.length + Number(mask !== undefined)) * IMAGE_TOKENS
  const imageOutputTokens = n * IMAGE_TOKENS
  return {
    least: { promptTokens: words, images: n },
    most: {
      promptTokens: words + imageInputTokens,
      imageInputTokens,
      completionTokens: imageOutputTokens,
      imageOutputTokens,
      images: n,
    },
  }
}

function isPaidByToken({ prices }: Model): boolean {
  return ['prompt', 'completion', 'image_token', 'image_output'].some((name) => name in prices)
}

const READ_SEPARATELY = new Set([
  'plugins',
  'prompt',
  'user',
  'images',
  'mask',
  'size',
  'quality',
  'response_format',
  'output_format',
  'background',
  'moderation',
  'style',
  'input_fidelity',
])

const common = {
  modality: 'image',
  slowStart: true,
  errorField: 'prompt',
  content: NO_CONTENT,
  streams: ({ stream }) => stream === true,

  toUpstream(request) {
    const outbound = outboundMembers(request, ['response_format', 'stream', 'partial_images'])
    if (request.stream) {
      outbound.stream = true
      if (request.partial_images !== undefined) outbound.partial_images = request.partial_images
    }
    return outbound as ImageInput
  },

  fit(outbound, model) {
    if (!outbound.stream || !lacks(model, 'STREAMING')) return outbound
    const { stream: _, partial_images: _partial, ...whole } = outbound
    return whole as ImageInput
  },

  estimate: estimateImages,
  // An image passes when it is finished.
  hidden: () => 'asked',
  usage: usageJson,
  answer: ({ input, model }) => new ImageAnswer(input, model),
  isEnd: isCompleted,

  texts(request) {
    const { prompt, images = [], mask, user } = request
    const files = images.length > 0 && mask ? [...images, mask] : images
    const media = files.map((file) => mediaOf('image', file))
    return [
      itemOf('prompt', 'prompt', prompt, media),
      ...labelItems('user', user),
      ...otherItems(request, READ_SEPARATELY, 'tool_schema'),
    ]
  },

  // Beside the images there may be texts.
  codec: () => ({
    split(part, take) {
      if (part.type === 'partial') return take({ kind: 'mark', choice: 0, part })
      const texts = part.images.flatMap(({ revised_prompt: text }) => (text ? [{ text }] : []))
      const unscanned = 'image'
      take({ kind: 'whole', choice: 0, channel: 'prompt', index: 0, part, texts, unscanned })
    },
    cut: ({ part }) => part,
  }),

  json(parts, call) {
    const { images, properties } = parts.find(isCompleted)!
    return { created: createdAt(call), data: images, ...properties.known }
  },
} satisfies Partial<UnitEndpoint<ImageRequest, ImageInput, ImagePart>>

/** Images from words alone, with a JSON body. */
export const generations = defineUnitEndpoint<ImageRequest, ImageInput, ImagePart>({
  ...common,
  path: '/v1/images/generations',
  operation: 'generateImage',
  body: generationBody,
  toInput: readGeneration,
  events: (call) => eventsOf('image_generation', call),
})

/** Images from other images, with a form or a JSON body. Needs a model that takes references. */
export const edits = defineUnitEndpoint<ImageRequest, ImageInput, ImagePart>({
  ...common,
  path: '/v1/images/edits',
  operation: 'editImage',
  body: editBody,
  files: ['image', 'mask'],
  toInput: readEdit,
  events: (call) => eventsOf('image_edit', call),

  check(_input, model, catalog) {
    if (!lacks(model, 'REFERENCES')) return
    const able = catalog.all().filter((one) => !lacks(one, 'REFERENCES'))
    throw new InvalidRequest(
      'references_not_supported',
      `${model.id} cannot edit images: ${lackOf('REFERENCES')}. Models that have it: ${modelNames(able)}.`,
      { param: 'model' },
    )
  },
})

/** `usage` of an answer. Models that are paid by the image have no tokens. */
function usageJson(receipt: Receipt, { target: { model } }: Call): object {
  const { meter } = receipt
  const consumed = meter.find(isOfModel)?.usage ?? {}
  const tokens = isPaidByToken(model) ? consumed : {}
  const { promptTokens = 0, imageInputTokens = 0 } = tokens
  const { completionTokens = 0, imageOutputTokens = 0 } = tokens
  return {
    input_tokens: promptTokens,
    output_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    input_tokens_details: split(promptTokens, imageInputTokens),
    output_tokens_details: split(completionTokens, imageOutputTokens),
    ...('image' in model.prices && { image_count: consumed.images ?? 0 }),
    ...costJson(receipt),
  }
}

function split(tokens: number, image_tokens: number) {
  return { text_tokens: Math.max(0, tokens - image_tokens), image_tokens }
}

/** @param name the beginning of the names of events */
function eventsOf(name: string, call: Call): EventFormat<ImagePart> {
  return { encode: (part) => eventOf(part, name, call), last: '', fail: typedErrorEvent }
}

function eventOf(part: ImagePart, event: string, call: Call): string {
  const name = part.type === 'partial' ? `${event}.partial_image` : `${event}.completed`
  const shown = { created_at: createdAt(call), ...part.properties.all }
  const payload =
    part.type === 'partial'
      ? { type: name, b64_json: part.b64_json, ...shown, partial_image_index: part.index }
      : { type: name, b64_json: part.images[0]!.b64_json, ...shown, ...billed(part.receipt!, call) }
  return `event: ${name}\ndata: ${JSON.stringify(payload)}\n\n`
}

function billed(receipt: Receipt, call: Call): object {
  return billedJson(receipt, usageJson(receipt, call))
}

/** Unix seconds. */
function createdAt({ startedAt }: Call): number {
  return Math.floor(startedAt / 1000)
}
