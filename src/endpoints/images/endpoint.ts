/** `POST /v1/images/generations` and `/v1/images/edits`: two operations of one family. */
import { modelNames } from '../../models/allowlist.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { costJson } from '../../money/money.ts'
import type { Call, Receipt } from '../../pipeline/pipeline.ts'
import type { ImageInput } from '../../plugin.ts'
import { outboundMembers } from '../shared/body.ts'
import { itemOf, labelItems, mediaOf, otherItems } from '../shared/guard.ts'
import { defineUnitEndpoint, type UnitEndpoint } from '../shared/unit.ts'
import { billedJson, typedErrorEvent, type EventFormat } from '../shared/write.ts'
import {
  estimateImages,
  ImageAnswer,
  isCompleted,
  isPaidByToken,
  NO_CONTENT,
  type ImagePart,
} from './answer.ts'
import { editBody, generationBody, readEdit, readGeneration, type ImageRequest } from './request.ts'

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

  toUpstream(request, model) {
    const outbound = outboundMembers(request, ['response_format', 'stream', 'partial_images'])
    if (request.stream && !lacks(model, 'STREAMING')) {
      outbound.stream = true
      if (request.partial_images !== undefined) outbound.partial_images = request.partial_images
    }
    return outbound as ImageInput
  },

  estimate: estimateImages,
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
function usageJson({ bill, meter }: Receipt, { target: { model } }: Call): object {
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
