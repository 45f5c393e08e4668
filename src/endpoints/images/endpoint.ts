/** `POST /v1/images/generations` and `/v1/images/edits`: all of their wire knowledge (wire contract, 5.5 and 5.6). */
import { modelNames } from '../../models/allowlist.ts'
import type { Model } from '../../models/catalog.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import { costJson, type Bill } from '../../money/money.ts'
import type { Incoming } from '../../pipeline/http.ts'
import type { Call, Endpoint } from '../../pipeline/pipeline.ts'
import type { BodyLimits } from '../../config/config.ts'
import type { ImageEvent, ImageResult, Usage } from '../../plugin.ts'
import { typedErrorEvent, writeEvents, writeJson } from '../shared/write.ts'
import { ReceiptAtEnd } from '../shared/billing.ts'
import { guarding } from './guard.ts'
import { ImageIntake } from './answer.ts'
import { isCompleted, type ImagePart } from './parts.ts'
import { outboundImage, readEdit, readGeneration, type ImageRequest } from './request.ts'

export const generations: Endpoint<ImageRequest, ImagePart> = imageEndpoint({
  operation: 'generateImage',
  path: '/v1/images/generations',
  event: 'image_generation',
  read: readGeneration,
  check: () => {},
})

export const edits: Endpoint<ImageRequest, ImagePart> = imageEndpoint({
  operation: 'editImage',
  path: '/v1/images/edits',
  event: 'image_edit',
  read: readEdit,
  check(_input, model, catalog) {
    if (model.capabilities.has('REFERENCES')) return
    const able = catalog.all().filter((one) => one.capabilities.has('REFERENCES'))
    throw new InvalidRequest(
      'references_not_supported',
      `${model.id} cannot edit images: it lacks the capability REFERENCES. Models that have it: ${modelNames(able)}.`,
      { param: 'model' },
    )
  },
})

interface Kind extends Pick<Endpoint<ImageRequest>, 'operation' | 'path' | 'check'> {
  /** What the names of events begin with. */
  readonly event: string
  read(incoming: Incoming, limits: BodyLimits): Promise<ImageRequest>
}

const CHARACTERS_PER_TOKEN = 4
/** What a square image of the best quality has at vendors that count tokens. */
const IMAGE_TOKENS = 4160

function imageEndpoint({ event, ...kind }: Kind): Endpoint<ImageRequest, ImagePart> {
  return {
    ...kind,
    modality: 'image',
    slowStart: true,
    errorField: 'prompt',
    guard: guarding,
    modelOf: (input) => input.model,
    sessionOf: () => undefined,
    policyOf: (input) => input.policy,
    streams: (input) => input.stream === true,
    estimate: estimateOf,
    toUpstream: (input, model) => outboundImage(input, model.capabilities.has('STREAMING')),
    // There are no turns to put words between, and no tokens to count.
    instruct: (outbound) => outbound,

    normalize(call, answer: ImageResult | AsyncIterable<ImageEvent>) {
      const intake = new ImageIntake(call.input)
      const events =
        Symbol.asyncIterator in answer
          ? toFlow(answer)
          : flowOf<ImageEvent>({ type: 'completed', ...answer })
      return {
        parts: events.through(intake),
        usage: () => usageIn(call.input, call.model, intake),
      }
    },

    billed: (call, charge) => new ReceiptAtEnd({ call, charge, isEnd: isCompleted, usageOf }),

    async write(call, reply, out) {
      const created = Math.floor(call.startedAt / 1000)
      if (call.input.stream) {
        const encode = (part: ImagePart) => eventOf(part, event, created)
        return writeEvents(call, reply, out, { encode, last: '', fail: typedErrorEvent })
      }
      for await (const part of reply.parts) {
        if (part.type !== 'completed') continue
        const { images, look, usage, guard } = part
        const body = { created, data: images, ...look.known, usage, ...(guard && { guard }) }
        await writeJson(call, out, JSON.stringify(body))
      }
    },
  }
}

function eventOf(part: ImagePart, event: string, created_at: number): string {
  const name = part.type === 'partial' ? `${event}.partial_image` : `${event}.completed`
  const shown = { created_at, ...part.look.all }
  const payload =
    part.type === 'partial'
      ? { type: name, b64_json: part.b64_json, ...shown, partial_image_index: part.index }
      : {
          type: name,
          b64_json: part.images[0]!.b64_json,
          ...shown,
          usage: part.usage,
          ...(part.guard && { guard: part.guard }),
        }
  return `event: ${name}\ndata: ${JSON.stringify(payload)}\n\n`
}

function estimateOf({ prompt, n = 1, images = [], mask }: ImageRequest): {
  least: Usage
  most: Usage
} {
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

/** What was consumed so far: as the vendor counts it, else by estimate where tokens are what is paid for. */
function usageIn(input: ImageRequest, model: Model, { images, reported }: ImageIntake): Usage {
  const { least, most } = estimateOf(input)
  if (images === undefined) return { ...least, estimated: true }
  const isCounted = (reported?.promptTokens ?? reported?.completionTokens) !== undefined
  if (isCounted || !isPaidByToken(model)) return { ...reported, images }
  return { ...most, ...reported, images, estimated: true }
}

function isPaidByToken({ prices }: Model): boolean {
  return ['prompt', 'completion', 'image_token', 'image_output'].some((name) => name in prices)
}

/** The quantities of a call in the form of the wire; models that are paid by the image have no tokens (D40). */
function usageOf({ meter, model }: Call, bill?: Bill): object {
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
    ...(bill && costJson(bill)),
  }
}

function split(tokens: number, image_tokens: number) {
  return { text_tokens: Math.max(0, tokens - image_tokens), image_tokens }
}
