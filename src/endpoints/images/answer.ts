/** Images of a provider in normal form: partial images, then all finished ones; and what they consume. */
import { brokenAnswer } from '../../errors/errors.ts'
import { mediaTypeOf, parseBase64, toBase64 } from '../shared/media.ts'
import type { Estimate } from '../../money/holds.ts'
import type { Model } from '../../models/catalog.ts'
import {
  bounds,
  MEDIA_TOKENS,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
} from '../../money/plausible.ts'
import type { ProviderAnswer } from '../../pipeline/pipeline.ts'
import type { ChainStep } from '../../stream/chain.ts'
import type { GeneratedImage, ImageEvent, ImageResult, Usage } from '../../plugin.ts'
import { Received, type Billed } from '../shared/billing.ts'
import { FORMATS, QUALITIES, SIZE, type ImageRequest } from './request.ts'

export type ImagePart =
  | {
      readonly type: 'partial'
      readonly b64_json: string
      readonly index: number
      readonly properties: ImageProperties
    }
  | CompletedPart

interface CompletedPart extends Billed {
  readonly type: 'completed'
  /** As many as the client asked for. */
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

export function isCompleted(part: ImagePart): part is CompletedPart {
  return part.type === 'completed'
}

/** The members that replace the content of a request. */
export const NO_CONTENT = { prompt: '', images: undefined, mask: undefined }

/** Checks a provider's images and counts them. @throws UpstreamFailure for missing or broken images */
export class ImageAnswer implements ProviderAnswer<ImagePart>, ChainStep<ImageEvent, ImagePart> {
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
    return usageOf(this.#work, this.#model, { images: this.#images, reported: this.#reported })
  }

  received(): number {
    return this.#received.amount
  }

  push(event: ImageEvent, emit: (part: ImagePart) => void): void {
    this.#received.add(event.type === 'partial' ? event.b64_json.length : 1)
    if (event.type === 'partial') return this.#partial(event.b64_json, emit)
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

const CHARACTERS_PER_TOKEN = 4
/** Tokens of a square image of the best quality, at vendors that count tokens. */
const IMAGE_TOKENS = 4160

export function estimateImages(request: ImageRequest): Estimate {
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
  { images, reported }: ImageCount,
): UsageReport {
  const needed = isPaidByToken(model)
  const output = images === undefined ? 0 : most.completionTokens!
  return {
    parts: images === undefined ? least : most,
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
  const words = Math.ceil(prompt.length / CHARACTERS_PER_TOKEN)
  const imageInputTokens = (images.length + Number(mask !== undefined)) * IMAGE_TOKENS
  const imageOutputTokens = n * IMAGE_TOKENS
  return {
    least: { promptTokens: words, cachedTokens: words, images: n },
    most: {
      promptTokens: words + imageInputTokens,
      imageInputTokens,
      completionTokens: imageOutputTokens,
      imageOutputTokens,
      images: n,
    },
  }
}

export function isPaidByToken({ prices }: Model): boolean {
  return ['prompt', 'completion', 'image_token', 'image_output'].some((name) => name in prices)
}
