/** `POST /v1/images/generations` and `/v1/images/edits`, as the client sees them. */
import type { Incoming, Call, Receipt, WireFormat } from '../../pipeline/pipeline.ts'
import type { BodyLimits } from '../../config/config.ts'
import { parsedRequest } from '../shared/body.ts'
import {
  billedJson,
  errorWriter,
  EventWriter,
  jsonWriter,
  typedErrorEvent,
} from '../shared/write.ts'
import { usageJson } from './billing.ts'
import { isCompleted, type ImagePart } from './parts.ts'
import { editBody, generationBody, readEdit, readGeneration, type ImageRequest } from './read.ts'

/** `POST /v1/images/generations`, with a JSON body. */
export const generations = imageFormat(
  { path: '/v1/images/generations', body: generationBody },
  'image_generation',
  readGeneration,
)

/** `POST /v1/images/edits`, with a form or a JSON body. */
export const edits = imageFormat(
  { path: '/v1/images/edits', body: editBody, files: ['image', 'mask'] },
  'image_edit',
  readEdit,
)

/** @param event what the names of stream events begin with */
function imageFormat(
  route: Pick<WireFormat, 'path' | 'body' | 'files'>,
  event: string,
  read: (incoming: Incoming, limits: BodyLimits) => Promise<ImageRequest>,
): WireFormat<ImageRequest, ImagePart> {
  return {
    ...route,
    read: async (incoming, limits) => {
      const input = await read(incoming, limits)
      return parsedRequest(incoming, input, input.stream === true)
    },

    write(call, out, done) {
      if (!call.request.stream) return writeWhole(call, out, done)
      const encode = (part: ImagePart) => eventOf(part, event, call)
      return new EventWriter(call, out, done, { encode, last: '', fail: typedErrorEvent })
    },

    writeError: errorWriter(usageJson),
  }
}

const writeWhole = jsonWriter<ImagePart>((parts, call) => {
  const { images, properties, receipt } = parts.find(isCompleted)!
  const created = createdAt(call)
  return { created, data: images, ...properties.known, ...billed(receipt!, call) }
})

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
