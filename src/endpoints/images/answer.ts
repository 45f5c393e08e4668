/** Images of a provider in normal form: partial images, then all images that the client asked for. */
import { brokenAnswer } from '../../errors/errors.ts'
import { mediaTypeOf, parseBase64, toBase64 } from '../shared/media.ts'
import type { GeneratedImage, ImageEvent, ImageResult, Step, Usage } from '../../plugin.ts'
import { Received, type Billed } from '../shared/billing.ts'
import { FORMATS, QUALITIES, SIZE, type ImageRequest } from './read.ts'

/** A partial image of a stream, or all finished images. */
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

/** Properties of images that an answer states. */
interface ImageProperties {
  /** Known properties. */
  readonly known: Shown
  /** Known properties, and the requested ones for the rest. */
  readonly all: Required<Shown>
}

interface Shown {
  readonly background?: string
  readonly output_format?: string
  readonly size?: string
  readonly quality?: string
}

/** Whether it is the last part. */
export function isCompleted(part: ImagePart): part is CompletedPart {
  return part.type === 'completed'
}

/** Checks a provider's images and counts them. @throws UpstreamFailure for missing or broken images */
export class NormalizeImages implements Step<ImageEvent, ImagePart> {
  /** True after the finished images. */
  done = false
  /** The number of finished images; undefined until they arrive. */
  images: number | undefined = undefined
  /** The vendor's count. */
  reported: Usage | undefined = undefined
  readonly received = new Received()
  readonly #request: ImageRequest
  #partials = 0

  constructor(request: ImageRequest) {
    this.#request = request
  }

  push(event: ImageEvent, emit: (part: ImagePart) => void): void {
    this.received.add(event.type === 'partial' ? event.b64_json.length : 1)
    if (event.type === 'partial') return this.#partial(event.b64_json, emit)
    const { n = 1 } = this.#request
    if (!Array.isArray(event.data) || event.data.length < n) {
      throw brokenAnswer('The model provider sent fewer images than it was asked for.')
    }
    const images = event.data.slice(0, n).map(toImage)
    this.images = images.length
    this.reported = event.usage
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

  #properties(base64: string, said: Partial<ImageResult>): ImageProperties {
    const { size = 'auto', quality = 'auto', background = 'auto', output_format } = this.#request
    const format = formatOf(base64) ?? said.output_format
    const known: Record<string, string> = {}
    if (BACKGROUNDS.has(said.background)) known.background = said.background!
    if (FORMATS.includes(format!)) known.output_format = format!
    if (typeof said.size === 'string' && SIZE.test(said.size)) known.size = said.size
    if (QUALITIES.includes(said.quality!)) known.quality = said.quality!
    const asked = { size, quality, background, output_format: output_format ?? 'png' }
    return { known, all: { ...asked, ...known } }
  }
}

const BACKGROUNDS: ReadonlySet<unknown> = new Set(['transparent', 'opaque'])

function toImage({ b64_json, revised_prompt }: GeneratedImage): GeneratedImage {
  const image = { b64_json: plainBase64(b64_json) }
  return typeof revised_prompt === 'string' ? { ...image, revised_prompt } : image
}

const STANDARD = /^[A-Za-z0-9+/]+={0,2}$/

/** Standard alphabet, padded, without the head of a data URL. */
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
