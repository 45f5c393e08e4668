/** Image generation and editing for vendors with OpenAI's image API. */
import {
  requestEach,
  type GeneratedImage,
  type Host,
  type ImageEditInput,
  type ImageEvent,
  type ImageInput,
  type ImageResult,
  type ProviderRequest,
  type Provider,
  type Step,
  type Usage,
  type Form,
  type MediaFile,
} from '../../src/plugin.ts'
import {
  notAnAnswer,
  parseAnswer,
  send,
  toBase64,
  countOrNone,
  tokenCount,
  toDataUrl,
} from '../shared/http.ts'
import { httpFailure, inbandFailure } from './errors.ts'
import { vendorCost } from './members.ts'

/** URL, headers and quirks for requests to a model. */
interface ImageTarget {
  /** The complete URL, with any query. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly quirks: { readonly images?: ImageQuirks }
}

/** Options of a deployment that matter here. */
interface Options {
  readonly omit?: readonly string[]
}

/** Paths of the image API. */
type ImagePath = 'generations' | 'edits'

/**
 * The image methods of a provider.
 * @param targetOf called for every request
 */
export function createImages<Own extends Options>(
  host: Host,
  targetOf: (path: ImagePath, model: string, options: Own) => ImageTarget,
): Required<Pick<Provider, 'generateImage' | 'editImage'>> {
  const serve = async <In extends ImageInput>(
    path: ImagePath,
    request: ProviderRequest<In>,
    toBody: (input: In, quirks: ImageQuirks, omit: readonly string[]) => ImageBody,
  ): Promise<ImageResult | AsyncIterable<ImageEvent>> => {
    const { input, model } = request
    const options = request.options as Own
    const target = targetOf(path, model, options)
    const { images: quirks = {} } = target.quirks
    const { n = 1 } = input
    const single = n > 1 && quirks.single?.(model) === true
    const body = toBody(single ? { ...input, n: 1 } : input, quirks, options.omit ?? [])
    if (!single) return post(host, target, body, request.signal)
    return requestEach(n, request.signal, async (signal) => {
      const answer = await post(host, target, body, signal)
      if ('data' in answer) return answer
      throw notAnAnswer(host.fail)
    })
  }
  return {
    generateImage: (request) =>
      serve<ImageInput>('generations', request, (input, quirks, omit) =>
        toGeneration(input, request.model, quirks, omit),
      ),
    editImage: (request) =>
      serve<ImageEditInput>('edits', request, (input, quirks, omit) =>
        toEdit(input, request.model, quirks, omit, host),
      ),
  }
}

async function post(
  host: Host,
  { url, headers }: ImageTarget,
  { contentType, body }: ImageBody,
  signal: AbortSignal,
): Promise<ImageResult | AsyncIterable<ImageEvent>> {
  // Not marked as a stream, because streams must start early and images take long.
  const sent = { ...headers, 'content-type': contentType }
  const response = await send(host, { url, headers: sent, body, signal }, httpFailure)
  if ((response.headers['content-type'] ?? '').includes('event-stream')) {
    return host.sse(response.body).through(new ImageEvents(host.fail))
  }
  const text = await response.text(MAX_ANSWER_BYTES)
  return toResult(Object(parseAnswer(text, host.fail)), host, signal)
}

async function toResult(payload: any, host: Host, signal: AbortSignal): Promise<ImageResult> {
  const failed = inbandFailure(host.fail, payload)
  if (failed) throw failed.error
  if (!Array.isArray(payload.data)) throw notAnAnswer(host.fail)
  const data = await Promise.all(payload.data.map((item: any) => toImage(item, host, signal)))
  return { ...propertiesOf(payload), data }
}

async function toImage(item: any, host: Host, signal: AbortSignal): Promise<GeneratedImage> {
  const { b64_json, url, revised_prompt } = Object(item)
  const revised = typeof revised_prompt === 'string' && revised_prompt ? { revised_prompt } : {}
  if (typeof b64_json === 'string') return { b64_json, ...revised }
  if (typeof url !== 'string') throw notAnAnswer(host.fail)
  return { b64_json: await downloadImage(url, host, signal), ...revised }
}

const MAX_IMAGE_BYTES = 32 * 1024 * 1024

/** Some vendors answer with a URL, whatever the request asked for. */
async function downloadImage(url: string, host: Host, signal: AbortSignal): Promise<string> {
  try {
    const options = { limitBytes: MAX_IMAGE_BYTES, types: ['image/', 'application/octet-stream'] }
    const { bytes } = await host.download(url, signal, options)
    return toBase64(bytes)
  } catch (cause) {
    signal.throwIfAborted()
    const message = 'The model provider put the image where it could not be fetched.'
    throw host.fail('upstream_error', message, { cause })
  }
}

function propertiesOf({
  background,
  output_format,
  size,
  quality,
  usage,
}: any): Omit<ImageResult, 'data'> {
  const counted = toUsage(usage)
  return {
    ...(background && { background }),
    ...(output_format && { output_format }),
    ...(size && { size }),
    ...(quality && { quality }),
    ...(counted && { usage: counted }),
  }
}

/** Usage in either of OpenAI's two forms. Output tokens count as image tokens unless the vendor says otherwise. */
function toUsage(reported: any): Usage | undefined {
  if (typeof reported !== 'object' || reported === null) return undefined
  const input = reported.input_tokens_details ?? reported.prompt_tokens_details ?? {}
  const output = reported.output_tokens_details ?? reported.completion_tokens_details ?? {}
  const promptTokens = countOrNone(reported.input_tokens ?? reported.prompt_tokens)
  const completionTokens = countOrNone(reported.output_tokens ?? reported.completion_tokens)
  const cost = vendorCost(reported)
  const vendor = cost === undefined ? {} : { vendorCost: cost }
  if (!promptTokens && !completionTokens) return cost === undefined ? undefined : vendor
  return {
    ...(promptTokens !== null && { promptTokens }),
    cachedTokens: tokenCount(input.cached_tokens),
    imageInputTokens: tokenCount(input.image_tokens),
    ...(completionTokens !== null && { completionTokens }),
    reasoningTokens: tokenCount(output.reasoning_tokens),
    imageOutputTokens: Math.min(
      tokenCount(output.image_tokens ?? completionTokens),
      completionTokens ?? 0,
    ),
    ...vendor,
  }
}

/** Events of both image paths. */
class ImageEvents implements Step<any, ImageEvent> {
  readonly #fail: Host['fail']

  constructor(fail: Host['fail']) {
    this.#fail = fail
  }

  push(payload: any, emit: (event: ImageEvent) => void): void {
    if (payload?.endOfStream) return
    if (typeof payload !== 'object' || payload === null) throw notAnAnswer(this.#fail)
    const failed = inbandFailure(this.#fail, payload)
    if (failed) throw failed.error
    const { type, b64_json, partial_image_index: index = 0 } = payload
    if (typeof type !== 'string') throw notAnAnswer(this.#fail)
    if (type.endsWith('.partial_image')) emit({ type: 'partial', b64_json, index })
    else if (type.endsWith('.completed')) {
      emit({ type: 'completed', data: [{ b64_json }], ...propertiesOf(payload) })
    }
  }
}

/** Enough for ten large images. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024

// Bodies of image requests.

/** Differences between vendors in image generation. */
export interface ImageQuirks {
  /** The `response_format` that asks for bytes; undefined where it must be absent. The default is `b64_json`. */
  readonly bytes?: (model: string) => string | undefined
  /** Models that make one image per request. */
  readonly single?: (model: string) => boolean
  /** Members that the vendor knows; others are refused. */
  readonly knows?: ReadonlySet<string>
  /** Members that mean nothing to a model. */
  readonly drops?: (model: string) => readonly string[]
  /** Paths in place of `images/…`. */
  readonly paths?: { readonly generations?: string; readonly edits?: string }
  /** Edits are JSON with one image, as `image.url`. */
  readonly referenceAsUrl?: true
}

/** A request body and its content type. */
interface ImageBody {
  readonly contentType: string
  readonly body: string | Form['body']
}

/** The body of a generation request. */
function toGeneration(
  input: ImageInput,
  model: string,
  quirks: ImageQuirks,
  omit: readonly string[],
): ImageBody {
  return json(members(input, model, quirks, omit))
}

/** The body of an edit request. @throws the failure class `bad_request` for what this vendor does not support */
function toEdit(
  input: ImageEditInput,
  model: string,
  quirks: ImageQuirks,
  omit: readonly string[],
  host: Host,
): ImageBody {
  const { images, mask, ...rest } = input
  const body = members(rest as ImageInput, model, quirks, omit)
  if (quirks.referenceAsUrl) return json({ ...body, image: reference(input, host.fail) })
  const fields: Parameters<Host['form']>[0][number][] = []
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined || value === null) continue
    fields.push({ name, value: typeof value === 'object' ? JSON.stringify(value) : String(value) })
  }
  const name = images.length > 1 ? 'image[]' : 'image'
  for (const image of images) fields.push({ name, value: fileOf(image, 'image') })
  if (mask) fields.push({ name: 'mask', value: fileOf(mask, 'mask') })
  return host.form(fields)
}

function members(
  input: ImageInput,
  model: string,
  { bytes = () => 'b64_json', knows, drops }: ImageQuirks,
  omit: readonly string[],
): Record<string, unknown> {
  const body: Record<string, unknown> = { ...input }
  for (const name in body) if (knows?.has(name) === false) delete body[name]
  const response_format = bytes(model)
  if (response_format !== undefined) body.response_format = response_format
  for (const name of [...(drops?.(model) ?? []), ...omit]) delete body[name]
  return { model, ...body }
}

function reference({ images, mask }: ImageEditInput, fail: Host['fail']): object {
  if (mask) {
    throw fail('bad_request', 'This model takes no mask.', {
      code: 'unsupported_parameter',
      param: 'mask',
    })
  }
  if (images.length > 1) {
    throw fail('bad_request', 'This model takes one image to change, not several.', {
      code: 'unsupported_value',
      param: 'image',
    })
  }
  return { url: toDataUrl(images[0]!) }
}

/** Vendors read the extension of the file name. The client's own name is private. */
function fileOf(file: MediaFile, name: string) {
  const { mediaType } = file
  const filename = `${name}.${mediaType.replace('image/', '')}`
  return { bytes: file.segments ?? file.bytes, mediaType, filename }
}

function json(body: object): ImageBody {
  return { contentType: 'application/json', body: JSON.stringify(body) }
}
