/** What images cost: by the image, or by tokens. */
import type { Model } from '../../models/catalog.ts'
import { costJson } from '../../money/money.ts'
import type { Billing, Call, Receipt } from '../../pipeline/pipeline.ts'
import {
  bounds,
  MEDIA_TOKENS,
  UNKNOWN_CONTEXT,
  UNKNOWN_OUTPUT,
  type UsageReport,
} from '../../money/plausible.ts'
import type { Usage } from '../../plugin.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { isCompleted, type ImagePart } from './parts.ts'
import type { ImageRequest } from './read.ts'

const CHARACTERS_PER_TOKEN = 4
/** Tokens of a square image of the best quality, at vendors that count tokens. */
const IMAGE_TOKENS = 4160

/** Estimate and charge of images; they are charged when all are there. */
export const billing: Billing<ImageRequest, ImagePart> = {
  estimate({ input }) {
    const { least, most } = estimateOf(input)
    const { promptTokens, imageInputTokens, images } = most
    return {
      least,
      expected: { promptTokens, imageInputTokens, images },
      most: { promptTokens: 2 * promptTokens, imageInputTokens: 2 * imageInputTokens, images },
      output: { limit: IMAGE_TOKENS, choices: images, isImage: true },
    }
  },
  attach: (call) => new ReceiptAtEnd(call, isCompleted),
}

/** Quantities that were read from an answer. */
interface ImageCount {
  /** Finished images; undefined until there are any. */
  readonly images: number | undefined
  /** As the vendor counted. */
  readonly reported: Usage | undefined
}

/** What the usage of an answer is compared with: figures of its request, whose content need not be there any more. */
export type ImageWork = ReturnType<typeof workOf>

/** The figures of a request. */
export function workOf(input: ImageRequest) {
  const { n = 1, prompt, images = [], mask } = input
  const media = images.length + Number(mask !== undefined)
  return { ...estimateOf(input), n, media, sent: Buffer.byteLength(prompt) + 4096 }
}

/** What an answer has consumed; its images are counted here, tokens only where they have a price. */
export function usageOf(
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

/** `usage` of an answer. Models that are paid by the image have no tokens. */
export function usageJson({ bill, meter }: Receipt, { target: { model } }: Call): object {
  const consumed = meter.find(({ source }) => source === 'model')?.usage ?? {}
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
    ...costJson(bill),
  }
}

function estimateOf({ prompt, n = 1, images = [], mask }: ImageRequest) {
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

function isPaidByToken({ prices }: Model): boolean {
  return ['prompt', 'completion', 'image_token', 'image_output'].some((name) => name in prices)
}

function split(tokens: number, image_tokens: number) {
  return { text_tokens: Math.max(0, tokens - image_tokens), image_tokens }
}
