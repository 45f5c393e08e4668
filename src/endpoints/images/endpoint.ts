/** Image generations and edits in their one normal form: two operations of one family. */
import { modelNames } from '../../models/allowlist.ts'
import { lackOf, lacks } from '../../models/capabilities.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import type { Endpoint } from '../../pipeline/pipeline.ts'
import type { ImageInput } from '../../plugin.ts'
import { ImageAnswer, withoutContent } from './answer.ts'
import type { ImagePart } from './parts.ts'
import { billing } from './billing.ts'
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

  normalize: ({ request, target }) => new ImageAnswer(request.input as ImageRequest, target.model),
} satisfies Omit<Endpoint<ImageRequest, ImageInput, ImagePart>, 'operation' | 'check'>

/** Images from words alone. */
export const generateImage: Endpoint<ImageRequest, ImageInput, ImagePart> = {
  ...common,
  operation: 'generateImage',
  check: () => {},
}

/** Images from other images. Needs a model that takes references. */
export const editImage: Endpoint<ImageRequest, ImageInput, ImagePart> = {
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
