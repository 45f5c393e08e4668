import { expect, it } from 'vitest'
import { NormalizeImages, type ImagePart } from '../../../src/endpoints/images/answer.ts'
import type { ImageRequest } from '../../../src/endpoints/images/read.ts'
import type { ImageEvent } from '../../../src/plugin.ts'
import { pngOfPixels } from '../../_documents.ts'

it('leaves out a size that is no text', () => {
  const b64_json = pngOfPixels({ width: 2, height: 2 }, Buffer.alloc(4)).toString('base64')
  const event = { type: 'completed', data: [{ b64_json }], size: ['2x2'] }
  const parts: ImagePart[] = []
  const step = new NormalizeImages({ model: 'm', prompt: 'A cat.' } as ImageRequest)
  step.push(event as unknown as ImageEvent, (part) => parts.push(part))
  expect(parts[0]!.properties.known).toEqual({ output_format: 'png' })
})
