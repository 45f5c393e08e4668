/** Image generations and edits in their one normal form: two operations of one family. */
import { modelNames } from '../../models/allowlist.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { flowOf, toFlow } from '../../stream/flow.ts'
import type { Call, Endpoint } from '../../pipeline/pipeline.ts'
import type { ImageEvent, ImageResult } from '../../plugin.ts'
import { NormalizeImages, type ImagePart } from './answer.ts'
import { billing, usageOf, workOf } from './billing.ts'
import { guardAdapter } from './guard.ts'
import { outboundImage, type ImageRequest } from './read.ts'

const common = {
  modality: 'image',
  slowStart: true,
  errorField: 'prompt',
  billing,
  guard: guardAdapter,

  toUpstream: (input, model) => outboundImage(input, !lacks(model, 'STREAMING')),
  withoutContent,

  normalize(
    { request, model }: Call,
    answer: ImageResult | AsyncIterable<ImageEvent>,
    signal: AbortSignal,
  ) {
    const images = new NormalizeImages(withoutContent(request.input))
    const work = workOf(request.input)
    const events =
      Symbol.asyncIterator in answer
        ? toFlow(answer, signal)
        : flowOf<ImageEvent>({ type: 'completed', ...answer })
    return {
      parts: events.through(images),
      usage: () => usageOf(work, model, images),
      received: () => images.received.amount,
    }
  },
} satisfies Omit<Endpoint<ImageRequest, ImagePart>, 'operation' | 'check'>

/** Images from words alone. */
export const generateImage: Endpoint<ImageRequest, ImagePart> = {
  ...common,
  operation: 'generateImage',
  check: () => {},
}

/** Images from other images. Needs a model that takes references. */
export const editImage: Endpoint<ImageRequest, ImagePart> = {
  ...common,
  operation: 'editImage',
  check(_input, model, catalog) {
    if (!lacks(model, 'REFERENCES')) return
    const able = catalog.all().filter((one) => !lacks(one, 'REFERENCES'))
    throw new InvalidRequest(
      'references_not_supported',
      `${model.id} cannot edit images: ${lackOf('REFERENCES')}. Models that have it: ${modelNames(able)}.`,
      { param: 'model' },
    )
  },
}

function withoutContent<Request extends object>(request: Request): Request {
  return { ...request, prompt: '', images: undefined, mask: undefined }
}
